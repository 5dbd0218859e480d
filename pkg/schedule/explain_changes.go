package schedule

import (
	"fmt"
	"slices"
	"time"
)

// A ClockChange is a change of a zone's offset, and what it does to a spec.
type ClockChange struct {
	At     time.Time     // first instant with the new offset, in the spec's location
	Before time.Duration // offset east of UTC until At
	After  time.Duration // offset east of UTC from At on

	// Missing counts the wall times of the spec that do not exist because the
	// clocks go forward over them. They fire once, at At, if Moved; otherwise
	// the spec runs every hour anyway and nothing takes their place.
	Missing int
	Moved   bool
	// Repeated counts the wall times of the spec that exist twice because the
	// clocks go back over them. They fire in both passes if Twice, otherwise
	// in the first only.
	Repeated int
	Twice    bool
}

// String describes the change in one line.
func (c ClockChange) String() string {
	from, to := c.clocks()
	text := fmt.Sprintf("%s: clocks go %s from %s to %s", c.At.Format("2006-01-02"), c.direction(), from, to)
	switch {
	case c.Missing > 0 && c.Moved:
		text += fmt.Sprintf("; %s not exist; fired once, at %s", c.subject(c.Missing, "does", "do"), to)
	case c.Missing > 0:
		text += fmt.Sprintf("; %s not exist; nothing is fired instead", c.subject(c.Missing, "does", "do"))
	case c.Repeated > 0 && c.Twice:
		text += fmt.Sprintf("; %s twice; fired in both passes", c.subject(c.Repeated, "exists", "exist"))
	case c.Repeated > 0:
		text += fmt.Sprintf("; %s twice; fired in the first pass only", c.subject(c.Repeated, "exists", "exist"))
	}
	return text
}

// subject is the number of wall times with its verb.
func (ClockChange) subject(n int, one, many string) string {
	if n == 1 {
		return "1 wall time that it asks for " + one
	}
	return plural(int64(n), "wall time") + " that it asks for " + many
}

// clocks returns what the clocks showed and what they show at the change.
func (c ClockChange) clocks() (from, to string) {
	const clock = "15:04"
	return c.At.UTC().Add(c.Before).Format(clock), c.At.UTC().Add(c.After).Format(clock)
}

func (c ClockChange) direction() string {
	if c.After > c.Before {
		return "forward"
	}
	return "back"
}

// maxChanges bounds what ClockChanges returns.
const maxChanges = 1000

// ClockChanges returns the next n offset changes (at most 1000) of the spec's
// time zone after the instant, in order, and how each affects the spec. It
// returns nil for a spec to which clock changes do not matter: an interval, a
// delay, instants. Of a union it returns the changes of every part.
func ClockChanges(spec Spec, from time.Time, n int) []ClockChange {
	n = min(n, maxChanges)
	if n <= 0 {
		return nil
	}
	switch s := spec.(type) {
	case *cronSpec:
		return s.clockChanges(from, n)
	case unionSpec:
		var all []ClockChange
		for _, part := range s.parts {
			all = append(all, ClockChanges(part, from, n)...)
		}
		slices.SortStableFunc(all, func(a, b ClockChange) int { return a.At.Compare(b.At) })
		return all[:min(len(all), n)]
	}
	return nil
}

func (c *cronSpec) clockChanges(from time.Time, n int) []ClockChange {
	var changes []ClockChange
	segment := segmentAt(c.location, min(max(from.Unix(), firstInstant), lastInstant))
	for len(changes) < n && segment.end <= lastInstant {
		next := nextSegment(c.location, segment)
		if next.offset != segment.offset {
			changes = append(changes, c.clockChange(segment, next))
		}
		segment = next
	}
	return changes
}

func (c *cronSpec) clockChange(before, after zoneSegment) ClockChange {
	change := ClockChange{
		At:     time.Unix(after.start, 0).In(c.location),
		Before: time.Duration(before.offset) * time.Second,
		After:  time.Duration(after.offset) * time.Second,
	}
	if c.never {
		return change
	}
	// The stretch of wall times that is skipped or repeated.
	low, high := after.start+before.offset, after.start+after.offset
	count := int(c.wallsBetween(min(low, high), max(low, high)-1, eternity))
	if high > low {
		var s cronSearch
		change.Moved = s.gapFires(c, after)
		if change.Moved || c.everyHour {
			change.Missing = count
		}
		return change
	}
	change.Repeated, change.Twice = count, c.interval && count > 0
	return change
}
