package storetest

import (
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var breakerCases = []testCase{
	{"consecutive failures disable a schedule", breakerTrips},
	{"a success between failures starts the count again", breakerResets},
	{"lost runs count, cancelled and unknown ones do not", breakerOutcomes},
	{"failed enqueues count", breakerEnqueue},
	{"resume clears a disable and the count", breakerResume},
	{"after the cool-down one probe runs; its success closes the breaker", breakerProbeOK},
	{"a probe that fails opens the breaker for another cool-down", breakerProbeFails},
	{"a probe whose claimer died is claimed again", breakerProbeAgain},
	{"a probe whose claimer died beside a trigger waits for that, and is claimed again", breakerProbeBeside},
	{"there is no probe while an earlier run is open", breakerProbeWaits},
	{"a schedule is not disabled while it has no limit on failures", breakerOff},
	{"a claim that meets the disable keeps its promise", breakerPromise},
}

func fragile(failures int, coolDown time.Duration) func(*schedule.Schedule) {
	return func(s *schedule.Schedule) { s.MaxFailures, s.CoolDown = failures, coolDown }
}

// fail runs a firing that fails and wants the answer.
func (e *env) fail(id claim.FiringID, answer claim.FinishAnswer) {
	e.Helper()
	e.finishes(e.runs(id, "owner-"+string(id)), claim.OutcomeFailed, answer)
}

func breakerTrips(e *env) {
	e.put(every("a", fragile(3, 0)))
	e.fail(e.fireNext(), claim.FinishOK)
	e.fail(e.fireNext(), claim.FinishOK)
	status := e.status("a")
	want(e, "State", status.State, schedule.StateActive)
	want(e, "LastStatus", status.LastStatus, schedule.LastFailed)
	want(e, "ConsecutiveFails", status.ConsecutiveFails, 2)
	e.fail(e.fireNext(), claim.FinishDisabled)
	status = e.status("a")
	want(e, "State", status.State, schedule.StateDisabled)
	want(e, "LastStatus", status.LastStatus, schedule.LastDisabled)
	want(e, "ConsecutiveFails", status.ConsecutiveFails, 3)
	want(e, "FailCount", status.FailCount, 3)
	want(e, "RunCount", status.RunCount, 3)
	e.advance(asleep)
	e.none("of a disabled schedule")
}

func breakerResets(e *env) {
	e.put(every("a", fragile(2, 0)))
	for range 3 {
		e.fail(e.fireNext(), claim.FinishOK)
		e.runToEnd(e.fireNext(), claim.OutcomeSucceeded)
		want(e, "ConsecutiveFails", e.status("a").ConsecutiveFails, 0)
	}
	status := e.status("a")
	want(e, "State", status.State, schedule.StateActive)
	want(e, "LastStatus", status.LastStatus, schedule.LastCompleted)
	want(e, "FailCount", status.FailCount, 3)
	want(e, "RunCount", status.RunCount, 6)
}

func breakerOutcomes(e *env) {
	e.put(every("a", fragile(2, 0)))
	settle := func(outcome claim.RunOutcome) {
		e.Helper()
		got := e.settle(claim.SettleRequest{Firing: e.fireNext(), Outcome: outcome})
		want(e, "Settle", got.Answer, claim.RedriveOK)
	}
	settle(claim.OutcomeLost)
	settle(claim.OutcomeUnknown)
	settle(claim.OutcomeCancelled)
	want(e, "ConsecutiveFails", e.status("a").ConsecutiveFails, 1)
	settle(claim.OutcomeLost)
	want(e, "State", e.status("a").State, schedule.StateDisabled)
}

func breakerEnqueue(e *env) {
	e.put(every("a", fragile(3, 0)))
	e.advance(period)
	for range 3 {
		c := e.claimOne(claim.ClaimFire)
		want(e, "Release", e.release(claim.Release{Schedule: "a", Token: c.Token, EnqueueFailed: true, Error: "no queue"}), true)
	}
	status := e.status("a")
	want(e, "State", status.State, schedule.StateDisabled)
	want(e, "LastError", status.LastError, "no queue")
	want(e, "Claimed", status.Claimed, false)
	e.none("of a disabled schedule")
}

func breakerResume(e *env) {
	e.put(every("a", fragile(1, 0)))
	e.fail(e.fireNext(), claim.FinishDisabled)
	e.advance(time.Hour)
	wantTime(e, "NextAt", e.resume("a").NextAt, slot(2))
	status := e.status("a")
	want(e, "State", status.State, schedule.StateActive)
	want(e, "ConsecutiveFails", status.ConsecutiveFails, 0)
	want(e, "FailCount", status.FailCount, 1)
	want(e, "ProbeAt is zero", status.ProbeAt.IsZero(), true)
	e.fire()
}

// tripped returns with a schedule that has just been disabled for a minute.
func (e *env) tripped() {
	e.Helper()
	e.put(every("a", fragile(1, time.Minute)))
	e.fail(e.fireNext(), claim.FinishDisabled)
	e.advance(time.Minute - time.Millisecond)
	e.none("before the cool-down is over")
	wantTime(e, "ProbeAt", e.status("a").ProbeAt, e.Now().Add(time.Millisecond))
	e.advance(time.Millisecond)
}

func breakerProbeOK(e *env) {
	e.tripped()
	probe := e.claimOne(claim.ClaimFire)
	wantTime(e, "ScheduledAt of the probe", probe.ScheduledAt, slot(2))
	e.completes(enqueued(probe), claim.CompleteOK)
	e.none("beside a probe")
	e.runToEnd(probe.Firing(), claim.OutcomeSucceeded)
	status := e.status("a")
	want(e, "State", status.State, schedule.StateActive)
	want(e, "ConsecutiveFails", status.ConsecutiveFails, 0)
	want(e, "ProbeAt is zero", status.ProbeAt.IsZero(), true)
	e.fire()
	e.fire() // beside the open one: the breaker is closed
}

func breakerProbeFails(e *env) {
	e.tripped()
	probe := e.fire()
	e.fail(probe, claim.FinishDisabled)
	e.advance(time.Minute - time.Millisecond)
	e.none("before another cool-down is over")
	e.advance(time.Millisecond)
	e.runToEnd(e.fire(), claim.OutcomeSucceeded)
	want(e, "State", e.status("a").State, schedule.StateActive)
}

func breakerProbeAgain(e *env) {
	e.tripped()
	probe := e.claimOne(claim.ClaimFire)
	e.advance(claimTTL + time.Millisecond)
	again := e.claimOne(claim.ClaimFire)
	want(e, "Again", again.Again, true)
	want(e, "the firing", again.Firing(), probe.Firing())
	e.completes(enqueued(again), claim.CompleteOK)
	e.none("beside a probe")
	e.runToEnd(again.Firing(), claim.OutcomeSucceeded)
	want(e, "State", e.status("a").State, schedule.StateActive)
}

func breakerProbeBeside(e *env) {
	e.tripped()
	probe := e.claimOne(claim.ClaimFire)
	manual := claim.FiringID(e.trigger("a", schedule.TriggerOptions{RequestID: "beside"}).FiringID)
	run := e.runs(manual, "manual")
	e.advance(claimTTL + time.Millisecond)
	e.none("beside a trigger")
	e.check()
	if due := e.nextDue(); !due.IsZero() {
		e.Errorf("due at %v, want nothing until the trigger's run ends", due)
	}
	e.completes(enqueued(probe), claim.CompleteStale)
	e.finishes(run, claim.OutcomeCancelled, claim.FinishOK) // says nothing about the next one
	again := e.claimOne(claim.ClaimFire)
	want(e, "the firing", again.Firing(), probe.Firing())
	e.completes(enqueued(again), claim.CompleteOK)
	e.runToEnd(again.Firing(), claim.OutcomeSucceeded)
	want(e, "State", e.status("a").State, schedule.StateActive)
}

func breakerProbeWaits(e *env) {
	e.put(every("a", fragile(1, time.Minute)))
	earlier := e.runs(e.fireNext(), "earlier")
	e.fail(e.fireNext(), claim.FinishDisabled)
	e.advance(time.Minute)
	e.none("beside an earlier run")
	e.none("beside an earlier run, asked again")
	e.finishes(earlier, claim.OutcomeCancelled, claim.FinishOK) // says nothing about the next one
	probe := e.fire()
	e.none("beside a probe")
	e.runToEnd(probe, claim.OutcomeSucceeded)
	e.fire()
}

func breakerOff(e *env) {
	e.put(every("a"))
	for range 20 {
		e.fail(e.fireNext(), claim.FinishOK)
	}
	status := e.status("a")
	want(e, "State", status.State, schedule.StateActive)
	want(e, "ConsecutiveFails", status.ConsecutiveFails, 20)
}

func breakerPromise(e *env) {
	e.put(every("a", fragile(1, 0)))
	first := e.fireNext()
	run := e.runs(first, "one")
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	e.finishes(run, claim.OutcomeFailed, claim.FinishDisabled)
	e.completes(enqueued(c), claim.CompleteAlready)
	e.verdicts("a", span(1, 0, 1, 2))
	e.runToEnd(c.Firing(), claim.OutcomeSucceeded)
	want(e, "State", e.status("a").State, schedule.StateDisabled)
	e.advance(asleep)
	e.none("of a disabled schedule")
}
