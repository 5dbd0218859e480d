package queue

import (
	"context"
	"sync"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A fakeLedger is a ledger in memory for one shard, with faults. It knows open
// firings and what became of settled ones, and takes every other firing for
// settled.
type fakeLedger struct {
	mu      sync.Mutex
	open    map[claim.FiringID]*record
	settled map[claim.FiringID]claim.FinishRequest // as reported, or as found with Settle
	found   map[claim.FiringID]claim.RunOutcome    // by Settle
	log     []claim.FinishRequest                  // every report that changed something
	token   claim.Token
	answers map[claim.FiringID]claim.BeginResult // answers of Begin instead of the ledger's own
	release []claim.Released                     // with the next Begin, Finish, Settle or Audit

	// fault is asked before (done false) and after (done true) every call; an
	// error before means that nothing happened, after that the reply was lost.
	fault func(call string, done bool) error
	calls map[string]int
	beats int // runs in heartbeats
}

type record struct {
	claim.OpenFiring
	owner string
	audit time.Time
}

func newFakeLedger() *fakeLedger {
	return &fakeLedger{
		open: map[claim.FiringID]*record{}, settled: map[claim.FiringID]claim.FinishRequest{},
		found: map[claim.FiringID]claim.RunOutcome{}, answers: map[claim.FiringID]claim.BeginResult{},
		calls: map[string]int{}, token: 1000,
	}
}

// add opens a firing in the state; change may refine it.
func (l *fakeLedger) add(id claim.FiringID, state claim.FiringState, queue string, change ...func(*claim.OpenFiring)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &record{OpenFiring: claim.OpenFiring{Firing: id, State: state, Position: claim.PositionPassed, Queue: queue, OpenedAt: time.Now()}}
	for _, f := range change {
		f(&r.OpenFiring)
	}
	l.open[id] = r
}

// get returns a copy of the open firing.
func (l *fakeLedger) get(id claim.FiringID) (claim.OpenFiring, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.open[id]
	if !ok {
		return claim.OpenFiring{}, false
	}
	return r.OpenFiring, true
}

// change alters an open firing.
func (l *fakeLedger) change(id claim.FiringID, f func(*claim.OpenFiring)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.open[id].OpenFiring)
}

// answer has Begin answer so, whatever the ledger holds.
func (l *fakeLedger) answer(id claim.FiringID, answer claim.BeginResult) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers[id] = answer
}

// outcome returns what the firing was reported or found as; "" is open.
func (l *fakeLedger) outcome(id claim.FiringID) (claim.RunOutcome, string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	request := l.settled[id]
	return request.Outcome, request.Error
}

func (l *fakeLedger) count(call string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[call]
}

// do runs one call between its faults.
func (l *fakeLedger) do(ctx context.Context, call string, f func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	l.calls[call]++
	fault := l.fault
	l.mu.Unlock()
	if fault != nil {
		if err := fault(call, false); err != nil {
			return err
		}
	}
	l.mu.Lock()
	f()
	l.mu.Unlock()
	if fault != nil {
		return fault(call, true)
	}
	return nil
}

func (l *fakeLedger) taken() []claim.Released {
	released := l.release
	l.release = nil
	return released
}

func (l *fakeLedger) Begin(ctx context.Context, q claim.BeginRequest) (result claim.BeginResult, err error) {
	err = l.do(ctx, "begin", func() {
		result.Released = l.taken()
		if answer, ok := l.answers[q.Firing]; ok {
			result = answer
			return
		}
		r, ok := l.open[q.Firing]
		switch {
		case !ok:
			result.Answer = claim.BeginSettled
			return
		case r.Position == claim.PositionGone:
			result.Answer = claim.BeginGone
			return
		case r.State == claim.FiringRunning && r.owner == q.Owner:
			result.Answer, result.Token, result.Attempt = claim.BeginRun, r.Token, r.Attempt
			return
		case r.State == claim.FiringRunning && r.LeaseUntil.After(time.Now()):
			result.Answer, result.Wait = claim.BeginBusy, time.Until(r.LeaseUntil)
			return
		case r.State == claim.FiringRunning && q.Effect == schedule.AtMostOnce:
			l.close(q.Firing, claim.FinishRequest{Outcome: claim.OutcomeUnknown})
			result.Answer = claim.BeginUnknown
			return
		case r.CancelWanted:
			l.close(q.Firing, claim.FinishRequest{Outcome: claim.OutcomeCancelled})
			result.Answer = claim.BeginCancelled
			return
		}
		l.token++
		r.State, r.owner, r.Token, r.Worker = claim.FiringRunning, q.Owner, l.token, q.Worker
		r.Attempt++
		r.TaskOwed = false
		r.LeaseUntil = time.Now().Add(q.Lease)
		r.audit = r.LeaseUntil.Add(q.Lease)
		result.Answer, result.Token, result.Attempt = claim.BeginRun, r.Token, r.Attempt
	})
	return result, err
}

