package schedule

import "time"

// A PlanInput is what a worker knows of a claimed scheduled time.
type PlanInput struct {
	ScheduledAt time.Time // the claimed one
	Now         time.Time // the store's clock
	Again       bool      // claimed before: it may be in its queue already and must fire
	Settled     bool      // it ran already; only the next time is wanted
	SkipAsked   bool      // an operator asked to skip it
	Overlaps    bool      // open firings forbid or delay it
	Fired       int64     // scheduled times fired so far: without this one, unless it is Settled
}

// A Planned says what becomes of a claimed scheduled time.
type Planned struct {
	Push      bool          // enqueue it; Verdict is VerdictFired
	Overlap   bool          // let the store apply the overlap policy; Verdict is zero
	Advance   bool          // nothing fires, only move on; Verdict is zero
	Verdict   Verdict       // otherwise: why it does not fire
	Range     *VerdictRange // later scheduled times that get a verdict with it; nil: none
	Next      time.Time     // the next scheduled time; zero: none, the schedule is completed
	NotBefore time.Time     // Next with its jitter; zero with Next
}

// Plan decides what becomes of the scheduled time in.ScheduledAt of c. It is
// pure: the same arguments give the same answer on every worker. Its work is
// bounded however long the schedule slept. In this order:
//
//   - Settled: Advance. Again: Push. An exhausted limit: VerdictSuperseded,
//     because only an edit can have lowered it. SkipAsked: VerdictSkipped.
//   - Inside an excluded window, after a calendar changed: VerdictExcluded.
//   - Missed. A scheduled time is late when it was due longer than CatchUp ago
//     (never, if CatchUp is zero), and due from its NotBefore on.
//     MissedLatest, MissedSkip: if a later scheduled time is due too, then this
//     one and those between get VerdictCoalesced or VerdictMissed, and Next is
//     the newest due one, which fires when it is claimed; if even that is late,
//     all get VerdictMissed. MissedAll: those that are late get VerdictMissed.
//   - Overlaps: Overlap. Otherwise Push.
//
// Next is the scheduled time that follows, later than ScheduledAt and
// Range.Last. After Push and Advance it is zero once the limit is reached. After
// Overlap it is not: whether this one fires from the buffer is the store's
// decision, which drops Next when that reaches the limit. For a schedule with after it is provisional, Now plus the delay,
// and the store holds it back while the run is open (see [Compiled.Delay]).
// When exclusions are so dense that the search gives up, Next is an excluded
// instant, at which the next call goes on. All times are UTC.
func Plan(c *Compiled, in PlanInput) Planned {
	limit := c.definition.Limit
	used := limit > 0 && in.Fired >= limit
	switch {
	case in.Settled && used:
		return Planned{Advance: true}
	case in.Settled:
		return c.then(Planned{Advance: true}, c.base(in))
	case in.Again:
		return c.fires(in, Planned{Push: true, Verdict: VerdictFired})
	case used:
		return Planned{Verdict: VerdictSuperseded}
	case in.SkipAsked:
		return c.then(Planned{Verdict: VerdictSkipped}, c.base(in))
	}
	if fires, _, _ := c.windows.span(in.ScheduledAt.UnixMilli(), &effort{}); !fires {
		return c.then(Planned{Verdict: VerdictExcluded}, in.ScheduledAt)
	}
	if p, missed := c.planMissed(in); missed {
		return p
	}
	if in.Overlaps {
		return c.then(Planned{Overlap: true}, c.base(in))
	}
	return c.fires(in, Planned{Push: true, Verdict: VerdictFired})
}

// base is where the search for the following scheduled time starts.
func (c *Compiled) base(in PlanInput) time.Time {
	if _, isAfter := c.Delay(); isAfter {
		return maxTime(in.ScheduledAt, in.Now)
	}
	return in.ScheduledAt
}

