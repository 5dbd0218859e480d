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
	Fired       int64     // scheduled times fired so far, this one excluded
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
// pure: the same arguments give the same answer on every worker.
func Plan(c *Compiled, in PlanInput) Planned {
	next, ok := c.Next(in.ScheduledAt)
	p := Planned{Push: true}
	if ok {
		p.Next, p.NotBefore = next.UTC(), c.NotBefore(next).UTC()
	}
	return p
}
