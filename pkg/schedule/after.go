package schedule

import "time"

// afterSpec is a fixed delay after the end of the last run. It has no grid:
// its next scheduled time depends on when a run ended, so there is no previous
// one.
type afterSpec struct {
	delay    int64 // milliseconds
	location *time.Location
}

// newAfter makes a fixed delay. Field names the input in errors.
func newAfter(field string, delay time.Duration, location *time.Location) (Spec, error) {
	if err := checkInterval(field, delay); err != nil {
		return nil, err
	}
	return afterSpec{delay: delay.Milliseconds(), location: location}, nil
}

func (s afterSpec) sealed() {}

// Next takes the end of the last run, or the creation.
func (s afterSpec) Next(after time.Time) (time.Time, bool) {
	return fromMillis(ceilMillis(after)+s.delay, s.location)
}

func (s afterSpec) Prev(time.Time) (time.Time, bool) { return time.Time{}, false }

func (s afterSpec) String() string {
	return "@after " + FormatDuration(time.Duration(s.delay)*time.Millisecond)
}
