package doctor

import (
	"fmt"
	"time"
)

// fewTokens is how many tokens must be left: a thousand claims and runs in a
// second need them in twelve days.
const fewTokens = 1_000_000_000

// tokens are warnings: they stay in order, whatever the clock says. Where few
// are left the shard is about to stop.
func tokens(f Facts) []Finding {
	var all []Finding
	for _, t := range f.Tokens {
		one := Finding{Check: "tokens", Level: Warning,
			Seen: fmt.Sprintf("shard %02d: the last granted token, %d, is one of %s, %.0f days ahead of the store's clock",
				t.Shard, t.Token, t.At.UTC().Format(time.RFC3339), t.Ahead.Hours()/24),
			Do: fmt.Sprintf("nothing needs to be done: tokens stay in order and IDs keep working for %d more claims and runs, or until the clock has caught up; "+
				"schedules that are created meanwhile show a time of creation in the future. Find out which clock was wrong, or who wrote the field. "+
				"doctor never lowers it, since a token could be granted twice; a new namespace, filled with admin export and admin apply, begins with the clock", t.Left)}
		if t.Left < fewTokens {
			one.Level = Error
			one.Do = fmt.Sprintf("move to a new namespace, with admin export and admin apply: after %d more claims and runs this shard fires nothing; "+
				"doctor never lowers the token, since one could be granted twice", t.Left)
		}
		all = append(all, one)
	}
	return all
}

// CheckReading is the check of what could not be read.
const CheckReading = "reading"

// unread are errors: a repair of the indexes puts aside what hides the rest.
func unread(f Facts) []Finding {
	var all []Finding
	for _, err := range f.Unread {
		all = append(all, Finding{Check: CheckReading, Level: Error, Seen: err.Error(), Fix: FixIndexes, Summary: true,
			Do: "see the invariants below: a key of the wrong type hides its whole shard until doctor --fix puts it aside"})
	}
	return all
}
