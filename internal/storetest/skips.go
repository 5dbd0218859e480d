package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var skipCases = []testCase{
	{"a scheduled time that is asked to skip is claimed as such and gets its verdict", skipOne},
	{"a skip can be taken back", skipUndone},
	{"it is too late to skip what is claimed or has its verdict", skipLate},
	{"a skip comes before the overlap policy", skipBeforeOverlap},
	{"a skip that is asked for while a claim waits for the overlap policy counts", skipWhileHeld},
	{"a skip survives an edit and a pause", skipKept},
	{"only scheduled times can be skipped, at most 100", skipRefused},
	{"a skip of a time that is passed over is forgotten", skipPassed},
}

var eventCases = []testCase{
	{"events tell what happened, in order", eventOrder},
	{"events tell what happens by itself", eventBySelf},
	{"a cursor continues where it was", eventCursor},
}

var lookCases = []testCase{
	{"open firings can be looked at, settled ones are left out", lookFirings},
}

func (e *env) needSkipper() {
	e.Helper()
	if e.Skipper == nil {
		e.Skip("the backend skips nothing here")
	}
}

func (e *env) skips(id schedule.ID, wants ...time.Time) {
	e.Helper()
	if got := e.status(id).Skips; !slices.EqualFunc(got, wants, time.Time.Equal) {
		e.Errorf("Skips of %s = %v, want %v", id, got, wants)
	}
}

func skipOne(e *env) {
	e.needSkipper()
	e.put(every("a"))
	for range 2 { // a repeat is harmless
		e.must("Skip", e.Skipper.Skip(e.Context(), "a", slot(2)))
	}
	e.must("Skip", e.Skipper.Skip(e.Context(), "a", slot(4)))
	e.skips("a", slot(2), slot(4))
	e.fireNext()
	e.advance(period)
	c := e.claimOne(claim.ClaimSkip)
	want(e, "Again", c.Again, false)
	e.completes(judged(c, schedule.VerdictSkipped), claim.CompleteOK)
	e.begins(c.Firing(), "never", claim.BeginSettled)
	e.skips("a", slot(4))
	e.fireNext()
	e.verdicts("a", span(schedule.VerdictFired, 0, 1, 1), span(schedule.VerdictSkipped, 0, 2, 2), span(schedule.VerdictFired, 0, 3, 3))
}

func skipUndone(e *env) {
	e.needSkipper()
	e.put(every("a"))
	e.must("Skip", e.Skipper.Skip(e.Context(), "a", slot(1)))
	for range 2 {
		e.must("Unskip", e.Skipper.Unskip(e.Context(), "a", slot(1)))
	}
	e.skips("a")
	e.fireNext()
}

func skipLate(e *env) {
	e.needSkipper()
	e.put(every("a"))
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	late := func(when string, at time.Time) {
		e.Helper()
		for name, call := range map[string]func() error{
			"Skip":   func() error { return e.Skipper.Skip(e.Context(), "a", at) },
			"Unskip": func() error { return e.Skipper.Unskip(e.Context(), "a", at) },
		} {
			if err := call(); !errors.Is(err, schedule.ErrLate) {
				e.Errorf("%s %s = %v, want ErrLate", name, when, err)
			}
		}
	}
	late("of what is claimed", slot(1))
	e.completes(enqueued(c), claim.CompleteOK)
	late("of what has fired", slot(1))
}

func skipBeforeOverlap(e *env) {
	e.needSkipper()
	e.put(every("a", overlap(schedule.OverlapBufferAll)))
	first := e.fireNext()
	e.must("Skip", e.Skipper.Skip(e.Context(), "a", slot(2)))
	e.advance(period)
	c := e.claimOne(claim.ClaimSkip)
	e.completes(judged(c, schedule.VerdictSkipped), claim.CompleteOK)
	want(e, "Buffered", e.status("a").Buffered, 0)
	e.runToEnd(first, claim.OutcomeSucceeded)
	e.released()
}

