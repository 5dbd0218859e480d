package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/belfryhq/belfry/pkg/claim"
)

// LookResult says what a Look found.
type LookResult struct {
	Ended   []claim.FiringID // firings that were closed by it, or were closed before
	Stopped int              // tasks of cancelled firings whose worker was asked to stop
}

// maxLooked bounds the firings of one Look.
const maxLooked = 500

// Look looks at open firings that others wait for, or that an operator cancels,
// before their audit is due.
// A plain asynq server reports nothing to the ledger, so the firing of a task
// that it finished is open until somebody looks. Look closes those; of firings
// that were asked to end it deletes the task, or asks the worker that runs
// it to stop. It enqueues nothing: what is lost is the business of Sweep.
// Beyond 500 firings it looks at none. The error joins what went wrong with
// single firings, and the result is valid all the same.
func (a *Auditor) Look(ctx context.Context, firings []claim.FiringID) (LookResult, error) {
	if a.reader == nil || len(firings) == 0 {
		return LookResult{}, nil
	}
	firings = firings[:min(len(firings), maxLooked)]
	var malformed []error // a list of the store that holds such must not keep the others from being looked at
	firings = slices.DeleteFunc(slices.Clone(firings), func(id claim.FiringID) bool {
		_, err := claim.ParseFiringID(string(id))
		if err != nil {
			malformed = append(malformed, fmt.Errorf("queue: look at a firing: %w", err))
		}
		return err != nil
	})
	if len(firings) == 0 {
		return LookResult{}, errors.Join(malformed...)
	}
	open, now, err := a.reader.Firings(ctx, firings)
	if err != nil {
		return LookResult{}, fmt.Errorf("queue: look at %d firings: %w", len(firings), err)
	}
	s := &sweep{Auditor: a, batch: claim.AuditBatch{Now: now}}
	s.working = a.tasks.workingOnce(ctx)
	var result LookResult
	for _, id := range firings {
		if f, ok := open[id]; ok {
			s.batch.Firings = append(s.batch.Firings, f)
		} else {
			result.Ended = append(result.Ended, id)
		}
	}
	s.each(ctx, s.glance)
	s.each(ctx, s.act)
	for i := range s.decisions {
		if s.decisions[i].what == doStop {
			result.Stopped++
		}
	}
	result.Ended = append(result.Ended, s.closed...)
	return result, errors.Join(append(malformed, s.errs...)...)
}

// glance decides about the i-th firing, as inspect does, but leaves what is
// not over.
func (s *sweep) glance(ctx context.Context, i int) {
	f := s.batch.Firings[i]
	live := f.State == claim.FiringRunning && f.LeaseUntil.After(s.batch.Now)
	promised := f.State == claim.FiringIntent && f.Position == claim.PositionPending && scheduled(f.Firing)
	if live || promised || f.State == claim.FiringBuffered || f.Position == claim.PositionGone {
		return
	}
	d, err := s.look(ctx, f)
	if err != nil {
		s.fail(fmt.Errorf("queue: look at the task of %s in %s: %w", f.Firing, f.Queue, err))
		return
	}
	if d.what == doSettle || d.what == doRemove || d.what == doArchive || d.what == doStop {
		s.decisions[i] = d
	}
}
