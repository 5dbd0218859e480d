package schedule

import "time"

// A PutPlan says where a Put or a Resume leaves the pending scheduled time.
// Its times are UTC.
type PutPlan struct {
	SpecChanged bool          // Next replaces the pending time: a creation, another "when" and the like
	Next        time.Time     // the pending scheduled time from now on; zero: none
	NotBefore   time.Time     // Next with its jitter; zero with Next
	Superseded  *VerdictRange // past scheduled times that get this verdict, starting with the pending one; nil: none
}

// PlanPut decides what a Put does to the pending scheduled time. Old is the
// stored definition, nil for a creation; pending is its pending scheduled
// time, zero if it has none. Now is the store's clock, and must not be earlier
// than the newest scheduled time that has a verdict, so that Next is later
// than that. If the pending one is claimed and still fires, pass the one that
// follows it instead, which is old.Next(pending).
//
// The "when" is specs, zones, bounds and windows; a named calendar counts by
// its name. If it is the same, the pending time stays, past or not, with the
// updated jitter, and a schedule that waits for its run to end (see
// [Compiled.Delay]) goes on waiting. Two things still move it and count as a
// change: a calendar that is not what it was, if the pending time lies in the
// future, or if nothing was pending and no limit can be the reason; and a
// raised limit, if none was pending. A schedule with after does
// not begin again by a raised limit, because it may be waiting.
//
// If the "when" changed, then Next is the first of the new one after now.
// Scheduled times of the old one up to now that have no verdict yet are
// Superseded. A schedule that waits and got another delay has a Next too; the
// store may prefer the end of the open run.
func PlanPut(old *Compiled, pending time.Time, updated *Compiled, now time.Time) PutPlan {
	var p PutPlan
	if old != nil && old.whenKey() == updated.whenKey() {
		p.Next, p.NotBefore = updated.repeat(pending)
		_, isAfter := updated.Delay()
		if updated.changedBeneath(pending, now) || pending.IsZero() && !isAfter && limitRaised(old, updated) {
			p.Next, p.NotBefore = updated.place(now)
			p.SpecChanged = !p.Next.Equal(pending)
		}
		return p
	}
	p.SpecChanged = true
	p.Next, p.NotBefore = updated.place(now)
	if old != nil && !pending.IsZero() && !pending.After(now) {
		last := old.newestUntil(pending, now)
		p.Superseded = old.rangeOf(VerdictSuperseded, pending, last)
	}
	return p
}

// PlanResume decides what a Resume does to the pending scheduled time: it
// stays, and the missed policy decides when it is claimed. Only MissedSkip
// or options.SkipMissed fires nothing of what became due during the pause:
// those get VerdictPaused as one range, and Next is the first after them.
func PlanResume(c *Compiled, pending time.Time, now time.Time, options ResumeOptions) PutPlan {
	if pending.IsZero() {
		return PutPlan{}
	}
	notBefore := c.NotBefore(pending)
	_, isAfter := c.Delay()
	skips := options.SkipMissed || c.definition.Missed == MissedSkip
	if !skips || isAfter || notBefore.After(now) {
		return PutPlan{Next: pending.UTC(), NotBefore: notBefore.UTC()}
	}
	last, _ := c.newestDue(pending, now)
	p := PutPlan{Superseded: c.rangeOf(VerdictPaused, pending, last)}
	p.Next, p.NotBefore = c.place(last)
	return p
}

// changedBeneath reports whether a calendar that changed may move the pending
// scheduled time: one that lies in the future, or none, unless that may be
// because the limit is reached.
func (c *Compiled) changedBeneath(pending, now time.Time) bool {
	return c.UsesCalendars() && (pending.After(now) || pending.IsZero() && c.definition.Limit == 0)
}

// repeat keeps the pending scheduled time, if there is one.
func (c *Compiled) repeat(pending time.Time) (next, notBefore time.Time) {
	if pending.IsZero() {
		return pending, pending
	}
	return pending.UTC(), c.NotBefore(pending).UTC()
}

// newestUntil returns the largest scheduled time after at up to now, or at.
func (c *Compiled) newestUntil(at, now time.Time) time.Time {
	if t, ok := c.prevAfter(now.Truncate(time.Millisecond).Add(time.Millisecond), at); ok {
		return t
	}
	return at
}

func limitRaised(old, updated *Compiled) bool {
	before, after := old.definition.Limit, updated.definition.Limit
	return before > 0 && (after == 0 || after > before)
}
