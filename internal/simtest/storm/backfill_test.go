package storm

import (
	"slices"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A refill is what was seen of a backfill.
type refill struct {
	claim.Backfill
	opened map[time.Time]bool
}

func (w *witness) refill(b claim.Backfill) *refill {
	for _, r := range w.refills {
		if r.Schedule == b.Schedule && r.Generation == b.Generation && r.ID == b.ID {
			return r
		}
	}
	return nil
}

// backfillStarted notes a backfill, which begins once however often it is
// asked for.
func (w *witness) backfillStarted(b claim.Backfill) {
	known := w.refill(b)
	switch {
	case known == nil:
		w.sim.count("backfill started")
		w.refills = append(w.refills, &refill{Backfill: b, opened: map[time.Time]bool{}})
	case b.Existed:
		w.sim.count("backfill asked for again")
	case !w.rolled():
		w.violate("backfill began twice", string(b.Schedule)+" "+b.ID, "from %s to %s", clock(b.From), clock(b.To))
	}
}

// backfillStepped wants every scheduled time to be opened once, inside the
// bounds, and beside others only where that was asked for.
func (w *witness) backfillStepped(step claim.BackfillStep, r claim.BackfillResult) {
	w.sim.count("backfill step " + string(r.Answer))
	defer w.observe(step.Schedule)
	known := w.refill(r.Backfill)
	if r.Answer != claim.StepOK || known == nil {
		return
	}
	wrong := func(why string) {
		if !w.rolled() {
			w.violate("backfill", string(step.Schedule)+" "+step.ID, "%s: %v", why, r)
		}
	}
	for _, released := range r.Released {
		t := w.track(released.Firing)
		at := t.key.ScheduledAt
		l := w.life(t.key)
		switch {
		case t.key.Kind != claim.KindBackfill || t.key.Request != step.ID:
			wrong("opened a firing that is not its own")
		case known.opened[at]:
			wrong("opened a scheduled time twice")
		case at.Before(known.From) || at.After(known.To):
			wrong("opened a time out of its bounds")
		case l == nil || !l.onGrid(at):
			wrong("opened an instant that is no scheduled time")
		case !known.Again && l.verdicts[at].verdict == schedule.VerdictFired:
			wrong("opened again what has fired")
		}
		known.opened[at] = true
		w.sim.count("backfill firing")
	}
	if r.Backfill.Open > known.MaxOpen || known.Limit > 0 && r.Backfill.Opened > known.Limit {
		wrong("opened too many")
	}
	entry, err := w.sim.store.Get(w.sim.ctx, step.Schedule)
	if err == nil && len(r.Released) > 0 && known.Overlap != schedule.OverlapAllow && entry.Status.Open != 1 {
		wrong("opened one beside another")
	}
}

// onGrid reports whether an instant is a scheduled time of any definition that
// the schedule had.
func (l *life) onGrid(at time.Time) bool {
	return slices.ContainsFunc(l.epochs, func(e epoch) bool { return len(grid(e.definition, at.Add(-1), at)) > 0 })
}

// backfilled lets halted backfills go on and reports whether all have ended.
// Needs the lock.
func (s *sim) backfilled() bool {
	all := true
	for _, known := range s.witness.refills {
		b, err := s.store.Backfill(s.ctx, known.Schedule, known.ID)
		if err != nil || b.Generation != known.Generation {
			continue // deleted with its schedule; judgeRefill tells
		}
		if !b.HaltedAt.IsZero() && b.EndedAt.IsZero() {
			if _, err := s.store.ResumeBackfill(s.ctx, known.Schedule, known.ID); err != nil {
				s.t.Error(err)
			}
		}
		all = all && !b.EndedAt.IsZero()
	}
	return all
}

// judgeRefill wants a backfill to have ended, with every scheduled time opened
// or passed over.
func (s *sim) judgeRefill(known *refill) {
	w := s.witness
	l := w.life(claim.Firing{Schedule: known.Schedule, Generation: known.Generation})
	if w.rolled() || l == nil || !l.removed.IsZero() {
		return
	}
	wrong := func(why string, b claim.Backfill) {
		w.violate("backfill", string(known.Schedule)+" "+known.ID, "%s: %+v, seen %d", why, b, len(known.opened))
	}
	b, err := s.store.Backfill(s.ctx, known.Schedule, known.ID)
	times := int64(len(grid(l.definition(), known.From.Add(-1), known.To)))
	constant := len(l.epochs) == 1 && l.closed == nil && known.Limit == 0
	switch {
	case err != nil:
		wrong(err.Error(), b)
	case b.EndedAt.IsZero() || b.Open != 0:
		wrong("it has not ended", b)
	case b.Opened != int64(len(known.opened)):
		wrong("it counts other firings than it opened", b)
	case len(l.epochs) == 1 && b.Opened+b.Passed > times:
		wrong("it counts more than there are scheduled times", b)
	case constant && b.Opened+b.Passed != times:
		wrong("it left out scheduled times", b)
	case constant && b.Again && b.Overlap != schedule.OverlapSkip && b.Passed != 0:
		wrong("it passed over scheduled times", b)
	}
}
