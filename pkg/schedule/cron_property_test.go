package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	robfig "github.com/robfig/cron/v3"
	"pgregory.net/rapid"
)

// drawField draws one field of the dialect, as text.
func drawField(t *rapid.T, f *cronField) string {
	value := rapid.IntRange(f.min, f.last)
	item := rapid.Custom(func(t *rapid.T) string {
		a, b := value.Draw(t, "a"), value.Draw(t, "b")
		step := rapid.IntRange(1, min(f.maxStep(), 31)).Draw(t, "step")
		if f.max == maxCronYear && b < a {
			a, b = b, a
		}
		plain := []string{"*", fmt.Sprint(a), fmt.Sprintf("%d-%d", a, b), fmt.Sprintf("*/%d", step), fmt.Sprintf("%d/%d", a, step), fmt.Sprintf("%d-%d/%d", a, b, step)}
		switch f.days {
		case 'm':
			plain = append(plain, "L", "LW", fmt.Sprintf("L-%d", a-1), fmt.Sprintf("L-%dW", a-1), fmt.Sprintf("%dW", a), "?")
		case 'w':
			plain = append(plain, fmt.Sprintf("%dL", a), fmt.Sprintf("%d#%d", a, 1+step%5), fmt.Sprintf("%d-%d#%d", a, b, 1+step%5), fmt.Sprintf("%d#L", a), "?")
		}
		return rapid.SampledFrom(plain).Draw(t, "item")
	})
	return strings.Join(rapid.SliceOfN(item, 1, 3).Draw(t, f.name), ",")
}

// drawCron draws an expression of 5, 6 or 7 fields; times of day are kept few
// so that a test sees many days.
func drawCron(t *rapid.T) string {
	var words []string
	count := rapid.IntRange(5, 7).Draw(t, "fields")
	for i := range cronFields {
		if i == fieldSecond && count == 5 || i == fieldYear && count < 7 {
			continue
		}
		if i <= fieldHour && rapid.Bool().Draw(t, "single") {
			words = append(words, fmt.Sprint(rapid.IntRange(0, cronFields[i].max).Draw(t, "value")))
			continue
		}
		if i > fieldHour && rapid.IntRange(0, 2).Draw(t, "any") > 0 {
			words = append(words, "*")
			continue
		}
		word := drawField(t, &cronFields[i])
		if i == fieldWeekday && rapid.Bool().Draw(t, "both") {
			word = "+" + word
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func drawZone(zones []*time.Location) *rapid.Generator[*time.Location] {
	return rapid.Custom(func(t *rapid.T) *time.Location {
		return zones[rapid.IntRange(0, len(zones)-1).Draw(t, "zone")]
	})
}

func drawInstant(t *rapid.T) time.Time {
	return time.UnixMilli(rapid.Int64Range(-1<<40, 1<<42).Draw(t, "ms"))
}

// TestNextAndPrevMirror: Next and Prev go to and fro over the same instants,
// always forward and always back, and the count agrees with them.
func TestNextAndPrevMirror(t *testing.T) {
	zones := testZones(t)
	rapid.Check(t, func(t *rapid.T) {
		location, text, from := drawZone(zones).Draw(t, "location"), drawCron(t), drawInstant(t)
		spec, err := parseCron(text, CronOptions{Location: location})
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		before, hasBefore := spec.Prev(from)
		if hasBefore && !before.Before(from) {
			t.Fatalf("%q: Prev(%s) is %s", text, from, before)
		}
		at := from
		for i := range 20 {
			next, ok := spec.Next(at)
			if !ok {
				break
			}
			if !next.After(at) || next.Location() != location || next.Nanosecond() != 0 {
				t.Fatalf("%q: Next(%s) is %s", text, at, next)
			}
			back, ok := spec.Prev(next)
			switch {
			case i > 0 && (!ok || !back.Equal(at)):
				t.Fatalf("%q: Prev(%s) is %s, want %s", text, next, back, at)
			case i == 0 && (ok != hasBefore && !(ok && back.Equal(from)) || ok && !back.Equal(before) && !back.Equal(from)):
				t.Fatalf("%q: Prev(%s) is %s, Prev(%s) is %s", text, next, back, from, before)
			}
			middle := at.Add(next.Sub(at) / 2)
			if again, _ := spec.Next(middle); !again.Equal(next) {
				t.Fatalf("%q: Next(%s) is %s, Next(%s) is %s", text, at, next, middle, again)
			}
			if n, exact := spec.countBetween(from, next, 100); n != int64(i+1) || !exact {
				t.Fatalf("%q in %s: count from %s to %s is %d, want %d", text, location, from, next, n, i+1)
			}
			at = next
		}
	})
}

// TestPrintAndParse: the canonical form parses to an equal spec.
func TestPrintAndParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkRoundTrip(t, drawCron(t)) })
}

func checkRoundTrip(t interface{ Fatalf(string, ...any) }, text string) *cronSpec {
	first, err := parseCron(text, CronOptions{ScheduleID: "id"})
	if err != nil {
		return nil
	}
	second, err := parseCron(first.String(), CronOptions{})
	if err != nil {
		t.Fatalf("%q prints as %q, which does not parse: %v", text, first, err)
	}
	a, b := *first, *second
	a.location, b.location = nil, nil
	if a != b || first.String() != second.String() {
		t.Fatalf("%q prints as %q, which is another spec: %+v, %+v", text, first, a, b)
	}
	return first
}

