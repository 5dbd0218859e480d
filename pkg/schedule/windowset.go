package schedule

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// maxDates bounds the dates, weekly or cron windows in one list.
const maxDates = 1000

// dateSet holds whole civil dates.
type dateSet struct{ days intervals } // in milliseconds, whole days

// newDateSet reads "2026-12-25" and "2026-12-24..2026-12-26" (both ends
// inclusive).
func newDateSet(field string, texts []string) (wallSet, error) {
	if len(texts) == 0 || len(texts) > maxDates {
		return nil, &FieldError{Field: field, Value: itoa(len(texts)) + " dates", Allowed: "1 to " + itoa(maxDates) + " dates"}
	}
	all := make([][2]int64, 0, len(texts))
	for i, text := range texts {
		first, last, isRange := strings.Cut(text, "..")
		if !isRange {
			last = first
		}
		from, err1 := time.Parse(time.DateOnly, first)
		to, err2 := time.Parse(time.DateOnly, last)
		if err1 != nil || err2 != nil || to.Before(from) || from.Year() < 1 {
			return nil, &FieldError{Field: indexed(field, i), Value: text,
				Allowed: `a date "2026-12-25" or a range of dates "2026-12-24..2026-12-26", both inclusive`}
		}
		all = append(all, [2]int64{from.UnixMilli(), to.UnixMilli() + dayMillis})
	}
	return dateSet{days: newIntervals(all)}, nil
}

func (s dateSet) span(wall int64, steps *int) (bool, int64, int64) {
	*steps++
	return s.days.span(wall)
}

func (s dateSet) key() string { return fmt.Sprint("dates ", s.days) }

// weeklySet holds the same stretches of every week.
type weeklySet struct {
	inWeek intervals // milliseconds after Sunday 00:00, inside [0, weekMillis)
}

// maxWeekly bounds the text of a weekly window, in bytes.
const maxWeekly = 64

// newWeeklySet reads "Sat 00:00-Mon 06:00": from inclusive, to exclusive. The
// end may lie in the next week; 24:00 ends a day; equal ends are refused.
func newWeeklySet(field, text string) (wallSet, error) {
	fail := func(hint string) (wallSet, error) {
		return nil, &FieldError{Field: field, Value: text, Allowed: `weekday HH:MM-weekday HH:MM, such as "Sat 00:00-Mon 06:00"`, Hint: hint}
	}
	start, end, found := strings.Cut(text, "-")
	from, ok1 := parseWeekTime(start)
	to, ok2 := parseWeekTime(end)
	if len(text) > maxWeekly || !found || !ok1 || !ok2 || from == weekMillis {
		return fail("")
	}
	switch {
	case from == to:
		return fail("it begins and ends at the same time")
	case from == 0 && to == weekMillis:
		return fail("it covers the whole week")
	case from < to:
		return weeklySet{newIntervals([][2]int64{{from, to}})}, nil
	case to == 0:
		return weeklySet{newIntervals([][2]int64{{from, weekMillis}})}, nil
	}
	return weeklySet{newIntervals([][2]int64{{from, weekMillis}, {0, to}})}, nil
}

// parseWeekTime reads "Sat 00:00" as milliseconds after Sunday 00:00. 24:00 is
// the end of the day.
func parseWeekTime(text string) (int64, bool) {
	words := strings.Fields(strings.ToLower(text))
	if len(words) != 2 {
		return 0, false
	}
	weekday, ok := parseWeekday(words[0])
	if !ok {
		return 0, false
	}
	clock, ok := int64(dayMillis), true
	if words[1] != "24:00" {
		clock, ok = parseClock(words[1])
	}
	return int64(weekday)*dayMillis + clock, ok
}

func (s weeklySet) span(wall int64, steps *int) (inside bool, from, to int64) {
	*steps++
	const sunday = 3 * dayMillis // 1970-01-04
	weekStart := floorDiv(wall-sunday, weekMillis)*weekMillis + sunday
	inside, from, to = s.inWeek.span(wall - weekStart)
	return inside, max(from, 0) + weekStart, min(to, weekMillis) + weekStart
}

func (s weeklySet) key() string { return fmt.Sprint("weekly ", s.inWeek) }

// indexed names an element of a list in errors.
func indexed(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }

// matchSet holds every wall time that a cron expression matches: whole minutes
// with five fields, single seconds with six or seven. Rule R has no part in
// it: a window is open whenever the clock on the wall says so.
type matchSet struct {
	cron *cronSpec
	unit int64 // seconds: 60 or 1
	step int64 // seconds: the set is a union of blocks of this length, aligned to it
}

// newMatchSet reads a cron expression as a window.
func newMatchSet(field, text string, options CronOptions) (wallSet, *time.Location, error) {
	spec, err := ParseCronWith(text, options)
	if err != nil {
		return nil, nil, inCronField(err, field)
	}
	cron, ok := spec.(*cronSpec)
	if !ok {
		return nil, nil, &FieldError{Field: field, Value: text, Allowed: "a cron expression of 5 to 7 fields"}
	}
	set := matchSet{cron: cron, unit: 60}
	if len(strings.Fields(cron.text)) > 5 {
		set.unit = 1
	}
	set.step = set.unit
	const all60, all24 = 1<<60 - 1, 1<<24 - 1
	if set.unit == 60 || cron.seconds == all60 {
		set.step = 60
		if cron.minutes == all60 {
			set.step = 3600
			if cron.hours == all24 {
				set.step = secondsPerDay
			}
		}
	}
	return set, cron.location, nil
}

// maxBlocks bounds how many blocks one span joins in each direction.
const maxBlocks = 64

func (s matchSet) span(wall int64, steps *int) (inside bool, from, to int64) {
	at := floorDiv(wall, s.unit*1000) * s.unit
	if !s.holds(at, steps) {
		from, to = math.MinInt64, math.MaxInt64
		if next, ok := s.cron.wallFrom(at, steps); ok {
			to = next * 1000
		}
		if last, ok := s.cron.wallUntil(at, steps); ok {
			from = (last + s.unit) * 1000
		}
		return false, from, to
	}
	first := floorDiv(at, s.step) * s.step
	last := first
	for n := 0; n < maxBlocks && s.holds(first-s.step, steps); n++ {
		first -= s.step
	}
	for n := 0; n < maxBlocks && s.holds(last+s.step, steps); n++ {
		last += s.step
	}
	return true, first * 1000, (last + s.step) * 1000
}

// holds reports whether the wall time, a multiple of the unit, matches.
func (s matchSet) holds(at int64, steps *int) bool {
	next, ok := s.cron.wallFrom(at, steps)
	return ok && next == at
}

func (s matchSet) key() string { return fmt.Sprint("cron ", s.unit, " ", s.cron.text) }
