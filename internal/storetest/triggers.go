package storetest

import (
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var triggerCases = []testCase{
	{"trigger opens a firing that an auditor enqueues at once", triggerOpens},
	{"trigger moves no scheduled time and gives no verdict", triggerMovesNothing},
	{"the same request ID opens one firing, even after it was settled", triggerTwice},
	{"a request ID is remembered for a day", triggerForgets},
	{"trigger runs a paused, a disabled and a completed schedule", triggerStopped},
	{"trigger that obeys skip is refused while a firing is open", triggerObeySkip},
	{"trigger that obeys buffer_one waits for the open firing", triggerObeyBuffer},
	{"trigger that does not obey runs beside", triggerForce},
	{"a request ID that is not one is refused", triggerBadRequest},
	{"a run of a trigger counts for overlap", triggerOverlap},
}

func triggerOpens(e *env) {
	put := e.put(every("a", func(s *schedule.Schedule) { s.Queue = "reports" }))
	got := e.trigger("a", schedule.TriggerOptions{RequestID: "r-1"})
	id := claim.FiringID(got.FiringID)
	want(e, "FiringID", id, claim.ManualFiring("a", put.Generation, "r-1"))
	want(e, "Queue", got.Queue, "reports")
	want(e, "Duplicate, Buffered or Refused", got.Duplicate || got.Buffered || got.Refused, false)
	f := e.audited(id)
	want(e, "State", f.State, claim.FiringIntent)
	want(e, "Position", f.Position, claim.PositionPassed)
	want(e, "Queue", f.Queue, "reports")
	wantTime(e, "OpenedAt", f.OpenedAt, Epoch)
	e.must("Mark", e.Ledger.Mark(e.Context(), auditTime, []claim.FiringID{id}))
	e.runToEnd(id, claim.OutcomeSucceeded)
	e.begins(id, "again", claim.BeginSettled)
	e.must("Mark of a settled firing", e.Ledger.Mark(e.Context(), auditTime, []claim.FiringID{id}))
	want(e, "Open", e.status("a").Open, 0)
}

func triggerMovesNothing(e *env) {
	e.put(every("a"))
	e.fireNext()
	before := e.status("a")
	drawn := e.trigger("a", schedule.TriggerOptions{})
	if other := e.trigger("a", schedule.TriggerOptions{}); other.FiringID == drawn.FiringID || other.Duplicate {
		e.Errorf("two triggers without a request ID gave %+v and %+v, want two firings", drawn, other)
	}
	e.runToEnd(claim.FiringID(drawn.FiringID), claim.OutcomeSucceeded)
	after := e.status("a")
	wantTime(e, "NextAt", after.NextAt, before.NextAt)
	want(e, "Fired", after.Fired, before.Fired)
	want(e, "verdict ranges", len(after.Verdicts), len(before.Verdicts))
	want(e, "Open", after.Open, before.Open+1)
	e.fireNext()
}

func triggerTwice(e *env) {
	e.put(every("a"))
	first := e.trigger("a", schedule.TriggerOptions{RequestID: "r"})
	again := e.trigger("a", schedule.TriggerOptions{RequestID: "r"})
	want(e, "Duplicate", again.Duplicate, true)
	want(e, "FiringID", again.FiringID, first.FiringID)
	want(e, "Open", e.status("a").Open, 1)
	e.runToEnd(claim.FiringID(first.FiringID), claim.OutcomeSucceeded)
	e.advance(23 * time.Hour)
	again = e.trigger("a", schedule.TriggerOptions{RequestID: "r"})
	want(e, "Duplicate of a settled firing", again.Duplicate, true)
	want(e, "Open", e.status("a").Open, 0)
	e.put(every("b"))
	want(e, "Duplicate on another schedule", e.trigger("b", schedule.TriggerOptions{RequestID: "r"}).Duplicate, false)
}

func triggerForgets(e *env) {
	e.put(every("a"))
	first := e.trigger("a", schedule.TriggerOptions{RequestID: "r"})
	e.runToEnd(claim.FiringID(first.FiringID), claim.OutcomeSucceeded)
	e.advance(24*time.Hour + time.Millisecond)
	want(e, "Duplicate", e.trigger("a", schedule.TriggerOptions{RequestID: "r"}).Duplicate, false)
	want(e, "Open", e.status("a").Open, 1)
}

func triggerStopped(e *env) {
	e.put(every("a", func(s *schedule.Schedule) { s.MaxFailures = 1 }))
	stop := []func(){
		func() { e.pause("a", schedule.PauseOptions{}) },
		func() { e.resume("a"); e.advance(period); e.runToEnd(e.fireFailing(), claim.OutcomeSucceeded) },
	}
	for i, stop := range stop {
		stop()
		got := e.trigger("a", schedule.TriggerOptions{})
		e.runToEnd(claim.FiringID(got.FiringID), claim.OutcomeSucceeded)
		if state := e.status("a").State; state == schedule.StateActive {
			e.Errorf("stop %d: state %s after a trigger, want it stopped still", i, state)
		}
	}
	e.resume("a")
	e.advance(period)
	last := enqueued(e.claimOne(claim.ClaimFire))
	last.Next = time.Time{}
	e.completes(last, claim.CompleteOK)
	want(e, "State", e.status("a").State, schedule.StateCompleted)
	e.runs(claim.FiringID(e.trigger("a", schedule.TriggerOptions{}).FiringID), "completed")
}

// fireFailing fires, opens a second firing, and fails the first, which
// disables a schedule with max_failures 1. It returns the second.
func (e *env) fireFailing() claim.FiringID {
	e.Helper()
	first := e.fire()
	second := claim.FiringID(e.trigger("a", schedule.TriggerOptions{}).FiringID)
	e.finishes(e.runs(first, "failing"), claim.OutcomeFailed, claim.FinishDisabled)
	return second
}

func triggerObeySkip(e *env) {
	e.put(every("a", overlap(schedule.OverlapSkip)))
	id := e.fireNext()
	got := e.trigger("a", schedule.TriggerOptions{RequestID: "r", ObeyOverlap: true})
	want(e, "Refused", got.Refused, true)
	want(e, "Open", e.status("a").Open, 1)
	e.runToEnd(id, claim.OutcomeSucceeded)
	got = e.trigger("a", schedule.TriggerOptions{RequestID: "r", ObeyOverlap: true})
	want(e, "Refused when nothing is open", got.Refused, false)
	want(e, "Duplicate of a refused request", got.Duplicate, false)
	want(e, "Open", e.status("a").Open, 1)
}

func triggerObeyBuffer(e *env) {
	e.put(every("a", overlap(schedule.OverlapBufferOne)))
	open := e.fireNext()
	got := e.trigger("a", schedule.TriggerOptions{RequestID: "r", ObeyOverlap: true})
	want(e, "Buffered", got.Buffered, true)
	want(e, "Refused when the buffer is full", e.trigger("a", schedule.TriggerOptions{ObeyOverlap: true}).Refused, true)
	want(e, "Duplicate", e.trigger("a", schedule.TriggerOptions{RequestID: "r", ObeyOverlap: true}).Duplicate, true)
	status := e.status("a")
	want(e, "Open", status.Open, 1)
	want(e, "Buffered", status.Buffered, 1)
	want(e, "Fired", status.Fired, 1)
	e.runToEnd(open, claim.OutcomeSucceeded)
	e.released(claim.FiringID(got.FiringID))
	e.runToEnd(claim.FiringID(got.FiringID), claim.OutcomeSucceeded)
}

func triggerForce(e *env) {
	e.put(every("a", overlap(schedule.OverlapSkip)))
	open := e.fireNext()
	e.runs(open, "one")
	got := e.trigger("a", schedule.TriggerOptions{})
	e.runs(claim.FiringID(got.FiringID), "two")
	want(e, "Open", e.status("a").Open, 2)
}

func triggerBadRequest(e *env) {
	e.put(every("a"))
	for _, request := range []string{"with:colon", "with space", "with,comma", "1234567890123456789012345678901234567"} {
		_, err := e.Catalog.Trigger(e.Context(), "a", schedule.TriggerOptions{RequestID: request})
		wantField(e, "Trigger with request ID "+request, err, "request_id")
	}
	want(e, "Open", e.status("a").Open, 0)
}

func triggerOverlap(e *env) {
	e.put(every("a", overlap(schedule.OverlapSkip)))
	id := claim.FiringID(e.trigger("a", schedule.TriggerOptions{}).FiringID)
	e.advance(period)
	c := e.claimOne(claim.ClaimOverlap)
	if len(c.Open) != 1 || c.Open[0] != id {
		e.Fatalf("Open = %v, want %s", c.Open, id)
	}
	e.completes(decided(c, claim.DecideOverlap), claim.CompleteOK)
	e.runToEnd(id, claim.OutcomeSucceeded)
	e.fireNext()
}