func (l *fakeLedger) Heartbeat(ctx context.Context, lease time.Duration, runs []claim.Run) (pulses []claim.Pulse, err error) {
	err = l.do(ctx, "heartbeat", func() {
		for _, run := range runs {
			l.beats++
			r, ok := l.open[run.Firing]
			if !ok || r.State != claim.FiringRunning || r.Token != run.Token {
				pulses = append(pulses, claim.PulseLost)
				continue
			}
			r.LeaseUntil = time.Now().Add(lease)
			pulse := claim.PulseOK
			if r.CancelWanted {
				pulse = claim.PulseCancel
			}
			pulses = append(pulses, pulse)
		}
	})
	return pulses, err
}

func (l *fakeLedger) close(id claim.FiringID, q claim.FinishRequest) {
	delete(l.open, id)
	l.settled[id] = q
}

func (l *fakeLedger) Finish(ctx context.Context, q claim.FinishRequest) (result claim.FinishResult, err error) {
	err = l.do(ctx, "finish", func() {
		result.Released = l.taken()
		r, ok := l.open[q.Run.Firing]
		switch {
		case !ok:
			result.Answer = claim.FinishAlready
			return
		case r.Token != q.Run.Token:
			result.Answer = claim.FinishStale
			return
		}
		result.Answer = claim.FinishOK
		l.log = append(l.log, q)
		switch {
		case q.HandBack:
			r.State, r.owner, r.LeaseUntil, r.audit = claim.FiringEnqueued, "", time.Time{}, time.Now()
			r.Attempt--
		case q.Outcome == claim.OutcomeRetrying:
			r.State, r.owner, r.LeaseUntil, r.audit = claim.FiringWaiting, "", time.Time{}, time.Now().Add(q.RetryAfter)
		default:
			l.close(q.Run.Firing, q)
		}
	})
	return result, err
}

func (l *fakeLedger) Mark(ctx context.Context, auditAfter time.Duration, ids []claim.FiringID) error {
	return l.do(ctx, "mark", func() {
		for _, id := range ids {
			r, ok := l.open[id]
			if !ok || r.State != claim.FiringIntent && !r.TaskOwed {
				continue
			}
			if r.State == claim.FiringIntent {
				r.State = claim.FiringEnqueued
			}
			r.TaskOwed, r.audit = false, time.Now().Add(auditAfter)
		}
	})
}

func (l *fakeLedger) Audit(ctx context.Context, q claim.AuditRequest) (batch claim.AuditBatch, err error) {
	err = l.do(ctx, "audit", func() {
		batch.Now, batch.Released = time.Now(), l.taken()
		for _, r := range l.open {
			if len(batch.Firings) < q.Limit && !r.audit.After(batch.Now) {
				r.audit = batch.Now.Add(q.Hide)
				batch.Firings = append(batch.Firings, r.OpenFiring)
			}
		}
	})
	return batch, err
}

// due makes the firing due for an audit.
func (l *fakeLedger) due(id claim.FiringID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r, ok := l.open[id]; ok {
		r.audit = time.Time{}
	}
}

// moved reports whether the firing changed since an audit saw the token.
func (r *record) moved(token claim.Token) bool {
	return r.Token != token || r.State == claim.FiringRunning && r.LeaseUntil.After(time.Now())
}

func (l *fakeLedger) Redrive(ctx context.Context, q claim.RedriveRequest) (result claim.RedriveResult, err error) {
	err = l.do(ctx, "redrive", func() {
		r, ok := l.open[q.Firing]
		switch {
		case !ok:
			result.Answer = claim.RedriveAlready
			return
		case r.moved(q.Token), r.Redrives != q.Expected && r.Redrives != q.Expected+1:
			result.Answer, result.Redrives = claim.RedriveStale, r.Redrives
			return
		case r.Redrives == q.Expected:
			r.Redrives++
			r.TaskOwed = true
			if r.State == claim.FiringWaiting || r.State == claim.FiringIntent {
				r.State = claim.FiringEnqueued
			}
			r.audit = time.Now().Add(q.AuditAfter)
		}
		result.Answer, result.Redrives = claim.RedriveOK, r.Redrives
	})
	return result, err
}

func (l *fakeLedger) Settle(ctx context.Context, q claim.SettleRequest) (result claim.RedriveResult, err error) {
	err = l.do(ctx, "settle", func() {
		result.Released = l.taken()
		r, ok := l.open[q.Firing]
		switch {
		case !ok:
			result.Answer = claim.RedriveAlready
		case r.moved(q.Token):
			result.Answer = claim.RedriveStale
		default:
			result.Answer = claim.RedriveOK
			l.found[q.Firing] = q.Outcome
			l.close(q.Firing, claim.FinishRequest{Outcome: q.Outcome, Error: q.Error})
		}
	})
	return result, err
}

func (l *fakeLedger) Runs(context.Context, schedule.ID, int) ([]claim.RunRecord, error) {
	return nil, nil
}

// A fakeCatalog knows definitions, all of generation 7.
type fakeCatalog struct {
	schedule.Catalog
	mu          sync.Mutex
	definitions map[schedule.ID]schedule.Schedule
	generation  int64
	err         error
}

func (c *fakeCatalog) GetMany(_ context.Context, ids []schedule.ID) (map[schedule.ID]schedule.Entry, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	entries := make(map[schedule.ID]schedule.Entry)
	for _, id := range ids {
		if definition, ok := c.definitions[id]; ok {
			entries[id] = schedule.Entry{Schedule: definition, Status: schedule.Status{Generation: c.generation}}
		}
	}
	return entries, nil
}
