package admincli

import (
	"strings"
	"testing"

	"github.com/belfryhq/belfry/pkg/claim"
)

// On a terminal that is too narrow for a table each row takes several lines,
// none of which the terminal would wrap; names are whole, and nothing changes in
// a pipe or on a terminal that is wide enough.
func TestTablesFoldOnNarrowTerminals(t *testing.T) {
	const long = "partner-sync-of-the-northern-region"
	columns := 0
	r := newRig(t)
	r.must("schedule", "create", long, "--cron", "*/15 2-5 * * 1-5", "--tz", "America/New_York", "--type", "report:build", "--queue", "reports", "--description", "x")
	r.must("schedule", "create", "short", "--every", "30s", "--type", "log")
	r.runOnce(t, long, "one", claim.OutcomeFailed)
	r.runOnce(t, "short", "two", claim.OutcomeSucceeded)
	r.terminal.Size = func() (int, int) { return columns, 24 }
	for _, args := range [][]string{{"schedule", "list"}, {"schedule", "list", "-o", "wide"}, {"run", "list"}, {"worker", "list"}, {"events"}, {"queue", "list"},
		{"schedule", "history", long}, {"schedule", "preview", long}, {"task", "list"}, {"lease", "list"}, {"periodic", "list"}} {
		r.terminal.Stdout = false
		piped := r.must(args...).stdout
		for _, columns = range []int{60, 80, 400} {
			r.terminal.Stdout = true
			got := r.must(append(args, "--color", "never")...).stdout
			if columns == 400 && got != piped {
				t.Errorf("%v: a wide terminal has\n%s\nand a pipe\n%s", args, got, piped)
			}
			for line := range strings.Lines(got) {
				if width(strings.TrimSuffix(line, "\n")) > columns {
					t.Errorf("%v wraps at %d: %s", args, columns, line)
				}
			}
			if strings.Contains(piped, long) != strings.Contains(got, long) {
				t.Errorf("%v at %d cuts the name:\n%s", args, columns, got)
			}
		}
	}
	columns = 80
	if got, want := r.must("run", "list", "--color", "never").stdout, `SCHEDULE                             SCHEDULED  OUTCOME    ATTEMPT
  ENDED                          TOOK  WORKER  ERROR
partner-sync-of-the-northern-region  manual     failed     1
  2026-11-30 01:07:02 EST (now)  1.5s  w1      exit status 1
short                                manual     succeeded  1
  2026-11-30 06:07:02 UTC (now)  1.5s  w1
`; got != want {
		t.Errorf("folded:\n%s\nwant\n%s", got, want)
	}
}
