package simtest

import (
	"strings"
	"testing"
	"time"
)

// TestOracle judges the judge, by times that were worked out by hand.
func TestOracle(t *testing.T) {
	tests := []struct {
		name, cron, zone, first, last string
		want                          string // RFC 3339, separated by spaces
	}{
		{"a plain day", "0 4 * * *", "Europe/London", "2026-10-24T00:00:00Z", "2026-10-25T23:59:00Z",
			"2026-10-24T03:00:00Z 2026-10-25T04:00:00Z"},
		{"a fixed time in a repeated hour runs once", "30 1 * * *", "Europe/London", "2026-10-25T00:00:00Z", "2026-10-25T23:00:00Z",
			"2026-10-25T00:30:00Z"},
		{"an interval runs in both passes", "*/30 1 * * *", "Europe/London", "2026-10-25T00:00:00Z", "2026-10-25T23:00:00Z",
			"2026-10-25T00:00:00Z 2026-10-25T00:30:00Z 2026-10-25T01:00:00Z 2026-10-25T01:30:00Z"},
		{"a fixed time in a gap runs after it", "30 1 * * *", "Europe/London", "2027-03-28T00:00:00Z", "2027-03-28T23:00:00Z",
			"2027-03-28T01:00:00Z"},
		{"what moves onto another run is one run", "0,30 1,2 * * *", "Europe/London", "2027-03-28T00:00:00Z", "2027-03-28T23:00:00Z",
			"2027-03-28T01:00:00Z 2027-03-28T01:30:00Z"},
		{"an every-hour job leaves the gap out", "30 * * * *", "Europe/London", "2027-03-28T00:00:00Z", "2027-03-28T02:00:00Z",
			"2027-03-28T00:30:00Z 2027-03-28T01:30:00Z"},
		{"both day fields restricted: either", "0 0 1 * 1", "UTC", "2026-10-26T00:00:00Z", "2026-11-02T00:00:00Z",
			"2026-10-26T00:00:00Z 2026-11-01T00:00:00Z 2026-11-02T00:00:00Z"},
		{"New York falls back a week later", "0 2 * * *", "America/New_York", "2026-10-31T00:00:00Z", "2026-11-02T00:00:00Z",
			"2026-10-31T06:00:00Z 2026-11-01T07:00:00Z"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, err := newOracle(tt.cron, tt.zone)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, at := range o.between(instant(t, tt.first), instant(t, tt.last)) {
				got = append(got, at.Format(time.RFC3339))
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("between(%s, %s) of %q in %s = %v, want %s", tt.first, tt.last, tt.cron, tt.zone, got, tt.want)
			}
		})
	}
	for _, cron := range []string{"1-5 * * * *", "60 * * * *", "* * * *", "*/0 * * * *", "x * * * *", "-1 * * * *"} {
		if _, err := newOracle(cron, "UTC"); err == nil {
			t.Errorf("newOracle(%q) = nil error, want one: it must not guess", cron)
		}
	}
}

func instant(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
