package memstore

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
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

// Trigger opens an extra firing. Its audit time is now: an auditor enqueues it.
func (s *Store) Trigger(ctx context.Context, id schedule.ID, options schedule.TriggerOptions) (schedule.TriggerResult, error) {
	if options.RequestID == "" {
		options.RequestID = rand.Text()
	}
	if err := schedule.ValidateRequestID(options.RequestID); err != nil {
		return schedule.TriggerResult{}, err
	}
	now, err := s.enter(ctx)
	if err != nil {
		return schedule.TriggerResult{}, err
	}
	defer s.mu.Unlock()
	r := s.schedules[id]
	if r == nil {
		return schedule.TriggerResult{}, notFound("triggering", id)
	}
	fid := claim.ManualFiring(id, r.generation, options.RequestID)
	result := schedule.TriggerResult{FiringID: string(fid), Queue: r.definition().Queue}
	if _, ok := s.recall("trigger:"+string(fid), now); ok {
		before := s.firings[fid]
		result.Duplicate, result.Buffered = true, before != nil && before.state == claim.FiringBuffered
		return result, nil
	}
	f := &firing{id: fid, state: claim.FiringIntent, openedAt: now, audit: now}
	switch {
	case options.ObeyOverlap && len(r.open) > 0 && r.obeysOverlap():
		if result.Buffered = s.bufferFiring(r, f); !result.Buffered {
			return schedule.TriggerResult{Refused: true}, nil
		}
	case options.ObeyOverlap && r.overlap() == schedule.OverlapCancelOther:
		r.cancelOpen(now)
		s.openFiring(r, f)
	default:
		s.openFiring(r, f)
	}
	s.note(r, schedule.EventTriggered, string(fid), now)
	s.requests["trigger:"+string(fid)] = request{expires: now.Add(requestTerm), firing: fid}
	s.wake()
	return result, nil
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
