package schedule

import "time"

// A PutPlan says where a Put or a Resume leaves the pending scheduled time.
type PutPlan struct {
	SpecChanged bool          // the "when" differs from the stored one; always true for a creation
	Next        time.Time     // the pending scheduled time from now on; zero: none
	NotBefore   time.Time     // Next with its jitter; zero with Next
	Superseded  *VerdictRange // past scheduled times that get a verdict with it; nil: none
}

// PlanPut decides what a Put does to the pending scheduled time; old is nil
// for a creation.
func PlanPut(old *Compiled, pending time.Time, updated *Compiled, now time.Time) PutPlan {
	p := PutPlan{SpecChanged: true}
	if next, ok := updated.First(now); ok {
		p.Next, p.NotBefore = next.UTC(), updated.NotBefore(next).UTC()
	}
	return p
}

// PlanResume decides what a Resume does to the pending scheduled time.
func PlanResume(c *Compiled, pending time.Time, now time.Time) PutPlan {
	p := PutPlan{Next: pending}
	if !pending.IsZero() {
		p.NotBefore = c.NotBefore(pending).UTC()
	}
	return p
}
