package schedule

import (
	"math/bits"
	"time"
)

// countBetween counts the scheduled times after one instant up to and
// including another. Above limit it stops and returns limit and false. Away
// from clock changes it multiplies instead of enumerating.
func (c *cronSpec) countBetween(after, through time.Time, limit int) (n int64, exact bool) {
	from, to := max(after.Unix()+1, firstInstant), min(through.Unix(), lastInstant)
	most := int64(limit)
	if c.never || from > to {
		return 0, true
	}
	var s cronSearch
	segment := segmentAt(c.location, from)
	for {
		until := min(to, segment.end-1)
		if segment.start != beginning && from-segment.start < maxShift {
			n += s.countStart(c, segment, &from, until, most-n)
		}
		if n <= most && from <= until {
			n += c.wallsBetween(from+segment.offset, until+segment.offset, most-n)
		}
		if n > most {
			return most, false
		}
		if until == to {
			return n, true
		}
		from = segment.end
		segment = nextSegment(c.location, segment)
	}
}

// countStart counts near the start of a segment, where a clock change brings
// firings or takes them away, and moves from behind the part that it counted.
func (s *cronSearch) countStart(c *cronSpec, segment zoneSegment, from *int64, until, most int64) (n int64) {
	before := segmentAt(c.location, segment.start-1)
	if before.offset == segment.offset && segment.start-before.start >= maxShift {
		return 0
	}
	end := segment.start // an instant to which wall times may have moved
	if !c.interval {
		end += maxShift // and second passes, which do not count
	}
	end = min(until, end)
	for *from <= end && n <= most {
		at, ok := s.next(c, *from)
		if !ok || at > end {
			break
		}
		n++
		*from = at + 1
	}
	*from = max(*from, end+1)
	return n
}

// wallsBetween counts the matching wall times from first to last, both
// inclusive. It stops when there are more than most.
func (c *cronSpec) wallsBetween(first, last, most int64) int64 {
	firstDay, lastDay := floorDiv(first, secondsPerDay), floorDiv(last, secondsPerDay)
	var n int64
	if c.allows(firstDay) {
		n -= c.timesBefore(first - firstDay*secondsPerDay)
	}
	if c.allows(lastDay) {
		n += c.timesBefore(last - lastDay*secondsPerDay + 1)
	}
	return n + c.perDay*c.datesBetween(firstDay, lastDay, most/c.perDay+2)
}

// timesBefore counts the times of a day before sod.
func (t *cronTimes) timesBefore(sod int64) int64 {
	hour, minute, second := sod/3600, sod/60%60, sod%60
	n := int64(bits.OnesCount32(t.hours&(1<<hour-1))) * t.perHour()
	if t.hours&(1<<hour) == 0 {
		return n
	}
	n += int64(bits.OnesCount64(t.minutes&(1<<minute-1)) * bits.OnesCount64(t.seconds))
	if t.minutes&(1<<minute) == 0 {
		return n
	}
	return n + int64(bits.OnesCount64(t.seconds&(1<<second-1)))
}

// datesBetween counts the matching days from first to before last. It may stop
// when there are more than most.
func (d *cronDates) datesBetween(first, last, most int64) (n int64) {
	if d.everyDay {
		return last - first
	}
	var steps int
	for first < last && n <= most {
		day, ok := d.from(first, &steps)
		if !ok || day >= last {
			break
		}
		year, month, dayOfMonth := civilFromDays(day)
		mask := d.month(year, month) >> dayOfMonth
		first = daysFromCivil(year, month, 1) + int64(monthLength(year, month))
		if last-day < 32 {
			mask &= 1<<(last-day) - 1
		}
		n += int64(bits.OnesCount32(mask))
	}
	return n
}
