package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/queue"
)

// A batchWork carries out what a claimed batch needs.
type batchWork struct {
	s     *Scheduler
	shard int
	batch claim.Batch
	hold  *hold
	soon  *earliest // when the shard has work again

	calendars int64 // version of those that the decisions were made with
}

// run plans, enqueues and completes. Every claim ends completed, released, or,
// when it is not trusted any more, left to run out.
func (b *batchWork) run(ctx context.Context) {
	b.enqueueReleased(ctx, b.batch.Released)
	if b.s.stopping.Load() {
		b.releaseAll(b.batch.Claims)
		return
	}
	definitions, calendars, err := b.s.cache.load(ctx, b.batch.Claims, b.batch.Calendars)
	if err != nil {
		b.s.logger.Warn("definitions could not be read; their claims go back", "claims", len(b.batch.Claims), "error", err)
		for _, c := range b.batch.Claims {
			b.later(c, firstAside)
		}
		return
	}
	b.calendars = calendars
	b.carryOut(ctx, b.settleEnded(ctx, b.decide(b.batch.Claims, definitions)), mostDecisions)
}

// mostDecisions is how often a batch is decided. More than twice takes
// calendars that change all the time; the rest waits for a moment then.
const mostDecisions = 4

// decide plans every claim, and puts those aside that cannot be planned.
func (b *batchWork) decide(claims []claim.Claim, definitions []*definition) []decision {
	decisions := make([]decision, 0, len(claims))
	for i, c := range claims {
		d := definitions[i]
		if d == nil {
			b.isolate(c, errNoDefinition) // deleted meanwhile, or else the store is damaged
			continue
		}
		if d.err != nil {
			b.s.cache.forget(c.Schedule) // another look when it is claimed again
			b.isolate(c, d.err)
			continue
		}
		made, err := decide(d.compiled, c, b.batch.Now)
		if err != nil {
			b.isolate(c, err)
			continue
		}
		decisions = append(decisions, made)
	}
	return decisions
}

// carryOut enqueues what fires and completes all. The store may answer that
// something has to be decided again; that is done while attempts are left.
func (b *batchWork) carryOut(ctx context.Context, decisions []decision, attempts int) {
	decisions = b.push(ctx, decisions)
	decisions = b.trusted(decisions)
	if len(decisions) == 0 {
		return
	}
	result, ok := b.complete(ctx, decisions)
	if !ok {
		return
	}
	var again []claim.Claim
	calendars := b.calendars
	for i := range decisions {
		c := decisions[i].claim
		switch outcome := result.Outcomes[i]; {
		case outcome == claim.CompleteMustFire && attempts > 1:
			c.Again = true // an earlier claimer may have enqueued it
			again = append(again, c)
		case outcome == claim.CompleteCalendar && attempts > 1:
			// What was enqueued fires, whatever the calendars say now.
			c.Again = c.Again || decisions[i].planned.Push
			again, calendars = append(again, c), b.calendars+1
		default:
			b.settled(ctx, &decisions[i], outcome)
		}
	}
	b.enqueueReleased(ctx, result.Released)
	b.decideAgain(ctx, again, calendars, attempts-1)
}

// decideAgain decides anew what the store refused, with calendars of at least
// the given version.
func (b *batchWork) decideAgain(ctx context.Context, claims []claim.Claim, calendars int64, attempts int) {
	if len(claims) == 0 {
		return
	}
	definitions, version, err := b.s.cache.load(ctx, claims, calendars)
	if err != nil {
		b.s.logger.Warn("definitions could not be read; their claims go back", "claims", len(claims), "error", err)
		for _, c := range claims {
			b.later(c, firstPause)
		}
		return
	}
	b.calendars = version
	b.carryOut(ctx, b.decide(claims, definitions), attempts)
}

