package schedule

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseForms(t *testing.T) {
	tests := []struct{ name, expression, canonical string }{
		{"a cron line", "0  2 * * MON-FRI", "0 2 * * 1-5"},
		{"a macro", "@daily", "0 0 * * *"},
		{"an interval", "5m", "@every 5m"},
		{"half a second", "500ms", "@every 500ms"},
		{"thirty seconds", "30s", "@every 30s"},
		{"two hours", "2h", "@every 2h"},
		{"a day", "1d", "@every 1d"},
		{"a compound interval", "1h30m", "@every 1h30m"},
		{"an ISO interval", "PT90S", "@every 1m30s"},
		{"@every", "@every 90s", "@every 1m30s"},
		{"@every in capitals with spaces", " @EVERY  90s ", "@every 1m30s"},
		{"@every on another grid", "@every 1h from 2026-01-01T00:20:00Z", "@every 1h from 1970-01-01T00:20:00Z"},
		{"an anchor on the grid is no anchor", "@every 1h from 2026-01-01T00:00:00Z", "@every 1h"},
		{"a one-shot", "once:2026-12-24T09:00:00+01:00", "once:2026-12-24T08:00:00Z"},
		{"a one-shot with milliseconds", "once:2026-12-24T09:00:00.250Z", "once:2026-12-24T09:00:00.250Z"},
		{"several one-shots, sorted, without repetition", "once:2026-12-25T00:00:00Z,2026-12-24T00:00:00Z,2026-12-25T01:00:00+01:00", "once:2026-12-24T00:00:00Z,2026-12-25T00:00:00Z"},
		{"a delay", "@after 10m", "@after 10m"},
		{"a union", "@daily | 90m", "0 0 * * * | @every 1h30m"},
		{"a union of equals", "1h | 60m", "@every 1h"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec, err := Parse(tt.expression)
			if err != nil || spec.String() != tt.canonical {
				t.Fatalf("Parse(%q) = %v, %v, want %s", tt.expression, spec, err, tt.canonical)
			}
			again, err := Parse(spec.String())
			if err != nil || again.String() != spec.String() {
				t.Errorf("Parse(%q) = %v, %v, want the same", spec.String(), again, err)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for name, expression := range map[string]string{
		"nothing": "", "white space": " \t ", "a bare number": "5", "a negative interval": "-5m", "a zero interval": "0s",
		"an interval below the minimum": "50ms", "an overflow": "999999d", "@every without a duration": "@every",
		"@every without a number": "@every minute", "@every with an anchor that is none": "@every 1h from noon",
		"once without a time": "once:", "once with a word": "once:tomorrow", "once with Unix seconds": "once:1775032200",
		"an empty part of a union": "@daily |", "@after in a union": "@after 5m | @daily", "@after without a delay": "@after",
		"H without a schedule": "H * * * *", "months": "1mo", "@reboot": "@reboot",
	} {
		t.Run(name, func(t *testing.T) {
			spec, err := Parse(expression)
			var field *FieldError
			if !errors.As(err, &field) || spec != nil {
				t.Errorf("Parse(%q) = %v, %v, want a *FieldError", expression, spec, err)
			}
		})
	}
}

func TestParseWithUsesTheLocation(t *testing.T) {
	berlin := mustZone(t, "Europe/Berlin")
	for expression, want := range map[string]string{
		"0 9 * * *":             "2026-04-01T07:00:00Z",
		"once:2026-04-01 10:00": "2026-04-01T08:00:00Z",
	} {
		spec, err := ParseWith(expression, CronOptions{Location: berlin})
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := spec.Next(utc(t, "2026-04-01T00:00:00Z")); !ok || !got.Equal(utc(t, want)) || got.Location() != berlin {
			t.Errorf("%s: next %v, want %s in Berlin", expression, got, want)
		}
	}
}

func TestEveryNext(t *testing.T) {
	anchor := utc(t, "2026-01-01T00:20:00Z")
	tests := []struct {
		name              string
		every             time.Duration
		anchor            time.Time
		after, next, prev string
	}{
		{"on the grid of the epoch", 15 * time.Minute, time.Time{}, "2026-03-01T10:07:00Z", "2026-03-01T10:15:00Z", "2026-03-01T10:00:00Z"},
		{"strictly after and strictly before", 15 * time.Minute, time.Time{}, "2026-03-01T10:15:00Z", "2026-03-01T10:30:00Z", "2026-03-01T10:00:00Z"},
		{"a nanosecond later", 15 * time.Minute, time.Time{}, "2026-03-01T10:15:00.000000001Z", "2026-03-01T10:30:00Z", "2026-03-01T10:15:00Z"},
		{"with an anchor", time.Hour, anchor, "2026-03-01T10:07:00Z", "2026-03-01T10:20:00Z", "2026-03-01T09:20:00Z"},
		{"before the anchor", time.Hour, anchor, "2025-03-01T10:07:00Z", "2025-03-01T10:20:00Z", "2025-03-01T09:20:00Z"},
		{"before the epoch", time.Hour, anchor, "1969-12-31T23:30:00Z", "1970-01-01T00:20:00Z", "1969-12-31T23:20:00Z"},
		{"a tenth of a second", MinInterval, time.Time{}, "2026-03-01T10:00:00.05Z", "2026-03-01T10:00:00.1Z", "2026-03-01T10:00:00Z"},
		{"clock changes do not touch it", 24 * time.Hour, time.Time{}, "2026-03-28T00:00:00Z", "2026-03-29T00:00:00Z", "2026-03-27T00:00:00Z"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec, err := newEvery("every", tt.every, tt.anchor, time.UTC)
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := spec.Next(utc(t, tt.after)); !ok || !got.Equal(utc(t, tt.next)) {
				t.Errorf("Next(%s) = %v, %v, want %s", tt.after, got, ok, tt.next)
			}
			if got, ok := spec.Prev(utc(t, tt.after)); !ok || !got.Equal(utc(t, tt.prev)) {
				t.Errorf("Prev(%s) = %v, %v, want %s", tt.after, got, ok, tt.prev)
			}
		})
	}
}

func TestSpecsAtTheEndsOfTime(t *testing.T) {
	far := []time.Time{{}, time.Unix(math.MinInt64/2, 0), time.Unix(math.MaxInt64/2, 0), time.UnixMilli(maxMillis), time.UnixMilli(minMillis)}
	longest := time.Duration(math.MaxInt64).Truncate(time.Millisecond)
	for _, text := range []string{"100ms", FormatDuration(longest), "once:2026-01-01T00:00:00Z", "@after 1h", "@daily | 5m"} {
		spec, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range far {
			if next, ok := spec.Next(at); ok && (!next.After(at) || next.UnixMilli() > maxMillis) {
				t.Errorf("%s: Next(%v) = %v", text, at, next)
			}
			if prev, ok := spec.Prev(at); ok && (!prev.Before(at) || prev.UnixMilli() < minMillis) {
				t.Errorf("%s: Prev(%v) = %v", text, at, prev)
			}
		}
	}
}

func TestAfter(t *testing.T) {
	spec, err := Parse("@after 10m")
	if err != nil {
		t.Fatal(err)
	}
	end := utc(t, "2026-03-01T10:07:13.0004Z")
	if got, ok := spec.Next(end); !ok || !got.Equal(utc(t, "2026-03-01T10:17:13.001Z")) {
		t.Errorf("Next(%v) = %v, %v, want ten minutes later, on a whole millisecond", end, got, ok)
	}
	if got, ok := spec.Prev(end); ok {
		t.Errorf("Prev = %v, want none", got)
	}
}

func TestUnionFiresEqualInstantsOnce(t *testing.T) {
	spec, err := Parse("0 * * * * | 30m | once:2026-03-01T10:10:00Z,2026-03-01T11:00:00Z")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	at := utc(t, "2026-03-01T10:00:00Z")
	for range 4 {
		at, _ = spec.Next(at)
		got = append(got, at.UTC().Format("15:04"))
	}
	if want := []string{"10:10", "10:30", "11:00", "11:30"}; !slices.Equal(got, want) {
		t.Errorf("fires at %v, want %v", got, want)
	}
	for i := len(got) - 2; i >= 0; i-- {
		if at, _ = spec.Prev(at); at.UTC().Format("15:04") != got[i] {
			t.Errorf("Prev = %v, want %s", at, got[i])
		}
	}
}

// drawSpec makes a spec that fires now and then around the year 2026.
func drawSpec(t *rapid.T) string {
	one := rapid.OneOf(
		rapid.SampledFrom([]string{"@hourly", "*/7 * * * *", "30 2 * * *", "0 0 29 2 *", "15 1,2 * * 0", "*/20 * * * * *", "0 12 L * *"}),
		rapid.Map(rapid.IntRange(100, 100_000_000), func(ms int) string { return FormatDuration(time.Duration(ms) * time.Millisecond) }),
		rapid.Map(rapid.Int64Range(0, 4e10), func(ms int64) string { return "once:" + formatInstant(time.UnixMilli(1767225600000+ms)) }),
	)
	text := one.Draw(t, "spec")
	if rapid.IntRange(0, 3).Draw(t, "union") == 0 {
		text += " | " + one.Draw(t, "other")
	}
	return text
}

func TestNextAndPrevAgree(t *testing.T) {
	zones := []*time.Location{time.UTC, mustZone(t, "Europe/Berlin"), mustZone(t, "America/Santiago"), mustZone(t, "Australia/Lord_Howe")}
	rapid.Check(t, func(t *rapid.T) {
		text := drawSpec(t)
		spec, err := ParseWith(text, CronOptions{Location: rapid.SampledFrom(zones).Draw(t, "zone")})
		if err != nil {
			t.Fatal(err)
		}
		at := time.UnixMilli(1767225600000 + rapid.Int64Range(0, 4e10).Draw(t, "at")).Add(time.Duration(rapid.IntRange(0, 999999).Draw(t, "nanos")))
		next, ok := spec.Next(at)
		if !ok {
			return
		}
		if !next.After(at) || next.UnixNano()%1e6 != 0 {
			t.Fatalf("%s: Next(%v) = %v", text, at, next)
		}
		if again, ok := spec.Next(next.Add(-time.Millisecond)); !ok || !again.Equal(next) {
			t.Fatalf("%s: Next just before %v = %v", text, next, again)
		}
		prev, ok := spec.Prev(next)
		if ok && prev.After(at) {
			t.Fatalf("%s: Prev(%v) = %v, later than %v", text, next, prev, at)
		}
		if second, some := spec.Next(next); some {
			if back, ok := spec.Prev(second); !ok || !back.Equal(next) {
				t.Fatalf("%s: Prev(Next(%v)) = %v", text, next, back)
			}
		}
	})
}

func TestCountsAreWhatEnumerationGives(t *testing.T) {
	zones := []*time.Location{time.UTC, mustZone(t, "Europe/Berlin"), mustZone(t, "America/Santiago"), mustZone(t, "Australia/Lord_Howe")}
	rapid.Check(t, func(t *rapid.T) {
		text := drawSpec(t)
		spec, err := ParseWith(text, CronOptions{Location: rapid.SampledFrom(zones).Draw(t, "zone")})
		if err != nil {
			t.Fatal(err)
		}
		first := 1767225600000 + rapid.Int64Range(0, 3e10).Draw(t, "first")
		at, want := time.UnixMilli(first-1), int64(0)
		last := first + rapid.Int64Range(-1, 1e10).Draw(t, "span")
		for want < 2000 {
			next, ok := spec.Next(at)
			if !ok || next.UnixMilli() > last {
				break
			}
			want++
			at = next
		}
		if want == 2000 {
			last = at.UnixMilli()
		}
		if got, ok := countSpec(spec, first, last); !ok || got != want {
			t.Fatalf("%s: %d from %d to %d (%v), want %d", text, got, first, last, ok, want)
		}
	})
}
