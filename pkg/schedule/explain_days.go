package schedule

import (
	"fmt"
	"math/bits"
	"time"
)

// explainDays describes the two day fields, with a leading blank; "" if
// neither restricts.
func (c *cronSpec) explainDays(items *cronItems) string {
	switch {
	case c.anyDay && c.anyWeekday:
		return ""
	case c.anyWeekday:
		return " on " + c.dayWords(items)
	case c.anyDay:
		return " on " + c.weekdayWords()
	case c.both:
		return " on " + c.dayWords(items) + ", but only on " + c.weekdayWords()
	}
	return " on " + c.dayWords(items) + " and also on " + c.weekdayWords()
}

// dayWords describes day-of-month.
func (c *cronSpec) dayWords(items *cronItems) string {
	var words []string
	if list := items.lists[fieldDay]; len(list) == 1 && list[0].step > 1 && !(list[0].ranged && list[0].to < list[0].from) {
		first, last := bits.TrailingZeros32(c.days), 31-bits.LeadingZeros32(c.days)
		if bits.OnesCount32(c.days) > 2 {
			return fmt.Sprintf("every %s day from the %s to the %s", ordinal(list[0].step), ordinal(first), ordinal(last))
		}
	}
	if c.days != 0 {
		words = append(words, "the "+runWords(uint64(c.days), ordinal))
	}
	for set := c.nearest; set != 0; set &= set - 1 {
		words = append(words, "the weekday nearest to the "+ordinal(bits.TrailingZeros32(set)))
	}
	for set := c.fromLast; set != 0; set &= set - 1 {
		words = append(words, "the "+fromLastWords(bits.TrailingZeros32(set)))
	}
	for set := c.nearestLast; set != 0; set &= set - 1 {
		n := bits.TrailingZeros32(set)
		if n == 0 {
			// The nearest weekday that does not leave the month is the last.
			words = append(words, "the last weekday of the month")
			continue
		}
		words = append(words, "the weekday nearest to the "+fromLastWords(n))
	}
	return joinWords(words, "and")
}

func fromLastWords(n int) string {
	switch n {
	case 0:
		return "last day of the month"
	case 1:
		return "day before the last day of the month"
	}
	return ordinal(n) + " day before the last day of the month"
}

// weekdayWords describes day-of-week.
func (c *cronSpec) weekdayWords() string {
	var words []string
	switch c.weekdays {
	case 0:
	case 0b0111110:
		words = append(words, "weekdays")
	case 0b1000001:
		words = append(words, "weekends")
	case 0b1111111:
		words = append(words, "every day of the week")
	default:
		var days []string
		for i := range 7 {
			// A week begins on Monday here, so that ranges of days read well.
			if day := (i + 1) % 7; c.weekdays&(1<<day) != 0 {
				days = append(days, time.Weekday(day).String())
			}
		}
		words = append(words, joinWords(days, "and"))
	}
	for n := 1; n <= 6; n++ {
		which := n % 6 // the last one comes last
		for i := range 7 {
			day := (i + 1) % 7
			if c.nth[day]&(1<<which) == 0 {
				continue
			}
			name := [...]string{"last", "first", "second", "third", "fourth", "fifth"}[which]
			words = append(words, "the "+name+" "+time.Weekday(day).String()+" of the month")
		}
	}
	return joinWords(words, "and")
}

func (c *cronSpec) monthWords() string {
	return runWords(uint64(c.months), func(month int) string { return time.Month(month).String() })
}

func (c *cronSpec) yearWords() string {
	var words []string
	for year := c.yearFrom(minCronYear); year <= maxCronYear; {
		end := year
		for end < maxCronYear && c.yearAllowed(end+1) {
			end++
		}
		if end-year < 2 {
			end = year
		}
		words = append(words, fmt.Sprint(year))
		if end > year {
			words[len(words)-1] += fmt.Sprintf(" to %d", end)
		}
		year = c.yearFrom(end + 1)
	}
	if len(words) == 1 && bits.OnesCount64(c.years[0])+bits.OnesCount64(c.years[1])+bits.OnesCount64(c.years[2]) == 1 {
		return "year " + words[0]
	}
	return "years " + joinWords(words, "and")
}

// matchesEveryDay reports whether the date fields restrict nothing, however
// they are written.
func (c *cronSpec) matchesEveryDay() bool {
	if c.everyDay {
		return true
	}
	if !c.anyYear || bits.OnesCount16(c.months) < 12 {
		return false
	}
	for length := 28; length <= 31; length++ {
		for first := range 7 {
			if c.match(length, first) != uint32(1)<<(length+1)-2 {
				return false
			}
		}
	}
	return true
}
