package schedule

import (
	"strings"
	"testing"
	"time"
)

func TestExplainCron(t *testing.T) {
	for expression, want := range map[string]string{
		"30 2 * * 1-5":               "At 02:30 on weekdays, Europe/Berlin",
		"0 0 * * *":                  "At 00:00 every day, Europe/Berlin",
		"* * * * *":                  "Every minute, Europe/Berlin",
		"*/5 * * * *":                "Every 5 minutes, Europe/Berlin",
		"*/7 * * * *":                "Every 7th minute from 0 to 56, Europe/Berlin",
		"7/20 * * * *":               "Every 20 minutes from minute 7, Europe/Berlin",
		"7/30 * * * *":               "At minutes 7 and 37 of every hour, Europe/Berlin",
		"0 * * * *":                  "Every hour, Europe/Berlin",
		"30 * * * *":                 "Every hour at minute 30, Europe/Berlin",
		"* 0 * * *":                  "Every minute in the hour 00, Europe/Berlin",
		"0 */2 * * *":                "Every 2 hours from 00:00, Europe/Berlin",
		"0 */5 * * *":                "At 00:00, 05:00, 10:00, 15:00 and 20:00 every day, Europe/Berlin",
		"0 9-17 * * 1-5":             "Every hour from 09:00 to 17:00 on weekdays, Europe/Berlin",
		"*/5 9-17 * * *":             "Every 5 minutes in the hours 09 to 17, Europe/Berlin",
		"*/15 */5 * * *":             "Every 15 minutes in every 5th hour from 00 to 20, Europe/Berlin",
		"55-5 22-2 * * *":            "At minutes 0 to 5 and 55 to 59 in the hours 00 to 02, 22 and 23, Europe/Berlin",
		"*/10 * * * * *":             "Every 10 seconds, Europe/Berlin",
		"* 30 2 * * *":               "Every second of minute 30 in the hour 02, Europe/Berlin",
		"15 30 2 * * *":              "At 02:30:15 every day, Europe/Berlin",
		"0 0 13 * FRI":               "At 00:00 on the 13th and also on Friday, Europe/Berlin",
		"0 0 13 * +FRI":              "At 00:00 on the 13th, but only on Friday, Europe/Berlin",
		"0 0 L,15 * *":               "At 00:00 on the 15th and the last day of the month, Europe/Berlin",
		"0 0 LW * *":                 "At 00:00 on the last weekday of the month, Europe/Berlin",
		"0 0 L-3 * *":                "At 00:00 on the 3rd day before the last day of the month, Europe/Berlin",
		"0 0 L-1W * *":               "At 00:00 on the weekday nearest to the day before the last day of the month, Europe/Berlin",
		"0 0 15W * *":                "At 00:00 on the weekday nearest to the 15th, Europe/Berlin",
		"0 0 */2 * *":                "At 00:00 on every 2nd day from the 1st to the 31st, Europe/Berlin",
		"0 0 * * 5L,FRI#2,0,6":       "At 00:00 on weekends, the second Friday of the month and the last Friday of the month, Europe/Berlin",
		"0 12 * 1,6-8 *":             "At 12:00 every day, in January and June to August, Europe/Berlin",
		"0 0 0 1 1 * 2026-2030,2040": "At 00:00 on the 1st, in January, in the years 2026 to 2030 and 2040, Europe/Berlin",
		"0 0 0 1 1 * 2030":           "At 00:00 on the 1st, in January, in the year 2030, Europe/Berlin",
		"0 0 30 2 *":                 "At 00:00 on the 30th, in February, Europe/Berlin (never: February has at most 29 days)",
	} {
		if got := Explain(mustCron(t, expression, "Europe/Berlin")); got != want {
			t.Errorf("%s:\n got %s\nwant %s", expression, got, want)
		}
	}
}

