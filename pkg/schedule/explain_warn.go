package schedule

import (
	"fmt"
	"math/bits"
	"strings"
	"time"
)

func (c *cronSpec) warnings() []string {
	if reason, hint, never := neverFires(c); never {
		if hint != "" {
			reason += " (" + hint + ")"
		}
		return []string{"it never runs: " + reason}
	}
	items := c.fields()
	var warnings []string
	add := func(text string) {
		if text != "" {
			warnings = append(warnings, text)
		}
	}
	if !c.anyDay && !c.anyWeekday && !c.both {
		add("day-of-month and day-of-week are both restricted: it runs when either matches, on " +
			c.dayWords(items) + " and also on " + c.weekdayWords() + "; write + in front of day-of-week to ask for both")
	}
	add(c.warnEvery(items))
	add(c.warnShortMonths(items))
	add(c.warnClockChanges())
	return warnings
}

// warnEvery is about * left of a fixed hour or minute.
func (c *cronSpec) warnEvery(items *cronItems) string {
	second, minute := items.lists[fieldSecond], items.lists[fieldMinute]
	once := strings.Fields(c.text)
	if items.count > 5 {
		once[0] = "0"
	}
	switch {
	case bare(minute) && !c.everyHour:
		once[min(items.count-5, 1)] = "0"
		return fmt.Sprintf("it runs every minute of the %s, %s a day; for the full hour only write %s",
			hourWords(c.hours), plural(c.perDay, "time"), strings.Join(once, " "))
	case bare(second) && bits.OnesCount64(c.minutes) < 60:
		return fmt.Sprintf("it runs every second of a minute, %s a day; for once a minute write %s",
			plural(c.perDay, "time"), strings.Join(once, " "))
	}
	return ""
}

// warnShortMonths is about days that some of the allowed months lack.
func (c *cronSpec) warnShortMonths(items *cronItems) string {
	if c.anyDay {
		return ""
	}
	longest := 0
	for _, item := range items.lists[fieldDay] {
		switch {
		case item.kind == itemNearest, item.kind == itemRange && !item.star && !item.ranged && !item.open:
			longest = max(longest, item.from)
		case item.kind == itemLast, item.kind == itemNearestLast:
			longest = max(longest, item.from+1)
		}
	}
	var months []string
	for month := 1; month <= 12; month++ {
		if c.months&(1<<month) != 0 && monthLength(2001, month) < longest {
			name := time.Month(month).String()
			if month == 2 && longest == 29 {
				name += " except in leap years"
			}
			months = append(months, name)
		}
	}
	if len(months) == 0 {
		return ""
	}
	return fmt.Sprintf("months of fewer than %d days are left out (%s); the last day of every month is L, the first is 1",
		longest, joinWords(months, "and"))
}

// referenceYear is from when on the rules of a zone are looked at for
// warnings, which know no present. Dates are for ClockChanges.
const referenceYear = 2030

// warnClockChanges is about times that the zone's clock changes skip or repeat.
func (c *cronSpec) warnClockChanges() string {
	var texts []string
	var forward, back bool
	for _, change := range c.clockChanges(time.Date(referenceYear, 1, 1, 0, 0, 0, 0, time.UTC), 8) {
		from, at := change.clocks()
		switch {
		case change.Missing > 0 && change.Moved && !forward:
			forward = true
			texts = append(texts, fmt.Sprintf("when clocks go forward from %s to %s, what is due in between runs once, at %s", from, at, at))
		case change.Repeated > 0 && !back:
			back = true
			how := "once, at the first pass"
			if change.Twice {
				how = "in both passes"
			}
			texts = append(texts, fmt.Sprintf("when clocks go back from %s to %s, what is due in between runs %s", from, at, how))
		}
	}
	if len(texts) == 0 || c.interval && c.everyHour {
		return "" // an every-hour job goes by real time, as anybody expects
	}
	return strings.Join(texts, "; ") + " (" + c.location.String() + ")"
}
