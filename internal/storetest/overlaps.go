package storetest

import (
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var overlapCases = []testCase{
	{"allow fires beside an open run", overlapAllow},
	{"skip forbids a firing while one is open, and says which", overlapSkip},
	{"an open firing that ends before the decision changes no decision of skip", overlapSkipEnded},
	{"buffer_one keeps one firing and releases it when the open one ends", overlapBufferOne},
	{"a release is told again to whoever repeats its finish", overlapReleaseAgain},
	{"a limit counts what fires: one that meets a full buffer is not among them", overlapLimit},
	{"buffer_all keeps up to its bound and releases in order", overlapBufferAll},
	{"a firing is buffered and comes free in one step when nothing is open any more", overlapBufferFree},
	{"a buffered firing waits while the schedule is paused", overlapBufferPaused},
	{"a buffered firing comes free when a timed pause is over", overlapBufferPauseUntil},
	{"a released firing that nobody enqueued comes to the auditor", overlapReleaseAudited},
	{"settling the open firing releases too", overlapSettleReleases},
	{"cancel_other asks the open run to end, and the new one waits for it", overlapCancelRunning},
	{"cancel_other ends an open firing that has not begun", overlapCancelQueued},
	{"a claim that met an overlap can be released and claimed again", overlapClaimAgain},
	{"what a buffered firing waits for is audited soon again", overlapAuditedSoon},
}

func overlapAllow(e *env) {
	e.put(every("a"))
	first := e.fireNext()
	e.runs(first, "one")
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	want(e, "OpenOthers", c.OpenOthers, 1)
	e.completes(enqueued(c), claim.CompleteOK)
	e.runs(c.Firing(), "two")
	want(e, "Open", e.status("a").Open, 2)
}

func overlapSkip(e *env) {
	e.put(every("a", overlap(schedule.OverlapSkip)))
	first := e.fireNext()
	for range 2 {
		e.advance(period)
		c := e.claimOne(claim.ClaimOverlap)
		want(e, "OpenOthers", c.OpenOthers, 1)
		if len(c.Open) != 1 || c.Open[0] != first {
			e.Fatalf("Open = %v, want %s", c.Open, first)
		}
		e.completes(decided(c, claim.DecideOverlap), claim.CompleteOK)
		e.begins(c.Firing(), "never", claim.BeginSettled)
	}
	e.runToEnd(first, claim.OutcomeSucceeded)
	e.fireNext()
	e.verdicts("a", span(schedule.VerdictFired, 0, 1, 1), span(schedule.VerdictOverlap, 0, 2, 3), span(schedule.VerdictFired, 0, 4, 4))
}

func overlapSkipEnded(e *env) {
	e.put(every("a", overlap(schedule.OverlapSkip)))
	first := e.fireNext()
	e.advance(period)
	c := e.claimOne(claim.ClaimOverlap)
	e.runToEnd(first, claim.OutcomeSucceeded)
	e.completes(decided(c, claim.DecideOverlap), claim.CompleteOK)
	e.verdicts("a", span(schedule.VerdictFired, 0, 1, 1), span(schedule.VerdictOverlap, 0, 2, 2))
}

// buffered lets the next scheduled time meet an open firing and completes it
// by the overlap policy.
func (e *env) buffered() claim.FiringID {
	e.Helper()
	e.advance(period)
	c := e.claimOne(claim.ClaimOverlap)
	e.completes(decided(c, claim.DecideOverlap), claim.CompleteOK)
	return c.Firing()
}

func overlapLimit(e *env) {
	d := every("a", overlap(schedule.OverlapBufferOne))
	d.Limit = 3
	e.put(d)
	first := e.fireNext()
	run := e.runs(first, "one")
	second := e.buffered()
	e.buffered() // and refused, since the buffer is full
	e.verdicts("a", span(1, 0, 1, 1), span(1, 1, 2, 2), span(4, 1, 3, 3))
	want(e, "State with two fired", e.status("a").State, schedule.StateActive)
	e.finishes(run, claim.OutcomeSucceeded, claim.FinishOK)
	e.released(second)
	run = e.runs(second, "two")
	third := e.buffered()
	status := e.status("a")
	want(e, "State with three fired", status.State, schedule.StateCompleted)
	want(e, "Fired", status.Fired, 3)
	wantTime(e, "NextAt", status.NextAt, time.Time{})
	e.finishes(run, claim.OutcomeSucceeded, claim.FinishOK)
	e.released(third)
	e.runToEnd(third, claim.OutcomeSucceeded)
	e.advance(period)
	e.none("after the limit")
	want(e, "RunCount", e.status("a").RunCount, 3)
}

func overlapBufferOne(e *env) {
	e.put(every("a", overlap(schedule.OverlapBufferOne)))
	first := e.fireNext()
	second := e.buffered()
	e.released()
	third := e.buffered()
	status := e.status("a")
	want(e, "Open", status.Open, 1)
	want(e, "Buffered", status.Buffered, 1)
	want(e, "Fired", status.Fired, 2)
	e.begins(second, "too early", claim.BeginEarly)
	e.begins(third, "refused", claim.BeginSettled)
	e.runToEnd(first, claim.OutcomeFailed)
	e.released(second)
	status = e.status("a")
	want(e, "Open after the release", status.Open, 1)
	want(e, "Buffered after the release", status.Buffered, 0)
	e.runToEnd(second, claim.OutcomeSucceeded)
	e.released()
	e.fireNext()
	e.verdicts("a", span(1, 0, 1, 1), span(1, 1, 2, 2), span(4, 1, 3, 3), span(1, 0, 4, 4))
}

func overlapReleaseAgain(e *env) {
	e.put(every("a", overlap(schedule.OverlapBufferOne)))
	first := e.fireNext()
	second := e.buffered()
	run := e.runs(first, "one")
	e.finishes(run, claim.OutcomeSucceeded, claim.FinishOK)
	e.released(second)
	e.finishes(run, claim.OutcomeSucceeded, claim.FinishAlready)
	e.released(second)
	e.must("Mark", e.Ledger.Mark(e.Context(), auditTime, []claim.FiringID{second}))
	e.finishes(run, claim.OutcomeSucceeded, claim.FinishAlready)
	e.released()
}

func overlapBufferAll(e *env) {
	s := every("a", overlap(schedule.OverlapBufferAll))
	s.BufferLimit = 3
	e.put(s)
	open := e.fireNext()
	var waiting []claim.FiringID
	for range 5 {
		waiting = append(waiting, e.buffered())
	}
	want(e, "Buffered", e.status("a").Buffered, 3)
	e.verdicts("a", span(1, 0, 1, 1), span(1, 1, 2, 4), span(4, 1, 5, 6))
	for _, next := range waiting[:3] {
		e.runToEnd(open, claim.OutcomeSucceeded)
		e.released(next)
		open = next
	}
	e.runToEnd(open, claim.OutcomeSucceeded)
	e.released()
	want(e, "Open", e.status("a").Open, 0)
}

func overlapBufferFree(e *env) {
	e.put(every("a", overlap(schedule.OverlapBufferOne)))
	first := e.fireNext()
	e.advance(period)
	c := e.claimOne(claim.ClaimOverlap)
	e.runToEnd(first, claim.OutcomeSucceeded)
	e.completes(decided(c, claim.DecideOverlap), claim.CompleteOK)
	e.released(c.Firing())
	e.runToEnd(c.Firing(), claim.OutcomeSucceeded)
	e.verdicts("a", span(1, 0, 1, 1), span(1, 1, 2, 2))
}

func overlapBufferPaused(e *env) {
	e.put(every("a", overlap(schedule.OverlapBufferOne)))
	first := e.fireNext()
	second := e.buffered()
	e.pause("a", schedule.PauseOptions{})
	e.runToEnd(first, claim.OutcomeSucceeded)
	e.released()
	e.begins(second, "paused", claim.BeginEarly)
	e.resume("a")
	status := e.status("a")
	want(e, "Open", status.Open, 1)
	want(e, "Buffered", status.Buffered, 0)
	e.runToEnd(second, claim.OutcomeSucceeded)
}

func overlapBufferPauseUntil(e *env) {
	e.put(every("a", overlap(schedule.OverlapBufferOne)))
	first := e.fireNext()
	second := e.buffered()
	e.pause("a", schedule.PauseOptions{Until: e.Now().Add(time.Second)})
	e.runToEnd(first, claim.OutcomeSucceeded)
	e.advance(time.Second)
	e.claim()
	e.released(second)
	e.runToEnd(second, claim.OutcomeSucceeded)
}

func overlapReleaseAudited(e *env) {
	e.put(every("a", overlap(schedule.OverlapBufferOne)))
	first := e.fireNext()
	second := e.buffered()
	e.runToEnd(first, claim.OutcomeSucceeded)
	e.released(second) // and whoever was told died
	e.advance(time.Minute)
	f := e.audited(second)
	want(e, "State", f.State, claim.FiringIntent)
	want(e, "Position", f.Position, claim.PositionPassed)
	want(e, "Queue", f.Queue, schedule.DefaultQueue)
}

func overlapSettleReleases(e *env) {
	e.put(every("a", overlap(schedule.OverlapBufferOne)))
	first := e.fireNext()
	second := e.buffered()
	got := e.settle(claim.SettleRequest{Firing: first, Outcome: claim.OutcomeSucceeded})
	want(e, "Settle", got.Answer, claim.RedriveOK)
	e.released(second)
}

func overlapCancelRunning(e *env) {
	e.put(every("a", overlap(schedule.OverlapCancelOther)))
	first := e.fireNext()
	run := e.runs(first, "one")
	want(e, "Heartbeat before", e.pulse(run), claim.PulseOK)
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	if len(c.Open) != 1 || c.Open[0] != first {
		e.Fatalf("Open = %v, want %s", c.Open, first)
	}
	e.completes(enqueued(c), claim.CompleteOK)
	if f := e.audit()[first]; !f.CancelWanted {
		e.Errorf("Audit of the cancelled firing = %+v, want it at once and CancelWanted", f)
	}
	want(e, "Heartbeat after", e.pulse(run), claim.PulseCancel)
	busy := e.begins(c.Firing(), "two", claim.BeginBusy)
	want(e, "Wait", busy.Wait, runLease)
	e.finishes(run, claim.OutcomeCancelled, claim.FinishOK)
	e.runToEnd(c.Firing(), claim.OutcomeSucceeded)
	e.verdicts("a", span(1, 0, 1, 2))
}

func overlapCancelQueued(e *env) {
	e.put(every("a", overlap(schedule.OverlapCancelOther)))
	first := e.fireNext()
	second := e.fireNext()
	e.begins(first, "late", claim.BeginCancelled)
	e.begins(first, "later", claim.BeginCancelled) // as long as it is the last one that ended
	want(e, "Open", e.status("a").Open, 1)
	e.runToEnd(second, claim.OutcomeSucceeded)
	e.begins(first, "much later", claim.BeginSettled)
	e.verdicts("a", span(1, 0, 1, 2))
}

func overlapClaimAgain(e *env) {
	e.put(every("a", overlap(schedule.OverlapSkip)))
	first := e.fireNext()
	e.advance(period)
	c := e.claimOne(claim.ClaimOverlap)
	// The worker finds that a plain consumer has finished the open one.
	e.settle(claim.SettleRequest{Firing: first, Outcome: claim.OutcomeSucceeded})
	want(e, "Release", e.release(claim.Release{Schedule: "a", Token: c.Token}), true)
	again := e.claimOne(claim.ClaimFire)
	want(e, "Again", again.Again, false)
	want(e, "OpenOthers", again.OpenOthers, 0)
	e.completes(enqueued(again), claim.CompleteOK)
	e.verdicts("a", span(1, 0, 1, 2))
}

// A plain consumer tells nobody that it has ended what a buffered firing waits
// for, so the auditor looks again soon.
func overlapAuditedSoon(e *env) {
	e.put(every("a", overlap(schedule.OverlapBufferAll)))
	first := e.fireNext()
	e.advance(2 * period)
	e.audited(first) // hides it for a minute
	second := e.claimOne(claim.ClaimOverlap)
	e.completes(decided(second, claim.DecideOverlap), claim.CompleteOK)
	third := e.claimOne(claim.ClaimOverlap)
	e.completes(decided(third, claim.DecideOverlap), claim.CompleteOK)
	for range 2 {
		e.advance(5*time.Second - time.Millisecond)
		want(e, "firings to audit within 5 s", len(e.audit()), 0)
		e.advance(time.Millisecond)
		e.audited(first)
	}
	e.runToEnd(first, claim.OutcomeSucceeded)
	e.released(second.Firing())
	e.must("Mark", e.Ledger.Mark(e.Context(), time.Hour, []claim.FiringID{second.Firing()}))
	e.advance(5 * time.Second)
	e.audited(second.Firing())
	e.runToEnd(second.Firing(), claim.OutcomeSucceeded)
	e.must("Mark", e.Ledger.Mark(e.Context(), time.Hour, []claim.FiringID{third.Firing()}))
	e.advance(time.Minute)
	want(e, "firings to audit when nothing waits", len(e.audit()), 0)
}
