package memstore

import (
	"context"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var _ claim.Canceller = (*Store)(nil)

// Cancel ends a firing that is buffered, and asks whoever has another one to
// end it.
func (s *Store) Cancel(ctx context.Context, request claim.CancelRequest) (claim.CancelResult, error) {
	key, err := claim.ParseFiringID(string(request.Firing))
	if err != nil {
		return claim.CancelResult{}, err
	}
	now, err := s.enter(ctx)
	if err != nil {
		return claim.CancelResult{}, err
	}
	defer s.mu.Unlock()
	r, f := s.schedules[key.Schedule], s.firings[request.Firing.WithoutRedrives()]
	switch {
	case r == nil || r.generation != key.Generation:
		return claim.CancelResult{Answer: claim.CancelGone}, nil
	case f == nil && key.Kind == claim.KindScheduled && key.ScheduledAt.After(r.hwm):
		return claim.CancelResult{Answer: claim.CancelEarly}, nil
	case f == nil:
		return claim.CancelResult{Answer: claim.CancelClosed}, nil
	case f.cancel:
		return claim.CancelResult{Answer: claim.CancelAsked, Firing: f.describe(r)}, nil
	}
	note := who(schedule.PauseOptions{By: request.By, Reason: request.Reason})
	if note != "" {
		note = " " + note
	}
	s.note(r, schedule.EventCancelAsked, string(f.id)+note, now)
	defer s.wake()
	if f.state == claim.FiringBuffered { // nobody has it
		_, released := s.settle(r, f, f.record(claim.OutcomeCancelled, "cancelled"+note, now), request.KeepRuns, now)
		for _, free := range released { // nobody is told; the auditor enqueues it
			s.firings[free.Firing].audit = now
		}
		return claim.CancelResult{Answer: claim.CancelDone}, nil
	}
	f.cancel, f.byHand, f.audit = true, true, now
	return claim.CancelResult{Answer: claim.CancelAsked, Firing: f.describe(r)}, nil
}
