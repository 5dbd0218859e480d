package memstore

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// Pause stops new claims. A claim that it meets keeps its promise.
func (s *Store) Pause(ctx context.Context, id schedule.ID, options schedule.PauseOptions) (schedule.PauseResult, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return schedule.PauseResult{}, err
	}
	defer s.mu.Unlock()
	r := s.schedules[id]
	if r == nil {
		return schedule.PauseResult{}, notFound("pausing", id)
	}
	s.promise(r)
	r.pause(options, now)
	s.tell(r, who(options), now)
	return schedule.PauseResult{Open: ids(r.open)}, nil
}

func (r *record) pause(options schedule.PauseOptions, now time.Time) {
	if r.flag != paused {
		r.pausedAt = now
	}
	r.flag, r.until = paused, millis(options.Until)
	r.pausedBy, r.pauseReason = options.By, options.Reason
}

// unpause clears what pause wrote.
func (r *record) unpause() {
	r.flag, r.until = enabled, time.Time{}
	r.pausedAt, r.pausedBy, r.pauseReason = time.Time{}, "", ""
}

// Resume lets a paused or disabled schedule go on.
func (s *Store) Resume(ctx context.Context, id schedule.ID, options schedule.ResumeOptions) (schedule.ResumeResult, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return schedule.ResumeResult{}, err
	}
	defer s.mu.Unlock()
	r := s.schedules[id]
	if r == nil {
		return schedule.ResumeResult{}, notFound("resuming", id)
	}
	s.promise(r)
	stopped := r.flag == paused || r.flag == disabled
	r.consecutive = 0
	r.unpause()
	if stopped && !r.next.IsZero() {
		// A pending time that stays also keeps what delays it.
		if plan := schedule.PlanResume(r.compiled, r.next, now, options); !plan.Next.Equal(r.next) {
			s.apply(r, plan, r.compiled)
		}
	}
	s.drain(r, now) // nobody is told; the auditor enqueues it
	s.tell(r, "", now)
	s.wake()
	return schedule.ResumeResult{NextAt: r.next}, nil
}

// who renders who paused a schedule and why.
func who(options schedule.PauseOptions) string {
	switch {
	case options.By == "":
		return options.Reason
	case options.Reason == "":
		return "by " + options.By
	}
	return "by " + options.By + ": " + options.Reason
}
