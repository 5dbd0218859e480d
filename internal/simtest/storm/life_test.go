package storm

import (
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A life is one generation of a schedule, as the checker knows it.
type life struct {
	id         schedule.ID
	generation int64
	removed    time.Time // zero: it exists
	epochs     []epoch
	seen       time.Time // every scheduled time up to it has its verdict
	verdicts   map[time.Time]finding
	states     map[schedule.State]bool
	firings    []claim.FiringID // that ran
	breaker    breaker
	skips      map[time.Time]bool   // asked for, and whether they still are
	closed     func(time.Time) bool // what a calendar excludes now; nil: there is none
	pending    time.Time            // the scheduled time that was pending when last seen
}

// An epoch is the time of one definition.
type epoch struct {
	definition schedule.Schedule
	version    int64
	from, to   time.Time // exclusive, inclusive; zero to: until now
}

// A finding is the verdict of a scheduled time, and when it was seen.
type finding struct {
	verdict schedule.Verdict
	why     int
	at      time.Time
}

func (l *life) definition() schedule.Schedule { return l.epochs[len(l.epochs)-1].definition }

// cancels reports whether newer firings end older ones.
func (l *life) cancels() bool {
	return slices.ContainsFunc(l.epochs, func(e epoch) bool { return e.definition.Overlap == schedule.OverlapCancelOther })
}

// life returns the generation of a firing's schedule.
func (w *witness) life(key claim.Firing) *life {
	for _, l := range w.lives[key.Schedule] {
		if l.generation == key.Generation {
			return l
		}
	}
	return nil
}

// cutTask splits a task ID into the firing's and the number of the re-drive.
func cutTask(id string) (string, string, bool) { return strings.Cut(id, "~") }

// grid lists the scheduled times of a definition after one instant up to
// another. It is arithmetic on the spec as written and shares nothing with the
// engine.
func grid(d schedule.Schedule, after, until time.Time) []time.Time {
	period, anchor := d.Specs[0].Every, d.Specs[0].Anchor
	if d.Specs[0].Cron == everyTenSeconds {
		period, anchor = 10*time.Second, epochStart
	}
	var times []time.Time
	n := after.Sub(anchor) / period
	for at := anchor.Add((n - 1) * period); !at.After(until); at = at.Add(period) {
		if at.After(after) && (d.Ends.IsZero() || at.Before(d.Ends)) && (d.Starts.IsZero() || !at.Before(d.Starts)) {
			times = append(times, at)
		}
	}
	return times
}

// everyTenSeconds is the one cron expression of these simulations.
const everyTenSeconds = "*/10 * * * * *"

// between lists the scheduled times of a life after one instant up to another.
func (l *life) between(after, until time.Time) []time.Time {
	var times []time.Time
	for _, e := range l.epochs {
		from, to := after, until
		if e.from.After(from) {
			from = e.from
		}
		if !e.to.IsZero() && e.to.Before(to) {
			to = e.to
		}
		times = append(times, grid(e.definition, from, to)...)
	}
	return l.open(times)
}

// removed ends the life of a schedule.
func (w *witness) removed(id schedule.ID) {
	if lives := w.lives[id]; len(lives) > 0 && lives[len(lives)-1].removed.IsZero() {
		lives[len(lives)-1].removed = time.Now()
		w.sim.count("schedule deleted")
	}
}

// observe reads what the store says of a schedule, and holds it against the
// scheduled times.
func (w *witness) observe(id schedule.ID) {
	entry, err := w.sim.store.Get(w.sim.ctx, id)
	if err != nil {
		return // deleted
	}
	if err := w.sim.store.Check(w.sim.ctx); err != nil {
		w.violate("check", string(id), "%v", err)
	}
	l := w.current(entry)
	l.states[entry.Status.State] = true
	if len(entry.Schedule.Except) > 0 {
		l.closed = w.shut()
	}
	w.judgeVerdicts(l, entry.Status.Verdicts)
	w.judgeBreaker(l, entry)
	l.pending = entry.Status.NextAt
}

// current returns the life that the entry belongs to, with its epochs.
func (w *witness) current(entry schedule.Entry) *life {
	s := entry.Status
	l := w.life(claim.Firing{Schedule: entry.Schedule.ID, Generation: s.Generation})
	if l == nil {
		l = &life{id: entry.Schedule.ID, generation: s.Generation, verdicts: map[time.Time]finding{}, states: map[schedule.State]bool{},
			skips: map[time.Time]bool{}, pending: s.NextAt, breaker: breaker{state: s.State, fails: s.ConsecutiveFails}, seen: s.CreatedAt, epochs: []epoch{{definition: entry.Schedule, version: s.Version, from: s.CreatedAt}}}
		w.lives[l.id] = append(w.lives[l.id], l)
	}
	last := &l.epochs[len(l.epochs)-1]
	if last.version == s.Version {
		return l
	}
	if sameGrid(last.definition, entry.Schedule) {
		last.definition, last.version = entry.Schedule, s.Version
		if len(l.epochs) == 1 && len(l.verdicts) == 0 && !s.NextAt.IsZero() && !s.NextAt.After(last.from) {
			// The store's clock went back, and a calendar had the schedule planned
			// again, from before it was created by the clock that was.
			last.from, l.seen = s.NextAt.Add(-1), s.NextAt.Add(-1)
		}
		return l
	}
	last.to = s.UpdatedAt
	l.epochs = append(l.epochs, epoch{definition: entry.Schedule, version: s.Version, from: s.UpdatedAt})
	w.sim.count("spec edited")
	return l
}

func sameGrid(a, b schedule.Schedule) bool {
	return a.Specs[0].Every == b.Specs[0].Every && a.Specs[0].Anchor.Equal(b.Specs[0].Anchor) && a.Specs[0].Cron == b.Specs[0].Cron
}

// judgeVerdicts wants the ranges to give every scheduled time up to the last
// one exactly one verdict, once and for all, and to count them right.
func (w *witness) judgeVerdicts(l *life, ranges []schedule.VerdictRange) {
	if len(ranges) == 0 {
		return
	}
	last := ranges[len(ranges)-1].Last
	if last.Before(l.seen) && len(l.verdicts) > 0 {
		if !w.rolled() {
			w.violate("the mark fell", string(l.id), "from %s to %s", clock(l.seen), clock(last))
		}
		for at := range l.verdicts {
			if at.After(last) {
				delete(l.verdicts, at)
			}
		}
		l.seen = last
	}
	for _, at := range l.between(l.seen, last) {
		found := false
		for _, r := range ranges {
			if at.Before(r.First) || at.After(r.Last) {
				continue
			}
			found = true
			l.verdicts[at] = finding{r.Verdict, r.Why, time.Now()}
			w.judgeFinding(l, at, r)
		}
		if !found {
			w.violate("gap", string(l.id), "%s was passed without a verdict; the mark is %s", clock(at), clock(last))
		}
	}
	if last.After(l.seen) {
		l.seen = last
		w.judgeCounts(l, ranges)
	}
}

// judgeCounts compares the newest range with the grid.
func (w *witness) judgeCounts(l *life, ranges []schedule.VerdictRange) {
	r := ranges[len(ranges)-1]
	n := int64(len(l.between(r.First.Add(-1), r.Last)))
	if r.Count != n && r.Count != 0 {
		w.violate("count", string(l.id), "%d scheduled times from %s to %s with verdict %d, counted %d", n, clock(r.First), clock(r.Last), r.Verdict, r.Count)
	}
}

// judgeFinding wants a verdict that the policies allow.
func (w *witness) judgeFinding(l *life, at time.Time, r schedule.VerdictRange) {
	d, now := l.definition(), time.Now()
	wrong := func(why string) {
		w.violate("wrong verdict", string(l.id), "%s got verdict %d, but %s", clock(at), r.Verdict, why)
	}
	id := claim.ScheduledFiring(l.id, l.generation, at)
	ran := w.tracks[id] != nil && len(w.tracks[id].grants) > 0
	if r.Verdict != schedule.VerdictFired && ran && !w.rolled() {
		wrong("it ran")
	}
	if (r.Verdict == schedule.VerdictFired || r.Verdict == schedule.VerdictOverlap) && l.skips[at] && !w.rolled() {
		wrong("it was to be skipped")
	}
	w.judgeClosed(l, at, r, wrong)
	switch r.Verdict {
	case schedule.VerdictFired:
		w.track(id) // open from now on, also when it waits in the buffer
	case schedule.VerdictCoalesced:
		switch {
		case d.Missed != schedule.MissedLatest:
			wrong("nothing is coalesced under missed: " + string(d.Missed))
		case len(l.between(at, now.Add(earlyBy))) == 0:
			wrong("no later one was due")
		}
	case schedule.VerdictMissed:
		switch {
		case d.Missed == schedule.MissedSkip && len(l.between(at, now.Add(earlyBy))) == 0:
			wrong("no later one was due")
		case d.Missed == schedule.MissedAll && now.Sub(at) < d.CatchUp-earlyBy:
			wrong("it was inside the catch-up window")
		case d.Missed == schedule.MissedLatest:
			wrong("there is no catch-up window")
		}
	case schedule.VerdictOverlap:
		if !obeys(d.Overlap) {
			wrong("the policy is " + string(d.Overlap))
		} else if !w.openBeside(l, at, now) {
			wrong("nothing was open beside it")
		}
	case schedule.VerdictPaused:
		if !l.states[schedule.StatePaused] && !l.states[schedule.StateDisabled] {
			wrong("the schedule was never stopped")
		}
	case schedule.VerdictSuperseded:
		if len(l.epochs) == 1 {
			wrong("the spec was never edited")
		}
	case schedule.VerdictSkipped:
		if _, asked := l.skips[at]; !asked && !w.rolled() {
			wrong("nobody asked for it")
		}
	case schedule.VerdictExcluded:
	default:
		wrong("nobody asked for it")
	}
}

// openBeside reports whether another firing of the schedule was open at some
// time between the scheduled time and now.
func (w *witness) openBeside(l *life, at, now time.Time) bool {
	for _, t := range w.tracks {
		if t.key.Schedule == l.id && t.key.Generation == l.generation && (t.key.Kind != claim.KindScheduled || !t.key.ScheduledAt.Equal(at)) &&
			t.opened.Before(now) && (t.settled.IsZero() || t.settled.After(at.Add(-earlyBy))) {
			return true
		}
	}
	return w.rolled()
}
