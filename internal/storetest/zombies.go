package storetest

import (
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// asleep is how long zombies sleep: longer than anything is remembered.
const asleep = 1000 * time.Hour

var zombieCases = []testCase{
	{"a worker that slept through its claim changes nothing, whatever it sends", zombieWorker},
	{"a worker that slept while its claim was completed changes nothing", zombieWorkerCompleted},
	{"a consumer that slept through its lease changes nothing, whatever it sends", zombieConsumer},
	{"a consumer that slept until its firing was settled changes nothing", zombieConsumerSettled},
	{"an auditor that slept settles and re-drives nothing", zombieAuditor},
	{"tasks of a deleted generation are gone for ever", zombieGeneration},
}

// unchanged runs what must change nothing and compares the schedule and its
// open firings before and after.
func (e *env) unchanged(id schedule.ID, zombie func()) {
	e.Helper()
	before := e.status(id)
	zombie()
	after := e.status(id)
	want(e, "NextAt", after.NextAt.UnixMilli(), before.NextAt.UnixMilli())
	want(e, "DueAt", after.DueAt.UnixMilli(), before.DueAt.UnixMilli())
	want(e, "Claimed", after.Claimed, before.Claimed)
	want(e, "Open", after.Open, before.Open)
	want(e, "Fired", after.Fired, before.Fired)
	want(e, "RunCount", after.RunCount, before.RunCount)
	want(e, "FailCount", after.FailCount, before.FailCount)
	want(e, "ConsecutiveFails", after.ConsecutiveFails, before.ConsecutiveFails)
	want(e, "LastStatus", after.LastStatus, before.LastStatus)
	want(e, "LastError", after.LastError, before.LastError)
	want(e, "verdict ranges", len(after.Verdicts), len(before.Verdicts))
}

func zombieWorker(e *env) {
	e.put(every("a"))
	e.advance(period)
	old := e.claimOne(claim.ClaimFire)
	e.advance(asleep)
	current := e.claimOne(claim.ClaimFire)
	e.unchanged("a", func() {
		want(e, "Renew", e.renew(old), false)
		e.completes(enqueued(old), claim.CompleteStale)
		e.completes(judged(old, schedule.VerdictMissed), claim.CompleteStale)
		e.completes(decided(old, claim.DecideAdvance), claim.CompleteStale)
		want(e, "Release", e.release(claim.Release{Schedule: "a", Token: old.Token, EnqueueFailed: true}), false)
	})
	want(e, "Renew by the owner", e.renew(current), true)
	e.completes(enqueued(current), claim.CompleteOK)
}

func zombieWorkerCompleted(e *env) {
	e.put(every("a"))
	e.advance(period)
	old := e.claimOne(claim.ClaimFire)
	e.advance(claimTTL + time.Millisecond)
	e.completes(enqueued(e.claimOne(claim.ClaimFire)), claim.CompleteOK)
	e.advance(asleep)
	e.unchanged("a", func() {
		e.completes(enqueued(old), claim.CompleteAlready)
		e.completes(judged(old, schedule.VerdictCoalesced), claim.CompleteAlready)
		want(e, "Renew", e.renew(old), false)
		want(e, "Release", e.release(claim.Release{Schedule: "a", Token: old.Token, EnqueueFailed: true}), false)
	})
}

func zombieConsumer(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	old := e.runs(id, "one")
	e.advance(asleep)
	current := e.runs(id, "two")
	if current.Token <= old.Token {
		e.Fatalf("token %d after %d, want a larger one", current.Token, old.Token)
	}
	e.unchanged("a", func() {
		want(e, "Heartbeat", e.pulse(old), claim.PulseLost)
		for _, outcome := range []claim.RunOutcome{claim.OutcomeSucceeded, claim.OutcomeFailed, claim.OutcomeRetrying, claim.OutcomeCancelled} {
			e.finishes(old, outcome, claim.FinishStale)
		}
		want(e, "hand-back", e.finish(claim.FinishRequest{Run: old, HandBack: true}).Answer, claim.FinishStale)
	})
	want(e, "Heartbeat of the owner", e.pulse(current), claim.PulseOK)
	e.finishes(current, claim.OutcomeSucceeded, claim.FinishOK)
}

func zombieConsumerSettled(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	old := e.runs(id, "one")
	e.advance(runLease + time.Millisecond)
	e.runToEnd(id, claim.OutcomeSucceeded)
	e.advance(asleep)
	e.unchanged("a", func() {
		want(e, "Heartbeat", e.pulse(old), claim.PulseLost)
		e.finishes(old, claim.OutcomeFailed, claim.FinishAlready)
		e.begins(id, "one", claim.BeginSettled)
	})
}

func zombieAuditor(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	e.advance(auditTime)
	seen := e.audited(id)
	e.runs(id, "one")
	e.advance(runLease + time.Millisecond) // the lease is over, yet an attempt began since
	e.unchanged("a", func() {
		got, err := e.Ledger.Redrive(e.Context(), claim.RedriveRequest{Firing: id, Expected: seen.Redrives, Token: seen.Token, AuditAfter: auditTime})
		e.must("Redrive", err)
		want(e, "Redrive", got.Answer, claim.RedriveStale)
		settled := e.settle(claim.SettleRequest{Firing: id, Token: seen.Token, Outcome: claim.OutcomeLost})
		want(e, "Settle", settled.Answer, claim.RedriveStale)
	})
}

func zombieGeneration(e *env) {
	e.put(every("a"))
	e.advance(period)
	old := e.claimOne(claim.ClaimFire)
	run := e.runs(old.Firing(), "one")
	manual := e.runs(claim.FiringID(e.trigger("a", schedule.TriggerOptions{}).FiringID), "manual")
	e.remove("a")
	e.put(every("a"))
	e.unchanged("a", func() {
		e.begins(old.Firing(), "one", claim.BeginGone)
		e.begins(old.Firing(), "two", claim.BeginGone)
		e.finishes(run, claim.OutcomeFailed, claim.FinishAlready)
		e.completes(enqueued(old), claim.CompleteStale)
		want(e, "Renew", e.renew(old), false)
		got := e.settle(claim.SettleRequest{Firing: old.Firing(), Token: run.Token, Outcome: claim.OutcomeLost})
		want(e, "Settle", got.Answer, claim.RedriveAlready)
		// A store may keep what runs until it ends; it counts for nobody.
		e.pulse(manual)
		e.finish(claim.FinishRequest{Run: manual, Outcome: claim.OutcomeFailed, Error: "late", KeepRuns: 5})
	})
	log, err := e.Ledger.Runs(e.Context(), "a", 10)
	e.must("Runs", err)
	want(e, "run log entries of the new generation", len(log), 0)
	e.advance(asleep)
	e.begins(old.Firing(), "three", claim.BeginGone)
	current := e.claimOne(claim.ClaimFire)
	if current.Generation <= old.Generation || current.Again {
		e.Errorf("claim of the new generation = %+v, want a larger generation than %d and not Again", current, old.Generation)
	}
}
