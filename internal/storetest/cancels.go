package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var cancelCases = []testCase{
	{"a running firing is asked to end, and ends as cancelled", cancelRunning},
	{"a run that succeeds before it hears of it has succeeded", cancelTooLate},
	{"a firing that waits in its queue is audited at once and never runs", cancelEnqueued},
	{"one that waits for a retry is not tried again", cancelWaiting},
	{"a trigger that nobody has enqueued is audited at once", cancelTriggered},
	{"a buffered firing leaves the buffer, with its verdict and an outcome", cancelBuffered},
	{"one that stands in the buffer of a paused schedule, too", cancelPaused},
	{"a firing that an interrupted claim has promised fires, and is cancelled", cancelPromised},
	{"a claim of such a firing still decides its verdict", cancelJudged},
	{"a dead attempt whose fate is unknown stays so with at_most_once", cancelUnknown},
	{"a firing of a backfill is counted by it", cancelBackfilled},
	{"what has not fired, has ended or was deleted is told apart", cancelAnswers},
}

// cancel asks for the end of a firing, twice, and wants the first answer; the
// second may only be that it is closed.
func (e *env) cancel(id claim.FiringID, answer claim.CancelAnswer) claim.CancelResult {
	e.Helper()
	if e.Cancels == nil {
		e.Skip("the backend cancels nothing here")
	}
	request := claim.CancelRequest{Firing: id, By: "ana", Reason: "wrong input", KeepRuns: 4}
	result, err := e.Cancels.Cancel(e.Context(), request)
	e.must("Cancel", err)
	want(e, "Cancel of "+plain(id), result.Answer, answer)
	again, err := e.Cancels.Cancel(e.Context(), request)
	e.must("Cancel again", err)
	if answer == claim.CancelDone {
		answer = claim.CancelClosed
	}
	want(e, "Cancel of it again", again.Answer, answer)
	want(e, "what it says of it again", again.Firing, result.Firing)
	if answer == claim.CancelAsked {
		want(e, "CancelWanted", result.Firing.CancelWanted, true)
		want(e, "CancelByHand", result.Firing.CancelByHand, true)
	}
	return result
}

// lastRun wants the newest entry of the run log.
func (e *env) lastRun(id schedule.ID, outcome claim.RunOutcome, text string) {
	e.Helper()
	runs, err := e.Ledger.Runs(e.Context(), id, 1)
	e.must("Runs", err)
	if len(runs) != 1 || runs[0].Outcome != outcome || runs[0].Error != text {
		e.Errorf("the last run of %s is %+v, want %s, %q", id, runs, outcome, text)
	}
}

func cancelRunning(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	run := e.runs(id, "one")
	want(e, "the pulse before", e.pulse(run), claim.PulseOK)
	got := e.cancel(id, claim.CancelAsked)
	want(e, "its state", got.Firing.State, claim.FiringRunning)
	want(e, "its worker", got.Firing.Worker, "w-one")
	want(e, "the pulse", e.pulse(run), claim.PulseCancel)
	want(e, "CancelWanted keeps", e.begin(id, "two").Answer, claim.BeginBusy)
	e.finishes(run, claim.OutcomeCancelled, claim.FinishOK)
	e.begins(id, "three", claim.BeginCancelled) // while it is the last that ended
	e.cancel(id, claim.CancelClosed)
	e.verdicts("a", span(schedule.VerdictFired, 0, 1, 1))
	want(e, "failures", e.status("a").ConsecutiveFails, 0)
}

func cancelTooLate(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	run := e.runs(id, "one")
	e.cancel(id, claim.CancelAsked)
	e.finishes(run, claim.OutcomeSucceeded, claim.FinishOK)
	want(e, "LastStatus", e.status("a").LastStatus, schedule.LastCompleted)
}

