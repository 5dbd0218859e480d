package schedule

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// These tests are named after public bug reports of people who run other
// schedulers; each states what is right here.

func mustCron(t testing.TB, expression, zone string) *cronSpec {
	t.Helper()
	location, err := loadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := parseCron(expression, CronOptions{Location: location})
	if err != nil {
		t.Fatalf("%q: %v", expression, err)
	}
	return spec
}

func instantAt(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// expectRuns checks the scheduled times after from, given in UTC.
func expectRuns(t *testing.T, spec Spec, from string, want ...string) {
	t.Helper()
	at := instantAt(t, from)
	for _, text := range want {
		next, ok := spec.Next(at)
		if !ok || !next.Equal(instantAt(t, text)) {
			t.Fatalf("%s: Next(%s) is %s (%v), want %s", spec, at.UTC().Format(time.RFC3339), next.UTC().Format(time.RFC3339), ok, text)
		}
		if previous, ok := spec.Prev(next.Add(time.Nanosecond)); !ok || !previous.Equal(next) {
			t.Fatalf("%s: Prev just after %s is %s", spec, text, previous.UTC().Format(time.RFC3339))
		}
		at = next
	}
}

// A wildcard minute in a fixed hour is sixty runs a day, and said to be.
func TestB004EveryMinuteOfAnHourIsShown(t *testing.T) {
	spec := mustCron(t, "* 0 * * *", "UTC")
	expectRuns(t, spec, "2026-03-01T12:00:00Z", "2026-03-02T00:00:00Z", "2026-03-02T00:01:00Z", "2026-03-02T00:02:00Z")
	if least, most := RunsPerDay(spec); least != 60 || most != 60 {
		t.Errorf("%d to %d runs a day, want 60", least, most)
	}
	warnings := Warnings(spec)
	if len(warnings) != 1 || !strings.Contains(warnings[0], "60 times a day") || !strings.Contains(warnings[0], "0 0 * * *") {
		t.Errorf("warnings %q", warnings)
	}
}

// The day of a clock change is 23 or 25 hours long.
func TestB020WallTimeHoldsOnTheDayOfTheChange(t *testing.T) {
	spec := mustCron(t, "4 16 * * *", "America/New_York")
	expectRuns(t, spec, "2025-03-08T22:00:00Z", "2025-03-09T20:04:00Z")
	expectRuns(t, spec, "2025-11-01T21:00:00Z", "2025-11-02T21:04:00Z")
}

func TestB022HourlyRunsInBothPasses(t *testing.T) {
	expectRuns(t, mustCron(t, "0 * * * *", "America/Los_Angeles"), "2026-11-01T07:30:00Z",
		"2026-11-01T08:00:00Z", "2026-11-01T09:00:00Z", "2026-11-01T10:00:00Z", "2026-11-01T11:00:00Z")
}

// A zone that is unknown is an error that names the zone, not a crash.
func TestB056UnknownZone(t *testing.T) {
	_, err := loadLocation("Mars/Phobos")
	expectField(t, err, "timezone", "Mars/Phobos", "")
}

func TestB062OnceInTheGapOnceInTheOverlap(t *testing.T) {
	expectRuns(t, mustCron(t, "30 2 * * *", "America/New_York"), "2025-03-09T05:30:00Z", "2025-03-09T07:00:00Z", "2025-03-10T06:30:00Z")
	expectRuns(t, mustCron(t, "30 1 * * *", "America/New_York"), "2025-11-02T04:30:00Z", "2025-11-02T05:30:00Z", "2025-11-03T06:30:00Z")
}

func TestB063NightlyJobRunsOnTheSpringDay(t *testing.T) {
	expectRuns(t, mustCron(t, "0 2 * * 0-5", "America/New_York"), "2022-03-13T05:30:00Z", "2022-03-13T07:00:00Z")
}

// A change at midnight made another library loop for ever. Work is counted,
// not timed.
func TestB066ChangeAtMidnightIsBounded(t *testing.T) {
	spec := mustCron(t, "0 6 * * *", "America/Santiago")
	expectRuns(t, spec, "2018-08-12T03:00:00Z", "2018-08-12T09:00:00Z")
	var s cronSearch
	if s.next(spec, instantAt(t, "2018-08-12T03:00:01Z").Unix()); s.steps > 10 {
		t.Errorf("%d steps", s.steps)
	}
}

func TestB067ImpossibleDateNeverFires(t *testing.T) {
	for expression, reason := range map[string]string{
		"0 0 31 4 *":     "April has at most 30 days",
		"0 0 30 2 *":     "February has at most 29 days",
		"0 0 31 2,4,6 *": "February, April and June have at most 30 days",
	} {
		spec := mustCron(t, expression, "UTC")
		got, hint, never := neverFires(spec)
		if !never || got != reason {
			t.Errorf("%s: %q, want %q", expression, got, reason)
		}
		if want := strings.Replace(strings.Replace(expression, "31", "L", 1), "30", "L", 1); !strings.Contains(hint, want) {
			t.Errorf("%s: hint %q, want %q", expression, hint, want)
		}
		if at, ok := spec.Next(time.Unix(0, 0)); ok {
			t.Errorf("%s fires at %s", expression, at)
		}
		if at, ok := spec.Prev(time.Unix(0, 0)); ok {
			t.Errorf("%s fired at %s", expression, at)
		}
	}
}

func TestB069The31stSkipsShortMonthsAndSaysSo(t *testing.T) {
	spec := mustCron(t, "0 12 31 * *", "UTC")
	expectRuns(t, spec, "2026-01-31T12:00:00Z", "2026-03-31T12:00:00Z")
	warnings := Warnings(spec)
	if len(warnings) != 1 || !strings.Contains(warnings[0], "31 days") || !strings.Contains(warnings[0], "is L") {
		t.Errorf("warnings %q", warnings)
	}
}

func TestB113BothDayFieldsMeanEither(t *testing.T) {
	spec := mustCron(t, "30 0 1 * 1", "UTC")
	expectRuns(t, spec, "2019-02-19T00:00:00Z", "2019-02-25T00:30:00Z", "2019-03-01T00:30:00Z", "2019-03-04T00:30:00Z")
	if warnings := Warnings(spec); len(warnings) != 1 || !strings.Contains(warnings[0], "either") {
		t.Errorf("warnings %q", warnings)
	}
}

// Next depends on the instant alone, never on where in an overlap it lies.
func TestNextDoesNotDependOnThePath(t *testing.T) {
	spec := mustCron(t, "30 1 * * *", "America/New_York")
	for _, from := range []string{"2025-11-02T05:30:00Z", "2025-11-02T05:59:59Z", "2025-11-02T06:00:00Z", "2025-11-02T06:29:59Z", "2025-11-02T06:30:00Z"} {
		expectRuns(t, spec, from, "2025-11-03T06:30:00Z")
	}
}

// TZ=UTC alone made another library panic.
func TestZonePrefixAlone(t *testing.T) {
	for _, text := range []string{"TZ=UTC", "CRON_TZ=UTC", "TZ=", "TZ= ", "TZ=UTC ", "TZ=UTC TZ=UTC * * * * *"} {
		if spec, err := ParseCron(text, nil); err == nil {
			t.Errorf("%q is %s", text, spec)
		}
	}
}

// A zone that lost a day made two libraries loop for ever.
func TestLostDay(t *testing.T) {
	expectRuns(t, mustCron(t, "0 12 30 12 *", "Pacific/Apia"), "2011-12-29T00:00:00Z", "2011-12-30T10:00:00Z", "2012-12-29T22:00:00Z")
	expectRuns(t, mustCron(t, "0 0 1 * *", "Pacific/Apia"), "2011-12-29T00:00:00Z", "2011-12-31T10:00:00Z")
	expectRuns(t, mustCron(t, "30 * 30 12 *", "Pacific/Apia"), "2011-12-29T11:00:00Z", "2012-12-29T10:30:00Z")
}

// 29 February is found across 2100, which has none.
func TestLeapDayAcrossACentury(t *testing.T) {
	expectRuns(t, mustCron(t, "0 0 29 2 *", "UTC"), "2097-01-01T00:00:00Z", "2104-02-29T00:00:00Z")
	expectRuns(t, mustCron(t, "0 0 29 2 +MON", "Europe/Berlin"), "2072-03-01T00:00:00Z", "2112-02-28T23:00:00Z")
	previous, ok := mustCron(t, "0 0 29 2 *", "UTC").Prev(instantAt(t, "2104-02-29T00:00:00Z"))
	if !ok || previous.Year() != 2096 {
		t.Errorf("Prev is %s", previous)
	}
}

// Years past the last one end the schedule instead of repeating it.
func TestPastTheLastYear(t *testing.T) {
	spec := mustCron(t, "0 0 0 1 1 * 2026,2099", "UTC")
	expectRuns(t, spec, "2025-06-01T00:00:00Z", "2026-01-01T00:00:00Z", "2099-01-01T00:00:00Z")
	if at, ok := spec.Next(instantAt(t, "2099-01-01T00:00:00Z")); ok {
		t.Errorf("fires at %s", at)
	}
	if at, ok := spec.Prev(instantAt(t, "2026-01-01T00:00:00Z")); ok {
		t.Errorf("fired at %s", at)
	}
	if _, _, never := neverFires(spec); never {
		t.Error("said to fire never")
	}
}

// B060: one rule that falls into the spring gap stops neither itself nor others.
func TestB060TheSpringGapStopsNothing(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	from := time.Date(2027, 3, 27, 12, 0, 0, 0, berlin)
	for minute := range 24 * 60 {
		expression := fmt.Sprintf("%d %d * * *", minute%60, minute/60)
		spec, err := ParseCron(expression, berlin)
		if err != nil {
			t.Fatal(err)
		}
		at, n := from, 0
		for at.Before(from.AddDate(0, 0, 3)) {
			next, ok := spec.Next(at)
			if !ok || !next.After(at) {
				t.Fatalf("%s: after %s comes %s, %t", expression, at, next, ok)
			}
			at = next
			if !at.After(from.AddDate(0, 0, 3)) {
				n++
			}
		}
		if n != 3 {
			t.Errorf("%s fires %d times in three days around the gap, want 3", expression, n)
		}
	}
}
