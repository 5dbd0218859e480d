package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var _ claim.Ledger = (*Store)(nil)

// Begin answers whether an attempt may run.
func (s *Store) Begin(ctx context.Context, request claim.BeginRequest) (claim.BeginResult, error) {
	key, err := claim.ParseFiringID(string(request.Firing))
	if err != nil {
		return claim.BeginResult{}, err
	}
	now, err := s.enter(ctx)
	if err != nil {
		return claim.BeginResult{}, err
	}
	defer s.mu.Unlock()
	r := s.schedules[key.Schedule]
	if r == nil || r.generation != key.Generation {
		return claim.BeginResult{Answer: claim.BeginGone}, nil
	}
	request.Firing = request.Firing.WithoutRedrives()
	f := s.firings[request.Firing]
	if f == nil {
		if answer := r.unknownFiring(request.Firing, key, now); answer != claim.BeginRun {
			return claim.BeginResult{Answer: answer}, nil
		}
		// The store lost what it knew of this firing, the queue did not: adopt it.
		f = s.openFiring(r, &firing{id: request.Firing, state: claim.FiringEnqueued, openedAt: now})
	}
	return s.beginOpen(r, f, request, now), nil
}

// unknownFiring answers for a firing that is not in the ledger: BeginRun when
// it is exactly the pending scheduled time, and that is due. Adopting a later
// one would settle those in between unseen, and nobody enqueues one that is not
// due: its task is forged.
func (r *record) unknownFiring(id claim.FiringID, key claim.Firing, now time.Time) claim.Answer {
	switch {
	case key.Kind != claim.KindScheduled, !key.ScheduledAt.After(r.hwm), key.ScheduledAt.Before(r.next):
		switch {
		case r.last.Firing == id && r.last.Outcome == claim.OutcomeCancelled:
			return claim.BeginCancelled
		case r.last.Firing == id && r.last.Outcome == claim.OutcomeUnknown:
			return claim.BeginUnknown
		}
		return claim.BeginSettled
	case key.ScheduledAt.After(r.next), key.ScheduledAt.After(now):
		return claim.BeginEarly
	}
	return claim.BeginRun
}

// beginOpen answers for a firing that is in the ledger.
func (d *data) beginOpen(r *record, f *firing, request claim.BeginRequest, now time.Time) claim.BeginResult {
	if f.state == claim.FiringBuffered {
		return claim.BeginResult{Answer: claim.BeginEarly}
	}
	if f.state == claim.FiringRunning {
		switch {
		case f.owner == request.Owner: // the same call, sent again
			return claim.BeginResult{Answer: claim.BeginRun, Token: f.token, Attempt: f.attempt}
		case f.leaseUntil.After(now):
			return claim.BeginResult{Answer: claim.BeginBusy, Wait: f.leaseUntil.Sub(now)}
		case request.Effect == schedule.AtMostOnce:
			_, released := d.settle(r, f, f.record(claim.OutcomeUnknown, "", now), request.KeepRuns, now)
			return claim.BeginResult{Answer: claim.BeginUnknown, Released: released}
		}
	}
	if f.cancel {
		r.passed(f)
		text := ""
		if f.byHand {
			text = "cancelled by an operator"
		}
		_, released := d.settle(r, f, f.record(claim.OutcomeCancelled, text, now), request.KeepRuns, now)
		return claim.BeginResult{Answer: claim.BeginCancelled, Released: released}
	}
	for _, other := range d.waitedFor(r, f) { // it was asked to end and has not yet
		if other != f && other.state == claim.FiringRunning && other.leaseUntil.After(now) {
			return claim.BeginResult{Answer: claim.BeginBusy, Wait: other.leaseUntil.Sub(now)}
		}
	}
	f.state, f.owed = claim.FiringRunning, false
	f.attempt++
	f.token, f.owner, f.worker, f.started = d.grant(r.id, now), request.Owner, request.Worker, now
	f.leaseUntil = millis(now.Add(request.Lease))
	f.audit = millis(f.leaseUntil.Add(request.Lease))
	r.passed(f)
	r.note = note{status: schedule.LastRunning, run: claim.Run{Firing: f.id, Token: f.token}, started: now}
	return claim.BeginResult{Answer: claim.BeginRun, Token: f.token, Attempt: f.attempt}
}

