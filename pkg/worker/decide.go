package worker

import (
	"fmt"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A decision is what a worker makes of a claim. It is made once for a token
// and only carried out afterwards, however often.
type decision struct {
	claim      claim.Claim
	definition schedule.Schedule
	planned    schedule.Planned
	foreign    error // another task has the ID of the firing
}

// decide plans a claim. It never panics and never returns a plan that the
// store would refuse as a bug: a bad schedule must not stop the others.
func decide(c *schedule.Compiled, cl claim.Claim, now time.Time) (d decision, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("worker: planning %s panicked: %v", cl.Schedule, p)
		}
	}()
	planned := schedule.Plan(c, schedule.PlanInput{
		ScheduledAt: cl.ScheduledAt,
		Now:         now,
		Again:       cl.Again,
		Settled:     cl.Kind == claim.ClaimAdvance,
		SkipAsked:   cl.Kind == claim.ClaimSkip,
		Overlaps:    cl.Kind == claim.ClaimOverlap,
		Fired:       cl.Fired,
	})
	last := cl.ScheduledAt
	if planned.Range != nil {
		last = planned.Range.Last
	}
	if !planned.Next.IsZero() && !planned.Next.After(last) {
		return decision{}, fmt.Errorf("worker: planning %s: the scheduled time after %s would be %s",
			cl.Schedule, last.Format(time.RFC3339Nano), planned.Next.Format(time.RFC3339Nano))
	}
	return decision{claim: cl, definition: c.Definition(), planned: planned}, nil
}

// push returns the enqueue of a decision to fire.
func (d *decision) push() queue.Push {
	return queue.Push{Firing: d.claim.Firing(), Redrives: d.claim.Redrives, Definition: d.definition, Token: d.claim.Token, Queue: d.claim.Queue}
}

// completion returns what the store is told.
func (d *decision) completion() claim.Completion {
	c := claim.Completion{Schedule: d.claim.Schedule, Token: d.claim.Token, ScheduledAt: d.claim.ScheduledAt,
		Next: d.planned.Next, NotBefore: d.planned.NotBefore, Range: d.planned.Range}
	switch {
	case d.planned.Push:
		c.Decision = claim.DecideEnqueued
	case d.planned.Overlap:
		c.Decision = claim.DecideOverlap
	case d.planned.Advance:
		c.Decision = claim.DecideAdvance
	default:
		c.Decision, c.Verdict = claim.DecideVerdict, d.planned.Verdict
	}
	return c
}

// due returns when the schedule is due next on the store's clock; zero: never.
func (d *decision) due() time.Time {
	if d.planned.NotBefore.After(d.planned.Next) {
		return d.planned.NotBefore
	}
	return d.planned.Next
}
