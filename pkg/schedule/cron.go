package schedule

import (
	"math/bits"
	"time"
)

// A cronSpec is a parsed cron expression in one time zone. It never changes.
//
// Wall times are handled as numbers: seconds since 1970 as if the zone were
// UTC. A civil date is a multiple of 24 hours there, whatever the clocks do.
// Rule R then says which instants a wall time stands for:
//
//   - it exists once: that instant;
//   - it exists twice: the first, and the second if the expression is
//     interval-like;
//   - it does not exist: the first instant after the gap, unless the hour
//     field covers every hour.
type cronSpec struct {
	cronDates
	cronTimes
	location *time.Location
	text     string // canonical fields, without zone

	interval  bool // second, minute or hour is written with *, - or /
	everyHour bool // the hour field covers 0-23
	never     bool // no date of the calendar matches
}

// cronTimes are the time fields of an expression as sets.
type cronTimes struct {
	seconds uint64
	minutes uint64
	hours   uint32
	early   int64 // first time of the day, in seconds
	late    int64 // last time of the day
	perDay  int64 // times a day
}

func (t *cronTimes) finish() {
	t.early = int64(bits.TrailingZeros32(t.hours)*3600 + bits.TrailingZeros64(t.minutes)*60 + bits.TrailingZeros64(t.seconds))
	t.late = int64((31-bits.LeadingZeros32(t.hours))*3600 + (63-bits.LeadingZeros64(t.minutes))*60 + 63 - bits.LeadingZeros64(t.seconds))
	t.perDay = int64(bits.OnesCount32(t.hours)) * t.perHour()
}

func (t *cronTimes) perHour() int64 {
	return int64(bits.OnesCount64(t.minutes) * bits.OnesCount64(t.seconds))
}

// from returns the first time of the day from sod on, in seconds since 00:00;
// sod must not be later than the last one.
func (t *cronTimes) from(sod int64) int64 {
	hour, minute, second := sod/3600, sod/60%60, sod%60
	if t.hours&(1<<hour) != 0 {
		if t.minutes&(1<<minute) != 0 {
			if set := t.seconds >> second; set != 0 {
				return sod + int64(bits.TrailingZeros64(set))
			}
		}
		if set := t.minutes >> (minute + 1); set != 0 {
			minute += 1 + int64(bits.TrailingZeros64(set))
			return hour*3600 + minute*60 + int64(bits.TrailingZeros64(t.seconds))
		}
	}
	hour += 1 + int64(bits.TrailingZeros32(t.hours>>(hour+1)))
	return hour*3600 + t.early%3600
}

// until returns the last time of the day up to sod; sod must not be earlier
// than the first one.
func (t *cronTimes) until(sod int64) int64 {
	hour, minute, second := sod/3600, sod/60%60, sod%60
	if t.hours&(1<<hour) != 0 {
		if t.minutes&(1<<minute) != 0 {
			if set := t.seconds << (63 - second); set != 0 {
				return sod - int64(bits.LeadingZeros64(set))
			}
		}
		if set := t.minutes << (63 - minute) << 1; set != 0 {
			minute -= 1 + int64(bits.LeadingZeros64(set))
			return hour*3600 + minute*60 + 63 - int64(bits.LeadingZeros64(t.seconds))
		}
	}
	hour -= 1 + int64(bits.LeadingZeros32(t.hours<<(31-hour)<<1))
	return hour*3600 + t.late%3600
}

// Next returns the smallest scheduled time strictly after the given instant.
// Its cost does not depend on how far away that is.
func (c *cronSpec) Next(after time.Time) (time.Time, bool) {
	if c.never {
		return time.Time{}, false
	}
	var s cronSearch
	return c.instant(s.next(c, max(after.Unix()+1, firstInstant)))
}

// Prev returns the largest scheduled time strictly before the given instant.
func (c *cronSpec) Prev(before time.Time) (time.Time, bool) {
	if c.never {
		return time.Time{}, false
	}
	var s cronSearch
	return c.instant(s.prev(c, lastBefore(before)))
}

// seek is Next, or Prev if back, and adds the work to e.
func (c *cronSpec) seek(at time.Time, back bool, e *effort) (t time.Time, ok bool) {
	if c.never {
		return time.Time{}, false
	}
	s := cronSearch{*e}
	if back {
		t, ok = c.instant(s.prev(c, lastBefore(at)))
	} else {
		t, ok = c.instant(s.next(c, max(at.Unix()+1, firstInstant)))
	}
	*e = s.effort
	return t, ok
}

// lastBefore is the last whole second before the instant, within reach.
func lastBefore(at time.Time) int64 {
	second := at.Unix()
	if at.Nanosecond() == 0 {
		second--
	}
	return min(second, lastInstant)
}

func (c *cronSpec) instant(second int64, ok bool) (time.Time, bool) {
	if !ok {
		return time.Time{}, false
	}
	return time.Unix(second, 0).In(c.location), true
}

func (c *cronSpec) sealed() {}

// wallFrom returns the first matching wall time from wall on.
func (c *cronSpec) wallFrom(wall int64, steps *int) (int64, bool) {
	*steps++
	day := floorDiv(wall, secondsPerDay)
	sod := wall - day*secondsPerDay
	if sod <= c.late && c.allows(day) {
		return day*secondsPerDay + c.cronTimes.from(sod), true
	}
	if sod > c.early {
		day++
	}
	day, ok := c.cronDates.from(day, steps)
	return day*secondsPerDay + c.early, ok
}

// wallUntil returns the last matching wall time up to wall.
func (c *cronSpec) wallUntil(wall int64, steps *int) (int64, bool) {
	*steps++
	day := floorDiv(wall, secondsPerDay)
	sod := wall - day*secondsPerDay
	if sod >= c.early && c.allows(day) {
		return day*secondsPerDay + c.cronTimes.until(sod), true
	}
	if sod < c.late {
		day--
	}
	day, ok := c.cronDates.until(day, steps)
	return day*secondsPerDay + c.late, ok
}
