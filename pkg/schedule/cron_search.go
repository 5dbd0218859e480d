package schedule

import "time"

// A cronSearch looks for scheduled times segment by segment: within one
// segment of the zone, wall time and instant differ by a constant. What a clock
// change adds (the instant after a gap) or takes away (second passes) is at
// the start of a segment.
type cronSearch struct{ effort }

// An effort is what a search has done so far and, because to look at a zone is
// the dearest part, where in it the search is.
type effort struct {
	steps    int // months, days, wall times, segments and stretches looked at
	zones    int // how often the zone was asked
	location *time.Location
	segment  zoneSegment // of the location
}

// zoneSteps is what a look at a zone costs, in steps, in the years for which it
// has a rule.
const zoneSteps = 20

func (e *effort) work() int { return e.steps + zoneSteps*e.zones }

// segmentAt is the function of that name, which it asks only when the search
// leaves its segment.
func (e *effort) segmentAt(location *time.Location, instant int64) zoneSegment {
	if e.location != location || instant < e.segment.start || instant >= e.segment.end {
		e.location, e.segment = location, segmentAt(location, instant)
		e.zones++
	}
	return e.segment
}

// margin is how far, in seconds, a search stays away from the next matching
// wall time when it leaps over segments. A firing is at most maxShift away
// from the wall time it stands for, so none lies in between.
const margin = 2 * maxShift

// next returns the smallest firing at or after the instant.
func (s *cronSearch) next(c *cronSpec, from int64) (int64, bool) {
	segment := s.segmentAt(c.location, from)
	if from == segment.start && s.gapFires(c, segment) {
		return from, true
	}
	for from <= lastInstant {
		s.steps++
		wall, ok := s.wallIn(c, segment, from)
		if ok && wall < segment.end+segment.offset {
			return wall - segment.offset, true
		}
		if segment.end == eternity {
			return 0, false
		}
		// Nothing is left in this segment. If the part that was looked at is
		// longer than any clock change, then no second pass and no gap
		// between here and the next matching wall time can hold a firing.
		if segment.end-from >= maxShift {
			if !ok {
				return 0, false
			}
			if leap := wall - margin; leap > segment.end {
				from, segment = leap, s.segmentAt(c.location, leap)
				continue
			}
		}
		from = segment.end
		segment = nextSegment(c.location, segment)
		if s.gapFires(c, segment) {
			return from, true
		}
	}
	return 0, false
}

// wallIn returns the first matching wall time of the segment that fires, from
// the instant on. It may lie beyond the segment.
func (s *cronSearch) wallIn(c *cronSpec, segment zoneSegment, from int64) (int64, bool) {
	wall, ok := c.wallFrom(from+segment.offset, &s.steps)
	if c.interval {
		return wall, ok
	}
	for ok && wall < segment.end+segment.offset {
		pass, again := s.earlier(c, segment, wall)
		if !again {
			break
		}
		wall, ok = c.wallFrom(pass.end+pass.offset, &s.steps)
	}
	return wall, ok
}

// prev returns the largest firing at or before the instant.
func (s *cronSearch) prev(c *cronSpec, from int64) (int64, bool) {
	segment := s.segmentAt(c.location, from)
	for from >= firstInstant {
		s.steps++
		wall, skipped, ok := s.wallBack(c, segment, from)
		if ok && wall >= segment.start+segment.offset {
			return wall - segment.offset, true
		}
		if segment.start == beginning {
			return 0, false
		}
		if s.gapFires(c, segment) {
			return segment.start, true
		}
		// A second pass that was skipped has its first pass right before.
		if from-segment.start >= maxShift && !skipped {
			if !ok {
				return 0, false
			}
			if leap := wall + margin; leap < segment.start {
				from, segment = leap, s.segmentAt(c.location, leap)
				continue
			}
		}
		from = segment.start - 1
		segment = s.segmentAt(c.location, from)
	}
	return 0, false
}

// wallBack is wallIn in the other direction. It also reports whether it
// skipped a second pass.
func (s *cronSearch) wallBack(c *cronSpec, segment zoneSegment, from int64) (wall int64, skipped, ok bool) {
	wall, ok = c.wallUntil(from+segment.offset, &s.steps)
	if c.interval {
		return wall, false, ok
	}
	for ok && wall >= segment.start+segment.offset {
		pass, again := s.earlier(c, segment, wall)
		if !again {
			break
		}
		skipped = true
		wall, ok = c.wallUntil(max(pass.start+pass.offset, segment.start+segment.offset)-1, &s.steps)
	}
	return wall, skipped, ok
}

// earlier finds an earlier segment that holds the wall time of this one, so
// that this is not its first pass.
func (s *cronSearch) earlier(c *cronSpec, segment zoneSegment, wall int64) (zoneSegment, bool) {
	instant := wall - segment.offset
	for at := segment.start; at != beginning && instant-at < maxShift; {
		s.steps++
		before := s.segmentAt(c.location, at-1)
		if before.holds(wall) {
			return before, true
		}
		at = before.start
	}
	return zoneSegment{}, false
}

// gapFires reports whether a wall time that does not exist moves to the start
// of the segment.
func (s *cronSearch) gapFires(c *cronSpec, segment zoneSegment) bool {
	if c.everyHour || segment.start == beginning {
		return false
	}
	before := s.segmentAt(c.location, segment.start-1)
	to := segment.start + segment.offset
	wall, ok := c.wallFrom(segment.start+before.offset, &s.steps)
	for ok && wall < to {
		shown, exists := s.shownNear(c, segment.start, wall)
		if !exists {
			return true
		}
		wall, ok = c.wallFrom(shown, &s.steps)
	}
	return false
}

// shownNear reports whether the wall time exists, or whether the clocks passed
// it in an earlier change than the one at the instant; then the clocks show or
// pass everything from wall up to the wall time that it returns. That happens
// only when two changes are close to each other.
func (s *cronSearch) shownNear(c *cronSpec, change, wall int64) (int64, bool) {
	for at := change; at != beginning && change-at < maxShift; {
		s.steps++
		before := s.segmentAt(c.location, at-1)
		if end := at + before.offset; end > wall {
			return end, true
		}
		at = before.start
	}
	for at := change; at != eternity && at-change < maxShift; {
		s.steps++
		segment := s.segmentAt(c.location, at)
		segment.start = at
		if segment.holds(wall) {
			return segment.end + segment.offset, true
		}
		at = segment.end
	}
	return 0, false
}