func cancelEnqueued(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	e.must("Mark", e.Ledger.Mark(e.Context(), auditTime, []claim.FiringID{id}))
	got := e.cancel(id, claim.CancelAsked)
	want(e, "its state", got.Firing.State, claim.FiringEnqueued)
	want(e, "its queue", got.Firing.Queue, schedule.DefaultQueue)
	f := e.audited(id) // at once
	want(e, "CancelByHand for the auditor", f.CancelByHand, true)
	e.begins(id, "one", claim.BeginCancelled)
	e.lastRun("a", claim.OutcomeCancelled, "cancelled by an operator")
	want(e, "Settle after it", e.settle(claim.SettleRequest{Firing: id, Token: f.Token, Outcome: claim.OutcomeCancelled}).Answer, claim.RedriveAlready)
}

func cancelWaiting(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	e.finishes(e.runs(id, "one"), claim.OutcomeRetrying, claim.FinishOK)
	e.cancel(id, claim.CancelAsked)
	f := e.audited(id)
	want(e, "State", f.State, claim.FiringWaiting)
	want(e, "Settle", e.settle(claim.SettleRequest{Firing: id, Token: f.Token, Outcome: claim.OutcomeCancelled, KeepRuns: 4, Error: "deleted"}).Answer, claim.RedriveOK)
	e.begins(id, "two", claim.BeginCancelled)
	e.lastRun("a", claim.OutcomeCancelled, "deleted")
}

func cancelTriggered(e *env) {
	e.put(every("a"))
	id := claim.FiringID(e.trigger("a", schedule.TriggerOptions{RequestID: "r"}).FiringID)
	e.audited(id) // another auditor has it now
	e.cancel(id, claim.CancelAsked)
	want(e, "State", e.audited(id).State, claim.FiringIntent)
	e.begins(id, "one", claim.BeginCancelled)
}

func cancelBuffered(e *env) {
	e.put(every("a", overlap(schedule.OverlapBufferAll)))
	first := e.fireNext()
	run := e.runs(first, "one")
	var waiting [2]claim.FiringID
	for i := range waiting {
		e.advance(period)
		c := e.claimOne(claim.ClaimOverlap)
		e.completes(decided(c, claim.DecideOverlap), claim.CompleteOK)
		waiting[i] = c.Firing()
	}
	e.cancel(waiting[0], claim.CancelDone)
	e.lastRun("a", claim.OutcomeCancelled, "cancelled by ana: wrong input")
	want(e, "Buffered", e.status("a").Buffered, 1)
	e.begins(waiting[0], "two", claim.BeginCancelled)
	e.finishes(run, claim.OutcomeSucceeded, claim.FinishOK)
	e.released(waiting[1])
	e.verdicts("a", span(schedule.VerdictFired, 0, 1, 1), span(schedule.VerdictFired, 1, 2, 3))
	e.runToEnd(waiting[1], claim.OutcomeSucceeded)
	want(e, "RunCount", e.status("a").RunCount, 3)
}

func cancelPaused(e *env) {
	e.put(every("a", overlap(schedule.OverlapBufferOne)))
	run := e.runs(e.fireNext(), "one")
	e.advance(period)
	c := e.claimOne(claim.ClaimOverlap)
	e.completes(decided(c, claim.DecideOverlap), claim.CompleteOK)
	e.pause("a", schedule.PauseOptions{})
	e.finishes(run, claim.OutcomeSucceeded, claim.FinishOK)
	e.released()
	e.cancel(c.Firing(), claim.CancelDone)
	e.resume("a")
	want(e, "Buffered", e.status("a").Buffered, 0)
	want(e, "Open", e.status("a").Open, 0)
}

func cancelPromised(e *env) {
	e.put(every("a"))
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	got := e.cancel(c.Firing(), claim.CancelAsked)
	want(e, "its position", got.Firing.Position, claim.PositionPending)
	e.verdicts("a") // it has none yet
	e.advance(claimTTL + time.Millisecond)
	again := e.claimOne(claim.ClaimFire)
	want(e, "Again", again.Again, true)
	e.completes(judged(again, schedule.VerdictMissed), claim.CompleteMustFire)
	e.completes(enqueued(again), claim.CompleteOK)
	e.verdicts("a", span(schedule.VerdictFired, 0, 1, 1))
	e.begins(c.Firing(), "one", claim.BeginCancelled)
	e.fireNext()
}