// waitedFor returns what must end before the firing runs. A trigger waits for
// exactly what it asked to end, whatever the schedule's policy is.
func (d *data) waitedFor(r *record, f *firing) []*firing {
	var waited []*firing
	for _, id := range f.waits {
		if other := d.firings[id]; other != nil {
			waited = append(waited, other)
		}
	}
	if f.key.Kind != claim.KindManual && r.overlap() == schedule.OverlapCancelOther {
		return r.open
	}
	return waited
}

// passed records that the pending scheduled time happened, before its claimer
// could say so.
func (r *record) passed(f *firing) {
	if f.key.Kind == claim.KindScheduled && f.key.ScheduledAt.Equal(r.next) {
		r.advance(r.next, schedule.VerdictFired, 0)
	}
}

// record describes the firing's last attempt, which was found to have ended.
func (f *firing) record(outcome claim.RunOutcome, text string, now time.Time) claim.RunRecord {
	return claim.RunRecord{Firing: f.id, Outcome: outcome, Attempt: f.attempt, Token: f.token,
		Started: f.started, Ended: now, Worker: f.worker, Error: clip(text)}
}

// settle closes a firing with its outcome and reports whether that disabled
// the schedule.
func (d *data) settle(r *record, f *firing, run claim.RunRecord, keep int, now time.Time) (bool, []claim.Released) {
	d.closeFiring(r, f)
	r.keep(run, keep)
	r.runs++
	tripped := false
	switch run.Outcome {
	case claim.OutcomeSucceeded:
		r.succeeded()
	case claim.OutcomeFailed, claim.OutcomeLost:
		r.failures++
		tripped = d.failed(r, now)
	}
	if run.Outcome == claim.OutcomeLost {
		d.note(r, schedule.EventLost, string(f.id), now)
	}
	d.closeBackfilled(r, f, run.Outcome, now)
	released := d.follow(r, now)
	d.tell(r, "", now)
	return tripped, released
}

// keep makes the run the schedule's last one and appends it to the run log.
func (r *record) keep(run claim.RunRecord, keep int) {
	r.last, r.note, r.enqueueError = run, note{}, ""
	if keep > 0 {
		r.log = append([]claim.RunRecord{run}, r.log...)
		r.log = r.log[:min(len(r.log), keep)]
	}
}

// Heartbeat extends the leases of running attempts.
func (s *Store) Heartbeat(ctx context.Context, lease time.Duration, runs []claim.Run) ([]claim.Pulse, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	pulses := make([]claim.Pulse, len(runs))
	for i, run := range runs {
		f := s.firings[run.Firing.WithoutRedrives()]
		if f == nil || f.state != claim.FiringRunning || f.token != run.Token {
			pulses[i] = claim.PulseLost
			continue
		}
		f.leaseUntil = millis(now.Add(lease))
		f.audit = millis(f.leaseUntil.Add(lease))
		pulses[i] = claim.PulseOK
		if f.cancel {
			pulses[i] = claim.PulseCancel
		}
	}
	return pulses, nil
}

