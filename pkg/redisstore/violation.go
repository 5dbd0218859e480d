package redisstore

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A ViolationKind says what to do about a Violation. The zero value is none.
type ViolationKind int

// The kinds.
const (
	// ViolationIndex: an index, a list, a counter or a record disagrees with
	// what it follows from. A Repair makes it right, within a minute or so.
	ViolationIndex ViolationKind = 1 + iota
	// ViolationSchedule: the record of a schedule cannot be read, so that it does
	// not fire. Put the schedule again, which begins it anew.
	ViolationSchedule
	// ViolationShard: a key is not of the type that it must be, and nothing of
	// its shard can be read or works. RepairAll puts it aside; then Check again.
	ViolationShard
	// ViolationRunLog: a run log is not of the type that it must be, so that runs
	// of its schedule are not logged. RepairAll puts it aside.
	ViolationRunLog
	// ViolationCalendars: a shard knows another version of the calendars than the
	// one that is stored. HealCalendars makes it right, within ten seconds or so;
	// a change of the calendars that was forgotten must be made again.
	ViolationCalendars
)

// A Violation is an invariant that the stored data breaks. It is comparable.
type Violation struct {
	Kind  ViolationKind
	Shard int
	// Text is a sentence of one line, with nothing that a terminal obeys and cut
	// when it is long. Its words may change.
	Text string
}

// String is the sentence after the name of the shard.
func (v Violation) String() string { return fmt.Sprintf("shard %02d: %s", v.Shard, v.Text) }

func compareViolations(a, b Violation) int {
	return cmp.Or(cmp.Compare(a.Shard, b.Shard), strings.Compare(a.Text, b.Text))
}

// printable is a text on one line, with nothing that a terminal obeys.
func printable(text string) string {
	const most = 1000
	if len(text) > most {
		text = text[:most] + "…"
	}
	var line strings.Builder
	for _, r := range text {
		if strconv.IsPrint(r) && r != utf8.RuneError {
			line.WriteRune(r)
		} else {
			line.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return line.String()
}
