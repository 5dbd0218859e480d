package storetest

import (
	"errors"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var operateCases = []testCase{
	{"a paused schedule is not claimed, and says who paused it and why", pauseStops},
	{"pausing again replaces who, why and until", pauseAgain},
	{"a firing that was claimed before the pause still happens", pausePromise},
	{"a claim without an intent is dropped by the pause", pauseDropsOverlap},
	{"pause lists what still runs", pauseLists},
	{"a timed pause ends by itself and keeps the pending time", pauseUntil},
	{"resume leaves passed times to the missed policy", resumePending},
	{"resume under missed skip records what the pause passed over", resumeSkip},
	{"resume skips what was missed when asked to, whatever the policy", resumeSkipAsked},
	{"resume of an active schedule changes nothing", resumeActive},
	{"an edit while claimed keeps the firing's promise", editPromise},
	{"an edit of the spec while claimed keeps the promise and replaces what follows", editSpecPromise},
	{"an edit of the spec keeps an intent whose claim was handed back", editHandedBack},
	{"resume under missed skip keeps an intent whose claim was handed back", resumeHandedBack},
	{"resume that skips keeps an intent whose claim was handed back", resumeSkipAskedHandedBack},
	{"a schedule that is unknown cannot be operated", operateUnknown},
	{"a schedule with a delay waits for its run to end", afterWaits},
	{"a schedule with a delay goes on when its run is lost", afterLost},
	{"a schedule with a delay ends at its limit", afterLimit},
}

func pauseStops(e *env) {
	e.put(every("a"))
	e.pause("a", schedule.PauseOptions{By: "ops", Reason: "maintenance"})
	status := e.status("a")
	want(e, "State", status.State, schedule.StatePaused)
	want(e, "PausedBy", status.PausedBy, "ops")
	want(e, "PauseReason", status.PauseReason, "maintenance")
	wantTime(e, "PausedAt", status.PausedAt, Epoch)
	want(e, "PausedUntil is zero", status.PausedUntil.IsZero(), true)
	e.advance(asleep)
	e.none("while paused")
	e.resume("a")
	status = e.status("a")
	want(e, "State after Resume", status.State, schedule.StateActive)
	want(e, "PausedBy after Resume", status.PausedBy, "")
	want(e, "PauseReason after Resume", status.PauseReason, "")
	want(e, "PausedAt after Resume is zero", status.PausedAt.IsZero(), true)
}

func pauseAgain(e *env) {
	e.put(every("a"))
	e.pause("a", schedule.PauseOptions{By: "ops", Reason: "one", Until: slot(2)})
	e.advance(time.Second)
	e.pause("a", schedule.PauseOptions{By: "dev", Reason: "two"})
	status := e.status("a")
	want(e, "PausedBy", status.PausedBy, "dev")
	want(e, "PauseReason", status.PauseReason, "two")
	want(e, "PausedUntil is zero", status.PausedUntil.IsZero(), true)
	wantTime(e, "PausedAt", status.PausedAt, Epoch)
	e.advance(time.Hour)
	e.none("while paused without an end")
}

func pausePromise(e *env) {
	e.put(every("a"))
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	paused := e.pause("a", schedule.PauseOptions{})
	if len(paused.Open) != 1 || paused.Open[0] != string(c.Firing()) {
		e.Errorf("Open = %v, want %s", paused.Open, c.Firing())
	}
	e.verdicts("a", span(1, 0, 1, 1))
	want(e, "Claimed", e.status("a").Claimed, false)
	e.completes(enqueued(c), claim.CompleteAlready)
	e.completes(judged(c, schedule.VerdictMissed), claim.CompleteAlready)
	e.advance(auditTime)
	f := e.audited(c.Firing()) // the claimer may be dead; the auditor enqueues it
	want(e, "Position", f.Position, claim.PositionPassed)
	e.runToEnd(c.Firing(), claim.OutcomeSucceeded)
	e.none("after the promise")
	e.resume("a")
	e.verdicts("a", span(1, 0, 1, 1))
	for range 5 { // whatever the resume left is decided once
		for _, next := range e.claim() {
			if next.Kind == claim.ClaimAdvance {
				e.completes(decided(next, claim.DecideAdvance), claim.CompleteOK)
				continue
			}
			e.completes(enqueued(next), claim.CompleteOK)
		}
	}
	e.verdicts("a", span(1, 0, 1, 2))
}

func pauseDropsOverlap(e *env) {
	e.put(every("a", overlap(schedule.OverlapSkip)))
	e.fireNext()
	e.advance(period)
	c := e.claimOne(claim.ClaimOverlap)
	e.pause("a", schedule.PauseOptions{})
	e.verdicts("a", span(1, 0, 1, 1)) // nothing promised, the second stays pending
	e.completes(decided(c, claim.DecideOverlap), claim.CompleteStale)
	wantTime(e, "NextAt", e.status("a").NextAt, slot(2))
	e.resume("a")
	c = e.claimOne(claim.ClaimOverlap)
	wantTime(e, "ScheduledAt", c.ScheduledAt, slot(2))
}

func pauseLists(e *env) {
	e.put(every("a"))
	want(e, "open firings of a fresh schedule", len(e.pause("a", schedule.PauseOptions{}).Open), 0)
	e.resume("a")
	first := e.fireNext()
	second := e.fireNext()
	e.runs(second, "one")
	open := e.pause("a", schedule.PauseOptions{}).Open
	if len(open) != 2 || open[0] != string(first) || open[1] != string(second) {
		e.Errorf("Open = %v, want %s and %s", open, first, second)
	}
}

func pauseUntil(e *env) {
	e.put(every("a"))
	until := slot(3).Add(500 * time.Millisecond)
	e.pause("a", schedule.PauseOptions{Until: until})
	wantTime(e, "PausedUntil", e.status("a").PausedUntil, until)
	wantTime(e, "NextDue", e.nextDue(), until)
	e.advance(until.Sub(e.Now()) - time.Millisecond)
	e.none("a millisecond before the end of the pause")
	e.advance(time.Millisecond)
	c := e.claimOne(claim.ClaimFire)
	wantTime(e, "ScheduledAt", c.ScheduledAt, slot(1))
	status := e.status("a")
	want(e, "State", status.State, schedule.StateActive)
	want(e, "PausedUntil is zero", status.PausedUntil.IsZero(), true)
}

func resumePending(e *env) {
	e.put(every("a"))
	e.pause("a", schedule.PauseOptions{})
	e.advance(5 * period)
	got := e.resume("a")
	wantTime(e, "NextAt", got.NextAt, slot(1))
	c := e.claimOne(claim.ClaimFire)
	wantTime(e, "ScheduledAt", c.ScheduledAt, slot(1))
	want(e, "Again", c.Again, false)
	want(e, "verdicts before the decision", len(e.status("a").Verdicts), 0)
}

func resumeSkip(e *env) {
	e.put(every("a", func(s *schedule.Schedule) { s.Missed = schedule.MissedSkip }))
	e.pause("a", schedule.PauseOptions{})
	e.advance(5*period + time.Second)
	got := e.resume("a")
	wantTime(e, "NextAt", got.NextAt, slot(6))
	e.verdicts("a", span(schedule.VerdictPaused, 0, 1, 5))
	e.none("right after the resume")
	e.advance(period)
	wantTime(e, "ScheduledAt", e.claimOne(claim.ClaimFire).ScheduledAt, slot(6))
}

func resumeSkipAsked(e *env) {
	skip := schedule.ResumeOptions{SkipMissed: true}
	e.put(every("a"))
	e.put(every("b", func(s *schedule.Schedule) { s.Missed, s.CatchUp = schedule.MissedAll, 24*time.Hour }))
	e.put(every("c", func(s *schedule.Schedule) { s.Specs, s.Expression = nil, "once:"+slot(2).UTC().Format(time.RFC3339) }))
	e.put(every("d", func(s *schedule.Schedule) {
		s.Specs, s.Expression, s.Missed = nil, "once:"+slot(2).UTC().Format(time.RFC3339), schedule.MissedSkip
	}))
	for _, id := range []schedule.ID{"a", "b", "c", "d"} {
		e.pause(id, schedule.PauseOptions{})
	}
	e.advance(5*period + time.Second)
	for _, id := range []schedule.ID{"a", "b"} {
		wantTime(e, "NextAt", e.resumeWith(id, skip).NextAt, slot(6))
		e.verdicts(id, span(schedule.VerdictPaused, 0, 1, 5))
		wantTime(e, "NextAt of a second resume", e.resumeWith(id, skip).NextAt, slot(6))
	}
	for id, options := range map[schedule.ID]schedule.ResumeOptions{"c": skip, "d": {}} { // d by its policy
		want(e, "nothing is left of the one-shot", e.resumeWith(id, options).NextAt.IsZero(), true)
		want(e, "its state", e.status(id).State, schedule.StateCompleted)
		e.verdicts(id, span(schedule.VerdictPaused, 0, 2, 2))
	}
	e.none("right after the resumes")
	e.advance(period)
	claims := e.claim()
	want(e, "claims", len(claims), 2)
	for _, c := range claims {
		wantTime(e, "ScheduledAt", c.ScheduledAt, slot(6))
	}
}

func resumeActive(e *env) {
	e.put(every("a"))
	e.fireNext()
	e.advance(3 * period)
	e.unchanged("a", func() {
		wantTime(e, "NextAt", e.resume("a").NextAt, slot(2))
		e.resume("a")
	})
}

func editPromise(e *env) {
	e.put(every("a"))
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	e.put(every("a", func(s *schedule.Schedule) { s.Payload = []byte("new") }))
	e.verdicts("a", span(1, 0, 1, 1))
	e.completes(enqueued(c), claim.CompleteAlready)
	again := e.claimOne(claim.ClaimAdvance)
	e.completes(decided(again, claim.DecideAdvance), claim.CompleteOK)
	e.runToEnd(c.Firing(), claim.OutcomeSucceeded)
	e.verdicts("a", span(1, 0, 1, 1))
	wantTime(e, "NextAt", e.status("a").NextAt, slot(2))
}

func editSpecPromise(e *env) {
	e.put(every("a"))
	e.advance(3*period + time.Second)
	c := e.claimOne(claim.ClaimFire)
	wantTime(e, "ScheduledAt", c.ScheduledAt, slot(1))
	changed := every("a")
	changed.Specs[0].Every = time.Hour
	put := e.put(changed)
	wantTime(e, "NextAt", put.NextAt, Epoch.Add(time.Hour))
	e.verdicts("a", span(1, 0, 1, 1), span(schedule.VerdictSuperseded, 0, 2, 3))
	e.completes(enqueued(c), claim.CompleteAlready)
	e.runToEnd(c.Firing(), claim.OutcomeSucceeded)
	e.none("before the new time")
	e.advance(time.Hour)
	wantTime(e, "ScheduledAt", e.claimOne(claim.ClaimFire).ScheduledAt, Epoch.Add(time.Hour))
}

// Whether the task of a claim that was handed back arrived is unknown: its
// scheduled time must not get a verdict that says that it did not run.
func editHandedBack(e *env) {
	e.put(every("a"))
	e.advance(3*period + time.Second)
	c := e.claimOne(claim.ClaimFire)
	e.release(claim.Release{Schedule: "a", Token: c.Token, EnqueueFailed: true, Error: "refused", NotBefore: slot(9)})
	changed := every("a")
	changed.Specs[0].Every = time.Hour
	wantTime(e, "NextAt", e.put(changed).NextAt, Epoch.Add(time.Hour))
	e.verdicts("a", span(1, 0, 1, 1), span(schedule.VerdictSuperseded, 0, 2, 3))
	e.runToEnd(c.Firing(), claim.OutcomeSucceeded)
	want(e, "Open", e.status("a").Open, 0)
}

func resumeHandedBack(e *env) {
	e.put(every("a", func(s *schedule.Schedule) { s.Missed = schedule.MissedSkip }))
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	e.release(claim.Release{Schedule: "a", Token: c.Token})
	e.pause("a", schedule.PauseOptions{})
	e.advance(3*period + time.Second)
	wantTime(e, "NextAt", e.resume("a").NextAt, slot(5))
	e.verdicts("a", span(1, 0, 1, 1), span(schedule.VerdictPaused, 0, 2, 4))
	e.runToEnd(c.Firing(), claim.OutcomeSucceeded)
}

func resumeSkipAskedHandedBack(e *env) {
	e.put(every("a"))
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	e.release(claim.Release{Schedule: "a", Token: c.Token})
	e.pause("a", schedule.PauseOptions{})
	e.advance(3*period + time.Second)
	wantTime(e, "NextAt", e.resumeWith("a", schedule.ResumeOptions{SkipMissed: true}).NextAt, slot(5))
	e.verdicts("a", span(1, 0, 1, 1), span(schedule.VerdictPaused, 0, 2, 4))
	e.runToEnd(c.Firing(), claim.OutcomeSucceeded)
}

func operateUnknown(e *env) {
	ctx := e.Context()
	_, err := e.Catalog.Get(ctx, "nobody")
	wantNotFound(e, "Get", err)
	_, err = e.Catalog.Pause(ctx, "nobody", schedule.PauseOptions{})
	wantNotFound(e, "Pause", err)
	_, err = e.Catalog.Resume(ctx, "nobody", schedule.ResumeOptions{})
	wantNotFound(e, "Resume", err)
	_, err = e.Catalog.Trigger(ctx, "nobody", schedule.TriggerOptions{})
	wantNotFound(e, "Trigger", err)
	want(e, "Remove", e.remove("nobody"), false)
}

func wantNotFound(e *env, what string, err error) {
	e.Helper()
	if !errors.Is(err, schedule.ErrNotFound) {
		e.Errorf("%s of an unknown schedule: %v, want ErrNotFound", what, err)
	}
}

// after returns a schedule that fires a period after the end of its last run.
func after(id schedule.ID, options ...func(*schedule.Schedule)) schedule.Schedule {
	s := every(id, options...)
	s.Specs = []schedule.SpecDefinition{{After: period}}
	return s
}

// fireLast fires a schedule whose next time is not known yet.
func (e *env) fireLast() claim.FiringID {
	e.Helper()
	c := e.claimOne(claim.ClaimFire)
	completion := enqueued(c)
	completion.Next = time.Time{}
	e.completes(completion, claim.CompleteOK)
	return c.Firing()
}

func afterWaits(e *env) {
	e.put(after("a"))
	wantTime(e, "NextAt at creation", e.status("a").NextAt, slot(1))
	e.advance(period)
	id := e.fireLast()
	status := e.status("a")
	want(e, "State while waiting", status.State, schedule.StateActive)
	want(e, "NextAt while waiting is zero", status.NextAt.IsZero(), true)
	run := e.runs(id, "one")
	e.finishes(run, claim.OutcomeRetrying, claim.FinishOK)
	e.advance(time.Hour)
	e.none("while the run is open")
	e.runToEnd(id, claim.OutcomeSucceeded)
	wantTime(e, "NextAt after the run", e.status("a").NextAt, e.Now().Add(period))
	e.none("before the delay")
	e.advance(period)
	second := e.claimOne(claim.ClaimFire)
	e.runToEnd(second.Firing(), claim.OutcomeFailed) // before its completion
	completion := enqueued(second)
	completion.Next = time.Time{}
	e.completes(completion, claim.CompleteOK)
	wantTime(e, "NextAt of a run that ended before its completion", e.status("a").NextAt, e.Now().Add(period))
	want(e, "Fired", e.status("a").Fired, 2)
}

func afterLost(e *env) {
	e.put(after("a"))
	e.advance(period)
	id := e.fireLast()
	e.advance(time.Hour)
	got := e.settle(claim.SettleRequest{Firing: id, Outcome: claim.OutcomeLost})
	want(e, "Settle", got.Answer, claim.RedriveOK)
	wantTime(e, "NextAt", e.status("a").NextAt, e.Now().Add(period))
}

func afterLimit(e *env) {
	e.put(after("a", func(s *schedule.Schedule) { s.Limit = 2 }))
	for range 2 {
		e.advance(period)
		e.runToEnd(e.fireLast(), claim.OutcomeSucceeded)
	}
	status := e.status("a")
	want(e, "State", status.State, schedule.StateCompleted)
	want(e, "NextAt is zero", status.NextAt.IsZero(), true)
	e.advance(asleep)
	e.none("past the limit")
}