// Finish reports the end of an attempt.
func (s *Store) Finish(ctx context.Context, request claim.FinishRequest) (claim.FinishResult, error) {
	if err := checkOutcome(request.Outcome, request.HandBack); err != nil {
		return claim.FinishResult{}, err
	}
	now, err := s.enter(ctx)
	if err != nil {
		return claim.FinishResult{}, err
	}
	defer s.mu.Unlock()
	request.Run.Firing = request.Run.Firing.WithoutRedrives()
	f := s.remember(request, now)
	if f == nil {
		return claim.FinishResult{Answer: claim.FinishAlready, Released: s.releasedBefore(request.Run.Firing)}, nil
	}
	if request.Run.Token == 0 || f.token != request.Run.Token {
		return claim.FinishResult{Answer: claim.FinishStale}, nil
	}
	r := s.schedules[f.key.Schedule]
	run := claim.RunRecord{Firing: f.id, Outcome: request.Outcome, Attempt: request.Attempt, Token: f.token,
		Started: millis(request.Started), Duration: request.Duration, Ended: now,
		Worker: request.Worker, Error: clip(request.Error)}
	switch repeat := f.state != claim.FiringRunning; {
	case request.HandBack && !repeat:
		f.attempt--
		if r.note.run == request.Run {
			r.note = note{}
		}
		f.yield(claim.FiringEnqueued, now)
	case request.Outcome == claim.OutcomeRetrying && !repeat:
		f.yield(claim.FiringWaiting, millis(now.Add(request.RetryAfter)))
		r.keep(run, request.KeepRuns)
	case request.HandBack || request.Outcome == claim.OutcomeRetrying:
		// reported before
	default:
		tripped, released := s.settle(r, f, run, request.KeepRuns, now)
		answer := claim.FinishOK
		if tripped {
			answer = claim.FinishDisabled
		}
		return claim.FinishResult{Answer: answer, Released: released}, nil
	}
	return claim.FinishResult{Answer: claim.FinishOK}, nil
}

// remember returns the open firing of a report, nil when there is none. A
// success with a token larger than that of the newest attempt is that of an
// attempt which the store forgot, since it went back to before that: it counts.
// Of firings that are not open it counts for exactly the pending one, which is
// opened for it, as Begin does.
func (d *data) remember(request claim.FinishRequest, now time.Time) *firing {
	id := request.Run.Firing
	f := d.firings[id]
	key, err := claim.ParseFiringID(string(id))
	r := d.schedules[key.Schedule]
	forgot := err == nil && r != nil && r.generation == key.Generation &&
		request.Outcome == claim.OutcomeSucceeded && !request.HandBack && int64(request.Run.Token) > r.generation
	switch {
	case !forgot, f != nil && request.Run.Token <= f.token, f == nil && r.unknownFiring(id, key, key.ScheduledAt) != claim.BeginRun:
		return f // it was due: it ran
	case f == nil:
		f = d.openFiring(r, &firing{id: id, state: claim.FiringEnqueued, openedAt: now})
	}
	f.token = request.Run.Token
	r.passed(f)
	return f
}

// yield ends the lease of an attempt; another attempt follows.
func (f *firing) yield(state claim.FiringState, audit time.Time) {
	f.state, f.owner, f.leaseUntil, f.audit = state, "", time.Time{}, audit
}

// checkOutcome refuses outcomes that a worker cannot report.
func checkOutcome(outcome claim.RunOutcome, handBack bool) error {
	reported := []claim.RunOutcome{claim.OutcomeSucceeded, claim.OutcomeFailed, claim.OutcomeRetrying, claim.OutcomeCancelled}
	if handBack || slices.Contains(reported, outcome) {
		return nil
	}
	return &schedule.FieldError{Field: "outcome", Value: string(outcome), Allowed: "succeeded, failed, retrying or cancelled"}
}

// releasedBefore repeats the release that a lost reply carried: a firing that
// came out of the buffer and was not marked yet.
func (d *data) releasedBefore(id claim.FiringID) []claim.Released {
	key, err := claim.ParseFiringID(string(id))
	r := d.schedules[key.Schedule]
	if err != nil || r == nil || r.generation != key.Generation {
		return nil
	}
	var released []claim.Released
	for _, f := range r.open {
		if f.state == claim.FiringIntent && f.released {
			released = append(released, f.free())
		}
	}
	return released
}

// Mark records that tasks are in their queues.
func (s *Store) Mark(ctx context.Context, auditAfter time.Duration, firings []claim.FiringID) error {
	now, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	for _, id := range firings {
		if f := s.firings[id.WithoutRedrives()]; f != nil && (f.state == claim.FiringIntent || f.owed) {
			after := auditAfter
			if r := s.schedules[f.key.Schedule]; len(r.buffer) > 0 {
				after = min(after, releaseAudit) // somebody waits for it
			}
			if f.state == claim.FiringIntent {
				f.state = claim.FiringEnqueued
			}
			f.owed, f.audit = false, millis(now.Add(after))
		}
	}
	return nil
}
