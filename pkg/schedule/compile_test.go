package schedule

import (
	"strings"
	"testing"
	"time"
)

// A countingSpec counts what is asked of a spec.
type countingSpec struct {
	Spec
	calls *int
}

func (s countingSpec) Next(after time.Time) (time.Time, bool) {
	*s.calls++
	return s.Spec.Next(after)
}

func (s countingSpec) Prev(before time.Time) (time.Time, bool) {
	*s.calls++
	return s.Spec.Prev(before)
}

// countCalls makes a compiled schedule count the calls of its spec. The spec
// loses its closed form for counting, as if it had none.
func countCalls(c *Compiled) *int {
	calls := new(int)
	c.spec = countingSpec{Spec: c.spec, calls: calls}
	return calls
}

// compile compiles a definition that must be good.
func compile(t testing.TB, s Schedule, calendars ...Calendar) *Compiled {
	t.Helper()
	if s.ID == "" {
		s.ID = "test"
	}
	if s.Type == "" {
		s.Type = "t"
	}
	c, err := Compile(s, calendars)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCheckCreate(t *testing.T) {
	now := utc(t, "2026-06-01T12:00:00Z")
	tests := []struct {
		name  string
		s     Schedule
		field string // "" is accepted
	}{
		{"an interval", Schedule{Expression: "5m"}, ""},
		{"a one-shot in the future", Schedule{Expression: "once:2026-06-01T12:00:00.001Z"}, ""},
		{"a one-shot now", Schedule{Expression: "once:2026-06-01T12:00:00Z"}, "expression"},
		{"a one-shot in the past", Schedule{Specs: []SpecDefinition{{At: []string{"2026-06-01T11:59:59Z"}}}}, "specs[0]"},
		{"one of several in the past", Schedule{Specs: []SpecDefinition{{At: []string{"2027-01-01T00:00:00Z", "2020-01-01T00:00:00Z"}}}}, "specs[0]"},
		{"a past one-shot beside an interval", Schedule{Specs: []SpecDefinition{{Every: time.Hour}, {At: []string{"2020-01-01T00:00:00Z"}}}}, "specs[1]"},
		{"a date that no month has", Schedule{Expression: "0 0 30 2 *"}, "expression"},
		{"a date that no month has beside an interval", Schedule{Specs: []SpecDefinition{{Every: time.Hour}, {Cron: "0 0 31 4 *"}}}, "specs[1]"},
		{"a year that is over", Schedule{Expression: "0 0 0 1 1 * 2020"}, "expression"},
		{"ends in the past", Schedule{Expression: "5m", Ends: now}, "ends"},
		{"nothing before the end", Schedule{Expression: "@yearly", Ends: now.Add(time.Hour)}, "expression"},
		{"nothing between the bounds", Schedule{Expression: "@yearly", Starts: now.Add(time.Hour), Ends: now.Add(2 * time.Hour)}, "expression"},
		{"nothing but what is excluded", Schedule{Expression: "0 3 * * *", Except: []Window{{Cron: "* 2-4 * * *"}}}, "except"},
		{"nothing in what is allowed", Schedule{Expression: "0 3 * * *", Only: []Window{{Dates: []string{"2026-01-01"}}}}, "expression"},
		{"a fixed delay", Schedule{Expression: "@after 5m"}, ""},
		{"29 February", Schedule{Expression: "0 0 29 2 *"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all := fieldErrors(t, compile(t, tt.s).CheckCreate(now))
			if tt.field == "" && len(all) > 0 || tt.field != "" && (len(all) != 1 || all[0].Field != tt.field) {
				t.Errorf("CheckCreate() = %v, want %q", all, tt.field)
			}
		})
	}
}

func TestFirstIsStrictlyAfterNow(t *testing.T) {
	now := utc(t, "2026-06-01T12:00:00Z")
	for expression, want := range map[string]string{
		"1h": "2026-06-01T13:00:00Z", "@after 10m": "2026-06-01T12:10:00Z", "0 12 * * *": "2026-06-02T12:00:00Z",
	} {
		if got, ok := compile(t, Schedule{Expression: expression}).First(now); !ok || !got.Equal(utc(t, want)) {
			t.Errorf("%s: First = %v, %v, want %s", expression, got, ok, want)
		}
	}
}

func TestDefinitionIsNormalised(t *testing.T) {
	d := compile(t, Schedule{Expression: " 5m "}).Definition()
	if d.Expression != "5m" || d.Queue != DefaultQueue || d.MaxRetry == nil || *d.MaxRetry != DefaultMaxRetry || d.Missed != MissedLatest {
		t.Errorf("Definition() = %+v", d)
	}
}

func TestSpecIsWithoutBoundsAndWindows(t *testing.T) {
	c := compile(t, Schedule{Expression: "5m", Ends: utc(t, "2020-01-01T00:00:00Z")})
	if _, ok := c.Spec().Next(utc(t, "2026-01-01T00:00:00Z")); !ok || c.Spec().String() != "@every 5m" {
		t.Errorf("Spec() = %v", c.Spec())
	}
}

func TestJitterIsStableAndBounded(t *testing.T) {
	c := compile(t, Schedule{Expression: "1h", Jitter: time.Minute})
	same := compile(t, Schedule{Expression: "@every 60m", Jitter: time.Minute})
	other := compile(t, Schedule{ID: "other", Expression: "1h", Jitter: time.Minute})
	at, differ := utc(t, "2026-01-01T00:00:00Z"), 0
	for range 1000 {
		at, _ = c.Next(at)
		due := c.NotBefore(at)
		if offset := due.Sub(at); offset < 0 || offset >= time.Minute || due.UnixNano()%1e6 != 0 {
			t.Fatalf("NotBefore(%v) = %v", at, due)
		}
		if !same.NotBefore(at).Equal(due) {
			t.Fatalf("NotBefore(%v) differs between two workers", at)
		}
		if !other.NotBefore(at).Equal(due) {
			differ++
		}
	}
	if differ < 990 {
		t.Errorf("two schedules share %d of 1000 offsets", 1000-differ)
	}
}

// The hash is a promise between versions: workers of both run side by side.
func TestJitterHashNeverChanges(t *testing.T) {
	c := compile(t, Schedule{ID: "nightly-report", Expression: "1h", Jitter: time.Minute})
	// printf 'nightly-report\0001767225600000' | sha256sum, first 8 bytes, modulo 60000
	if got, want := c.NotBefore(utc(t, "2026-01-01T00:00:00Z")), utc(t, "2026-01-01T00:00:22.819Z"); !got.Equal(want) {
		t.Errorf("NotBefore = %v, want %v", got, want)
	}
}

func TestJitterNeverPassesTheNextScheduledTime(t *testing.T) {
	for _, expression := range []string{"100ms", "1s", "* * * * *", "0,1 * * * *", "@after 1s"} {
		c := compile(t, Schedule{Expression: expression, Jitter: 48 * time.Hour})
		at := utc(t, "2026-01-01T00:00:00Z")
		for range 200 {
			next, ok := c.Spec().Next(at)
			if !ok {
				t.Fatal("none")
			}
			if due := c.NotBefore(at); due.Before(at) || !due.Before(next) {
				t.Fatalf("%s: %v is due %v, the next is %v", expression, at, due, next)
			}
			at = next
		}
	}
}

func TestWithoutJitterAScheduledTimeIsDueAtOnce(t *testing.T) {
	at := utc(t, "2026-01-01T00:00:00Z")
	for _, jitter := range []time.Duration{0, time.Millisecond} {
		if got := compile(t, Schedule{Expression: "1h", Jitter: jitter}).NotBefore(at); !got.Equal(at) {
			t.Errorf("jitter %v: due %v", jitter, got)
		}
	}
}

func TestCountBetweenIsBounded(t *testing.T) {
	c := compile(t, Schedule{Expression: "* * * * * *"})
	from, to := utc(t, "2025-01-01T00:00:00Z"), utc(t, "2025-12-31T23:59:59Z")
	if n, ok := c.CountBetween(from, to); !ok || n != 365*24*3600 {
		t.Errorf("a year of seconds: %d, %v", n, ok)
	}
	calls := countCalls(c)
	if n, ok := c.CountBetween(from, to); ok {
		t.Errorf("without a closed form: %d, want it not counted", n)
	}
	if *calls > maxCounted+2 {
		t.Errorf("%d calls of the spec", *calls)
	}
	nights := compile(t, Schedule{Expression: "1s", Except: []Window{{Cron: "* 2-4 * * *"}}})
	if n, ok := nights.CountBetween(from, to); !ok || n != 365*21*3600 {
		t.Errorf("a year of seconds without its nights: %d, %v", n, ok)
	}
}

func TestErrorsOfCheckCreateSayWhatIsAllowed(t *testing.T) {
	err := compile(t, Schedule{Expression: "once:2020-01-01T00:00:00Z"}).CheckCreate(utc(t, "2026-01-01T00:00:00Z"))
	if err == nil || !strings.Contains(err.Error(), "later than now, which is 2026-01-01T00:00:00Z") {
		t.Errorf("CheckCreate() = %v", err)
	}
}
