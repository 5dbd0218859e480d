package schedule

import "time"

// The instants that a schedule can have, in Unix milliseconds: the years 1 to
// 9999, which RFC 3339 can write.
const (
	minMillis = -62135596800000
	maxMillis = 253402300799999
)

// floorMillis is the last whole millisecond at or before t, clamped to just
// outside of what a schedule can have.
func floorMillis(t time.Time) int64 {
	switch {
	case t.Unix() > maxMillis/1000:
		return maxMillis + 1
	case t.Unix() < minMillis/1000:
		return minMillis - 1
	}
	return t.UnixMilli()
}

// ceilMillis is the first whole millisecond at or after t, clamped likewise.
func ceilMillis(t time.Time) int64 {
	ms := floorMillis(t)
	if t.Nanosecond()%1e6 != 0 && ms <= maxMillis {
		ms++
	}
	return ms
}

// fromMillis is the instant in a location, and false outside of the range.
func fromMillis(ms int64, location *time.Location) (time.Time, bool) {
	if ms < minMillis || ms > maxMillis {
		return time.Time{}, false
	}
	return time.UnixMilli(ms).In(location), true
}

// everySpec is a fixed rate: the instants that lie a whole number of periods
// from an anchor. Only the phase of the anchor matters, so it is all that is
// kept, and no restart can move it.
type everySpec struct {
	period   int64 // milliseconds
	phase    int64 // milliseconds, 0 to period-1
	location *time.Location
}

// newEvery makes a fixed rate; a zero anchor is the Unix epoch. Field names
// the input in errors.
func newEvery(field string, every time.Duration, anchor time.Time, location *time.Location) (Spec, error) {
	if err := checkInterval(field, every); err != nil {
		return nil, err
	}
	period, phase := every.Milliseconds(), int64(0)
	if !anchor.IsZero() {
		ms := floorMillis(anchor)
		phase = ms - floorDiv(ms, period)*period
	}
	return everySpec{period: period, phase: phase, location: location}, nil
}

// checkInterval refuses an interval that is too short or that would have to
// be rounded.
func checkInterval(field string, d time.Duration) error {
	if d >= MinInterval && d%time.Millisecond == 0 {
		return nil
	}
	return &FieldError{Field: field, Value: FormatDuration(d),
		Allowed: "whole milliseconds, at least " + FormatDuration(MinInterval)}
}

func (s everySpec) sealed() {}

func (s everySpec) Next(after time.Time) (time.Time, bool) {
	n := floorDiv(floorMillis(after)-s.phase, s.period) + 1
	return fromMillis(s.phase+n*s.period, s.location)
}

func (s everySpec) Prev(before time.Time) (time.Time, bool) {
	n := floorDiv(ceilMillis(before)-s.phase-1, s.period)
	return fromMillis(s.phase+n*s.period, s.location)
}

// countMillis counts the instants from first to last, both inclusive.
func (s everySpec) countMillis(first, last int64) (int64, bool) {
	if last < first {
		return 0, true
	}
	return floorDiv(last-s.phase, s.period) - floorDiv(first-1-s.phase, s.period), true
}

func (s everySpec) String() string {
	text := "@every " + FormatDuration(time.Duration(s.period)*time.Millisecond)
	if s.phase != 0 {
		text += " from " + formatInstant(time.UnixMilli(s.phase))
	}
	return text
}
