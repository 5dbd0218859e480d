package storetest

import (
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// forgotten is an attempt that began before the store went back: its token is
// larger than any that the store knows.
func (e *env) forgotten(id claim.FiringID) claim.Run {
	e.Helper()
	firing, err := claim.ParseFiringID(string(id))
	e.must("ParseFiringID", err)
	return claim.Run{Firing: id, Token: claim.Token(firing.Generation + time.Hour.Microseconds())}
}

func forgottenPending(e *env) {
	e.put(every("a"))
	e.advance(period)
	run := e.forgotten(claim.ScheduledFiring("a", e.status("a").Generation, slot(1)))
	e.finishes(run, claim.OutcomeSucceeded, claim.FinishOK)
	e.unchanged("a", func() {
		e.finishes(run, claim.OutcomeSucceeded, claim.FinishAlready)
		e.finishes(run, claim.OutcomeFailed, claim.FinishAlready)
		e.begins(run.Firing, "late", claim.BeginSettled)
	})
	c := e.claimOne(claim.ClaimAdvance)
	e.completes(decided(c, claim.DecideAdvance), claim.CompleteOK)
	want(e, "Open", e.status("a").Open, 0)
	want(e, "RunCount", e.status("a").RunCount, 1)
	want(e, "LastStatus", e.status("a").LastStatus, schedule.LastCompleted)
	e.verdicts("a", span(1, 0, 1, 1))
	e.runToEnd(e.fireNext(), claim.OutcomeSucceeded) // the next one is as if nothing had been
	e.verdicts("a", span(1, 0, 1, 2))
}

func forgottenClaimed(e *env) {
	e.put(every("a", overlap(schedule.OverlapSkip)))
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	e.finishes(e.forgotten(c.Firing()), claim.OutcomeSucceeded, claim.FinishOK)
	want(e, "Open", e.status("a").Open, 0)
	e.completes(judged(c, schedule.VerdictMissed), claim.CompleteOK) // decided without knowing: it has its verdict
	e.begins(c.Firing(), "late", claim.BeginSettled)
	second := e.fireNext()
	e.finishes(e.forgotten(second), claim.OutcomeSucceeded, claim.FinishOK)
	e.finishes(e.forgotten(second), claim.OutcomeSucceeded, claim.FinishAlready)
	e.verdicts("a", span(1, 0, 1, 2))
	want(e, "Fired", e.status("a").Fired, 2)
}

func forgottenBuffered(e *env) {
	e.put(every("a", overlap(schedule.OverlapBufferOne)))
	first := e.fireNext()
	e.advance(period)
	c := e.claimOne(claim.ClaimOverlap)
	e.completes(decided(c, claim.DecideOverlap), claim.CompleteOK)
	want(e, "Buffered before", e.status("a").Buffered, 1)
	e.finishes(e.forgotten(c.Firing()), claim.OutcomeSucceeded, claim.FinishOK)
	want(e, "Buffered after", e.status("a").Buffered, 0)
	want(e, "Open", e.status("a").Open, 1)
	e.runToEnd(first, claim.OutcomeSucceeded)
	want(e, "Open at the end", e.status("a").Open, 0)
	want(e, "RunCount", e.status("a").RunCount, 2)
}

func forgottenNewest(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	old := e.runs(id, "one")
	e.finishes(e.forgotten(id), claim.OutcomeSucceeded, claim.FinishOK)
	e.unchanged("a", func() {
		want(e, "Heartbeat", e.pulse(old), claim.PulseLost)
		e.finishes(old, claim.OutcomeFailed, claim.FinishAlready)
	})
	want(e, "RunCount", e.status("a").RunCount, 1)
}

func forgottenNothing(e *env) {
	e.put(every("a"))
	e.advance(period)
	generation := e.status("a").Generation
	pending := e.forgotten(claim.ScheduledFiring("a", generation, slot(1)))
	e.unchanged("a", func() {
		e.reportsOthers(pending, claim.FinishAlready)
		for _, id := range []claim.FiringID{
			claim.ScheduledFiring("a", generation, slot(2)), claim.ScheduledFiring("a", generation, slot(1).Add(-time.Second)),
			claim.ManualFiring("a", generation, "r"), claim.ScheduledFiring("a", generation-1, slot(1)), claim.ScheduledFiring("a", generation+1, slot(1)),
		} {
			e.finishes(e.forgotten(id), claim.OutcomeSucceeded, claim.FinishAlready)
		}
		for _, token := range []claim.Token{0, 1, claim.Token(generation)} {
			e.finishes(claim.Run{Firing: pending.Firing, Token: token}, claim.OutcomeSucceeded, claim.FinishAlready)
		}
	})
	id := e.fireNext()
	e.unchanged("a", func() {
		e.reportsOthers(e.forgotten(id), claim.FinishStale)
		for _, token := range []claim.Token{0, 1, claim.Token(generation)} {
			e.finishes(claim.Run{Firing: id, Token: token}, claim.OutcomeSucceeded, claim.FinishStale)
		}
	})
	e.runToEnd(id, claim.OutcomeSucceeded)
	e.unchanged("a", func() { e.finishes(e.forgotten(id), claim.OutcomeSucceeded, claim.FinishAlready) })
	e.verdicts("a", span(1, 0, 1, 1))
}

// reportsOthers sends every report but a success.
func (e *env) reportsOthers(run claim.Run, answer claim.FinishAnswer) {
	e.Helper()
	for _, outcome := range []claim.RunOutcome{claim.OutcomeFailed, claim.OutcomeRetrying, claim.OutcomeCancelled} {
		e.finishes(run, outcome, answer)
	}
	want(e, "hand-back", e.finish(claim.FinishRequest{Run: run, HandBack: true, Outcome: claim.OutcomeSucceeded}).Answer, answer)
}