func TestExplainOthers(t *testing.T) {
	for expression, want := range map[string]string{
		"@every 90s":                "Every 1m30s",
		"2h":                        "Every 2h",
		"once:2026-12-24T09:00:00Z": "Once at 2026-12-24 09:00:00 +00:00",
	} {
		spec, err := Parse(expression)
		if err != nil {
			t.Fatal(err)
		}
		if got := Explain(spec); got != want {
			t.Errorf("%s is %q, want %q", expression, got, want)
		}
		if warnings := Warnings(spec); warnings != nil {
			t.Errorf("%s: %q", expression, warnings)
		}
		if changes := ClockChanges(spec, time.Unix(0, 0), 3); changes != nil {
			t.Errorf("%s: %v", expression, changes)
		}
	}
	union := newUnion([]Spec{mustCron(t, "30 2 * * *", "Europe/Berlin"), mustCron(t, "* 1 * * *", "America/New_York")})
	if got := Explain(union); !strings.Contains(got, "At 02:30 every day, Europe/Berlin") || !strings.Contains(got, "; and ") {
		t.Errorf("union: %q", got)
	}
	if warnings := Warnings(union); len(warnings) != 3 {
		t.Errorf("union warns %q", warnings)
	}
	changes := ClockChanges(union, instantAt(t, "2026-01-01T00:00:00Z"), 3)
	if len(changes) != 3 || changes[0].At.Month() != 3 || changes[0].At.Location().String() != "America/New_York" || changes[2].At.Month() != 10 {
		t.Errorf("union changes %v", changes)
	}
}

