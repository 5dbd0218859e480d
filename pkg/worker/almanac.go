package worker

import (
	"context"
	"fmt"
	"sync"

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

	mu   sync.Mutex
	last calendarSet
}

// read returns the calendars: those that are known if their version is at
// least the given one, or else those that are stored, whatever their version.
func (a *almanac) read(ctx context.Context, atLeast int64) (calendarSet, error) {
	a.mu.Lock()
	defer a.mu.Unlock() // others that need them wait for the same answer
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
