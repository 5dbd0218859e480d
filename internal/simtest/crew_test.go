package simtest

import (
	"maps"

	"github.com/belfryhq/belfry/pkg/claim"
)

// A crew is the planners that work at a time.
type crew struct {
	world    *world
	bell     func(queue string)
	planners []*planner
}

// newCrew starts planners that do not know one another.
func newCrew(w *world, bell func(queue string), ids ...string) *crew {
	c := &crew{world: w, bell: bell}
	for _, id := range ids {
		c.planners = append(c.planners, w.planner(id, bell))
	}
	return c
}

// introduce tells planners about one another, as the roster of a fleet does.
// From then on one serves a shard and the others look after it a moment later.
func (c *crew) introduce() {
	var members []claim.Member
	for _, p := range c.planners {
		members = append(members, claim.Member{ID: p.id, Claims: true})
	}
	for _, p := range c.planners {
		p.UpdatePeers(members)
	}
}

// replaceBusiest starts a planner, stops the one that enqueued most, and
// introduces those that stay.
func (c *crew) replaceBusiest(id string) {
	most, busiest := -1, 0
	for i, p := range c.planners {
		if n := c.world.log.enqueuedBy(p.id); n > most {
			most, busiest = n, i
		}
	}
	old := c.planners[busiest]
	c.planners[busiest] = c.world.planner(id, c.bell)
	old.halt()
	c.introduce()
}

func (c *crew) halt() {
	for _, p := range c.planners {
		p.halt()
	}
}

// judgeShares wants at least so many workers to have enqueued so much: a fleet
// of which only one works proves little.
func (w *world) judgeShares(workers, each int) {
	w.t.Helper()
	shares := map[string]int{}
	for _, sights := range w.log.enqueued {
		for _, s := range sights {
			shares[s.who]++
		}
	}
	all := maps.Clone(shares)
	maps.DeleteFunc(shares, func(_ string, n int) bool { return n < each })
	if len(shares) < workers {
		w.t.Errorf("the workers enqueued %v, want %d or more of them to have %d each", all, workers, each)
	}
}
