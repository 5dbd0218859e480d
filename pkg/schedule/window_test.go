package schedule

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// naive says whether a window contains an instant, by looking at the clock.
type naive func(t time.Time) bool

// A sample is a window as written and what it means.
type sample struct {
	window   Window
	contains naive
}

func windowSamples() []sample {
	minute := func(t time.Time) int { return t.Hour()*60 + t.Minute() }
	return []sample{
		{Window{Dates: []string{"2026-03-29", "2026-10-24..2026-10-26"}}, func(t time.Time) bool {
			d := t.Format("01-02")
			return t.Year() == 2026 && (d == "03-29" || d >= "10-24" && d <= "10-26")
		}},
		{Window{Weekly: "Sat 00:00-Mon 06:00"}, func(t time.Time) bool {
			return t.Weekday() == time.Saturday || t.Weekday() == time.Sunday || t.Weekday() == time.Monday && minute(t) < 360
		}},
		{Window{Weekly: "sunday 02:15-Sun 02:45"}, func(t time.Time) bool {
			return t.Weekday() == time.Sunday && minute(t) >= 135 && minute(t) < 165
		}},
		{Window{Weekly: "Mon 08:00-Fri 24:00"}, func(t time.Time) bool {
			return t.Weekday() >= time.Monday && t.Weekday() <= time.Friday && (t.Weekday() != time.Monday || minute(t) >= 480)
		}},
		{Window{Cron: "* 2-4 * * *"}, func(t time.Time) bool { return t.Hour() >= 2 && t.Hour() <= 4 }},
		{Window{Cron: "*/10 * * * SUN"}, func(t time.Time) bool { return t.Minute()%10 == 0 && t.Weekday() == time.Sunday }},
		{Window{Cron: "30 * * * * *"}, func(t time.Time) bool { return t.Second() == 30 }},
		{Window{Cron: "* * * MAR,OCT *"}, func(t time.Time) bool { return t.Month() == time.March || t.Month() == time.October }},
	}
}

// around draws an instant near a clock change of 2026 in Berlin, Lord Howe or
// Santiago, or anywhere in that year.
func around(t *rapid.T) time.Time {
	base := rapid.SampledFrom([]int64{
		1774746000000, 1792890000000, // Berlin: 2026-03-29, 2026-10-25
		1775314800000, 1791041400000, // Lord Howe: 2026-04-04, 2026-10-03
		1775358000000, 1788667200000, // Santiago: 2026-04-05, 2026-09-06
		1767225600000 + rapid.Int64Range(0, 31_536_000_000).Draw(t, "anywhere"),
	}).Draw(t, "base")
	return time.UnixMilli(base + rapid.Int64Range(-200_000_000, 200_000_000).Draw(t, "offset"))
}

func TestWindowsContainWhatTheClockSays(t *testing.T) {
	samples := windowSamples()
	zones := []string{"UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/Santiago"}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(samples).Draw(t, "window")
		zone, _ := loadLocation(rapid.SampledFrom(zones).Draw(t, "zone"))
		w, err := s.window.build("w", "", zone)
		if err != nil {
			t.Fatal(err)
		}
		at := around(t)
		inside, from, to := w.span(at.UnixMilli(), &effort{})
		if want := s.contains(at.In(zone)); inside != want {
			t.Fatalf("%+v at %v: inside %v, want %v", s.window, at.In(zone), inside, want)
		}
		if from > at.UnixMilli() || to <= at.UnixMilli() {
			t.Fatalf("%+v at %v: span [%d, %d)", s.window, at.In(zone), from, to)
		}
		// Any instant of the span, and both of its ends, are of the same kind.
		lo, hi := max(from, at.UnixMilli()-1e9), min(to, at.UnixMilli()+1e9)-1
		for _, ms := range []int64{lo, hi, rapid.Int64Range(lo, hi).Draw(t, "within")} {
			if s.contains(time.UnixMilli(ms).In(zone)) != inside {
				t.Fatalf("%+v: %v is not like %v", s.window, time.UnixMilli(ms).In(zone), at.In(zone))
			}
		}
	})
}

