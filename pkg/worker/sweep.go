package worker

import (
	"context"
	"math/rand/v2"
	"time"
)

// A sweeper audits the shards: each when its next audit is due, and all at
// once when the bell rings, since a trigger is a firing that waits for its
// audit.
type sweeper struct {
	s    *Scheduler
	bell *bell
	next []time.Time // by shard, on our clock
	rope chan struct{}
}

func newSweeper(s *Scheduler, shards int, bell *bell) *sweeper {
	return &sweeper{s: s, bell: bell, next: make([]time.Time, shards), rope: bell.ropes[shards]}
}

func (w *sweeper) run(ctx context.Context) {
	failed := 0
	loop := w.s.watch.loop("audit", w.s.stall()+2*w.s.options.AuditAfter)
	for ctx.Err() == nil {
		if err := w.sweepDue(ctx); err != nil {
			if !w.s.outage.failed(ctx, err, failed) {
				return
			}
			failed++
			continue
		}
		failed = 0
		loop.turned()
		w.sleep(ctx)
	}
}

// sweepDue audits the shards whose time has come, in random order.
func (w *sweeper) sweepDue(ctx context.Context) error {
	for _, shard := range rand.Perm(len(w.next)) {
		if ctx.Err() != nil || time.Now().Before(w.next[shard]) {
			continue
		}
		if err := w.sweep(ctx, shard); err != nil {
			return err
		}
	}
	return nil
}

func (w *sweeper) sweep(ctx context.Context, shard int) error {
	call, cancel := context.WithTimeout(ctx, w.s.options.AuditAfter)
	defer cancel()
	started := time.Now()
	result, err := w.s.options.Auditor.Sweep(call, shard)
	if err != nil && result.Now.IsZero() {
		return err
	}
	if err != nil {
		w.s.logger.Warn("firings could not be audited; they are due again", "shard", shard, "firings", result.Failed, "error", err)
	}
	w.s.counters.swept.Add(1)
	next := started.Add(w.longest())
	if !result.NextAudit.IsZero() {
		if at := w.s.local(result.NextAudit).Add(w.s.ranking.wait(shard)); at.Before(next) {
			next = at
		}
	}
	if soon := started.Add(waitedFor); result.Released > 0 && soon.Before(next) {
		next = soon // others may wait for what came free
	}
	w.next[shard] = next
	return nil
}

// waitedFor is when a firing that a buffered one waits for is audited: a plain
// consumer tells nobody that it has ended it.
const waitedFor = 5 * time.Second

// A hint tells the sweeper of an audit that it cannot know of.
type hint struct {
	shard int
	at    time.Time // on our clock
}

// hintAudit is harmless when it is lost: the sweeper looks at every shard now
// and then.
func (s *Scheduler) hintAudit(shard int) {
	select {
	case s.hints <- hint{shard, time.Now().Add(waitedFor)}:
	default:
	}
}

// longest is the time between two looks at a shard when no audit is known:
// firings that other workers opened are known only by looking.
func (w *sweeper) longest() time.Duration {
	if !w.bell.healthy() {
		return min(w.s.options.AuditAfter, deafSleep)
	}
	return max(w.s.options.AuditAfter, w.s.options.IdleSleep)
}

// sleep waits for the next audit or for the bell.
func (w *sweeper) sleep(ctx context.Context) {
	next := w.next[0]
	for _, at := range w.next {
		if at.Before(next) {
			next = at
		}
	}
	timer := time.NewTimer(max(time.Until(next), shortest))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case h := <-w.s.hints:
		if h.at.Before(w.next[h.shard]) {
			w.next[h.shard] = h.at
		}
	case <-w.rope:
		now := time.Now()
		for shard := range w.next {
			w.next[shard] = now.Add(w.s.ranking.wait(shard))
		}
	}
}