// TestExplanationsDiffer: what fires differently is explained differently.
func TestExplanationsDiffer(t *testing.T) {
	type meaning struct {
		dates cronDates
		times cronTimes
		text  string
	}
	seen := map[string]meaning{}
	rapid.Check(t, func(t *rapid.T) {
		spec, err := parseCron(drawCron(t), CronOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m := meaning{spec.cronDates, spec.cronTimes, spec.text}
		m.dates.everyDay = false
		text := Explain(spec)
		old, known := seen[text]
		if known && (old.times != m.times || old.dates != m.dates) && !sameDates(&old.dates, &m.dates) {
			t.Fatalf("%q and %q are both %q", old.text, m.text, text)
		}
		seen[text] = m
	})
}

// sameDates compares which days match over 28 years and more, since one set of
// days can be written in many ways.
func sameDates(a, b *cronDates) bool {
	for year := int64(1970); year < 2100; year++ {
		for month := 1; month <= 12; month++ {
			var days [2]uint32
			for i, d := range []*cronDates{a, b} {
				if d.yearAllowed(year) && d.months&(1<<month) != 0 {
					days[i] = d.month(year, month)
				}
			}
			if days[0] != days[1] {
				return false
			}
		}
	}
	return true
}

// TestDatelessMeansNever: what parsing calls dateless has no date in a whole
// cycle of the calendar, and everything else has one.
func TestDatelessMeansNever(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := []string{"0 0 0", drawField(t, &cronFields[fieldDay]), drawField(t, &cronFields[fieldMonth]), "+" + drawField(t, &cronFields[fieldWeekday])}
		if rapid.Bool().Draw(t, "years") {
			words = append(words, drawField(t, &cronFields[fieldYear]))
		}
		spec, err := parseCron(strings.Join(words, " "), CronOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var steps int
		day, found := spec.cronDates.from(daysFromCivil(minCronYear, 1, 1), &steps)
		if found == spec.never {
			t.Fatalf("%s: never is %v, but day %d (%v)", spec, spec.never, day, found)
		}
	})
}