// push enqueues the firings among the decisions, higher priority first, and
// returns the decisions that can be completed.
func (b *batchWork) push(ctx context.Context, decisions []decision) []decision {
	decisions = b.trusted(decisions)
	slices.SortStableFunc(decisions, func(x, y decision) int {
		return cmp.Or(cmp.Compare(y.definition.Priority, x.definition.Priority), x.claim.ScheduledAt.Compare(y.claim.ScheduledAt))
	})
	var pushes []queue.Push
	var which []int
	for i := range decisions {
		if decisions[i].planned.Push {
			pushes, which = append(pushes, decisions[i].push()), append(which, i)
		}
	}
	if len(pushes) == 0 {
		return decisions
	}
	failed := map[int]error{}
	for i, err := range b.s.options.Enqueuer.PushAll(ctx, pushes) {
		switch {
		case err == nil:
			b.s.counters.enqueued.Add(1)
		case errors.Is(err, queue.ErrForeignTask):
			decisions[which[i]].foreign = err
		default:
			failed[which[i]] = err
		}
	}
	return b.withoutFailed(decisions, failed)
}

// withoutFailed puts the schedules aside whose enqueue failed. Whether the
// task arrived is unknown; whoever claims the firing next enqueues it again.
func (b *batchWork) withoutFailed(decisions []decision, failed map[int]error) []decision {
	if len(failed) == 0 {
		return decisions
	}
	var rest []decision
	for i := range decisions {
		if err := failed[i]; err != nil {
			b.isolate(decisions[i].claim, err)
		} else {
			rest = append(rest, decisions[i])
		}
	}
	return rest
}

// trusted leaves out the claims that may belong to another worker by now.
func (b *batchWork) trusted(decisions []decision) []decision {
	return slices.DeleteFunc(decisions, func(d decision) bool {
		if b.hold.valid(d.claim) {
			return false
		}
		b.s.counters.stale.Add(1)
		return true
	})
}

// complete tells the store what was decided. It repeats the same call until
// the store answers or the claims are not trusted any more.
func (b *batchWork) complete(ctx context.Context, decisions []decision) (claim.CompleteResult, bool) {
	request := claim.CompleteRequest{AuditBuffered: auditOverlap, Calendars: b.calendars}
	for i := range decisions {
		request.Completions = append(request.Completions, decisions[i].completion())
	}
	for attempt := 0; ; attempt++ {
		result, err := b.s.claims.Complete(ctx, request)
		if err == nil && len(result.Outcomes) == len(decisions) {
			return result, true
		}
		if !pause(ctx, fullJitter(attempt, b.s.draw)) {
			b.s.counters.stale.Add(int64(len(decisions)))
			b.s.logger.Warn("claims were not completed; the next worker does it", "claims", len(decisions), "error", err)
			return claim.CompleteResult{}, false
		}
	}
}

// settled acts on the store's answer to a completion.
func (b *batchWork) settled(ctx context.Context, d *decision, outcome claim.Outcome) {
	switch outcome {
	case claim.CompleteOK, claim.CompleteAlready, claim.CompleteGone:
		b.hold.drop(d.claim)
		b.s.counters.completed.Add(1)
		b.s.failures.clear(d.claim.Schedule)
		b.s.returned.clear(d.claim.Schedule)
		if outcome != claim.CompleteGone {
			b.soon.add(d.due())
		}
		if d.foreign != nil {
			b.settleForeign(ctx, d)
		}
		if d.planned.Overlap {
			b.s.hintAudit(b.shard) // it may have been buffered
		}
	case claim.CompleteStale:
		b.hold.drop(d.claim)
		b.s.counters.stale.Add(1)
		b.s.cache.forget(d.claim.Schedule)
	case claim.CompleteCalendar, claim.CompleteMustFire:
		b.s.cache.forget(d.claim.Schedule)
		b.later(d.claim, firstPause)
	case claim.CompleteBadNext:
		b.isolate(d.claim, errors.New("worker: the store refused the next scheduled time "+d.planned.Next.Format(time.RFC3339Nano)))
	}
	c := d.completion()
	b.s.observer.Decided(DecidedEvent{Schedule: c.Schedule, ScheduledAt: c.ScheduledAt, Type: d.definition.Type, Queue: cmp.Or(d.claim.Queue, d.definition.Queue),
		Decision: c.Decision, Verdict: c.Verdict, Outcome: outcome, Lateness: b.batch.Now.Sub(c.ScheduledAt), Next: c.Next})
}

