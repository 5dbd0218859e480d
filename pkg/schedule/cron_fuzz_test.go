package schedule

import (
	"errors"
	"testing"
	"time"
)

// maxSearchSteps bounds what one Next or Prev may look at: the months of one
// cycle of the calendar, twice, and what lies around clock changes.
const maxSearchSteps = 2*monthsPerCycle + 100

// FuzzParseCron: any text is refused with a *FieldError or gives a spec that
// prints as what it is, moves forward and back, and finds its times in a
// bounded number of steps.
func FuzzParseCron(f *testing.F) {
	for _, row := range conformanceRows(f) {
		f.Add(row.expression, int64(1_700_000_000))
	}
	for _, text := range []string{"H H * * *", "H(0-29)/10 H/3 H(1-5)W * *", "TZ=Europe/Berlin 0 0 29W 2 +SUN#5", "@daily", "0 0 0 29 2 +MON 2096-2099"} {
		f.Add(text, int64(-1_700_000_000))
	}
	zones := testZones(f)
	f.Fuzz(func(t *testing.T, text string, at int64) {
		if spec := checkRoundTrip(t, text); spec == nil {
			_, err := parseCron(text, CronOptions{ScheduleID: "id"})
			var field *FieldError
			if !errors.As(err, &field) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		spec, err := parseCron(text, CronOptions{ScheduleID: "id", Location: zones[int(uint64(at)%uint64(len(zones)))]})
		if err != nil {
			return // the text names another zone
		}
		checkSearch(t, spec, max(min(at, lastInstant), firstInstant))
		if Explain(spec) == "" {
			t.Fatalf("%q has no explanation", text)
		}
		Warnings(spec)
		RunsPerDay(spec)
	})
}

func checkSearch(t *testing.T, spec *cronSpec, from int64) {
	t.Helper()
	if spec.never {
		return
	}
	at := from
	for range 5 {
		var forward, back cronSearch
		next, ok := forward.next(spec, at+1)
		if forward.steps > maxSearchSteps {
			t.Fatalf("%s: %d steps to find the time after %d", spec, forward.steps, at)
		}
		if !ok {
			return
		}
		if next <= at {
			t.Fatalf("%s: %d follows %d", spec, next, at)
		}
		previous, ok := back.prev(spec, next)
		if back.steps > maxSearchSteps || !ok || previous != next {
			t.Fatalf("%s: the time up to %d is %d, after %d steps", spec, next, previous, back.steps)
		}
		at = next
	}
}

// TestStepsDoNotGrowWithDistance counts the work of searches that are long.
func TestStepsDoNotGrowWithDistance(t *testing.T) {
	for expression, limit := range map[string]int{
		"*/5 * * * *":            4,
		"0 0 1 1 *":              10,
		"0 0 29 2 *":             40,
		"0 0 29 2 +MON":          150,
		"0 0 * 2 MON#5":          150,
		"0 0 0 1 1 * 2099":       10,
		"0 0 L-30W 1-12/11 +SUN": maxSearchSteps,
	} {
		spec := mustCron(t, expression, "Europe/Berlin")
		var s cronSearch
		s.next(spec, time.Date(1971, 3, 1, 0, 0, 0, 0, time.UTC).Unix())
		if s.steps > limit {
			t.Errorf("%s: %d steps, want at most %d", expression, s.steps, limit)
		}
	}
}
