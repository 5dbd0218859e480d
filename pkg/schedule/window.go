package schedule

import (
	"math"
	"slices"
	"time"
)

const (
	dayMillis  = 24 * 3600 * 1000
	weekMillis = 7 * dayMillis
)

// A wallSet is a set of wall-clock readings, in milliseconds since 1970-01-01
// 00:00 on the same clock. Between two clock changes wall time and real time
// run alike, so a set of readings is all that a window needs to know.
type wallSet interface {
	// span says whether the set holds wall, and gives the largest stretch
	// [from, to) around it that it can tell to be of the same kind. The
	// stretch may be shorter than it could be, never empty. It adds its work
	// to steps.
	span(wall int64, steps *int) (inside bool, from, to int64)
	// key is equal for equal sets.
	key() string
}

// A window is a wallSet on the clock of a zone: the instants whose wall time
// is in the set, both passes of a repeated one.
type window struct {
	set      wallSet
	location *time.Location
	calendar string // the name of the calendar that it comes from, or ""
}

// key is equal for equal windows; those of a calendar go by its name.
func (w window) key() string {
	if w.calendar != "" {
		return "calendar " + w.calendar
	}
	return w.set.key() + "@" + w.location.String()
}

// span is wallSet.span for instants in Unix milliseconds. The stretch ends at
// a clock change at the latest.
func (w window) span(at int64, e *effort) (inside bool, from, to int64) {
	segment := e.segmentAt(w.location, floorDiv(at, 1000))
	offset := segment.offset * 1000
	inside, from, to = w.set.span(at+offset, &e.steps)
	from, to = saturate(from, -offset), saturate(to, -offset)
	if segment.start > beginning {
		from = max(from, segment.start*1000)
	}
	if segment.end < eternity {
		to = min(to, segment.end*1000)
	}
	return inside, from, to
}

// saturate adds, leaving the two infinities alone.
func saturate(a, b int64) int64 {
	if a == math.MinInt64 || a == math.MaxInt64 {
		return a
	}
	return a + b
}

// windows are the exclusions of a schedule.
type windows struct {
	except []window
	only   []window // empty: everything
}

// span says whether a scheduled time at this instant fires, and gives a
// stretch [from, to) around it in which the answer is the same.
func (w windows) span(at int64, e *effort) (fires bool, from, to int64) {
	allowed, from, to := unite(w.only, at, e)
	if len(w.only) == 0 {
		allowed, from, to = true, math.MinInt64, math.MaxInt64
	}
	if !allowed {
		return false, from, to
	}
	excluded, exceptFrom, exceptTo := unite(w.except, at, e)
	if excluded {
		return false, exceptFrom, exceptTo
	}
	return true, max(from, exceptFrom), min(to, exceptTo)
}

// unite is the span of a union of windows.
func unite(all []window, at int64, e *effort) (inside bool, from, to int64) {
	from, to = math.MinInt64, math.MaxInt64
	for _, w := range all {
		in, lo, hi := w.span(at, e)
		switch {
		case in && !inside:
			inside, from, to = true, lo, hi
		case in:
			from, to = min(from, lo), max(to, hi)
		case !inside:
			from, to = max(from, lo), min(to, hi)
		}
	}
	return inside, from, to
}

// fromCalendars reports whether a change of a calendar can change them.
func (w windows) fromCalendars() bool {
	named := func(w window) bool { return w.calendar != "" }
	return slices.ContainsFunc(w.except, named) || slices.ContainsFunc(w.only, named)
}

// key is equal for equal windows, in whatever order they were written.
func (w windows) key() string {
	join := func(all []window) (text string) {
		keys := make([]string, len(all))
		for i := range all {
			keys[i] = all[i].key()
		}
		slices.Sort(keys)
		for _, k := range slices.Compact(keys) {
			text += k + "\n"
		}
		return text
	}
	return join(w.except) + "only\n" + join(w.only)
}

// intervals are disjoint, ascending, not touching stretches [from, to).
type intervals [][2]int64

// newIntervals sorts and merges.
func newIntervals(all [][2]int64) intervals {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b [2]int64) int { return int(max(-1, min(1, a[0]-b[0]))) })
	var merged intervals
	for _, next := range all {
		if n := len(merged); n > 0 && next[0] <= merged[n-1][1] {
			merged[n-1][1] = max(merged[n-1][1], next[1])
		} else {
			merged = append(merged, next)
		}
	}
	return merged
}

// span is as in wallSet.
func (s intervals) span(at int64) (inside bool, from, to int64) {
	i, _ := slices.BinarySearchFunc(s, at, func(stretch [2]int64, at int64) int {
		if stretch[1] <= at {
			return -1
		}
		return 1
	})
	from, to = math.MinInt64, math.MaxInt64
	if i < len(s) && s[i][0] <= at {
		return true, s[i][0], s[i][1]
	}
	if i > 0 {
		from = s[i-1][1]
	}
	if i < len(s) {
		to = s[i][0]
	}
	return false, from, to
}

// wallInstant is the instant at which a wall clock in location shows wall,
// given in milliseconds since 1970-01-01 00:00 on that clock: the first pass
// of a repeated reading, the first instant after the gap for a missing one.
func wallInstant(wall int64, location *time.Location) time.Time {
	seconds := floorDiv(wall, 1000)
	passes, after := resolveWall(location, seconds)
	if len(passes) == 0 {
		return time.Unix(after, 0).In(location)
	}
	return time.UnixMilli(passes[0]*1000 + wall - seconds*1000).In(location)
}

// wallMillis is what the wall clock of t's location shows.
func wallMillis(t time.Time) int64 {
	_, offset := t.Zone()
	return t.UnixMilli() + int64(offset)*1000
}

// civilDay is the number of t's local date, counted from 1970-01-01.
func civilDay(t time.Time) int64 { return floorDiv(wallMillis(t), dayMillis) }
