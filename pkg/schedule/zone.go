package schedule

import (
	"math"
	"strings"
	"sync"
	"time"
	"unicode"
)

// loadLocation returns the time zone of that IANA name. "" and "UTC" are UTC.
// It refuses, as a *FieldError, names that the zone database does not hold,
// "Local" (its meaning differs from host to host) and anything that could be
// a path outside of the database.
func loadLocation(name string) (*time.Location, error) {
	if name == "" || name == "UTC" {
		return time.UTC, nil
	}
	refuse := func(hint string) (*time.Location, error) {
		return nil, &FieldError{Field: "timezone", Value: name,
			Allowed: "an IANA time zone name such as Europe/Berlin, or UTC", Hint: hint}
	}
	if strings.EqualFold(name, "local") {
		return refuse("Local means something else on every host; name the zone")
	}
	if len(name) > 64 || strings.HasPrefix(name, "/") || strings.Contains(name, "..") || strings.ContainsFunc(name, notInZoneName) {
		return refuse("")
	}
	if known, ok := zones.Load(name); ok {
		return known.(*time.Location), nil
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		return refuse(zoneHint(name))
	}
	zones.Store(name, location)
	return location, nil
}

// zones keeps the zones that were loaded, by name: reading one is the dearest
// part of compiling a definition. Only names that the database holds get in.
var zones sync.Map

// notInZoneName reports whether no IANA zone name contains r.
func notInZoneName(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return false
	}
	return !strings.ContainsRune("/_-+", r)
}

// zoneHint corrects the spelling of the commonest slips: another letter case
// and a space for the underscore.
func zoneHint(name string) string {
	if strings.EqualFold(name, "utc") || strings.EqualFold(name, "z") {
		return "did you mean UTC?"
	}
	words := strings.FieldsFunc(name, func(r rune) bool { return r == '/' })
	for i, word := range words {
		letters := []rune(strings.ToLower(word))
		for j := range letters {
			if j == 0 || letters[j-1] == '_' || letters[j-1] == '-' {
				letters[j] = unicode.ToUpper(letters[j])
			}
		}
		words[i] = string(letters)
	}
	guess := strings.Join(words, "/")
	if guess == name {
		return ""
	}
	if _, err := time.LoadLocation(guess); err != nil {
		return ""
	}
	return "did you mean " + guess + "?"
}

const (
	secondsPerDay = 24 * 60 * 60
	// maxShift is more than any two offsets of one zone differ, in seconds: a
	// wall time is never further from its instant than this.
	maxShift = 27 * 60 * 60

	beginning = math.MinInt64 / 4 // an instant before all others, in Unix seconds
	eternity  = math.MaxInt64 / 4 // an instant after all others
)

// A zoneSegment is a stretch of instants during which a zone keeps one offset.
// Neighbouring segments may have the same offset.
type zoneSegment struct {
	start, end int64 // Unix seconds, [start, end)
	offset     int64 // seconds east of UTC
}

// holds reports whether the wall clock shows wall during the segment.
func (s zoneSegment) holds(wall int64) bool {
	return wall >= s.start+s.offset && wall < s.end+s.offset
}

// segmentAt returns the segment that contains the instant.
func segmentAt(location *time.Location, instant int64) zoneSegment {
	if location == time.UTC {
		return zoneSegment{start: beginning, end: eternity}
	}
	t := time.Unix(instant, 0).In(location)
	_, offset := t.Zone()
	from, to := t.ZoneBounds()
	segment := zoneSegment{start: beginning, end: eternity, offset: int64(offset)}
	if !from.IsZero() {
		segment.start = from.Unix()
	}
	if !to.IsZero() {
		segment.end = to.Unix()
	}
	if segment.end <= instant {
		// Package time ends a year that it derives from a rule after 365 days,
		// so on 31 December of a leap year the bound lies in the past. The
		// offset holds until the year (in UTC) ends.
		year, _, _ := civilFromDays(floorDiv(instant, secondsPerDay))
		segment.end = daysFromCivil(year+1, 1, 1) * secondsPerDay
	}
	return segment
}

// localKind says how often a wall time exists.
type localKind int

const (
	localOnce    localKind = iota // one instant
	localTwice                    // clocks went back over it
	localMissing                  // clocks went forward over it
)

// resolveLocal finds the instants at which the clocks of the zone show that
// wall time; fields out of range are normalised as if there were no zone. For
// localOnce first is the instant and again is zero; for localTwice both
// passes are given; for localMissing first is the first instant after the gap.
func resolveLocal(location *time.Location, year int, month time.Month, day, hour, minute, second, millisecond int) (first, again time.Time, kind localKind) {
	// As UTC every wall time exists once, so this is plain arithmetic.
	civil := time.Date(year, month, day, hour, minute, second, millisecond*int(time.Millisecond), time.UTC)
	wall, sub := civil.Unix(), int64(civil.Nanosecond())
	passes, after := resolveWall(location, wall)
	at := func(instant, nanos int64) time.Time { return time.Unix(instant, nanos).In(location) }
	switch len(passes) {
	case 0:
		return at(after, 0), time.Time{}, localMissing
	case 1:
		return at(passes[0], sub), time.Time{}, localOnce
	}
	return at(passes[0], sub), at(passes[1], sub), localTwice
}

// resolveWall returns the instants at which the wall clock shows wall (seconds
// as if UTC), in order. When there is none, after is the first instant at
// which it shows more.
func resolveWall(location *time.Location, wall int64) (passes []int64, after int64) {
	segment := segmentAt(location, wall-maxShift)
	for {
		if segment.holds(wall) {
			passes = append(passes, wall-segment.offset)
		}
		if after == 0 && segment.start+segment.offset > wall {
			after = segment.start
		}
		if segment.end > wall+maxShift {
			return passes, after
		}
		segment = nextSegment(location, segment)
	}
}

// nextSegment returns the segment that follows; s must have an end.
func nextSegment(location *time.Location, s zoneSegment) zoneSegment {
	next := segmentAt(location, s.end)
	next.start = s.end
	return next
}
