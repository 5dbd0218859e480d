package storm

import (
	"context"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// Skip implements schedule.Skipper.
func (g *gated) Skip(ctx context.Context, id schedule.ID, at time.Time) error {
	return g.ask(ctx, "skip", id, at, true, g.direct.Skip)
}

// Unskip implements schedule.Skipper.
func (g *gated) Unskip(ctx context.Context, id schedule.ID, at time.Time) error {
	return g.ask(ctx, "unskip", id, at, false, g.direct.Unskip)
}

func (g *gated) ask(ctx context.Context, op string, id schedule.ID, at time.Time, on bool, do func(context.Context, schedule.ID, time.Time) error) error {
	_, err := witnessed(g, ctx, op, string(id)+"@"+clock(at), func(ctx context.Context) (bool, error) {
		return on, do(ctx, id, at)
	}, func(w *witness, on bool) { w.asked(id, at, on) })
	return err
}

// Cancel implements claim.Canceller.
func (g *gated) Cancel(ctx context.Context, r claim.CancelRequest) (claim.CancelResult, error) {
	return witnessed(g, ctx, "cancel firing", string(r.Firing), func(ctx context.Context) (claim.CancelResult, error) {
		return g.direct.Cancel(ctx, r)
	}, func(w *witness, c claim.CancelResult) { w.cancelled(r.Firing, c) })
}

// Firings implements claim.FiringReader.
func (g *gated) Firings(ctx context.Context, ids []claim.FiringID) (map[claim.FiringID]claim.OpenFiring, time.Time, error) {
	var now time.Time
	open, err := witnessed(g, ctx, "firings", fmt.Sprint(ids), func(ctx context.Context) (open map[claim.FiringID]claim.OpenFiring, err error) {
		open, now, err = g.direct.Firings(ctx, ids)
		return open, err
	}, nil)
	return open, now, err
}

// Calendars implements schedule.CalendarReader.
func (g *gated) Calendars(ctx context.Context) ([]schedule.Calendar, int64, error) {
	var version int64
	all, err := witnessed(g, ctx, "calendars", "", func(ctx context.Context) (all []schedule.Calendar, err error) {
		all, version, err = g.direct.Calendars(ctx)
		return all, err
	}, nil)
	if err == nil {
		g.p.sim.atomically(func() { g.readings = append(g.readings, reading{time.Now(), g.p.sim.closedBy(all)}) })
	}
	return all, version, err
}

func (g *gated) putCalendar(ctx context.Context, c schedule.Calendar) error {
	_, err := witnessed(g, ctx, "put calendar", fmt.Sprint(c.Cron, c.Dates), func(ctx context.Context) (schedule.CalendarResult, error) {
		return g.direct.PutCalendars(ctx, []schedule.Calendar{c}, schedule.CalendarOptions{})
	}, func(w *witness, r schedule.CalendarResult) { w.calendarPut(r) })
	return err
}

// StartBackfill implements claim.Backfills.
func (g *gated) StartBackfill(ctx context.Context, r claim.BackfillRequest) (claim.Backfill, error) {
	return witnessed(g, ctx, "start backfill", string(r.Schedule)+" "+r.ID, func(ctx context.Context) (claim.Backfill, error) {
		return g.direct.StartBackfill(ctx, r)
	}, func(w *witness, b claim.Backfill) { w.backfillStarted(b) })
}

// Backfill implements claim.Backfills.
func (g *gated) Backfill(ctx context.Context, id schedule.ID, name string) (claim.Backfill, error) {
	return g.direct.Backfill(ctx, id, name)
}

// HaltBackfill implements claim.Backfills.
func (g *gated) HaltBackfill(ctx context.Context, id schedule.ID, name string) (claim.Backfill, error) {
	return witnessed(g, ctx, "halt backfill", string(id)+" "+name, func(ctx context.Context) (claim.Backfill, error) {
		return g.direct.HaltBackfill(ctx, id, name)
	}, nil)
}

// ResumeBackfill implements claim.Backfills.
func (g *gated) ResumeBackfill(ctx context.Context, id schedule.ID, name string) (claim.Backfill, error) {
	return witnessed(g, ctx, "resume backfill", string(id)+" "+name, func(ctx context.Context) (claim.Backfill, error) {
		return g.direct.ResumeBackfill(ctx, id, name)
	}, nil)
}

// DueBackfills implements claim.Backfills.
func (g *gated) DueBackfills(ctx context.Context, r claim.DueBackfillsRequest) (claim.BackfillBatch, error) {
	return witnessed(g, ctx, "due backfills", fmt.Sprint(r.Shard), func(ctx context.Context) (claim.BackfillBatch, error) {
		return g.direct.DueBackfills(ctx, r)
	}, nil)
}

// StepBackfill implements claim.Backfills.
func (g *gated) StepBackfill(ctx context.Context, step claim.BackfillStep) (claim.BackfillResult, error) {
	g.p.sim.atomically(func() { g.p.sim.witness.judgeStep(step, g.readings) })
	return witnessed(g, ctx, "step backfill", string(step.Schedule)+" "+step.ID, func(ctx context.Context) (claim.BackfillResult, error) {
		return g.direct.StepBackfill(ctx, step)
	}, func(w *witness, r claim.BackfillResult) { w.backfillStepped(step, r) })
}

// skip has one of the next scheduled times not fire, or takes that back.
func (a *admin) skip(d *dice, id schedule.ID) {
	entry, err := a.s.store.Get(a.s.ctx, id)
	if err != nil {
		return // deleted
	}
	if asked := entry.Status.Skips; len(asked) > 0 && d.chance(0.3) {
		_ = a.store.Unskip(a.s.ctx, id, asked[d.pick(len(asked))]) // its error is one of the faults, or that it is late
		return
	}
	times := grid(entry.Schedule, a.s.storeNow().Add(-10*time.Second), a.s.storeNow().Add(20*time.Second))
	if len(times) > 0 {
		_ = a.store.Skip(a.s.ctx, id, times[d.pick(len(times))]) // likewise
	}
}

// cancel has a firing end that was seen not long ago, whatever became of it
// since, and looks at its task as the admin CLI does, or leaves that to the
// auditors.
func (a *admin) cancel(d *dice, id schedule.ID) {
	var known []claim.FiringID
	a.s.atomically(func() {
		for _, f := range a.s.witness.firings() {
			if t := a.s.witness.tracks[f]; t.key.Schedule == id && time.Since(t.opened) < 30*time.Second {
				known = append(known, f)
			}
		}
	})
	if len(known) == 0 {
		return
	}
	firing := known[d.pick(len(known))]
	for range 1 + d.pick(2) {
		_, _ = a.store.Cancel(a.s.ctx, claim.CancelRequest{Firing: firing, By: "admin", KeepRuns: 5}) // its error is one of the faults
	}
	if d.chance(0.5) {
		_, _ = a.auditor.Look(a.s.ctx, []claim.FiringID{firing}) // likewise
	}
}

// cancelled notes what an operator's wish came to.
func (w *witness) cancelled(id claim.FiringID, c claim.CancelResult) {
	w.sim.count("cancel " + string(c.Answer))
	t := w.track(id)
	switch c.Answer {
	case claim.CancelAsked:
		t.unwanted = true
		if t.outcome != "" && !w.rolled() {
			w.violate("asked a settled firing", string(id), "it was settled as %s", t.outcome)
		}
	case claim.CancelDone:
		t.unwanted = true
		if n := len(t.grants); n > 0 && !w.rolled() {
			w.violate("cancelled what ran", string(id), "%d attempts", n)
		}
		w.settled(id, claim.OutcomeCancelled)
	}
	w.observe(t.key.Schedule)
}

// closed is the calendar that some schedules except.
const closed = "closed"

// closing returns the calendar with another third of each minute closed, or
// with nothing closed that matters.
func closing(third int) schedule.Calendar {
	c := schedule.Calendar{Name: closed}
	if third == 3 {
		c.Dates = []string{"1999-12-25"}
		return c
	}
	c.Cron = []string{fmt.Sprintf("%d-%d * * * * *", 20*third, 20*third+19)}
	return c
}

func (a *admin) editCalendar(d *dice, _ schedule.ID) {
	_ = a.store.putCalendar(a.s.ctx, closing(d.pick(4))) // its error is one of the faults
}

// backfill starts one, sends it again, and perhaps halts it for a while.
func (a *admin) backfill(d *dice, id schedule.ID) {
	now := a.s.storeNow()
	request := claim.BackfillRequest{Schedule: id, ID: a.request(), From: now.Add(-d.between(30*time.Second, 2*time.Minute)),
		To: now.Add(-d.between(0, 30*time.Second)), Again: d.chance(0.5), MaxOpen: 1 + d.pick(4),
		Overlap: []schedule.Overlap{schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapBufferAll}[d.pick(3)]}
	if d.chance(0.3) {
		request.Limit = 3
	}
	for range 2 {
		_, _ = a.store.StartBackfill(a.s.ctx, request) // its error is one of the faults
	}
	if d.chance(0.3) {
		_, _ = a.store.HaltBackfill(a.s.ctx, id, request.ID) // likewise
		a.s.pass("backfill "+request.ID, d.between(time.Second, 10*time.Second))
		_, _ = a.store.ResumeBackfill(a.s.ctx, id, request.ID) // likewise; what stays halted goes on at the end
		a.s.happened("backfill halted")
	}
}