func cancelJudged(e *env) {
	e.put(every("a"))
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	e.cancel(c.Firing(), claim.CancelAsked)
	e.completes(judged(c, schedule.VerdictCoalesced), claim.CompleteOK)
	e.verdicts("a", span(schedule.VerdictCoalesced, 0, 1, 1))
	e.cancel(c.Firing(), claim.CancelClosed)
}

func cancelUnknown(e *env) {
	e.put(every("a", func(s *schedule.Schedule) { s.Effect = schedule.AtMostOnce }))
	id := e.fireNext()
	e.beginAs(id, "one", schedule.AtMostOnce)
	e.cancel(id, claim.CancelAsked)
	e.advance(runLease + period)
	want(e, "Begin", e.beginAs(id, "two", schedule.AtMostOnce).Answer, claim.BeginUnknown)
}

func cancelBackfilled(e *env) {
	if e.Backfills == nil {
		e.Skip("the backend has no backfills here")
	}
	e.put(every("a"))
	e.fireNext()
	b, err := e.Backfills.StartBackfill(e.Context(), claim.BackfillRequest{Schedule: "a", ID: "b", From: slot(1), To: slot(1), Again: true,
		Overlap: schedule.OverlapAllow, MaxOpen: 1})
	e.must("StartBackfill", err)
	step, err := e.Backfills.StepBackfill(e.Context(), claim.BackfillStep{Schedule: "a", ID: "b", Expected: b.Cursor,
		Open: []time.Time{slot(1)}})
	e.must("StepBackfill", err)
	if len(step.Released) != 1 {
		e.Fatalf("StepBackfill = %+v, want one firing", step)
	}
	id := step.Released[0].Firing
	e.cancel(id, claim.CancelAsked)
	e.begins(id, "one", claim.BeginCancelled)
	b, err = e.Backfills.Backfill(e.Context(), "a", "b")
	e.must("Backfill", err)
	want(e, "Open of the backfill", b.Open, 0)
	want(e, "Failed of the backfill", b.Failed, 0)
	want(e, "it has ended", b.EndedAt.IsZero(), false)
}

func cancelAnswers(e *env) {
	if e.Cancels == nil {
		e.Skip("the backend cancels nothing here")
	}
	e.put(every("a"))
	generation := e.status("a").Generation
	e.cancel(claim.ScheduledFiring("a", generation, slot(1)), claim.CancelEarly)
	e.cancel(claim.ManualFiring("a", generation, "nobody"), claim.CancelClosed)
	e.cancel(claim.ScheduledFiring("a", generation+1, slot(1)), claim.CancelGone)
	e.cancel(claim.ScheduledFiring("b", 1, slot(1)), claim.CancelGone)
	id := e.fireNext()
	e.runToEnd(id, claim.OutcomeSucceeded)
	e.cancel(id, claim.CancelClosed)
	second := e.fireNext()
	got, err := e.Cancels.Cancel(e.Context(), claim.CancelRequest{Firing: claim.FiringID(second.TaskID(2))})
	e.must("Cancel of a task ID", err)
	want(e, "Cancel of a task ID", got.Answer, claim.CancelAsked)
	want(e, "the firing of a task ID", got.Firing.Firing, second)
	e.remove("a")
	e.cancel(second, claim.CancelGone)
	var refused *schedule.FieldError
	_, err = e.Cancels.Cancel(e.Context(), claim.CancelRequest{Firing: "no firing"})
	want(e, "no firing ID is refused", errors.As(err, &refused), true)
}

// cancel asks for the end of a firing of the model.
func (w *twin) cancel() {
	id, ok := pick(w.random, w.firings)
	if !ok || w.sides[1].Cancels == nil {
		return
	}
	request := claim.CancelRequest{KeepRuns: 4}
	if w.chance(2) {
		request.By, request.Reason = "ana", "model"
	}
	w.both("cancel "+plain(id[0]), func(side int, e *env) string {
		request.Firing = id[side]
		got, err := e.Cancels.Cancel(e.Context(), request)
		e.must("Cancel", err)
		f := got.Firing
		return fmt.Sprintf("%s %s %s attempt %d cancel %t by hand %t", got.Answer, f.State, f.Position, f.Attempt, f.CancelWanted, f.CancelByHand)
	})
}