// settleForeign closes a firing that can never be enqueued, because somebody
// else's task has its ID, as failed.
func (b *batchWork) settleForeign(ctx context.Context, d *decision) {
	b.s.logger.Error("a firing was not enqueued", "firing", d.claim.Firing(), "error", d.foreign)
	result, err := b.s.options.Settler.Settle(ctx, claim.SettleRequest{Firing: d.claim.Firing(), Outcome: claim.OutcomeFailed,
		Error: d.foreign.Error(), KeepRuns: b.s.options.KeepRuns})
	if err != nil {
		b.s.logger.Warn("the firing stays open until its audit", "firing", d.claim.Firing(), "error", err)
		return
	}
	b.enqueueReleased(ctx, result.Released)
}

// enqueueReleased enqueues buffered firings that became free. When that fails
// the auditor does it.
func (b *batchWork) enqueueReleased(ctx context.Context, released []claim.Released) {
	if len(released) == 0 {
		return
	}
	if err := b.s.options.Auditor.Release(ctx, released); err != nil {
		b.s.logger.Warn("buffered firings wait for their audit", "firings", len(released), "error", err)
	}
}

// errNoDefinition reports a claim without a definition.
var errNoDefinition = errors.New("worker: the store has no definition of the claimed generation: put the schedule again")

// isolate puts a schedule aside with the reason recorded. When the claim turns
// out to be lost, whoever has it finds the fault anew.
func (b *batchWork) isolate(c claim.Claim, err error) {
	failures := b.s.failures.add(c.Schedule)
	until := b.batch.Now.Add(aside(failures))
	held, releaseErr := b.release(c, claim.Release{NotBefore: until, EnqueueFailed: true, Error: err.Error()})
	if !held && releaseErr == nil {
		b.s.failures.clear(c.Schedule)
		return
	}
	b.soon.add(until)
	b.s.counters.isolated.Add(1)
	if failures == 1 {
		b.s.logger.Error("a schedule was put aside", "schedule", c.Schedule, "until", until, "error", err)
	}
	b.s.observer.Isolated(IsolatedEvent{Schedule: c.Schedule, Err: err, Until: until, Failures: failures})
}

// later hands a claim back that is worth another try after a moment.
func (b *batchWork) later(c claim.Claim, after time.Duration) {
	until := b.batch.Now.Add(after)
	if held, err := b.release(c, claim.Release{NotBefore: until}); held || err != nil {
		b.soon.add(until)
	}
}

// releaseAll hands claims back at once.
func (b *batchWork) releaseAll(claims []claim.Claim) {
	for _, c := range claims {
		if _, err := b.release(c, claim.Release{}); err != nil {
			b.s.logger.Warn("claims could not be handed back and run out", "error", err)
			return
		}
	}
}

// releaseTime bounds the release of one claim.
const releaseTime = 2 * time.Second

// release hands a claim back and reports whether it was held. It does so even
// when the batch was given up, since that is when it matters; a claim that is
// lost is not hurt by it.
func (b *batchWork) release(c claim.Claim, release claim.Release) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	release.Schedule, release.Token = c.Schedule, c.Token
	b.hold.drop(c)
	held, err := b.s.claims.Release(ctx, release)
	if err != nil {
		return false, fmt.Errorf("worker: hand back the claim on %s: %w", c.Schedule, err)
	}
	if held {
		b.s.counters.released.Add(1)
	}
	return held, nil
}
