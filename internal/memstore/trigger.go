package memstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// Trigger opens an extra firing. Its audit time is now: an auditor enqueues it.
func (s *Store) Trigger(ctx context.Context, id schedule.ID, options schedule.TriggerOptions) (schedule.TriggerResult, error) {
	if err := options.Validate(); err != nil {
		return schedule.TriggerResult{}, err
	}
	if options.RequestID == "" {
		options.RequestID = rand.Text()
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
	extra := extraOf(options)
	asked := ""
	if extra != nil {
		asked = fmt.Sprint(extra.ScheduledAt.UnixMilli(), extra.Payload != nil, string(extra.Payload))
	}
	result := schedule.TriggerResult{FiringID: string(fid), Queue: r.definition().Queue}
	if first, ok := s.recall("trigger:"+string(fid), now); ok {
		before := s.firings[fid]
		result.Duplicate, result.Differs = true, first.asked != asked
		result.Buffered = before != nil && before.state == claim.FiringBuffered
		return result, nil
	}
	if result.Buffered = s.openTriggered(r, &firing{id: fid, state: claim.FiringIntent, openedAt: now, audit: now, extra: extra}, options, now); s.firings[fid] == nil {
		return schedule.TriggerResult{Refused: true}, nil
	}
	s.note(r, schedule.EventTriggered, string(fid), now)
	s.requests["trigger:"+string(fid)] = request{expires: now.Add(requestTerm), firing: fid, asked: asked}
	s.wake()
	return result, nil
}

// extraOf is what the firing carries, nil for nothing.
func extraOf(options schedule.TriggerOptions) *claim.Extra {
	extra := &claim.Extra{Payload: bytes.Clone(options.Payload)}
	if !options.ScheduledAt.IsZero() {
		extra.ScheduledAt = millis(options.ScheduledAt)
	}
	if extra.Payload == nil && extra.ScheduledAt.IsZero() {
		return nil
	}
	return extra
}

// openTriggered opens the firing, unless the policy refuses it, and reports
// whether it is buffered.
func (d *data) openTriggered(r *record, f *firing, options schedule.TriggerOptions, now time.Time) bool {
	policy := options.Overlap
	if options.ObeyOverlap {
		policy = r.overlap()
	}
	switch {
	case len(r.open) > 0 && obeyed(policy):
		return d.bufferFiring(r, f, policy)
	case policy == schedule.OverlapCancelOther:
		for _, other := range r.open {
			f.waits = append(f.waits, other.id)
		}
		r.cancelOpen(now)
	}
	d.openFiring(r, f)
	return false
}
