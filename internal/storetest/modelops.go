package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// modelIDs are the schedules of the model, one for each overlap policy and one
// with a delay.
var modelIDs = []schedule.ID{"allow", "skip", "one", "all", "cancel", "after"}

// modelSchedule returns a definition for the ID; its overlap policy is fixed.
func (w *twin) modelSchedule(id schedule.ID) schedule.Schedule {
	s := every(id, overlap(map[schedule.ID]schedule.Overlap{"allow": schedule.OverlapAllow, "after": schedule.OverlapAllow,
		"skip": schedule.OverlapSkip, "one": schedule.OverlapBufferOne, "all": schedule.OverlapBufferAll,
		"cancel": schedule.OverlapCancelOther}[id]))
	s.BufferLimit = 0
	if id == "all" {
		s.BufferLimit = 2
	}
	if id == "after" {
		s.Specs = []schedule.SpecDefinition{{After: period}}
	}
	w.edits++
	s.Description = fmt.Sprintf("edit %d", w.edits)
	s.MaxFailures = w.random.IntN(3)
	if s.MaxFailures > 0 && w.chance(2) {
		s.CoolDown = 20 * time.Second
	}
	if w.chance(3) {
		s.Queue = "other"
	}
	if w.chance(4) && id != "after" {
		s.Specs[0].Every = 7 * time.Second
	}
	if w.chance(4) && id != "after" {
		s.Missed = schedule.MissedSkip
	}
	if w.chance(3) && id != "after" {
		s.Except = []schedule.Window{{Calendar: modelCalendar}}
	}
	if w.chance(4) {
		s.Limit = int64(1 + w.random.IntN(6))
	}
	s.Paused = w.chance(10)
	return s
}

// modelCalendar is the calendar that some schedules name.
const modelCalendar = "model"

// calendar puts the calendar, excluding one or the other half of each minute
// or nothing for a long time, or deletes it.
func (w *twin) calendar() {
	if w.sides[1].Calendars == nil {
		w.t.Fatal("the backend has no calendars")
	}
	windows := []string{"0-29 * * * * *", "30-59 * * * * *", "* * 12 * * *"}
	c := schedule.Calendar{Name: modelCalendar, Cron: []string{windows[w.random.IntN(len(windows))]}}
	options := schedule.CalendarOptions{DryRun: w.chance(6)}
	remove := w.chance(5)
	w.both(fmt.Sprintf("calendar %v remove %t %+v", c.Cron, remove, options), func(_ int, e *env) string {
		var result schedule.CalendarResult
		var err error
		if remove {
			result, err = e.Calendars.DeleteCalendar(e.Context(), c.Name, options)
		} else {
			result, err = e.Calendars.PutCalendars(e.Context(), []schedule.Calendar{c}, options)
		}
		var inUse *schedule.InUseError
		switch {
		case errors.As(err, &inUse):
			return inUse.Error()
		case err != nil:
			return failed(err)
		}
		text := fmt.Sprintf("%v version %d users %d moved %d", result.Actions, result.Version, result.Users, result.Moved)
		for _, m := range result.Moves {
			text += fmt.Sprintf(" %s %s -> %s", m.Schedule, short(m.From), short(m.To))
		}
		return text
	})
}

func (w *twin) id() schedule.ID { return modelIDs[w.random.IntN(len(modelIDs))] }

func (w *twin) advance() {
	steps := []time.Duration{time.Millisecond, time.Second, 4 * time.Second, period, claimTTL + time.Millisecond, 25 * time.Second, time.Minute}
	d := steps[w.random.IntN(len(steps))]
	w.sides[0].advance(d) // both sides share the clock
	w.trace = append(w.trace, "advance "+d.String())
}

func (w *twin) putNew(id schedule.ID) { w.putWith(id, schedule.PutOptions{}) }

