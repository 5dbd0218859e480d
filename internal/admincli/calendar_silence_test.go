package admincli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// TestACalendarNamesAllThatItSilences has more users than a result lists, every
// third of which fires at the weekend as well.
func TestACalendarNamesAllThatItSilences(t *testing.T) {
	const n, silenced = 150, 100
	var b strings.Builder
	b.WriteString("calendars:\n  - {name: h, dates: [2026-12-25]}\nschedules:\n")
	for i := range n {
		days := "MON-FRI"
		if i%3 == 0 {
			days = "*"
		}
		fmt.Fprintf(&b, "  - {id: s-%03d, expression: \"0 2 * * %s\", type: log, except: [{calendar: h}]}\n", i, days)
	}
	r := newRig(t)
	r.stdin = b.String()
	r.must("apply", "-f", "-")
	got := r.run("calendar", "put", "h", "--weekly", "Mon 00:00-Sat 00:00", "-o", "json")
	if want := fmt.Sprintf("leaves nothing to fire for %d of %d schedules that name it: s-001, s-002, s-004,", silenced, n); got.code != exitDone || !strings.Contains(got.stderr, want) || !strings.Contains(got.stderr, " and 80 more; they are kept") {
		t.Errorf("exit %d, %s; want %q", got.code, got.stderr, want)
	}
	var row putJSON
	if err := json.Unmarshal([]byte(got.stdout), &row); err != nil {
		t.Fatal(err)
	}
	if len(row.Silenced) != schedule.MaxCalendarMoves || row.Silenced[0] != "s-001" || row.Silenced[99] != "s-149" {
		t.Errorf("silenced: %d, %v", len(row.Silenced), row.Silenced)
	}
	// Once more says nothing: it silences nobody who fired.
	if got := r.run("calendar", "put", "h", "--weekly", "Mon 00:00-Sat 00:00"); got.stderr != "" {
		t.Errorf("an unchanged calendar: %s", got.stderr)
	}
}
