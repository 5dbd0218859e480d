package memstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var _ schedule.Skipper = (*Store)(nil)

// maxSkips bounds the scheduled times that an operator asked to skip.
const maxSkips = 100

// eventTime renders an instant in the detail of an event.
const eventTime = "2006-01-02T15:04:05.999Z07:00"

// Skip has one scheduled time not fire.
func (s *Store) Skip(ctx context.Context, id schedule.ID, at time.Time) error {
	return s.skip(ctx, "skipping a scheduled time of", id, at, true)
}

// Unskip takes a Skip back.
func (s *Store) Unskip(ctx context.Context, id schedule.ID, at time.Time) error {
	return s.skip(ctx, "restoring a scheduled time of", id, at, false)
}

func (s *Store) skip(ctx context.Context, doing string, id schedule.ID, at time.Time, on bool) error {
	now, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	r := s.schedules[id]
	if r == nil {
		return notFound(doing, id)
	}
	at = millis(at)
	if next, ok := r.compiled.Next(at.Add(-time.Millisecond)); !at.Equal(r.next) && (!ok || !next.Equal(at)) {
		return &schedule.FieldError{Field: "at", Value: at.Format(time.RFC3339Nano), Allowed: "a scheduled time of the schedule"}
	}
	if !at.After(r.hwm) || s.firings[claim.ScheduledFiring(id, r.generation, at)] != nil {
		return fmt.Errorf("memstore: %s %q: %s: %w", doing, id, at.Format(time.RFC3339Nano), schedule.ErrLate)
	}
	before := r.skips
	if known := slices.ContainsFunc(before, at.Equal); on && !known && len(before) >= maxSkips {
		return &schedule.FieldError{Field: "at", Value: at.Format(time.RFC3339Nano), Allowed: "at most " + strconv.Itoa(maxSkips) + " scheduled times to skip"}
	} else if known != on {
		kind := map[bool]schedule.EventKind{true: schedule.EventSkipAsked, false: schedule.EventSkipWithdrawn}[on]
		s.note(r, kind, at.Format(eventTime), now)
	}
	r.dropSkips(at)
	if on {
		r.skips = append(r.skips, at)
		slices.SortFunc(r.skips, time.Time.Compare)
	}
	return nil
}

// dropSkips forgets one scheduled time to skip, and those that have a verdict.
func (r *record) dropSkips(at time.Time) {
	r.skips = slices.DeleteFunc(slices.Clone(r.skips), func(t time.Time) bool { return t.Equal(at) || !t.After(r.hwm) })
}

// skipTimes returns the scheduled times to skip that have no verdict yet.
func (r *record) skipTimes() []time.Time {
	return slices.DeleteFunc(slices.Clone(r.skips), func(t time.Time) bool { return !t.After(r.hwm) })
}