func (w *twin) putWith(id schedule.ID, options schedule.PutOptions) {
	s := w.modelSchedule(id)
	w.both(fmt.Sprintf("put %s every %s queue %q max_failures %d cool %s missed %q except %v paused %t, %+v", id, s.Specs[0].Every, s.Queue, s.MaxFailures, s.CoolDown, s.Missed, s.Except, s.Paused, options),
		func(_ int, e *env) string {
			got, err := e.Catalog.Put(e.Context(), s, options)
			if err != nil {
				var field *schedule.FieldError
				return fmt.Sprintf("conflict %t refused %t", errors.Is(err, schedule.ErrConflict), errors.As(err, &field))
			}
			return fmt.Sprintf("created %t unchanged %t v%d next %s", got.Created, got.Unchanged, got.Version, short(got.NextAt))
		})
}

func (w *twin) put() {
	options := schedule.PutOptions{}
	if w.chance(5) {
		version := int64(w.random.IntN(4))
		options.IfVersion = &version
	}
	options.DryRun = w.chance(8)
	w.putWith(w.id(), options)
}

// failed renders whether a schedule was found.
func failed(err error) string {
	if errors.Is(err, schedule.ErrNotFound) {
		return "not found"
	}
	return "error " + err.Error()
}

func (w *twin) pause() {
	id, options := w.id(), schedule.PauseOptions{By: "ops", Reason: "model"}
	if w.chance(2) {
		options.Until = w.sides[0].Now().Add(15 * time.Second)
	}
	w.both(fmt.Sprintf("pause %s until %s", id, short(options.Until)), func(_ int, e *env) string {
		got, err := e.Catalog.Pause(e.Context(), id, options)
		if err != nil {
			return failed(err)
		}
		var open []claim.FiringID
		for _, text := range got.Open {
			open = append(open, claim.FiringID(text))
		}
		return fmt.Sprint(plainAll(open))
	})
}

func (w *twin) resume() {
	id, options := w.id(), schedule.ResumeOptions{SkipMissed: w.chance(3)}
	w.both(fmt.Sprintf("resume %s %v", id, options), func(_ int, e *env) string {
		got, err := e.Catalog.Resume(e.Context(), id, options)
		if err != nil {
			return failed(err)
		}
		return short(got.NextAt)
	})
}

func (w *twin) remove() {
	id := w.id()
	w.both(fmt.Sprintf("remove %s", id), func(_ int, e *env) string { return fmt.Sprint(e.remove(id)) })
	w.putNew(id)
}

func (w *twin) claim() {
	var got pair[[]claim.Claim]
	w.both("claim", func(side int, e *env) string {
		got[side] = e.claim()
		slices.SortFunc(got[side], func(a, b claim.Claim) int { return cmp.Compare(a.Schedule, b.Schedule) })
		text := ""
		for _, c := range got[side] {
			text += fmt.Sprintf("[%s %s v%d again %t redrives %d fired %d queue %q", c.Kind, plain(c.Firing()), c.Version, c.Again, c.Redrives, c.Fired, c.Queue)
			if c.Kind != claim.ClaimAdvance {
				text += fmt.Sprintf(" others %d %v", c.OpenOthers, plainAll(c.Open))
			}
			text += "]"
		}
		return text + fmt.Sprint(plainReleased(e.rest))
	})
	for i := range got[0] {
		c := pair[claim.Claim]{got[0][i], got[1][i]}
		w.claims = append(w.claims, c)
		w.firings = append(w.firings, pair[claim.FiringID]{c[0].Firing(), c[1].Firing()})
	}
}

// decide draws a decision that a worker could take for such a claim.
func (w *twin) decide(c claim.Claim) (decision claim.Decision, verdict schedule.Verdict) {
	verdicts := []schedule.Verdict{schedule.VerdictCoalesced, schedule.VerdictMissed, schedule.VerdictExcluded}
	verdict = verdicts[w.random.IntN(len(verdicts))]
	switch c.Kind {
	case claim.ClaimAdvance:
		return claim.DecideAdvance, 0
	case claim.ClaimSkip:
		return claim.DecideVerdict, schedule.VerdictSkipped
	case claim.ClaimOverlap:
		if w.chance(5) {
			return claim.DecideVerdict, verdict
		}
		return claim.DecideOverlap, 0
	}
	if w.chance(4) {
		return claim.DecideVerdict, verdict
	}
	return claim.DecideEnqueued, 0
}