func TestRunsPerDay(t *testing.T) {
	for expression, want := range map[string][2]int{
		"* * * * *":                 {1440, 1440},
		"*/5 * * * *":               {288, 288},
		"* * * * * *":               {86400, 86400},
		"0 9 * * 1-5":               {0, 1},
		"0 9 1-31 * 1":              {1, 1},
		"0 9 * * 0-7":               {1, 1},
		"0 9,17 1-30,L * *":         {2, 2},
		"0 0 30 2 *":                {0, 0},
		"@every 7h":                 {3, 4},
		"@every 2d":                 {0, 1},
		"once:2026-12-24T09:00:00Z": {0, 1},
	} {
		spec, err := Parse(expression)
		if err != nil {
			t.Fatal(err)
		}
		if least, most := RunsPerDay(spec); [2]int{least, most} != want {
			t.Errorf("%s: %d to %d, want %v", expression, least, most, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	for expression, want := range map[string][]string{
		"0 9 * * *":         nil,
		"*/5 * * * *":       nil, // an every-hour job goes by real time
		"30 2 * * *":        {"02:00 to 03:00, what is due in between runs once, at 03:00; when clocks go back from 03:00 to 02:00, what is due in between runs once, at the first pass"},
		"*/30 2 * * *":      {"in both passes"},
		"0 9 13 * 5":        {"on the 13th and also on Friday"},
		"0 9 13 * +5":       nil,
		"* 9 * * *":         {"every minute of the hour 09, 60 times a day; for the full hour only write 0 9 * * *"},
		"* * 9 * * *":       {"3600 times a day; for the full hour only write 0 0 9 * * *"},
		"* 30 9 * * *":      {"every second of a minute, 60 times a day; for once a minute write 0 30 9 * * *"},
		"0 9 31 * *":        {"fewer than 31 days are left out (February, April, June, September and November)"},
		"0 9 30W * *":       {"fewer than 30 days are left out (February)"},
		"0 9 29 * *":        {"fewer than 29 days are left out (February except in leap years)"},
		"0 9 L-29 1-3 *":    {"fewer than 30 days are left out (February)"},
		"0 9 31 1,3 *":      nil,
		"0 9 1-31 * *":      nil,
		"0 9 30 2 *":        {"it never runs: February has at most 29 days (did you mean 0 9 L 2 *?)"},
		"0 0 0 29 2 * 2027": {"none of the allowed years"},
		"0 9 1 * +MON#2":    {"never match the same date"},
		"0 9 * 2 MON#5":     nil,
	} {
		got := Warnings(mustCron(t, expression, "Europe/Berlin"))
		if len(got) != len(want) {
			t.Errorf("%s warns %q, want %d", expression, got, len(want))
			continue
		}
		for i := range want {
			if !strings.Contains(got[i], want[i]) {
				t.Errorf("%s warns %q, want %q", expression, got[i], want[i])
			}
		}
	}
}

func TestClockChanges(t *testing.T) {
	for _, test := range []struct {
		expression, zone string
		want             []string
	}{
		{"30 2 * * *", "Europe/Berlin", []string{
			"2026-03-29: clocks go forward from 02:00 to 03:00; 1 wall time that it asks for does not exist; fired once, at 03:00",
			"2026-10-25: clocks go back from 03:00 to 02:00; 1 wall time that it asks for exists twice; fired in the first pass only"}},
		{"*/20 2 * * *", "Europe/Berlin", []string{
			"2026-03-29: clocks go forward from 02:00 to 03:00; 3 wall times that it asks for do not exist; fired once, at 03:00",
			"2026-10-25: clocks go back from 03:00 to 02:00; 3 wall times that it asks for exist twice; fired in both passes"}},
		{"30 * * * *", "Europe/Berlin", []string{
			"2026-03-29: clocks go forward from 02:00 to 03:00; 1 wall time that it asks for does not exist; nothing is fired instead",
			"2026-10-25: clocks go back from 03:00 to 02:00; 1 wall time that it asks for exists twice; fired in both passes"}},
		{"0 9 * * *", "Australia/Lord_Howe", []string{
			"2026-04-05: clocks go back from 02:00 to 01:30", "2026-10-04: clocks go forward from 02:00 to 02:30"}},
		{"0 9 * * *", "Asia/Kolkata", nil},
		{"0 9 * * *", "UTC", nil},
	} {
		changes := ClockChanges(mustCron(t, test.expression, test.zone), instantAt(t, "2026-01-01T00:00:00Z"), 2)
		if len(changes) != len(test.want) {
			t.Errorf("%s in %s: %v", test.expression, test.zone, changes)
			continue
		}
		for i, change := range changes {
			if change.String() != test.want[i] {
				t.Errorf("%s in %s:\n got %s\nwant %s", test.expression, test.zone, change, test.want[i])
			}
		}
	}
	if got := ClockChanges(mustCron(t, "0 0 * * *", "Europe/Berlin"), time.Unix(0, 0), 0); got != nil {
		t.Errorf("none asked for, got %v", got)
	}
	if got := len(ClockChanges(mustCron(t, "0 0 * * *", "Europe/Berlin"), time.Unix(1<<31, 0), 1<<30)); got != maxChanges {
		t.Errorf("%d changes, want the bound %d", got, maxChanges)
	}
}

// TestClockChangesAgree: what ClockChanges says of a change is what Next does
// on that day.
func TestClockChangesAgree(t *testing.T) {
	for _, expression := range []string{"30 2 * * *", "*/10 1-3 * * *", "15 * * * *", "0,30 0,1,2,3,23 * * *", "0 */3 * * *"} {
		for _, location := range testZones(t) {
			spec := mustCron(t, expression, location.String())
			for _, change := range ClockChanges(spec, instantAt(t, "2026-01-01T00:00:00Z"), 2) {
				checkClockChange(t, spec, change)
			}
		}
	}
}

func checkClockChange(t *testing.T, spec *cronSpec, change ClockChange) {
	t.Helper()
	shift := change.After - change.Before
	// Two days as wall time hold twice the times of a day; what the change
	// does is the difference.
	from, to := change.At.Add(-24*time.Hour), change.At.Add(24*time.Hour-shift)
	got, _ := spec.countBetween(from.Add(-time.Second), to.Add(-time.Second), 1<<20)
	want := 2 * spec.perDay
	if shift > 0 {
		want -= int64(change.Missing)
		atChange, _ := spec.Next(change.At.Add(-time.Second))
		low := change.At.Unix() + int64(change.After/time.Second)
		var steps int
		if wall, _ := spec.wallFrom(low, &steps); change.Moved && wall != low {
			want++
		}
		if change.Moved && !atChange.Equal(change.At) {
			t.Errorf("%s: nothing fires at %s", spec, change.At)
		}
	} else if change.Twice {
		want += int64(change.Repeated)
	}
	if got != want {
		t.Errorf("%s: %d times in the days around %s, want %d", spec, got, change, want)
	}
}
