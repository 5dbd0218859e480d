package schedule

import (
	"fmt"
	"math/bits"
	"strings"
)

// fields parses the canonical text again: an explanation needs to know how a
// field is written, which Next does not.
func (c *cronSpec) fields() *cronItems {
	items, err := parseCronWords(strings.Fields(c.text), "", nil)
	if err != nil {
		panic("schedule: the canonical form of a cron expression does not parse: " + err.Error())
	}
	return &items
}

func (c *cronSpec) explain() string {
	items := c.fields()
	text := c.explainTime(items)
	days := c.explainDays(items)
	if days == "" && strings.HasPrefix(text, "At ") && !strings.HasPrefix(text, "At minute") && !strings.HasPrefix(text, "At second") {
		days = " every day"
	}
	text += days
	if bits.OnesCount16(c.months) < 12 {
		text += ", in " + c.monthWords()
	}
	if !c.anyYear {
		text += ", in the " + c.yearWords()
	}
	text += ", " + c.location.String()
	if reason, _, never := neverFires(c); never {
		text += " (never: " + reason + ")"
	}
	return text
}

// maxTimes is how many times of day are listed rather than described.
const maxTimes = 6

func (c *cronSpec) explainTime(items *cronItems) string {
	second, minute, hour := items.lists[fieldSecond], items.lists[fieldMinute], items.lists[fieldHour]
	oneMinute := bits.OnesCount64(c.minutes) == 1 && bits.OnesCount64(c.seconds) == 1
	switch {
	case oneMinute && len(hour) == 1 && c.explainHours(hour[0]) != "":
		return c.explainHours(hour[0])
	case c.perDay <= maxTimes:
		return "At " + joinWords(c.times(), "and")
	}
	var parts []string
	if c.seconds != 1 {
		parts = append(parts, stepWords(&cronFields[fieldSecond], second, c.seconds, "second", true))
	}
	if len(parts) == 0 || !bare(minute) {
		parts = append(parts, stepWords(&cronFields[fieldMinute], minute, c.minutes, "minute", len(parts) == 0))
	}
	text := strings.Join(parts, " of ")
	if len(parts) == 2 {
		text = strings.Replace(text, " of at ", " of ", 1)
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	switch {
	case !c.everyHour && len(hour) == 1 && hour[0].step > 1 && c.hourStep(hour[0]) != "":
		text += " in " + c.hourStep(hour[0])
	case !c.everyHour:
		text += " in the " + hourWords(c.hours)
	case !bare(minute) && strings.HasPrefix(parts[len(parts)-1], "at "):
		text += " of every hour"
	}
	return text
}

// hourWords lists hours.
func hourWords(hours uint32) string {
	unit := "hour "
	if bits.OnesCount32(hours) > 1 {
		unit = "hours "
	}
	return unit + runWords(uint64(hours), twoDigits)
}

// explainHours describes one minute of hours that follow a pattern.
func (c *cronSpec) explainHours(hour cronItem) string {
	first, last := clockWords(c.early), clockWords(c.late)
	offset := ""
	if c.early%3600 != 0 {
		offset = " at minute " + clockWords(c.early % 3600)[3:]
	}
	switch {
	case hour.star && hour.step <= 1:
		return "Every hour" + offset
	case hour.star && 24%hour.step == 0 && 24/hour.step > 2:
		return fmt.Sprintf("Every %d hours from %s", hour.step, first)
	case hour.ranged && hour.step <= 1 && hour.from < hour.to && hour.to-hour.from >= maxTimes/2:
		return "Every hour from " + first + " to " + last
	}
	return ""
}

// hourStep describes every n-th hour; "" if listing them is clearer.
func (c *cronSpec) hourStep(hour cronItem) string {
	if bits.OnesCount32(c.hours) <= 4 || hour.ranged && hour.to < hour.from {
		return ""
	}
	return fmt.Sprintf("every %s hour from %s to %s", ordinal(hour.step), twoDigits(int(c.early/3600)), twoDigits(int(c.late/3600)))
}

// times lists the times of day.
func (c *cronSpec) times() []string {
	var list []string
	for sod := c.early; ; sod = c.cronTimes.from(sod + 1) {
		list = append(list, clockWords(sod))
		if sod == c.late {
			return list
		}
	}
}

// clockWords writes seconds since 00:00 as 02:30, or 02:30:15.
func clockWords(sod int64) string {
	text := twoDigits(int(sod/3600)) + ":" + twoDigits(int(sod/60%60))
	if sod%60 != 0 {
		text += ":" + twoDigits(int(sod%60))
	}
	return text
}

func twoDigits(n int) string { return fmt.Sprintf("%02d", n) }

// stepWords describes a second or minute field: "every 5 minutes", "every 7th
// minute from 0 to 56", "minutes 10 to 20", "at minutes 0 and 30". Without
// interval it avoids the first form, which says a distance and no minutes.
func stepWords(f *cronField, list []cronItem, set uint64, unit string, interval bool) string {
	item := list[0]
	count := bits.OnesCount64(set)
	switch {
	case count == f.size():
		return "every " + unit
	case count == 1:
		return "at " + unit + " " + runWords(set, bareNumber)
	case len(list) > 1 || item.step <= 1 || item.ranged && item.to < item.from || count == 2:
		return "at " + unit + "s " + runWords(set, bareNumber)
	}
	first, last := bits.TrailingZeros64(set), 63-bits.LeadingZeros64(set)
	if interval && f.size()%item.step == 0 && count == f.size()/item.step {
		text := fmt.Sprintf("every %d %ss", item.step, unit)
		if first > 0 {
			text += fmt.Sprintf(" from %s %d", unit, first)
		}
		return text
	}
	return fmt.Sprintf("every %s %s from %d to %d", ordinal(item.step), unit, first, last)
}

func bareNumber(n int) string { return fmt.Sprint(n) }

// runWords lists the values of a set, three and more in a row as a range.
func runWords(set uint64, word func(int) string) string {
	var words []string
	for set != 0 {
		first := bits.TrailingZeros64(set)
		length := bits.TrailingZeros64(^(set >> first))
		if length < 3 {
			words = append(words, word(first))
			set &^= 1 << first
			continue
		}
		words = append(words, word(first)+" to "+word(first+length-1))
		set &^= (1<<length - 1) << first
	}
	return joinWords(words, "and")
}