func (w *twin) complete() {
	c, ok := pick(w.random, w.claims)
	if !ok {
		return
	}
	decision, verdict := w.decide(c[0])
	next := c[0].ScheduledAt.Add(period)
	var passed *schedule.VerdictRange
	if decision == claim.DecideVerdict && w.chance(2) {
		count := int64(1 + w.random.IntN(3))
		last := c[0].ScheduledAt.Add(time.Duration(count) * period)
		passed = &schedule.VerdictRange{Verdict: verdict, Count: count, First: next, Last: last}
		next = last.Add(period)
	}
	switch {
	case c[0].Schedule == "after" || w.chance(25):
		next = time.Time{}
	case w.chance(25):
		next = c[0].ScheduledAt // BADNEXT
	}
	old := w.chance(6) // calendars
	what := fmt.Sprintf("complete %s %s verdict %d range %t next %s old calendars %t", plain(c[0].Firing()), decision, verdict, passed != nil, short(next), old)
	w.both(what, func(side int, e *env) string {
		_, version, err := e.Calendars.Calendars(e.Context())
		e.must("Calendars", err)
		if old {
			version--
		}
		result, err := e.Claims.Complete(e.Context(), claim.CompleteRequest{AuditBuffered: auditTime, Calendars: version,
			Completions: []claim.Completion{{Schedule: c[side].Schedule, Token: c[side].Token, ScheduledAt: c[side].ScheduledAt,
				Decision: decision, Verdict: verdict, Next: next, Range: passed}}})
		e.must("Complete", err)
		return fmt.Sprint(result.Outcomes, plainReleased(result.Released))
	})
}

func (w *twin) renew() {
	if c, ok := pick(w.random, w.claims); ok {
		w.both("renew "+plain(c[0].Firing()), func(side int, e *env) string { return fmt.Sprint(e.renew(c[side])) })
	}
}

func (w *twin) release() {
	c, ok := pick(w.random, w.claims)
	if !ok {
		return
	}
	failed, until := w.chance(3), time.Time{}
	if w.chance(2) {
		until = w.sides[0].Now().Add(3 * time.Second)
	}
	w.both(fmt.Sprintf("release %s failed %t until %s", plain(c[0].Firing()), failed, short(until)), func(side int, e *env) string {
		return fmt.Sprint(e.release(claim.Release{Schedule: c[side].Schedule, Token: c[side].Token, NotBefore: until,
			EnqueueFailed: failed, Error: "enqueue"}))
	})
}

func (w *twin) begin() {
	id, ok := pick(w.random, w.firings)
	if !ok {
		return
	}
	owner, effect := fmt.Sprintf("o%d", w.random.IntN(40)), schedule.AtLeastOnce
	if w.chance(4) {
		effect = schedule.AtMostOnce
	}
	var began pair[claim.Run]
	w.both(fmt.Sprintf("begin %s by %s %s", plain(id[0]), owner, effect), func(side int, e *env) string {
		got := e.beginAs(id[side], owner, effect)
		began[side] = claim.Run{Firing: id[side], Token: got.Token}
		return fmt.Sprintf("%s attempt %d wait %s %v", got.Answer, got.Attempt, got.Wait, plainReleased(got.Released))
	})
	if began[0].Token != 0 {
		w.runs = append(w.runs, began)
	}
}

func (w *twin) finish() {
	run, ok := pick(w.random, w.runs)
	if !ok {
		return
	}
	forgotten := claim.Token(0)
	if w.chance(8) {
		run, forgotten = w.forgotten(run), claim.Token(time.Hour.Microseconds())
	}
	outcomes := []claim.RunOutcome{claim.OutcomeSucceeded, claim.OutcomeSucceeded, claim.OutcomeFailed, claim.OutcomeRetrying, claim.OutcomeCancelled}
	request := claim.FinishRequest{Outcome: outcomes[w.random.IntN(len(outcomes))], RetryAfter: 5 * time.Second,
		Started: w.sides[0].Now(), Duration: time.Second, Attempt: 1, Worker: "w", HandBack: w.chance(8), KeepRuns: 4}
	if request.Outcome == claim.OutcomeFailed {
		request.Error = "model"
	}
	w.both(fmt.Sprintf("finish %s %s hand-back %t forgotten %t", plain(run[0].Firing), request.Outcome, request.HandBack, forgotten > 0), func(side int, e *env) string {
		request.Run = run[side]
		request.Run.Token += forgotten
		got := e.finish(request)
		log, err := e.Ledger.Runs(e.Context(), scheduleOf(run[side].Firing), 10)
		if !errors.Is(err, schedule.ErrNotFound) { // it may be deleted
			e.must("Runs", err)
		}
		text := ""
		for _, r := range log {
			text += fmt.Sprintf(" %s:%s", plain(r.Firing), r.Outcome)
		}
		return fmt.Sprintf("%s %v log%s", got.Answer, plainReleased(got.Released), text)
	})
}

