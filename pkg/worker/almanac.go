package worker

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// A calendarSet is all calendars of one version. It is not changed.
type calendarSet struct {
	all     []schedule.Calendar
	version int64
	serial  int // of this process: grows with every set that differs from the one before
}

// An almanac keeps the calendars while they are those that claims ask for.
type almanac struct {
	source schedule.CalendarReader // nil: there are none

	reading chan struct{} // holds a token while somebody reads or looks
	last    calendarSet
	asked   time.Time // when the last ones were asked for
}

// almanacAge is how long calendars are used without another look. A store that
// went back may have another change under the version that is known.
const almanacAge = time.Minute

// read returns the calendars. Those that are known do when nobody needs any (a
// version of zero), or when they are of the wanted version and fresh. Otherwise
// it returns what is stored, whatever its version: that is newer while shards
// are told of a change, and older in a store that went back.
func (a *almanac) read(ctx context.Context, wanted int64) (calendarSet, error) {
	if err := ctx.Err(); err != nil { // select would choose
		return calendarSet{}, fmt.Errorf("worker: read calendars: %w", err)
	}
	began := time.Now()
	select { // others that need them wait for the same answer, no longer than they may
	case a.reading <- struct{}{}:
	case <-ctx.Done():
		return calendarSet{}, fmt.Errorf("worker: read calendars: %w", ctx.Err())
	}
	defer func() { <-a.reading }()
	known := wanted == 0 || a.last.version == wanted && began.Sub(a.asked) < almanacAge
	if a.source == nil || known || a.asked.After(began) {
		return a.last, nil
	}
	asked := time.Now()
	all, version, err := a.source.Calendars(ctx)
	if err != nil {
		return calendarSet{}, fmt.Errorf("worker: read calendars: %w", err)
	}
	a.asked = asked
	if version != a.last.version || !reflect.DeepEqual(all, a.last.all) {
		a.last = calendarSet{all: all, version: version, serial: a.last.serial + 1}
	}
	return a.last, nil
}
