package storm

import (
	"fmt"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// asked notes that a scheduled time is to be skipped, or no more.
func (w *witness) asked(id schedule.ID, at time.Time, on bool) {
	if lives := w.lives[id]; len(lives) > 0 {
		l := lives[len(lives)-1]
		if on {
			w.sim.count("skip asked")
		} else {
			w.sim.count("skip withdrawn")
		}
		l.skips[at] = on
		if f, ok := l.verdicts[at]; ok && !w.rolled() {
			w.violate("skip came late", string(id), "%s has verdict %d and was to be skipped: %v", clock(at), f.verdict, on)
		}
	}
	w.observe(id)
}

// calendarPut notes a change of the calendar.
func (w *witness) calendarPut(r schedule.CalendarResult) {
	if len(r.Actions) == 1 && r.Actions[0] == schedule.CalendarUpdated {
		w.sim.count("calendar edited")
		w.calendarChanged = time.Now()
	}
	if r.Moved > 0 {
		w.sim.count("moved by a calendar")
	}
	for i := range schedules {
		w.observe(w.sim.name(i))
	}
}

// shut returns what the stored calendar closes: seconds of a minute.
func (w *witness) shut() func(time.Time) bool {
	all, _, err := w.sim.store.Calendars(w.sim.ctx)
	if err != nil {
		w.sim.t.Error(err)
	}
	return w.sim.closedBy(all)
}

// closedBy returns what the calendars close.
func (s *sim) closedBy(all []schedule.Calendar) func(time.Time) bool {
	var low, high int
	for _, c := range all {
		for _, cron := range c.Cron {
			if _, err := fmt.Sscanf(cron, "%d-%d", &low, &high); err != nil {
				s.t.Error(err)
			}
		}
	}
	return func(at time.Time) bool { return at.Second() >= low && at.Second() <= high && high > 0 }
}

// A reading is what a process was told of the calendars.
type reading struct {
	at     time.Time
	closed func(time.Time) bool
}

// readNow is how long ago a process may have read the calendars that it plans a
// step of a backfill with; others of its loops may have read newer ones since.
const readNow = 10 * time.Millisecond

// judgeStep wants a step of a backfill to open nothing that the calendars close
// which its process has just read. Needs the lock.
func (w *witness) judgeStep(step claim.BackfillStep, readings []reading) {
	entry, err := w.sim.store.Get(w.sim.ctx, step.Schedule)
	if err != nil || len(entry.Schedule.Except) == 0 {
		return
	}
	for _, at := range step.Open {
		closed := true
		for _, r := range readings {
			closed = closed && (time.Since(r.at) > readNow || r.closed(at))
		}
		if closed {
			w.violate("backfill", string(step.Schedule)+" "+step.ID, "opens %s, which the calendars close, or were not read for", clock(at))
		}
		w.sim.count("backfill by a calendar")
	}
}

// open leaves out the times that a calendar closes. Those that have a verdict
// were scheduled times when they got it. Of the others the pending one is the
// first, closed or not: it was planned before a change, and gets its verdict.
func (l *life) open(times []time.Time) []time.Time {
	if l.closed == nil {
		return times
	}
	var open []time.Time
	for _, at := range times {
		_, decided := l.verdicts[at]
		passed := !at.After(l.seen) || l.pending.IsZero() || at.Before(l.pending)
		if decided || !passed && (at.Equal(l.pending) || !l.closed(at)) {
			open = append(open, at)
		}
	}
	return open
}

// overtake changes the calendar, now and then, just before a worker completes
// what it has decided with the one before. Needs the lock.
func (s *sim) overtake(who string) {
	if d := roll(s.seed, who, "overtake"); s.c.calendars > 0 && s.faults().on && d.chance(0.05) {
		r, err := s.store.PutCalendars(s.ctx, []schedule.Calendar{closing(d.pick(4))}, schedule.CalendarOptions{})
		if err != nil {
			s.t.Error(err)
		}
		s.note("admin", "put calendar", "overtakes "+who, fmt.Sprint(r.Actions))
		s.witness.calendarPut(r)
	}
}

// judgeNext wants the scheduled time that is pending after a completion to be
// the first one that the stored calendar allows, whatever calendars the worker
// knows.
func (w *witness) judgeNext(c claim.Completion) {
	entry, err := w.sim.store.Get(w.sim.ctx, c.Schedule)
	if err != nil {
		w.sim.t.Error(err)
		return
	}
	l := w.current(entry)
	if l.closed == nil || w.rolled() {
		return
	}
	after, next := c.ScheduledAt, entry.Status.NextAt
	if c.Range != nil {
		after = c.Range.Last
	}
	wrong := func(at time.Time, why string) {
		w.violate("old calendars", string(c.Schedule), "after %s comes %s; %s %s", clock(after), clock(next), clock(at), why)
	}
	if !next.IsZero() && l.closed(next) {
		wrong(next, "is closed")
	}
	until := next
	if next.IsZero() {
		until = entry.Schedule.Ends
	}
	for _, at := range grid(entry.Schedule, after, until.Add(-1)) {
		if !l.closed(at) {
			wrong(at, "is open and is left out")
		}
	}
}

// judgeLeaving wants no task to leave for a time that was closed already when
// it was claimed. One that is claimed again may have left before.
func (w *witness) judgeLeaving(t *track) {
	l := w.life(t.key)
	if l == nil || l.closed == nil || t.key.Kind != claim.KindScheduled || t.again || w.rolled() {
		return
	}
	_, decided := l.verdicts[t.key.ScheduledAt]
	if !decided && l.closed(t.key.ScheduledAt) && t.opened.After(w.calendarChanged) {
		w.violate("old calendars", string(t.id), "it leaves at a time that is closed since %s", clock(w.calendarChanged))
	}
}

// judgeClosed wants nothing to fire that was closed when it was claimed.
func (w *witness) judgeClosed(l *life, at time.Time, r schedule.VerdictRange, wrong func(string)) {
	if l.closed == nil || w.rolled() {
		return
	}
	shut := l.closed(at)
	t := w.tracks[claim.ScheduledFiring(l.id, l.generation, at)]
	switch {
	case r.Verdict == schedule.VerdictExcluded && !shut:
		wrong("no calendar excludes it")
	case r.Verdict == schedule.VerdictFired && shut && w.completing && (t == nil || !t.again && t.opened.After(w.calendarChanged)):
		wrong("a calendar excludes it")
	}
}
