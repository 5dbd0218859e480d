package admincli

import (
	"fmt"
	"slices"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// workerMaxAge is how long after its last sign of life a worker counts as
// alive.
const workerMaxAge = time.Minute

// warnUnserved warns when no live worker would run the tasks. What was written
// stays written: a worker may start later.
func (s *session) warnUnserved(definitions []schedule.Schedule) {
	ctx, cancel := s.call()
	defer cancel()
	members, err := s.stores.Roster.Members(ctx, workerMaxAge)
	if err != nil {
		s.warn("cannot tell whether a live worker serves it: %s", describe(err, s.address))
		return
	}
	if len(members) == 0 && len(definitions) > 0 {
		s.warn("no live worker in this namespace: nothing fires until one starts")
		return
	}
	for _, line := range unserved(definitions, members) {
		s.warn("%s", line)
	}
}

// unserved says for each queue and type that nobody serves how many schedules
// need it.
func unserved(definitions []schedule.Schedule, members []claim.Member) []string {
	missing := map[string]int{}
	for _, d := range definitions {
		d.Normalize()
		queue, both := false, false
		for _, m := range members {
			if m.Serves(d.Queue) {
				queue = true
				both = both || slices.Contains(m.Types, d.Type)
			}
		}
		switch {
		case !queue:
			missing[fmt.Sprintf("no live worker serves queue %q", d.Queue)]++
		case !both:
			missing[fmt.Sprintf("no live worker of queue %q has a handler for type %q", d.Queue, d.Type)]++
		}
	}
	var lines []string
	for line, n := range missing {
		lines = append(lines, fmt.Sprintf("%s (%s)", line, count(n, "schedule")))
	}
	slices.Sort(lines)
	return lines
}
