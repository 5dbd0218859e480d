package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/belfryhq/belfry/pkg/claim"
)

// A lane serves one shard: it claims, has the batches dispatched, and sleeps
// until the next due time.
type lane struct {
	s     *Scheduler
	shard int
	bell  *claim.Bell
	work  context.Context // of batches; outlives the lane's own by a grace
}

// inFlight is the number of batches of a shard that are dispatched at a time.
// While one is read, others are planned, enqueued and completed and the next
// is claimed, so that neither Redis nor this process waits for the other.
const inFlight = 4

// shortest is the least sleep after a claim that found nothing, so that a
// store whose clocks disagree is not asked in a tight loop.
const shortest = 5 * time.Millisecond

func (l *lane) run(ctx context.Context) {
	failed := 0
	loop := l.s.watch.loop(fmt.Sprintf("claim %d", l.shard), l.s.stall())
	for l.s.gate.pass(ctx, func() { l.s.touch(); loop.turned() }) {
		l.s.touch()
		next, err := l.drain(ctx, loop)
		l.s.gate.leave()
		if err != nil {
			if !l.s.outage.failed(ctx, l, err, failed) {
				return
			}
			failed++
			continue
		}
		failed = 0
		loop.turned()
		l.sleep(ctx, next)
	}
}

// drain claims until nothing is due, and returns when, on our clock, something
// will be; the zero time when nothing is known.
func (l *lane) drain(ctx context.Context, loop *watched) (time.Time, error) {
	var (
		group errgroup.Group
		soon  earliest  // of what this drain completed
		left  time.Time // of what the last claim left
		err   error
	)
	group.SetLimit(inFlight)
	for ctx.Err() == nil && l.s.gate.isOpen() {
		var batch claim.Batch
		sent := l.s.now()
		batch, err = l.claim(ctx)
		if err != nil {
			break
		}
		received := time.Now()
		l.s.claimed(l, batch.Now, received)
		loop.turned()
		left = batch.NextDue
		l.reportDamaged(batch)
		l.dispatch(&group, batch, sent, &soon)
		if len(batch.Claims) < l.s.options.Batch {
			break
		}
	}
	_ = group.Wait() // dispatch reports through the scheduler
	soon.add(left)
	at := soon.get()
	if at.IsZero() || err != nil {
		return time.Time{}, err
	}
	return l.s.local(at), nil
}

// claim asks for one batch. The call is given up well before the claims that
// it may have got run out.
func (l *lane) claim(ctx context.Context) (claim.Batch, error) {
	ctx, cancel := context.WithTimeout(ctx, l.s.options.ClaimTTL/2)
	defer cancel()
	return l.s.claims.ClaimDue(ctx, claim.ClaimRequest{Shard: l.shard, Owner: l.s.options.ID, Limit: l.s.options.Batch,
		TTL: l.s.options.ClaimTTL, AuditAfter: l.s.options.AuditAfter, AuditOverlap: min(l.s.options.AuditAfter, auditOverlap)})
}

// reportDamaged tells of the schedules that the store put aside, each once.
func (l *lane) reportDamaged(batch claim.Batch) {
	for _, id := range batch.Damaged {
		failures, until := l.s.failures.add(id), batch.Now.Add(longestAside)
		l.s.counters.isolated.Add(1)
		if failures == 1 {
			l.s.logger.Error("a schedule was put aside", "schedule", id, "until", until, "error", errDamaged)
		}
		l.s.observer.Isolated(IsolatedEvent{Schedule: id, Err: errDamaged, Until: until, Failures: failures})
	}
}

// errDamaged reports a schedule that the store has damaged.
var errDamaged = errors.New("worker: the store's record of the schedule cannot be read: put the schedule again")

// auditOverlap is when a firing of a schedule with an overlap policy is first
// audited: plain consumers report nothing, and the next firing waits.
const auditOverlap = 3 * time.Second

// dispatch starts the work on a batch, which is kept alive from now on.
func (l *lane) dispatch(group *errgroup.Group, batch claim.Batch, sent time.Time, soon *earliest) {
	if len(batch.Claims) == 0 && len(batch.Released) == 0 {
		return
	}
	l.s.counters.claimed.Add(int64(len(batch.Claims)))
	ctx, hold := newHold(l.work, l.s, batch, sent)
	group.Go(func() error {
		defer hold.stop()
		b := &batchWork{s: l.s, shard: l.shard, batch: batch, hold: hold, soon: soon}
		b.run(ctx)
		return nil
	})
}

// sleep waits until next, until the bell rings, or for the longest nap.
func (l *lane) sleep(ctx context.Context, next time.Time) {
	nap := l.s.nap(l.bell)
	// Nobody waits for the end of a nap, so a little noise keeps the fleet
	// from asking in step.
	wait := nap + l.s.draw(20*time.Millisecond)
	if !next.IsZero() {
		due := max(time.Until(next), 0)
		if due > 0 {
			due = max(due, shortest)
		}
		wait = min(wait, due+l.s.ranking.wait(l.shard))
	}
	select {
	case <-l.bell.Rope(l.shard): // rung while it claimed: one look answers that and what is due
		pause(ctx, l.s.ranking.wait(l.shard))
		return
	default:
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-l.bell.Rope(l.shard):
		pause(ctx, l.s.ranking.wait(l.shard))
	}
}
