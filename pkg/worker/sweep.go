package worker

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
)

// A sweeper audits the shards: each when its next audit is due, and all at
// once when the bell rings, since a trigger is a firing that waits for its
// audit.
type sweeper struct {
	bell *claim.Bell
	rounds
}

func newSweeper(s *Scheduler, shards int, bell *claim.Bell) *sweeper {
	return &sweeper{bell: bell, rounds: newRounds(s, shards, bell.Rope(shards), s.hints)}
}

func (w *sweeper) run(ctx context.Context) {
	w.rounds.run(ctx, w.s.watch.loop("audit", w.s.stall()+2*w.s.options.AuditAfter), w.sweep)
}

// sweep audits a shard and returns when it wants to be audited again.
func (w *sweeper) sweep(ctx context.Context, shard int) (time.Time, error) {
	call, cancel := context.WithTimeout(ctx, w.s.options.AuditAfter)
	defer cancel()
	started := time.Now()
	result, err := w.s.options.Auditor.Sweep(call, shard)
	if err != nil && result.Now.IsZero() {
		return time.Time{}, err
	}
	if err != nil {
		w.s.logger.Warn("firings could not be audited; they are due again", "shard", shard, "firings", result.Failed, "error", err)
	}
	w.s.counters.swept.Add(1)
	w.s.counters.sweptAt.Store(time.Now().UnixNano())
	next := started.Add(w.longest())
	if !result.NextAudit.IsZero() {
		if at := w.s.local(result.NextAudit).Add(w.s.ranking.wait(shard)); at.Before(next) {
			next = at
		}
	}
	if soon := started.Add(waitedFor); result.Released > 0 && soon.Before(next) {
		next = soon // others may wait for what came free
	}
	return next, nil
}

// waitedFor is when a firing that a buffered one waits for is audited: a plain
// consumer tells nobody that it has ended it.
const waitedFor = 5 * time.Second

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
	if !w.bell.Healthy() {
		return min(w.s.options.AuditAfter, deafSleep)
	}
	return max(w.s.options.AuditAfter, w.s.options.IdleSleep)
}