// forgotten returns the run, or one of a firing that may be pending: reports of
// attempts that the store knows nothing of.
func (w *twin) forgotten(run pair[claim.Run]) pair[claim.Run] {
	id := w.id()
	if w.chance(3) {
		return run
	}
	for side, e := range w.sides {
		entries, err := e.Catalog.GetMany(e.Context(), []schedule.ID{id})
		e.must("GetMany", err)
		entry, ok := entries[id]
		if !ok || entry.Status.NextAt.IsZero() {
			return run
		}
		generation := entry.Status.Generation
		run[side] = claim.Run{Firing: claim.ScheduledFiring(id, generation, entry.Status.NextAt), Token: claim.Token(generation)}
	}
	return run
}

func scheduleOf(id claim.FiringID) schedule.ID {
	f, _ := claim.ParseFiringID(string(id)) // made by a store
	return f.Schedule
}

func (w *twin) pulse() {
	if run, ok := pick(w.random, w.runs); ok {
		w.both("heartbeat "+plain(run[0].Firing), func(side int, e *env) string { return string(e.pulse(run[side])) })
	}
}

func (w *twin) mark() {
	if id, ok := pick(w.random, w.firings); ok {
		w.both("mark "+plain(id[0]), func(side int, e *env) string {
			e.must("Mark", e.Ledger.Mark(e.Context(), auditTime, []claim.FiringID{id[side]}))
			return ""
		})
	}
}

func (w *twin) audit() {
	var found pair[[]claim.OpenFiring]
	w.both("audit", func(side int, e *env) string {
		for _, f := range e.audit() {
			if f.Position != claim.PositionGone {
				found[side] = append(found[side], f)
			}
		}
		slices.SortFunc(found[side], func(a, b claim.OpenFiring) int { return cmp.Compare(plain(a.Firing), plain(b.Firing)) })
		text := ""
		for _, f := range found[side] {
			text += fmt.Sprintf("[%s %s %s attempt %d redrives %d lease %s opened %s queue %s cancel %t by hand %t owed %t ran %t%s]", plain(f.Firing), f.State,
				f.Position, f.Attempt, f.Redrives, short(f.LeaseUntil), short(f.OpenedAt), f.Queue, f.CancelWanted, f.CancelByHand, f.TaskOwed, f.Token != 0, plainExtra(f.Extra))
		}
		return text + fmt.Sprint(plainReleased(e.rest))
	})
	for i := range found[0] {
		w.audited = append(w.audited, pair[claim.OpenFiring]{found[0][i], found[1][i]})
	}
}

func (w *twin) redrive() {
	if f, ok := pick(w.random, w.audited); ok {
		w.both(fmt.Sprintf("redrive %s from %d", plain(f[0].Firing), f[0].Redrives), func(side int, e *env) string {
			got := e.redrive(f[side].Firing, f[side].Redrives, f[side].Token)
			return string(got.Answer)
		})
	}
}

func (w *twin) settle() {
	f, ok := pick(w.random, w.audited)
	if !ok {
		return
	}
	outcomes := []claim.RunOutcome{claim.OutcomeSucceeded, claim.OutcomeLost, claim.OutcomeUnknown, claim.OutcomeFailed}
	outcome := outcomes[w.random.IntN(len(outcomes))]
	w.both(fmt.Sprintf("settle %s %s", plain(f[0].Firing), outcome), func(side int, e *env) string {
		got := e.settle(claim.SettleRequest{Firing: f[side].Firing, Token: f[side].Token, Outcome: outcome, KeepRuns: 4})
		return fmt.Sprint(got.Answer, plainReleased(got.Released))
	})
}