// TestSearchThroughWindows compares Next, Prev and CountBetween of a schedule
// with windows against going through its spec one by one.
func TestSearchThroughWindows(t *testing.T) {
	samples := windowSamples()
	berlin := mustZone(t, "Europe/Berlin")
	rapid.Check(t, func(t *rapid.T) {
		s := Schedule{ID: "w", Type: "t", Timezone: "Europe/Berlin", Expression: rapid.SampledFrom([]string{
			"*/5 * * * *", "0 * * * *", "7m", "30 2 * * *", "@daily | 90m", "13,43 30 * * * *"}).Draw(t, "expression")}
		var except, only []naive
		for range rapid.IntRange(0, 2).Draw(t, "except") {
			w := rapid.SampledFrom(samples).Draw(t, "excepted")
			s.Except, except = append(s.Except, w.window), append(except, w.contains)
		}
		for range rapid.IntRange(0, 2).Draw(t, "only") {
			w := rapid.SampledFrom(samples).Draw(t, "allowed")
			s.Only, only = append(s.Only, w.window), append(only, w.contains)
		}
		c, err := Compile(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		fires := func(at time.Time) bool {
			at = at.In(berlin)
			allowed := len(only) == 0
			for _, contains := range only {
				allowed = allowed || contains(at)
			}
			for _, contains := range except {
				allowed = allowed && !contains(at)
			}
			return allowed
		}
		from := around(t)
		var want []time.Time
		at := from
		for range 400 {
			next, ok := c.spec.Next(at)
			if !ok {
				break
			}
			if at = next; fires(at) {
				want = append(want, at)
			}
		}
		got := from
		for i, w := range want {
			next, ok := c.Next(got)
			if !ok || !next.Equal(w) {
				t.Fatalf("%s: Next(%v) = %v, %v, want %v", encode(t, s), got, next, ok, w)
			}
			if prev, ok := c.Prev(w); i > 0 && (!ok || !prev.Equal(got)) {
				t.Fatalf("%s: Prev(%v) = %v, %v, want %v", encode(t, s), w, prev, ok, got)
			}
			got = next
		}
		if n, ok := c.CountBetween(from.Add(time.Millisecond), at); !ok || n != int64(len(want)) {
			t.Fatalf("%s: CountBetween(%v, %v) = %d, %v, want %d", encode(t, s), from, at, n, ok, len(want))
		}
	})
}

func TestCalendarsInUse(t *testing.T) {
	holidays := Calendar{Name: "holidays-de", Timezone: "Europe/Berlin", Dates: []string{"2026-12-24..2026-12-26"}, Weekly: []string{"Sun 00:00-Sun 24:00"}}
	s := Schedule{ID: "a", Type: "t", Expression: "0 0 * * *", Except: []Window{{Calendar: "holidays-de"}}}
	c, err := Compile(s, []Calendar{holidays, {Name: "other", Dates: []string{"2026-12-28"}}})
	if err != nil {
		t.Fatal(err)
	}
	// 00:00 UTC is 01:00 in Berlin, where the calendar lives.
	got, _ := c.Next(utc(t, "2026-12-23T00:00:00Z"))
	if want := utc(t, "2026-12-28T00:00:00Z"); !got.Equal(want) {
		t.Errorf("Next = %v, want %v: past the holidays and the Sunday after them", got, want)
	}
	s.Except, s.Only = nil, s.Except
	if c, err = Compile(s, []Calendar{holidays}); err != nil {
		t.Fatal(err)
	}
	got, _ = c.Next(utc(t, "2026-12-21T00:00:00Z"))
	if want := utc(t, "2026-12-24T00:00:00Z"); !got.Equal(want) {
		t.Errorf("only: Next = %v, want %v", got, want)
	}
}

func TestBounds(t *testing.T) {
	s := Schedule{ID: "a", Type: "t", Expression: "1h", Starts: utc(t, "2026-01-01T10:00:00Z"), Ends: utc(t, "2026-01-01T13:00:00Z")}
	c, err := Compile(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := c.Next(utc(t, "2025-01-01T00:00:00Z")); !ok || !got.Equal(s.Starts) {
		t.Errorf("first = %v, %v, want starts, which is inclusive", got, ok)
	}
	if got, ok := c.Next(utc(t, "2026-01-01T11:30:00Z")); !ok || !got.Equal(utc(t, "2026-01-01T12:00:00Z")) {
		t.Errorf("last = %v, %v", got, ok)
	}
	if got, ok := c.Next(utc(t, "2026-01-01T12:00:00Z")); ok {
		t.Errorf("after the last = %v, want none: ends is exclusive", got)
	}
	if got, ok := c.Prev(utc(t, "2027-01-01T00:00:00Z")); !ok || !got.Equal(utc(t, "2026-01-01T12:00:00Z")) {
		t.Errorf("Prev from beyond the end = %v, %v", got, ok)
	}
	if got, ok := c.Prev(s.Starts); ok {
		t.Errorf("Prev before the start = %v, want none", got)
	}
	if n, ok := c.CountBetween(utc(t, "2020-01-01T00:00:00Z"), utc(t, "2030-01-01T00:00:00Z")); !ok || n != 3 {
		t.Errorf("CountBetween = %d, %v, want 3", n, ok)
	}
}

func TestDelayObeysBounds(t *testing.T) {
	s := Schedule{ID: "a", Type: "t", Expression: "@after 1h", Starts: utc(t, "2026-01-01T10:00:00Z"), Ends: utc(t, "2026-01-01T13:00:00Z")}
	c, err := Compile(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	for end, want := range map[string]string{"2025-01-01T00:00:00Z": "2026-01-01T10:00:00Z", "2026-01-01T09:30:00Z": "2026-01-01T10:30:00Z"} {
		if got, ok := c.Next(utc(t, end)); !ok || !got.Equal(utc(t, want)) {
			t.Errorf("after a run that ended at %s: %v, %v, want %s", end, got, ok, want)
		}
	}
	if got, ok := c.Next(utc(t, "2026-01-01T12:00:00Z")); ok {
		t.Errorf("beyond the end: %v, want none", got)
	}
	if delay, ok := c.Delay(); !ok || delay != time.Hour {
		t.Errorf("Delay() = %v, %v", delay, ok)
	}
}

func TestDenseExclusionsEndTheSearch(t *testing.T) {
	// Every second of the minute that the schedule wants is excluded, one by one.
	s := Schedule{ID: "a", Type: "t", Expression: "* * * * * *", Except: []Window{{Cron: "*/2 * * * * *"}, {Cron: "1-59/2 * * * * *"}}}
	c, err := Compile(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	calls := countCalls(c)
	from := utc(t, "2026-01-01T00:00:00Z")
	if got, ok := c.Next(from); ok {
		t.Errorf("Next = %v, want none", got)
	}
	if *calls > maxSteps {
		t.Errorf("%d calls of the spec", *calls)
	}
	all := fieldErrors(t, c.CheckCreate(from))
	if len(all) != 1 || all[0].Field != "except" {
		t.Errorf("CheckCreate = %v, want the windows refused", all)
	}
	p := Plan(c, PlanInput{ScheduledAt: from, Now: from})
	if p.Verdict != VerdictExcluded || !p.Next.After(from) {
		t.Errorf("Plan = %+v, want it excluded and the search to go on later", p)
	}
}
