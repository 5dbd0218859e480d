package worker

import (
	"context"
	"fmt"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// A calendarSet is all calendars of one version. It is not changed.
type calendarSet struct {
	all     []schedule.Calendar
	version int64
}

// An almanac keeps the calendars until a claim asks for newer ones.
type almanac struct {
	source schedule.CalendarReader // nil: there are none

	reading chan struct{} // holds a token while somebody reads or looks
	last    calendarSet
}

// read returns the calendars: those that are known if their version is at
// least the given one, or else those that are stored, whatever their version.
func (a *almanac) read(ctx context.Context, atLeast int64) (calendarSet, error) {
	if err := ctx.Err(); err != nil { // select would choose
		return calendarSet{}, fmt.Errorf("worker: read calendars: %w", err)
	}
	select { // others that need them wait for the same answer, no longer than they may
	case a.reading <- struct{}{}:
	case <-ctx.Done():
		return calendarSet{}, fmt.Errorf("worker: read calendars: %w", ctx.Err())
	}
	defer func() { <-a.reading }()
	if a.source == nil || a.last.version >= atLeast {
		return a.last, nil
	}
	all, version, err := a.source.Calendars(ctx)
	if err != nil {
		return calendarSet{}, fmt.Errorf("worker: read calendars: %w", err)
	}
	if version >= a.last.version {
		a.last = calendarSet{all: all, version: version}
	}
	return a.last, nil
}