// skipWhileHeld asks while a worker holds the claim: it decided before it could
// know, and what it completes must not fire from the buffer, nor count as an overlap.
func skipWhileHeld(e *env) {
	e.needSkipper()
	for _, policy := range []schedule.Overlap{schedule.OverlapSkip, schedule.OverlapBufferOne, schedule.OverlapBufferAll} {
		id := schedule.ID("held-" + string(policy))
		d := every(id, overlap(policy))
		e.put(d)
		first := e.fireNext()
		e.advance(period)
		c := e.claimOne(claim.ClaimOverlap)
		e.must("Skip", e.Skipper.Skip(e.Context(), id, c.ScheduledAt))
		e.completes(decided(c, claim.DecideOverlap), claim.CompleteOK)
		e.skips(id)
		want(e, "Buffered under "+string(policy), e.status(id).Buffered, 0)
		e.runToEnd(first, claim.OutcomeSucceeded)
		e.released()
		e.begins(c.Firing(), "never", claim.BeginSettled)
		ranges := e.status(id).Verdicts
		if n := len(ranges); n != 2 || ranges[1].Verdict != schedule.VerdictSkipped || ranges[1].Count != 1 || !ranges[1].First.Equal(c.ScheduledAt) {
			e.Errorf("verdicts under %s = %+v, want the second time skipped", policy, ranges)
		}
		want(e, "Fired under "+string(policy), e.status(id).Fired, 1)
		e.remove(id)
	}
}

func skipKept(e *env) {
	e.needSkipper()
	e.put(every("a"))
	e.must("Skip", e.Skipper.Skip(e.Context(), "a", slot(2)))
	e.put(every("a", func(s *schedule.Schedule) { s.Description = "edited" }))
	e.pause("a", schedule.PauseOptions{})
	e.resume("a")
	e.fireNext()
	e.advance(period)
	e.completes(judged(e.claimOne(claim.ClaimSkip), schedule.VerdictSkipped), claim.CompleteOK)
}

func skipRefused(e *env) {
	e.needSkipper()
	e.put(every("a"))
	var refused *schedule.FieldError
	err := e.Skipper.Skip(e.Context(), "a", slot(1).Add(time.Second))
	want(e, "no scheduled time is refused", errors.As(err, &refused) && refused.Field == "at", true)
	want(e, "an unknown schedule is ErrNotFound", errors.Is(e.Skipper.Skip(e.Context(), "b", slot(1)), schedule.ErrNotFound), true)
	for n := range 100 {
		e.must("Skip", e.Skipper.Skip(e.Context(), "a", slot(2+n)))
	}
	refused = nil
	err = e.Skipper.Skip(e.Context(), "a", slot(200))
	want(e, "the 101st is refused", errors.As(err, &refused) && refused.Field == "at", true)
	e.must("a known one beside 100", e.Skipper.Skip(e.Context(), "a", slot(50)))
}

func skipPassed(e *env) {
	e.needSkipper()
	e.put(every("a"))
	e.must("Skip", e.Skipper.Skip(e.Context(), "a", slot(2)))
	e.advance(3 * period)
	c := e.claimOne(claim.ClaimFire)
	completion := judged(c, schedule.VerdictCoalesced)
	passed := span(schedule.VerdictCoalesced, 0, 2, 2)
	completion.Range, completion.Next = &passed, slot(3)
	e.completes(completion, claim.CompleteOK)
	e.skips("a")
	e.fire()
}

func (e *env) needEvents() {
	e.Helper()
	if e.Events == nil {
		e.Skip("the backend keeps no events here")
	}
}

// events reads the events after a cursor and wants their kinds.
func (e *env) events(cursor string, wants ...schedule.EventKind) ([]schedule.Event, string) {
	e.Helper()
	events, next, err := e.Events.Events(e.Context(), cursor, 1000)
	e.must("Events", err)
	var kinds []schedule.EventKind
	for _, event := range events {
		kinds = append(kinds, event.Kind)
	}
	if !slices.Equal(kinds, wants) {
		e.Fatalf("events %v, want %v", kinds, wants)
	}
	return events, next
}

