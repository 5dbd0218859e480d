package admincli

import (
	"strings"
	"testing"
)

// Whatever a command reads as "tomorrow" or "+90m", it says which instant that
// is, so that a wrong guess is seen at once. Now is 06:07:02 UTC on a Monday.
func TestEveryWriteEchoesTheInstant(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct{ line, says string }{
		{"schedule create a --every 1h --type log --starts tomorrow_09:00 --ends +90d", "starts  2026-12-01 09:00 UTC"},
		{"schedule create c --every 1h --type log --ends +90d", "ends  2027-02-28 06:07:02 UTC"},
		{"schedule create b --at tomorrow_09:00 --type log", "next  2026-12-01 09:00 UTC"},
		{"schedule update a --starts tomorrow_10:00", "2026-12-01T10:00:00Z"},
		{"schedule update a --ends +100d", "2027-03-10T06:07:02Z"},
		{"schedule pause a --until tomorrow_09:00", "until 2026-12-01 09:00 UTC"},
		{"schedule pause a --for 90m", "until 2026-11-30 07:37:02 UTC"},
		{"schedule resume a", "next firing 2026-12-01 10:00 UTC"},
		{"schedule skip a tomorrow_12:00", "2026-12-01 12:00 UTC"},
		{"schedule unskip a tomorrow_12:00", "2026-12-01 12:00 UTC"},
		{"schedule trigger a", "2026-12-01 10:00 UTC"},
		{"schedule backfill a --from yesterday_09:00 --to today_05:00 --dry-run", "from 2026-11-29 09:00 UTC to 2026-11-30 05:00 UTC"},
		{"periodic pause cache-sweep --until tomorrow_09:00", "until 2026-12-01 09:00 UTC"},
		{"periodic pause cache-sweep --for 90m", "until 2026-11-30 07:37:02 UTC"},
	} {
		args := strings.Fields(c.line)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "_", " ")
		}
		if got := r.must(args...); !strings.Contains(got.stdout+got.stderr, c.says) {
			t.Errorf("admin %s does not say %q:\n%s%s", strings.Join(args, " "), c.says, got.stdout, got.stderr)
		}
	}
}