// TestCalendarOracle compares the days with a walk over the calendar that
// knows L, W and # by their definition.
func TestCalendarOracle(t *testing.T) {
	lastOf := func(d time.Time) int { return time.Date(d.Year(), d.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day() }
	nearest := func(d time.Time, day int) bool {
		target := time.Date(d.Year(), d.Month(), day, 0, 0, 0, 0, time.UTC)
		if target.Month() != d.Month() || day < 1 {
			return false
		}
		for _, shift := range []int{0, -1, 1, -2, 2} {
			near := target.AddDate(0, 0, shift)
			if near.Month() == target.Month() && near.Weekday() != time.Saturday && near.Weekday() != time.Sunday {
				return near.Equal(d)
			}
		}
		return false
	}
	matches := map[string]func(d time.Time) bool{
		"L * *":          func(d time.Time) bool { return d.Day() == lastOf(d) },
		"L-3 * *":        func(d time.Time) bool { return d.Day() == lastOf(d)-3 },
		"LW * *":         func(d time.Time) bool { return nearest(d, lastOf(d)) },
		"L-29W * *":      func(d time.Time) bool { return nearest(d, lastOf(d)-29) },
		"1W * *":         func(d time.Time) bool { return nearest(d, 1) },
		"15W,31W * *":    func(d time.Time) bool { return nearest(d, 15) || nearest(d, 31) },
		"* * FRIL":       func(d time.Time) bool { return d.Weekday() == 5 && d.Day() > lastOf(d)-7 },
		"* * TUE#5":      func(d time.Time) bool { return d.Weekday() == 2 && d.Day() > 28 },
		"* * SAT-MON#2":  func(d time.Time) bool { return (d.Weekday()+1)%7 < 3 && d.Day() > 7 && d.Day() < 15 },
		"29 2 +3":        func(d time.Time) bool { return d.Month() == 2 && d.Day() == 29 && d.Weekday() == 3 },
		"30-2 */3 5":     func(d time.Time) bool { return d.Month()%3 == 1 && (d.Day() >= 30 || d.Day() <= 2 || d.Weekday() == 5) },
		"* NOV-FEB/2 *":  func(d time.Time) bool { return d.Month() == 11 || d.Month() == 1 },
		"13 * +FRI":      func(d time.Time) bool { return d.Day() == 13 && d.Weekday() == 5 },
		"1-7 * +SUN,MON": func(d time.Time) bool { return d.Day() <= 7 && d.Weekday() <= 1 },
	}
	for text, match := range matches {
		spec := mustCron(t, "0 0 "+text, "UTC")
		var want, got, back []string
		begin, end := time.Date(1895, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(2105, 1, 1, 0, 0, 0, 0, time.UTC)
		for d := begin.AddDate(0, 0, 1); d.Before(end); d = d.AddDate(0, 0, 1) {
			if match(d) {
				want = append(want, d.Format(time.DateOnly))
			}
		}
		for at, ok := spec.Next(begin); ok && at.Before(end); at, ok = spec.Next(at) {
			got = append(got, at.Format(time.DateOnly))
		}
		for at, ok := spec.Prev(end); ok && at.After(begin); at, ok = spec.Prev(at) {
			back = append(back, at.Format(time.DateOnly))
		}
		slices.Reverse(back)
		if !slices.Equal(got, want) || !slices.Equal(back, want) {
			t.Errorf("%s: %d days forward, %d back, want %d", text, len(got), len(back), len(want))
		}
		if n, exact := spec.countBetween(begin, end.Add(-time.Second), 1<<20); n != int64(len(want)) || !exact {
			t.Errorf("%s: counted %d, want %d", text, n, len(want))
		}
	}
}

// TestAgainstRobfig compares with robfig/cron where it is right: without clock
// changes and within what it parses.
func TestAgainstRobfig(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	parser := robfig.NewParser(robfig.Second | robfig.Minute | robfig.Hour | robfig.Dom | robfig.Month | robfig.Dow)
	field := func(low, high int) string {
		a, b := low+r.IntN(high-low+1), low+r.IntN(high-low+1)
		return []string{"*", "*", fmt.Sprint(a), fmt.Sprintf("%d,%d", a, b), fmt.Sprintf("%d-%d", min(a, b), max(a, b)),
			fmt.Sprintf("*/%d", 1+r.IntN(high)), fmt.Sprintf("%d/%d", a, 1+r.IntN(high))}[r.IntN(7)]
	}
	zones := []*time.Location{time.UTC, time.FixedZone("", 5*3600+1800), time.FixedZone("", -9*3600)}
	compared := 0
	for range 3000 {
		text := strings.Join([]string{field(0, 59), field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 6)}, " ")
		if days := strings.Fields(text); strings.HasPrefix(days[3], "*/1 ") || days[3] == "*/1" || days[5] == "*/1" {
			continue // robfig/cron takes */1 for *, here only a bare * is unrestricted
		}
		other, err := parser.Parse(text)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		location := zones[r.IntN(len(zones))]
		spec, err := ParseCron(text, location)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		at := time.Unix(r.Int64N(1<<31), 0).In(location)
		for range 10 {
			want := other.Next(at)
			got, ok := spec.Next(at)
			if want.IsZero() { // it gives up after five years
				if ok && got.Before(at.AddDate(5, 0, 0)) {
					t.Fatalf("%q: Next(%s) is %s, robfig/cron finds nothing", text, at, got)
				}
				break
			}
			if !ok || !got.Equal(want) {
				t.Fatalf("%q: Next(%s) is %s, robfig/cron says %s", text, at, got, want)
			}
			at = want
			compared++
		}
	}
	t.Logf("%d scheduled times", compared)
}

// TestSecondsOffset covers an offset that is no whole number of minutes.
func TestSecondsOffset(t *testing.T) {
	// Liberia went from -00:44:30 to UTC on 1972-01-07.
	expectRuns(t, mustCron(t, "20 0 * * *", "Africa/Monrovia"), "1972-01-06T00:00:00Z",
		"1972-01-06T01:04:30Z", "1972-01-07T00:44:30Z", "1972-01-08T00:20:00Z")
	expectRuns(t, mustCron(t, "*/30 * * * *", "Africa/Monrovia"), "1972-01-07T00:00:00Z",
		"1972-01-07T00:14:30Z", "1972-01-07T01:00:00Z")
}

// TestExtremes: any instant is an argument.
func TestExtremes(t *testing.T) {
	for _, expression := range []string{"* * * * * *", "0 0 29 2 *", "0 0 0 1 1 * 2026", "0 0 30 2 *"} {
		spec := mustCron(t, expression, "Europe/Berlin")
		for _, at := range []time.Time{{}, time.Unix(1<<62, 0), time.Unix(-1<<62, 0), time.Unix(firstInstant, 0), time.Unix(lastInstant, 5)} {
			if next, ok := spec.Next(at); ok && (next.Year() < 1 || next.Year() > 9999) {
				t.Errorf("%s: Next(%d) is %s", expression, at.Unix(), next)
			}
			if previous, ok := spec.Prev(at); ok && (previous.Year() < 1 || previous.Year() > 9999) {
				t.Errorf("%s: Prev(%d) is %s", expression, at.Unix(), previous)
			}
			spec.countBetween(at, time.Unix(1<<62, 0), 1000)
		}
	}
}

// TestConcurrentUse lets goroutines share a spec; run with -race.
func TestConcurrentUse(t *testing.T) {
	spec := mustCron(t, "*/5 1-3 L * FRI#2", "America/New_York")
	from := instantAt(t, "2026-10-30T00:00:00Z")
	want, _ := spec.Next(from)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 200 {
				if got, _ := spec.Next(from); !got.Equal(want) {
					t.Errorf("Next is %s, want %s", got, want)
				}
				spec.Prev(from)
				_ = spec.String()
			}
		})
	}
	group.Wait()
}
