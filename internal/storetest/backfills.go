package storetest

import (
	"errors"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var backfillCases = []testCase{
	{"a backfill opens firings of its own, one after the other, and ends", backfillRuns},
	{"a step sent twice opens its firings once, and names them again", backfillStepTwice},
	{"the rate holds between steps", backfillRate},
	{"a backfill beside open firings keeps to its bound", backfillBound},
	{"a backfill that skips passes over what overlaps", backfillSkips},
	{"a backfill that waits waits for regular firings too", backfillWaits},
	{"a halted backfill goes on where it was", backfillHalts},
	{"a backfill stops at its limit", backfillLimit},
	{"a paused schedule holds its backfill", backfillPaused},
	{"the same ID starts one backfill", backfillSameID},
	{"a backfill ends with its schedule", backfillRemoved},
	{"a backfill that ended or was halted is forgotten after a week", backfillForgotten},
	{"backfills that cannot be are refused", backfillRefused},
	{"a backfill moves no scheduled time and gives no verdict", backfillMovesNothing},
	{"failures of a backfill count for the schedule", backfillFails},
	{"an auditor looks after a firing of a backfill that nobody enqueued", backfillAudited},
}

// needBackfills skips the test on a backend without them.
func (e *env) needBackfills() {
	e.Helper()
	if e.Backfills == nil {
		e.Skip("the backend has no backfills here")
	}
}

// backfill starts one over the scheduled times first to last.
func (e *env) backfill(id schedule.ID, first, last int, change func(*claim.BackfillRequest)) claim.Backfill {
	e.Helper()
	e.needBackfills()
	request := claim.BackfillRequest{Schedule: id, ID: "bf", From: slot(first), To: slot(last), Every: time.Second}
	if change != nil {
		change(&request)
	}
	b, err := e.Backfills.StartBackfill(e.Context(), request)
	e.must("StartBackfill", err)
	return b
}

// dueBackfills returns what may step, in every shard.
func (e *env) dueBackfills() []claim.Backfill {
	e.Helper()
	var all []claim.Backfill
	for shard := range e.shards {
		batch, err := e.Backfills.DueBackfills(e.Context(), claim.DueBackfillsRequest{Shard: shard, Limit: 100, Hide: time.Second})
		e.must("DueBackfills", err)
		all = append(all, batch.Backfills...)
	}
	return all
}

// step opens the scheduled times of a backfill, given by number; more says
// that there are others after them.
func (e *env) step(b claim.Backfill, answer claim.StepAnswer, more bool, slots ...int) claim.BackfillResult {
	e.Helper()
	step := claim.BackfillStep{Schedule: b.Schedule, ID: b.ID, Expected: b.Cursor}
	for _, n := range slots {
		step.Open = append(step.Open, slot(n))
		step.Cursor = slot(n)
	}
	if !more {
		step.Cursor = time.Time{}
	}
	result, err := e.Backfills.StepBackfill(e.Context(), step)
	e.must("StepBackfill", err)
	if result.Answer != answer {
		e.Fatalf("StepBackfill(%v) = %+v, want %s", slots, result, answer)
	}
	e.rest = result.Released
	return result
}

// past puts a schedule and lets four of its scheduled times pass unclaimed
// into one verdict.
func (e *env) past(options ...func(*schedule.Schedule)) schedule.PutResult {
	e.Helper()
	put := e.put(every("a", options...))
	e.advance(4*period + time.Second)
	c := e.claimOne(claim.ClaimFire)
	missed := span(schedule.VerdictMissed, 0, 2, 4)
	completion := judged(c, schedule.VerdictMissed)
	completion.Range, completion.Next = &missed, slot(5)
	e.completes(completion, claim.CompleteOK)
	return put
}

func backfillRuns(e *env) {
	put := e.past()
	b := e.backfill("a", 1, 2, nil)
	want(e, "ID", b.ID, "bf")
	want(e, "Overlap", b.Overlap, schedule.OverlapBufferAll)
	wantTime(e, "StartedAt", b.StartedAt, e.Now())
	for n := 1; n <= 2; n++ {
		due := e.dueBackfills()
		if len(due) != 1 || due[0].ID != "bf" || due[0].Opened != int64(n-1) {
			e.Fatalf("due before step %d: %+v", n, due)
		}
		result := e.step(due[0], claim.StepOK, n < 2, n)
		id := claim.BackfillFiring("a", put.Generation, "bf", slot(n))
		e.released(id)
		want(e, "Open", result.Backfill.Open, 1)
		e.must("Mark", e.Ledger.Mark(e.Context(), auditTime, []claim.FiringID{id}))
		e.runToEnd(id, claim.OutcomeSucceeded)
		e.begins(id, "again", claim.BeginSettled)
		e.advance(time.Second)
	}
	b, err := e.Backfills.Backfill(e.Context(), "a", "bf")
	e.must("Backfill", err)
	want(e, "Opened", b.Opened, 2)
	want(e, "Open", b.Open, 0)
	wantTime(e, "EndedAt", b.EndedAt, e.Now().Add(-time.Second))
	want(e, "due after the end", len(e.dueBackfills()), 0)
}

func backfillStepTwice(e *env) {
	put := e.past()
	b := e.backfill("a", 1, 3, func(r *claim.BackfillRequest) { r.Overlap, r.Every = schedule.OverlapAllow, time.Millisecond })
	e.step(b, claim.StepOK, true, 1, 2)
	ids := []claim.FiringID{claim.BackfillFiring("a", put.Generation, "bf", slot(1)), claim.BackfillFiring("a", put.Generation, "bf", slot(2))}
	e.step(b, claim.StepStale, true, 1, 2)
	e.released(ids...)
	e.must("Mark", e.Ledger.Mark(e.Context(), auditTime, ids[:1]))
	e.step(b, claim.StepStale, true, 1, 2)
	e.released(ids[1])
	want(e, "Open", e.status("a").Open, 2)
}

func backfillRate(e *env) {
	e.past()
	b := e.backfill("a", 1, 4, func(r *claim.BackfillRequest) { r.Overlap, r.Every = schedule.OverlapAllow, 500*time.Millisecond })
	b = e.step(b, claim.StepOK, true, 1, 2).Backfill
	want(e, "due before the rate allows it", len(e.dueBackfills()), 0)
	e.step(b, claim.StepWait, true, 3)
	e.advance(999 * time.Millisecond)
	e.step(b, claim.StepWait, true, 3)
	e.advance(time.Millisecond)
	want(e, "due when the rate allows it", len(e.dueBackfills()), 1)
	e.step(b, claim.StepOK, true, 3)
}

func backfillBound(e *env) {
	put := e.past()
	b := e.backfill("a", 1, 4, func(r *claim.BackfillRequest) {
		r.Overlap, r.Every, r.MaxOpen = schedule.OverlapAllow, time.Millisecond, 2
	})
	want(e, "Room", b.Room(), 2)
	b = e.step(b, claim.StepOK, true, 1, 2).Backfill
	e.advance(time.Second)
	want(e, "Room", b.Room(), 0)
	e.step(b, claim.StepWait, true, 3)
	e.runToEnd(claim.BackfillFiring("a", put.Generation, "bf", slot(1)), claim.OutcomeSucceeded)
	e.step(b, claim.StepWait, true, 3, 4)
	e.step(b, claim.StepOK, true, 3)
}

func backfillSkips(e *env) {
	put := e.past()
	b := e.backfill("a", 1, 3, func(r *claim.BackfillRequest) { r.Overlap, r.Every = schedule.OverlapSkip, time.Millisecond })
	b = e.step(b, claim.StepOK, true, 1).Backfill
	e.advance(time.Second)
	b = e.step(b, claim.StepOK, true, 2).Backfill
	e.released()
	want(e, "Passed", b.Passed, 1)
	e.runToEnd(claim.BackfillFiring("a", put.Generation, "bf", slot(1)), claim.OutcomeSucceeded)
	e.advance(time.Second)
	b = e.step(b, claim.StepOK, false, 3).Backfill
	want(e, "Opened", b.Opened, 2)
	want(e, "EndedAt is set while one is open", !b.EndedAt.IsZero(), false)
}

func backfillWaits(e *env) {
	e.past()
	e.advance(period)
	regular := e.fire()
	b := e.backfill("a", 1, 1, nil)
	e.step(b, claim.StepWait, false, 1)
	e.runToEnd(regular, claim.OutcomeSucceeded)
	e.step(b, claim.StepOK, false, 1)
}

func backfillHalts(e *env) {
	e.past()
	b := e.backfill("a", 1, 3, func(r *claim.BackfillRequest) { r.Overlap, r.Every = schedule.OverlapAllow, time.Millisecond })
	b = e.step(b, claim.StepOK, true, 1).Backfill
	e.advance(time.Second)
	for range 2 {
		halted, err := e.Backfills.HaltBackfill(e.Context(), "a", "bf")
		e.must("HaltBackfill", err)
		wantTime(e, "HaltedAt", halted.HaltedAt, e.Now())
	}
	want(e, "due while halted", len(e.dueBackfills()), 0)
	e.step(b, claim.StepStale, true, 2)
	e.advance(time.Hour)
	resumed, err := e.Backfills.ResumeBackfill(e.Context(), "a", "bf")
	e.must("ResumeBackfill", err)
	want(e, "HaltedAt is set", !resumed.HaltedAt.IsZero(), false)
	wantTime(e, "Cursor", resumed.Cursor, slot(1))
	want(e, "due again", len(e.dueBackfills()), 1)
	e.step(resumed, claim.StepOK, false, 2, 3)
	_, err = e.Backfills.HaltBackfill(e.Context(), "a", "other")
	want(e, "HaltBackfill of another is ErrNoBackfill", errors.Is(err, claim.ErrNoBackfill), true)
}

func backfillLimit(e *env) {
	put := e.past()
	b := e.backfill("a", 1, 4, func(r *claim.BackfillRequest) {
		r.Overlap, r.Every, r.Limit = schedule.OverlapAllow, time.Millisecond, 2
	})
	want(e, "Room", b.Room(), 2)
	b = e.step(b, claim.StepOK, true, 1, 2).Backfill
	want(e, "Cursor is zero", b.Cursor.IsZero(), true)
	for n := 1; n <= 2; n++ {
		e.runToEnd(claim.BackfillFiring("a", put.Generation, "bf", slot(n)), claim.OutcomeSucceeded)
	}
	b, err := e.Backfills.Backfill(e.Context(), "a", "bf")
	e.must("Backfill", err)
	want(e, "EndedAt is set", !b.EndedAt.IsZero(), true)
}

func backfillPaused(e *env) {
	e.past()
	b := e.backfill("a", 1, 2, nil)
	e.pause("a", schedule.PauseOptions{})
	want(e, "due while paused", len(e.dueBackfills()), 0)
	e.step(b, claim.StepWait, true, 1)
	e.resume("a")
	e.advance(time.Second)
	want(e, "due after resume", len(e.dueBackfills()), 1)
	e.step(b, claim.StepOK, true, 1)
}

func backfillSameID(e *env) {
	e.past()
	first := e.backfill("a", 1, 2, nil)
	e.step(first, claim.StepOK, true, 1)
	again := e.backfill("a", 1, 4, nil)
	want(e, "Existed", first.Existed, false)
	want(e, "Existed again", again.Existed, true)
	want(e, "Opened", again.Opened, 1)
	wantTime(e, "To", again.To, slot(2))
	drawn := e.backfill("a", 1, 2, func(r *claim.BackfillRequest) { r.ID = "" })
	want(e, "a drawn ID is empty", drawn.ID == "", false)
}

func backfillRemoved(e *env) {
	put := e.past()
	b := e.backfill("a", 1, 2, nil)
	e.step(b, claim.StepOK, true, 1)
	e.remove("a")
	e.step(b, claim.StepGone, true, 2)
	e.begins(claim.BackfillFiring("a", put.Generation, "bf", slot(1)), "o", claim.BeginGone)
	e.put(every("a"))
	_, err := e.Backfills.Backfill(e.Context(), "a", "bf")
	want(e, "Backfill is ErrNoBackfill", errors.Is(err, claim.ErrNoBackfill), true)
	e.advance(time.Minute)
	want(e, "due of a schedule that was created again", len(e.dueBackfills()), 0)
	fresh := e.backfill("a", 1, 2, nil)
	want(e, "Existed", fresh.Existed, false)
}

func backfillForgotten(e *env) {
	e.past()
	b := e.backfill("a", 1, 1, nil)
	other := e.backfill("a", 1, 1, func(r *claim.BackfillRequest) { r.ID = "other" })
	e.step(b, claim.StepOK, false)
	_, err := e.Backfills.HaltBackfill(e.Context(), "a", other.ID)
	e.must("HaltBackfill", err)
	e.advance(7*24*time.Hour - time.Second)
	e.dueBackfills()
	for _, id := range []string{"bf", "other"} {
		_, err := e.Backfills.Backfill(e.Context(), "a", id)
		e.must("Backfill within a week", err)
	}
	e.advance(time.Second)
	e.dueBackfills()
	for _, id := range []string{"bf", "other"} {
		_, err := e.Backfills.Backfill(e.Context(), "a", id)
		want(e, "Backfill after a week is ErrNoBackfill", errors.Is(err, claim.ErrNoBackfill), true)
	}
}

func backfillRefused(e *env) {
	e.needBackfills()
	e.put(every("a"))
	e.put(every("after", func(s *schedule.Schedule) { s.Specs = []schedule.SpecDefinition{{After: time.Minute}} }))
	e.advance(time.Hour)
	good := claim.BackfillRequest{Schedule: "a", ID: "bf", From: slot(1), To: slot(2)}
	for field, change := range map[string]func(*claim.BackfillRequest){
		"backfill": func(r *claim.BackfillRequest) { r.ID = "a.b" },
		"from":     func(r *claim.BackfillRequest) { r.From = time.Time{} },
		"to":       func(r *claim.BackfillRequest) { r.To = r.From.Add(-time.Second) },
		"overlap":  func(r *claim.BackfillRequest) { r.Overlap = schedule.OverlapCancelOther },
		"every":    func(r *claim.BackfillRequest) { r.Every = time.Microsecond },
		"max_open": func(r *claim.BackfillRequest) { r.MaxOpen = 101 },
		"limit":    func(r *claim.BackfillRequest) { r.Limit = -1 },
		"schedule": func(r *claim.BackfillRequest) { r.Schedule = "after" },
	} {
		request := good
		change(&request)
		_, err := e.Backfills.StartBackfill(e.Context(), request)
		var refused *schedule.FieldError
		if !errors.As(err, &refused) || refused.Field != field {
			e.Errorf("StartBackfill with a bad %s = %v, want a *FieldError of that field", field, err)
		}
	}
	future := good
	future.To = e.Now().Add(time.Second)
	_, err := e.Backfills.StartBackfill(e.Context(), future)
	var refused *schedule.FieldError
	want(e, "an end in the future is refused", errors.As(err, &refused) && refused.Field == "to", true)
	unknown := good
	unknown.Schedule = "unknown"
	_, err = e.Backfills.StartBackfill(e.Context(), unknown)
	want(e, "an unknown schedule is ErrNotFound", errors.Is(err, schedule.ErrNotFound), true)
}

func backfillMovesNothing(e *env) {
	e.past()
	before := e.status("a")
	b := e.backfill("a", 1, 4, func(r *claim.BackfillRequest) { r.Overlap, r.Every = schedule.OverlapAllow, time.Millisecond })
	result := e.step(b, claim.StepOK, false, 1, 2, 3, 4)
	for _, r := range result.Released {
		e.runToEnd(r.Firing, claim.OutcomeSucceeded)
	}
	after := e.status("a")
	wantTime(e, "NextAt", after.NextAt, before.NextAt)
	want(e, "Fired", after.Fired, before.Fired)
	want(e, "RunCount", after.RunCount, before.RunCount+4)
	e.verdicts("a", span(schedule.VerdictMissed, 0, 1, 4))
	e.advance(period)
	e.fire()
}

func backfillFails(e *env) {
	put := e.past(func(s *schedule.Schedule) { s.MaxFailures = 1 })
	b := e.backfill("a", 1, 2, nil)
	e.step(b, claim.StepOK, true, 1)
	run := e.runs(claim.BackfillFiring("a", put.Generation, "bf", slot(1)), "one")
	e.finishes(run, claim.OutcomeFailed, claim.FinishDisabled)
	e.advance(time.Minute)
	want(e, "due while disabled", len(e.dueBackfills()), 0)
	b, err := e.Backfills.Backfill(e.Context(), "a", "bf")
	e.must("Backfill", err)
	want(e, "Failed", b.Failed, 1)
	want(e, "Open", b.Open, 0)
}

func backfillAudited(e *env) {
	put := e.past()
	b := e.backfill("a", 1, 1, nil)
	e.step(b, claim.StepOK, false, 1)
	e.advance(auditTime)
	f := e.audited(claim.BackfillFiring("a", put.Generation, "bf", slot(1)))
	want(e, "State", f.State, claim.FiringIntent)
	want(e, "Position", f.Position, claim.PositionPassed)
	e.settle(claim.SettleRequest{Firing: f.Firing, Token: f.Token, Outcome: claim.OutcomeLost})
	b, err := e.Backfills.Backfill(e.Context(), "a", "bf")
	e.must("Backfill", err)
	want(e, "Failed", b.Failed, 1)
	want(e, "EndedAt is set", !b.EndedAt.IsZero(), true)
}