func eventOrder(e *env) {
	e.needEvents()
	e.needSkipper()
	put := e.put(every("a"))
	e.put(every("a"))
	e.put(every("a", func(s *schedule.Schedule) { s.Description = "edited" }))
	e.pause("a", schedule.PauseOptions{By: "ana", Reason: "move"})
	e.pause("a", schedule.PauseOptions{By: "ana", Reason: "move"})
	e.resume("a")
	e.resume("a")
	e.must("Skip", e.Skipper.Skip(e.Context(), "a", slot(2)))
	e.must("Skip", e.Skipper.Skip(e.Context(), "a", slot(2)))
	e.must("Unskip", e.Skipper.Unskip(e.Context(), "a", slot(2)))
	e.advance(time.Second)
	got := e.trigger("a", schedule.TriggerOptions{RequestID: "r"})
	e.trigger("a", schedule.TriggerOptions{RequestID: "r"})
	e.remove("a")
	events, _ := e.events("", schedule.EventCreated, schedule.EventUpdated, schedule.EventPaused, schedule.EventResumed,
		schedule.EventSkipAsked, schedule.EventSkipWithdrawn, schedule.EventTriggered, schedule.EventRemoved)
	for _, event := range events {
		want(e, "Schedule", event.Schedule, "a")
		want(e, "Generation", event.Generation, put.Generation)
	}
	want(e, "Detail of the pause", events[2].Detail, "by ana: move")
	want(e, "Detail of the skip", events[4].Detail, "2030-01-01T00:00:20Z")
	want(e, "Detail of the trigger", events[6].Detail, got.FiringID)
	wantTime(e, "At of the creation", events[0].At, Epoch)
	wantTime(e, "At of the trigger", events[6].At, Epoch.Add(time.Second))
}

func eventBySelf(e *env) {
	e.needEvents()
	e.put(every("a", func(s *schedule.Schedule) { s.MaxFailures, s.CoolDown = 1, time.Minute }))
	e.pause("a", schedule.PauseOptions{Until: Epoch.Add(time.Second)})
	id := e.fireNext() // resumes
	e.finishes(e.runs(id, "one"), claim.OutcomeFailed, claim.FinishDisabled)
	e.advance(time.Minute + period)
	c := e.claimOne(claim.ClaimFire) // probes
	completion := enqueued(c)
	completion.Next = time.Time{}
	e.completes(completion, claim.CompleteOK)
	e.settle(claim.SettleRequest{Firing: c.Firing(), Outcome: claim.OutcomeLost})
	events, _ := e.events("", schedule.EventCreated, schedule.EventPaused, schedule.EventResumed, schedule.EventDisabled,
		schedule.EventProbing, schedule.EventCompleted, schedule.EventLost)
	want(e, "Detail of the resume", events[2].Detail, "by itself, its term is over")
	want(e, "Detail of the disable", events[3].Detail, "1 failures in a row")
	want(e, "Detail of the loss", events[6].Detail, string(c.Firing()))
}

func eventCursor(e *env) {
	e.needEvents()
	_, none := e.events("")
	e.put(every("a"))
	_, first := e.events(none, schedule.EventCreated)
	e.events(first)
	e.pause("a", schedule.PauseOptions{})
	e.put(every("b"))
	_, second := e.events(first, schedule.EventPaused, schedule.EventCreated)
	e.events(second)
	newest, _, err := e.Events.Events(e.Context(), "", 1)
	e.must("Events", err)
	want(e, "events of a limit of 1", len(newest), 1)
	for _, cursor := range []string{"x", "1,2,3,4,5,6,7,8,9", "-1"} {
		var refused *schedule.FieldError
		if _, _, err := e.Events.Events(e.Context(), cursor, 10); !errors.As(err, &refused) || refused.Field != "cursor" {
			e.Errorf("Events after %q = %v, want a *FieldError of cursor", cursor, err)
		}
	}
	var refused *schedule.FieldError
	_, _, err = e.Events.Events(e.Context(), "", 0)
	want(e, "a limit of 0 is refused", errors.As(err, &refused) && refused.Field == "limit", true)
}

func lookFirings(e *env) {
	if e.Firings == nil {
		e.Skip("the backend shows no firings here")
	}
	e.put(every("a"))
	first := e.fireNext()
	second := e.fireNext()
	run := e.runs(second, "one")
	e.advance(period)
	pending := e.claimOne(claim.ClaimFire).Firing()
	unknown := claim.ManualFiring("nowhere", 1, "r")
	got, now, err := e.Firings.Firings(e.Context(), []claim.FiringID{first, second, pending, unknown})
	e.must("Firings", err)
	wantTime(e, "now", now, e.Now())
	want(e, "firings", len(got), 3)
	want(e, "State", got[first].State, claim.FiringIntent)
	want(e, "State of a run", got[second].State, claim.FiringRunning)
	want(e, "Token of a run", got[second].Token, run.Token)
	want(e, "Position", got[first].Position, claim.PositionPassed)
	want(e, "Position of the claimed one", got[pending].Position, claim.PositionPending)
	e.finishes(run, claim.OutcomeSucceeded, claim.FinishOK)
	got, _, err = e.Firings.Firings(e.Context(), []claim.FiringID{second})
	e.must("Firings", err)
	want(e, "firings after the end", len(got), 0)
}