// fires completes a plan in which the scheduled time fires.
func (c *Compiled) fires(in PlanInput, p Planned) Planned {
	if limit := c.definition.Limit; limit > 0 && in.Fired+1 >= limit {
		return p
	}
	return c.then(p, c.base(in))
}

// then adds the scheduled time that follows the given instant.
func (c *Compiled) then(p Planned, after time.Time) Planned {
	p.Next, p.NotBefore = c.place(after)
	return p
}

// place returns the scheduled time that follows the given instant, or the
// instant at which to go on searching, and when it is due; zero if none.
func (c *Compiled) place(after time.Time) (next, notBefore time.Time) {
	t, found, gaveUp := c.search(after)
	if !found && !gaveUp {
		return time.Time{}, time.Time{}
	}
	return t.UTC(), c.NotBefore(t).UTC()
}

// planMissed applies the missed policy. False: the scheduled time is not
// missed.
func (c *Compiled) planMissed(in PlanInput) (Planned, bool) {
	if _, isAfter := c.Delay(); isAfter {
		return Planned{}, false
	}
	policy, catchUp := c.definition.Missed, c.definition.CatchUp
	lateBefore := in.Now.Add(-catchUp)
	late := func(t time.Time) bool { return catchUp > 0 && c.NotBefore(t).Before(lateBefore) }
	if policy == MissedAll {
		if !late(in.ScheduledAt) {
			return Planned{}, false
		}
		last, _ := c.newestDue(in.ScheduledAt, time.UnixMilli(ceilMillis(lateBefore)-1))
		return c.missedThrough(in.ScheduledAt, last), true
	}
	newest, later := c.newestDue(in.ScheduledAt, in.Now)
	switch {
	case late(newest):
		return c.missedThrough(in.ScheduledAt, newest), true
	case !later:
		return Planned{}, false
	}
	p := Planned{Verdict: VerdictCoalesced, Next: newest.UTC(), NotBefore: c.NotBefore(newest).UTC()}
	if policy == MissedSkip {
		p.Verdict = VerdictMissed
	}
	if last, some := c.prevAfter(newest, in.ScheduledAt); some {
		p.Range = c.rangeAfter(p.Verdict, in.ScheduledAt, last)
	}
	return p, true
}

// missedThrough gives VerdictMissed to everything from at to last.
func (c *Compiled) missedThrough(at, last time.Time) Planned {
	p := Planned{Verdict: VerdictMissed}
	if last.After(at) {
		p.Range = c.rangeAfter(VerdictMissed, at, last)
	}
	return c.then(p, last)
}

// newestDue returns the largest scheduled time that is due by the deadline,
// or at itself and false when none later than at is. It looks at two at most,
// because each is due before the one that follows it.
func (c *Compiled) newestDue(at, deadline time.Time) (time.Time, bool) {
	t, ok := c.prevAfter(deadline.Truncate(time.Millisecond).Add(time.Millisecond), at)
	if ok && c.NotBefore(t).After(deadline) {
		t, ok = c.prevAfter(t, at)
	}
	if !ok {
		return at, false
	}
	return t, true
}

// rangeAfter gives a verdict to the scheduled times after at, up to last.
func (c *Compiled) rangeAfter(verdict Verdict, at, last time.Time) *VerdictRange {
	first, found, _ := c.search(at)
	if !found || first.After(last) {
		first = last
	}
	return c.rangeOf(verdict, first, last)
}

// rangeOf gives a verdict to the scheduled times from first to last.
func (c *Compiled) rangeOf(verdict Verdict, first, last time.Time) *VerdictRange {
	r := &VerdictRange{Verdict: verdict, Count: 1, First: first.UTC(), Last: last.UTC()}
	if last.After(first) {
		r.Count = 0
		if n, exact := c.CountBetween(first, last); exact {
			r.Count = n
			if fires, _, _ := c.windows.span(first.UnixMilli(), &effort{}); !fires {
				r.Count++ // the pending one, which a calendar excluded since
			}
		}
	}
	return r
}
