package schedule

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseDuration(t *testing.T) {
	tests := []struct {
		name, text string
		want       time.Duration
	}{
		{"zero without a unit", "0", 0},
		{"zero with a unit", "0s", 0},
		{"milliseconds", "500ms", 500 * time.Millisecond},
		{"several units", "1h30m", 90 * time.Minute},
		{"a fraction", "1.5s", 1500 * time.Millisecond},
		{"a day is 24 hours", "1d", 24 * time.Hour},
		{"a week is 7 days", "2w", 14 * 24 * time.Hour},
		{"every unit", "1w1d1h1m1s1ms1us1ns", 8*24*time.Hour + time.Hour + time.Minute + time.Second + time.Millisecond + time.Microsecond + 1},
		{"the other micro sign", "3µs", 3000},
		{"half a day", "0.5d", 12 * time.Hour},
		{"the largest", "9223372036854775807ns", math.MaxInt64},
		{"ISO days and hours", "P1DT2H", 26 * time.Hour},
		{"ISO minutes and seconds", "PT5M30.5S", 5*time.Minute + 30500*time.Millisecond},
		{"ISO weeks", "P2W", 14 * 24 * time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseDuration(tt.text)
			if err != nil || got != tt.want {
				t.Errorf("ParseDuration(%q) = %v, %v, want %v", tt.text, got, err, tt.want)
			}
		})
	}
}

func TestParseDurationRefuses(t *testing.T) {
	tests := []struct{ name, text string }{
		{"nothing", ""},
		{"no unit", "90"},
		{"no number", "s"},
		{"a minus sign", "-5s"},
		{"a plus sign", "+5s"},
		{"a unit in capitals", "5M"},
		{"months", "1mo"},
		{"years", "1y"},
		{"ISO months", "P1M"},
		{"ISO years", "P1Y"},
		{"ISO months among others", "P1M2D"},
		{"ISO weeks with days", "P1W2D"},
		{"ISO weeks with a time", "P1WT1H"},
		{"ISO without parts", "P"},
		{"ISO with an empty time", "P1DT"},
		{"ISO fraction of an hour", "PT1.5H"},
		{"ISO out of order", "PT1S1M"},
		{"ISO days in the time", "PT1D"},
		{"ISO negative", "-PT1S"},
		{"a unit twice", "1h1h"},
		{"smaller units first", "1m1h"},
		{"spaces", "1h 30m"},
		{"two points", "1.2.3s"},
		{"a bare point", ".5s"},
		{"finer than a nanosecond", "0.5ns"},
		{"overflow", "106752d"},
		{"overflow of the sum", "106751d24h"},
		{"overflow of the number", "99999999999999999999h"},
		{"a word", "soon"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseDuration(tt.text)
			var field *FieldError
			if !errors.As(err, &field) || field.Value != tt.text || field.Allowed == "" {
				t.Errorf("ParseDuration(%q) = %v, %v, want a *FieldError", tt.text, got, err)
			}
		})
	}
}

func TestFormatDuration(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0s": 0, "1m30s": 90 * time.Second, "1d12h": 36 * time.Hour, "1w": 7 * 24 * time.Hour, "10d": 240 * time.Hour,
		"1s500ms": 1500 * time.Millisecond, "1us1ns": 1001, "-2h": -2 * time.Hour,
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("FormatDuration(%d) = %q, want %q", d, got, want)
		}
	}
	if got := FormatDuration(math.MinInt64); got != "-106751d23h47m16s854ms775us808ns" {
		t.Errorf("FormatDuration(smallest) = %q", got)
	}
}

func TestDurationRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "d")) /
			rapid.SampledFrom([]time.Duration{1, time.Millisecond, time.Hour}).Draw(t, "scale")
		if got, err := ParseDuration(FormatDuration(d)); err != nil || got != d {
			t.Fatalf("ParseDuration(%q) = %d, %v, want %d", FormatDuration(d), got, err, d)
		}
	})
}

func FuzzParseDuration(f *testing.F) {
	for _, seed := range []string{"1h30m", "P1DT2H30M0.5S", "P2W", "1w2d", "0.25s", "9223372036854775807ns", "1.", "PT", "1mo"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		if err != nil {
			return
		}
		printed := FormatDuration(d)
		again, err := ParseDuration(printed)
		if err != nil || again != d || d < 0 {
			t.Errorf("%q is %d, printed %q, which is %d, %v", text, d, printed, again, err)
		}
		// What Go accepts as well must mean the same.
		if standard, err := time.ParseDuration(text); err == nil && standard != d {
			t.Errorf("%q is %d, but %d for package time", text, d, standard)
		}
	})
}
