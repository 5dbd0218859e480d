package storm

import (
	"fmt"
	"testing"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// A regression is a storm that once found a fault, or one like it that finds it
// more often.
type regression struct {
	scenario
	seeds []uint64 // that found it
}

// regressions are storms for faults that were found and cured. Run one with
// -only and its name.
func regressions() []regression {
	return []regression{
		{base("R1", "cancelled firings, and a store that goes back", func(c *scenario) {
			c.overlap, c.work, c.rollStore = schedule.OverlapCancelOther, [2]time.Duration{2 * time.Second, 24 * time.Second}, 6*time.Second
		}), []uint64{1, 2, 3}},
		// One of the drawn storms that found it.
		{swarm(5053), []uint64{5053}},
		// A cancelled run under at_most_once whose completion was executed twice.
		{swarm(5186), []uint64{5186}},
		// The dequeue of a third re-drive got no reply, and the auditor went by the
		// lease of an attempt that was long over.
		{swarm(7944), []uint64{7944}},
		// A queue that goes back loses tasks too.
		{swarm(7845), []uint64{7845}},
	}
}

// TestRegressions runs them.
func TestRegressions(t *testing.T) {
	t.Parallel()
	for _, r := range regressions() {
		for _, seed := range r.seeds {
			t.Run(fmt.Sprint(r.name, "/", seed), func(t *testing.T) {
				simulate(t, func(uint64) scenario { return r.scenario }, seed).report(t, seed)
			})
		}
	}
}
