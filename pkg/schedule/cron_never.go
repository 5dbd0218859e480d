package schedule

import (
	"math/bits"
	"strings"
	"time"
)

// neverFires says why a spec has no scheduled time in any year, such as
// "February has at most 29 days" for "0 0 30 2 *", with a hint at what was
// probably meant ("" if nothing suggests itself). It is false for a spec whose
// scheduled times merely have passed.
func neverFires(spec Spec) (reason, hint string, never bool) {
	c, ok := spec.(*cronSpec)
	if !ok || !c.never {
		return "", "", false
	}
	reason, hint = c.whyNever()
	return reason, hint, true
}

// dateless reports whether no day of the calendar matches. Without a year field
// it looks at every kind of month instead of years: in 400 years each begins on
// every weekday.
func (d *cronDates) dateless() bool {
	if d.anyYear {
		return d.monthless()
	}
	for year := int64(minCronYear); year <= maxCronYear; year++ {
		if !d.yearAllowed(year) {
			continue
		}
		for months := d.months; months != 0; months &= months - 1 {
			if d.month(year, bits.TrailingZeros16(months)) != 0 {
				return false
			}
		}
	}
	return true
}

// monthless reports whether no month of any year has a matching day.
func (d *cronDates) monthless() bool {
	for months := d.months; months != 0; months &= months - 1 {
		month := bits.TrailingZeros16(months)
		for first := range 7 {
			if d.match(monthLength(2000, month), first)|d.match(monthLength(2001, month), first) != 0 {
				return false
			}
		}
	}
	return true
}

func (c *cronSpec) whyNever() (reason, hint string) {
	longest := 0
	var names []string
	for month := 1; month <= 12; month++ {
		if c.months&(1<<month) != 0 {
			longest = max(longest, monthLength(2000, month))
			names = append(names, time.Month(month).String())
		}
	}
	// The lowest day that is asked for, whatever the length of the month.
	lowest := min(bits.TrailingZeros32(c.days|c.nearest), bits.TrailingZeros32(c.fromLast|c.nearestLast)+1)
	if !c.anyDay && lowest > longest {
		verb := " has at most "
		if len(names) > 1 {
			verb = " have at most "
		}
		return joinWords(names, "and") + verb + plural(int64(longest), "day"), c.lastDayHint()
	}
	withoutYear := c.cronDates
	withoutYear.anyYear = true
	switch {
	case !c.anyYear && !withoutYear.dateless():
		return "none of the allowed years has such a date", ""
	case c.both:
		return "day-of-month and day-of-week never match the same date", "without the + either of them is enough"
	}
	return "no date of the calendar matches", ""
}

// lastDayHint proposes the last day of the month.
func (c *cronSpec) lastDayHint() string {
	words := strings.Fields(c.text)
	day := len(words) - 3
	if len(words) == 7 {
		day--
	}
	words[day] = "L"
	return "did you mean " + strings.Join(words, " ") + "?"
}
