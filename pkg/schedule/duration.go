package schedule

import (
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

const (
	oneDay  = 24 * time.Hour
	oneWeek = 7 * oneDay
)

// durationAllowed is what every error about a duration says.
const durationAllowed = `a duration from 0 to 106751d such as "500ms", "90s", "1h30m", "2d", "1w" or ISO 8601 "P1DT2H"`

// A durationUnit is a unit and its length in nanoseconds.
type durationUnit struct {
	name   string
	length time.Duration
}

// goUnits are the units of the Go form, from large to small.
var goUnits = []durationUnit{
	{"w", oneWeek}, {"d", oneDay}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second},
	{"ms", time.Millisecond}, {"us", time.Microsecond}, {"µs", time.Microsecond}, {"μs", time.Microsecond},
	{"ns", time.Nanosecond},
}

// ParseDuration reads a duration in Go's form, with d for 24 hours and w for 7
// days as further units ("1h30m", "1.5s", "2d"), or in the ISO 8601 form with
// weeks, or with days, hours, minutes and seconds ("P2W", "P1DT2H30M"). A
// unit appears at most once, larger ones first. It returns a *FieldError for
// anything else: signs, months and years (their length varies), numbers
// without a unit, fractions finer than a nanosecond and overflow. Nothing is
// rounded.
func ParseDuration(text string) (time.Duration, error) {
	if text == "0" {
		return 0, nil
	}
	total, hint := time.Duration(0), ""
	if strings.HasPrefix(text, "P") {
		total, hint = parseISO(text[1:])
	} else {
		total, hint = parseGo(text)
	}
	if hint != "" {
		return 0, &FieldError{Field: "duration", Value: text, Allowed: durationAllowed, Hint: hint}
	}
	return total, nil
}

// parseGo reads Go's form with d and w. A hint that is not empty is an error.
func parseGo(text string) (total time.Duration, hint string) {
	if text == "" {
		return 0, "it is empty"
	}
	if text[0] == '-' || text[0] == '+' {
		return 0, "no sign: a duration here is never negative"
	}
	largest := time.Duration(math.MaxInt64)
	for text != "" {
		number, rest := cutNumber(text)
		unit, rest := cutUnit(rest)
		length := unitLength(unit)
		if hint := unitProblem(number, unit, length, largest); hint != "" {
			return 0, hint
		}
		value, ok := scale(number, length)
		if ok {
			total, ok = addDuration(total, value)
		}
		if !ok {
			return 0, number + unit + " overflows or is finer than a nanosecond"
		}
		text, largest = rest, length
	}
	return total, ""
}

// unitProblem says what is wrong with one number and its unit, or "".
func unitProblem(number, unit string, length, largest time.Duration) string {
	switch {
	case number == "":
		return "a number is missing"
	case unit == "":
		return "a unit is missing after " + number
	case unit == "M" || unit == "mo" || unit == "y" || unit == "Y":
		return "months and years have no fixed length; use a cron expression"
	case length == 0:
		return strconv.QuoteToASCII(unit) + " is not a unit"
	case length >= largest:
		return "each unit once, larger ones first"
	}
	return ""
}

// parseISO reads what follows the P of the ISO 8601 form.
func parseISO(text string) (total time.Duration, hint string) {
	date, clock, hasClock := strings.Cut(text, "T")
	if date == "" && !hasClock || hasClock && clock == "" {
		return 0, "a part is missing"
	}
	units := []durationUnit{{"W", oneWeek}, {"D", oneDay}}
	for range 2 {
		for date != "" {
			number, rest := cutNumber(date)
			at := 0
			for at < len(units) && !strings.HasPrefix(rest, units[at].name) {
				at++
			}
			if at == len(units) {
				return 0, isoProblem(rest)
			}
			if !isoNumber(number, units[at].name) {
				return 0, "only seconds may have a fraction"
			}
			value, ok := scale(number, units[at].length)
			if ok {
				total, ok = addDuration(total, value)
			}
			if !ok {
				return 0, "it overflows or is finer than a nanosecond"
			}
			weeks := units[at].name == "W"
			if date, units = rest[1:], units[at+1:]; weeks && (date != "" || hasClock) {
				return 0, "weeks stand alone"
			}
		}
		date, units = clock, []durationUnit{{"H", time.Hour}, {"M", time.Minute}, {"S", time.Second}}
	}
	return total, ""
}

// isoProblem says why no unit of the ISO form fits.
func isoProblem(rest string) string {
	if strings.HasPrefix(rest, "Y") || strings.HasPrefix(rest, "M") {
		return "months and years have no fixed length; use a cron expression"
	}
	return "units are W, or D, H, M and S in this order, once each"
}

func isoNumber(number, unit string) bool {
	return number != "" && (unit == "S" || !strings.Contains(number, "."))
}

// cutNumber splits off leading digits with at most one point inside.
func cutNumber(s string) (number, rest string) {
	i, point := 0, false
	for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '.' && !point) {
		point = point || s[i] == '.'
		i++
	}
	number = s[:i]
	if strings.HasPrefix(number, ".") || strings.HasSuffix(number, ".") {
		return "", s
	}
	return number, s[i:]
}

// cutUnit splits off everything up to the next digit.
func cutUnit(s string) (unit, rest string) {
	i := strings.IndexAny(s, "0123456789.")
	if i < 0 {
		i = len(s)
	}
	return s[:i], s[i:]
}

func unitLength(name string) time.Duration {
	for _, u := range goUnits {
		if u.name == name {
			return u.length
		}
	}
	return 0
}

// scale multiplies a decimal number by a unit. It is exact, or not ok.
func scale(number string, unit time.Duration) (time.Duration, bool) {
	whole, fraction, _ := strings.Cut(number, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n > math.MaxInt64/int64(unit) {
		return 0, false
	}
	total := time.Duration(n) * unit
	fraction = strings.TrimRight(fraction, "0")
	if fraction == "" {
		return total, true
	}
	if len(fraction) > 18 {
		return 0, false
	}
	numerator, err := strconv.ParseUint(fraction, 10, 64)
	if err != nil {
		return 0, false
	}
	denominator := uint64(1)
	for range len(fraction) {
		denominator *= 10
	}
	hi, lo := bits.Mul64(numerator, uint64(unit))
	part, remainder := bits.Div64(hi, lo, denominator) // hi < denominator, because numerator < denominator and unit < 2^64
	if remainder != 0 {
		return 0, false
	}
	return addDuration(total, time.Duration(part))
}

func addDuration(a, b time.Duration) (time.Duration, bool) {
	if a > math.MaxInt64-b {
		return 0, false
	}
	return a + b, true
}

// FormatDuration prints a duration in the shortest exact form that
// [ParseDuration] reads back as the same value: "1h30m", "2d", "1w", "0s".
// Weeks are used only for whole weeks. A negative duration, which ParseDuration
// refuses, has a leading minus sign.
func FormatDuration(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	var b strings.Builder
	rest := uint64(d)
	if d < 0 {
		b.WriteByte('-')
		rest = -rest // exact even for the smallest value, which has no positive int64
	}
	if rest%uint64(oneWeek) == 0 {
		return b.String() + strconv.FormatUint(rest/uint64(oneWeek), 10) + "w"
	}
	for _, u := range goUnits[1:] {
		if n := rest / uint64(u.length); n > 0 {
			b.WriteString(strconv.FormatUint(n, 10))
			b.WriteString(u.name)
			rest %= uint64(u.length)
		}
	}
	return b.String()
}
