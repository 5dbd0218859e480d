package worker

import (
	"context"
	"slices"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// settleEnded looks at the firings that stand in the way of decisions, since a
// plain asynq consumer tells nobody that it has ended one. Claims that such a
// firing kept from firing go back and are due at once. Firings that a new one
// cancels are ended on the way.
func (b *batchWork) settleEnded(ctx context.Context, decisions []decision) []decision {
	var open []claim.FiringID
	for i := range decisions {
		if decisions[i].waits() || decisions[i].cancels() {
			open = append(open, decisions[i].claim.Open...)
		}
	}
	if b.s.options.Looker == nil || len(open) == 0 {
		return decisions
	}
	ctx, cancel := context.WithTimeout(ctx, b.s.options.ClaimTTL/4)
	defer cancel()
	result, err := b.s.options.Looker.Look(ctx, open)
	if err != nil {
		b.s.logger.Warn("open firings could not all be looked at; their audit will", "firings", len(open), "error", err)
	}
	ended := make(map[claim.FiringID]bool, len(result.Ended))
	for _, id := range result.Ended {
		ended[id] = true
	}
	return slices.DeleteFunc(decisions, func(d decision) bool {
		if !d.waits() || !slices.ContainsFunc(d.claim.Open, func(id claim.FiringID) bool { return ended[id] }) {
			return false
		}
		if b.s.returned.add(d.claim.Schedule) > mostReturns {
			return false // what the store lists does not go away: let it decide
		}
		if _, err := b.release(d.claim, claim.Release{}); err != nil {
			b.s.logger.Warn("a claim could not be handed back and runs out", "schedule", d.claim.Schedule, "error", err)
		}
		b.soon.add(b.batch.Now.Add(time.Millisecond))
		return true
	})
}

// mostReturns is how often in a row a claim goes back because what it met has
// ended. Each time something was closed, so that more are a fault of the store.
const mostReturns = 5

// waits reports whether open firings keep the firing from its queue.
func (d *decision) waits() bool { return d.planned.Overlap }

// cancels reports whether the firing ends open ones.
func (d *decision) cancels() bool {
	return d.planned.Push && !d.claim.Again && d.definition.Overlap == schedule.OverlapCancelOther
}
