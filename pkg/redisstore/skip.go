package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/scripts/lua"
)

var _ schedule.Skipper = (*Store)(nil)

// Skip has one scheduled time of a schedule not fire: it gets VerdictSkipped.
// At most 100 that have no verdict yet can be asked for. It returns
// schedule.ErrNotFound, schedule.ErrLate, and a *schedule.FieldError for an instant at
// which the schedule does not fire.
func (s *Store) Skip(ctx context.Context, id schedule.ID, at time.Time) error {
	return s.skip(ctx, fmt.Sprintf("skip a scheduled time of %q", id), id, at, true)
}

// Unskip takes a Skip back, with the same errors.
func (s *Store) Unskip(ctx context.Context, id schedule.ID, at time.Time) error {
	return s.skip(ctx, fmt.Sprintf("restore a scheduled time of %q", id), id, at, false)
}

func (s *Store) skip(ctx context.Context, doing string, id schedule.ID, at time.Time, on bool) error {
	l, err := s.peek(ctx)
	if err != nil {
		return err
	}
	entry, err := s.Get(ctx, id)
	if err != nil {
		return err
	}
	if err := s.checkFires(ctx, &entry, at); err != nil {
		return err
	}
	answer, err := s.runShard(ctx, doing, lua.Skip, l, l.shardOf(id), string(id), millis(at), flag(on))
	if err != nil {
		return err
	}
	switch answer.word() {
	case "LATE":
		return fmt.Errorf("redisstore: %s: %s: %w", doing, at.UTC().Format(time.RFC3339Nano), schedule.ErrLate)
	case "FULL":
		return &schedule.FieldError{Field: "at", Value: at.UTC().Format(time.RFC3339Nano), Allowed: "at most 100 scheduled times to skip"}
	case "GONE":
		return s.absent(ctx, doing, l, id)
	}
	return nil
}

// checkFires refuses an instant that is no scheduled time of the definition.
func (s *Store) checkFires(ctx context.Context, entry *schedule.Entry, at time.Time) error {
	all, err := s.calendarsFor(ctx, entry.Schedule)
	if err != nil {
		return err
	}
	compiled, err := schedule.Compile(entry.Schedule, all.calendars)
	if err != nil {
		return err
	}
	next, ok := compiled.Next(at.Add(-time.Millisecond))
	if at.Equal(entry.Status.NextAt) || ok && next.Equal(at) {
		return nil
	}
	refused := &schedule.FieldError{Field: "at", Value: at.UTC().Format(time.RFC3339Nano), Allowed: "a scheduled time of the schedule"}
	if ok {
		refused.Hint = "the next one is " + next.UTC().Format(time.RFC3339Nano)
	}
	return refused
}
