package memstore

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// mostCarried bounds the payloads in a reply to Audit, in bytes, about; what is
// over is due again after nextReply.
const (
	mostCarried = 1 << 20
	nextReply   = 100 * time.Millisecond
)

// Audit returns overdue firings of a shard and hides them for a while.
func (s *Store) Audit(ctx context.Context, request claim.AuditRequest) (claim.AuditBatch, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return claim.AuditBatch{}, err
	}
	defer s.mu.Unlock()
	if err := s.checkShard(request.Shard); err != nil {
		return claim.AuditBatch{}, err
	}
	if request.Limit < 1 {
		return claim.AuditBatch{}, &schedule.FieldError{Field: "limit", Value: strconv.Itoa(request.Limit), Allowed: "1 or more"}
	}
	batch, carried := claim.AuditBatch{Now: now}, 0
	for _, f := range s.overdue(request.Shard, now, request.Limit) {
		if carried >= mostCarried {
			f.audit = now.Add(nextReply)
			continue
		}
		r, hide := s.schedules[f.key.Schedule], request.Hide
		if len(r.buffer) > 0 {
			hide = min(hide, releaseAudit) // somebody waits for it
		}
		f.audit = millis(now.Add(hide))
		if f.state == claim.FiringBuffered {
			batch.Released = append(batch.Released, s.drain(r, now.Add(releaseAudit))...)
			continue
		}
		batch.Firings = append(batch.Firings, f.describe(r))
		if f.extra != nil {
			carried += len(f.extra.Payload)
		}
	}
	if left := s.overdue(request.Shard, time.Time{}, 1); len(left) > 0 {
		batch.NextAudit = left[0].audit
	}
	return batch, nil
}

// overdue returns firings of a shard in the order of their audit times: those
// whose time has come by now, or all when now is zero.
func (d *data) overdue(shard int, now time.Time, limit int) []*firing {
	var overdue []*firing
	for _, f := range d.firings {
		if d.shardOf(f.key.Schedule) == shard && (now.IsZero() || !f.audit.After(now)) {
			overdue = append(overdue, f)
		}
	}
	slices.SortFunc(overdue, func(a, b *firing) int {
		return cmp.Or(a.audit.Compare(b.audit), cmp.Compare(a.id, b.id))
	})
	return overdue[:min(len(overdue), limit)]
}

// describe returns the ledger record as auditors see it.
func (f *firing) describe(r *record) claim.OpenFiring {
	position := claim.PositionPassed
	if f.key.Kind == claim.KindScheduled && f.key.ScheduledAt.After(r.hwm) {
		position = claim.PositionPending
	}
	return claim.OpenFiring{Firing: f.id, State: f.state, Position: position, Attempt: f.attempt,
		Redrives: f.redrives, Token: f.token, LeaseUntil: f.leaseUntil, OpenedAt: f.openedAt,
		Queue: f.queue, CancelWanted: f.cancel, CancelByHand: f.byHand, TaskOwed: f.owed, Worker: f.worker, Extra: f.extra}
}

// Redrive raises the number of re-drives of a firing whose task is lost.
func (s *Store) Redrive(ctx context.Context, request claim.RedriveRequest) (claim.RedriveResult, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return claim.RedriveResult{}, err
	}
	defer s.mu.Unlock()
	f := s.firings[request.Firing.WithoutRedrives()]
	if f == nil {
		return claim.RedriveResult{Answer: claim.RedriveAlready}, nil
	}
	stale := f.movedOn(request.Token, now) || f.state == claim.FiringBuffered
	switch {
	case stale || f.redrives != request.Expected && f.redrives != request.Expected+1:
		return claim.RedriveResult{Answer: claim.RedriveStale, Redrives: f.redrives}, nil
	case f.redrives == request.Expected:
		f.redrives++
		f.owed = true
		f.audit = millis(now.Add(request.AuditAfter))
		if f.state == claim.FiringWaiting {
			f.state = claim.FiringEnqueued
		}
	}
	return claim.RedriveResult{Answer: claim.RedriveOK, Redrives: f.redrives}, nil
}

// movedOn reports whether an attempt began since the auditor looked, or is
// running.
func (f *firing) movedOn(token claim.Token, now time.Time) bool {
	return f.token != token || f.state == claim.FiringRunning && f.leaseUntil.After(now)
}

// Settle closes a firing with an outcome that was found.
func (s *Store) Settle(ctx context.Context, request claim.SettleRequest) (claim.RedriveResult, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return claim.RedriveResult{}, err
	}
	defer s.mu.Unlock()
	f := s.firings[request.Firing.WithoutRedrives()]
	if f == nil {
		return claim.RedriveResult{Answer: claim.RedriveAlready}, nil
	}
	if f.movedOn(request.Token, now) {
		return claim.RedriveResult{Answer: claim.RedriveStale, Redrives: f.redrives}, nil
	}
	r := s.schedules[f.key.Schedule]
	r.passed(f)
	_, released := s.settle(r, f, f.record(request.Outcome, request.Error, now), request.KeepRuns, now)
	return claim.RedriveResult{Answer: claim.RedriveOK, Redrives: f.redrives, Released: released}, nil
}

// Runs returns the run log, newest first.
func (s *Store) Runs(ctx context.Context, id schedule.ID, limit int) ([]claim.RunRecord, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	r := s.schedules[id]
	if r == nil {
		return nil, notFound("reading the runs of", id)
	}
	return slices.Clone(r.log[:min(len(r.log), max(0, limit))]), nil
}
