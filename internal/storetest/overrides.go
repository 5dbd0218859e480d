package storetest

import (
	"fmt"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// everyPolicy are all overlap policies.
var everyPolicy = []schedule.Overlap{schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapBufferOne,
	schedule.OverlapBufferAll, schedule.OverlapCancelOther}

var overrideCases = []testCase{
	{"trigger with allow runs beside, whatever the policy", overrideAllow},
	{"trigger with skip is refused while a firing is open, whatever the policy", overrideSkip},
	{"trigger with buffer_one waits, whatever the policy", overrideBufferOne},
	{"trigger with buffer_all waits up to the limit, whatever the policy", overrideBufferAll},
	{"trigger with cancel_other ends what is open and waits for it, whatever the policy", overrideCancel},
	{"trigger with cancel_other does not wait for what was opened after it", overrideCancelLater},
	{"trigger with cancel_other also ends what an edit left unlisted", overrideCancelUnlisted},
	{"a policy of a trigger leaves that of the schedule alone", overrideOnce},
}

// eachPolicy puts a schedule with each policy and opens a firing of it.
func (e *env) eachPolicy(run func(id schedule.ID, open claim.FiringID)) {
	for i, policy := range everyPolicy {
		id := schedule.ID(fmt.Sprint("s", i))
		e.put(every(id, overlap(policy)))
		run(id, claim.FiringID(e.trigger(id, schedule.TriggerOptions{}).FiringID))
		e.remove(id)
	}
}

func overrideAllow(e *env) {
	e.eachPolicy(func(id schedule.ID, open claim.FiringID) {
		e.runs(open, "one")
		e.runs(claim.FiringID(e.trigger(id, schedule.TriggerOptions{Overlap: schedule.OverlapAllow}).FiringID), "two")
		e.runs(claim.FiringID(e.trigger(id, schedule.TriggerOptions{}).FiringID), "three")
	})
}

func overrideSkip(e *env) {
	e.eachPolicy(func(id schedule.ID, open claim.FiringID) {
		options := schedule.TriggerOptions{Overlap: schedule.OverlapSkip}
		want(e, "Refused", e.trigger(id, options).Refused, true)
		e.runToEnd(open, claim.OutcomeSucceeded)
		want(e, "Refused when nothing is open", e.trigger(id, options).Refused, false)
	})
}

func overrideBufferOne(e *env) {
	e.eachPolicy(func(id schedule.ID, open claim.FiringID) {
		got := e.trigger(id, schedule.TriggerOptions{Overlap: schedule.OverlapBufferOne})
		want(e, "Buffered", got.Buffered, true)
		want(e, "Refused when one waits", e.trigger(id, schedule.TriggerOptions{Overlap: schedule.OverlapBufferOne}).Refused, true)
		e.begins(claim.FiringID(got.FiringID), "early", claim.BeginEarly)
		e.runToEnd(open, claim.OutcomeSucceeded)
		e.released(claim.FiringID(got.FiringID))
		e.runToEnd(claim.FiringID(got.FiringID), claim.OutcomeSucceeded)
		e.check()
	})
}

func overrideBufferAll(e *env) {
	e.put(every("few", overlap(schedule.OverlapBufferAll), func(s *schedule.Schedule) { s.BufferLimit = 2 }))
	e.put(every("many"))
	for id, limit := range map[schedule.ID]int{"few": 2, "many": 100} {
		e.trigger(id, schedule.TriggerOptions{})
		for range limit {
			want(e, "Buffered", e.trigger(id, schedule.TriggerOptions{Overlap: schedule.OverlapBufferAll}).Buffered, true)
		}
		want(e, "Refused", e.trigger(id, schedule.TriggerOptions{Overlap: schedule.OverlapBufferAll}).Refused, true)
		want(e, "buffered", e.status(id).Buffered, limit)
	}
}

func overrideCancel(e *env) {
	e.eachPolicy(func(id schedule.ID, open claim.FiringID) {
		run := e.runs(open, "one")
		queued := claim.FiringID(e.trigger(id, schedule.TriggerOptions{}).FiringID)
		options := schedule.TriggerOptions{RequestID: "r", Overlap: schedule.OverlapCancelOther}
		next := claim.FiringID(e.trigger(id, options).FiringID)
		want(e, "Duplicate", e.trigger(id, options).Duplicate, true)
		e.begins(next, "two", claim.BeginBusy)
		want(e, "pulse", e.pulse(run), claim.PulseCancel)
		e.begins(queued, "three", claim.BeginCancelled)
		want(e, "cancel wanted of itself", e.looked(next).CancelWanted, false)
		e.finishes(run, claim.OutcomeCancelled, claim.FinishOK)
		e.runToEnd(next, claim.OutcomeSucceeded)
		e.check()
	})
}

func overrideCancelLater(e *env) {
	e.eachPolicy(func(id schedule.ID, open claim.FiringID) {
		next := claim.FiringID(e.trigger(id, schedule.TriggerOptions{Overlap: schedule.OverlapCancelOther}).FiringID)
		e.runs(claim.FiringID(e.trigger(id, schedule.TriggerOptions{}).FiringID), "later")
		e.begins(open, "ended", claim.BeginCancelled)
		e.runs(next, "beside the later one")
	})
}

func overrideCancelUnlisted(e *env) {
	e.put(every("a"))
	open := e.fireNext()
	e.put(every("a", overlap(schedule.OverlapCancelOther)))
	e.trigger("a", schedule.TriggerOptions{ObeyOverlap: true})
	want(e, "cancel wanted", e.looked(open).CancelWanted, true)
}

func overrideOnce(e *env) {
	e.put(every("a", overlap(schedule.OverlapSkip)))
	first := e.fireNext()
	e.trigger("a", schedule.TriggerOptions{Overlap: schedule.OverlapCancelOther})
	e.advance(period)
	e.completes(decided(e.claimOne(claim.ClaimOverlap), claim.DecideOverlap), claim.CompleteOK)
	want(e, "cancel wanted", e.looked(first).CancelWanted, true)
	want(e, "LastVerdict", e.status("a").Verdicts[1].Verdict, schedule.VerdictOverlap)
	e.advance(time.Second)
	e.none("between two scheduled times")
}
