package admincli

import (
	"sort"
	"strings"

	"github.com/belfryhq/belfry/internal/nearest"
)

// near returns up to three candidates that a slip of the hand could have
// turned into name, best first.
func near(name string, candidates []string) []string {
	type scored struct {
		name string
		cost int
	}
	lower := strings.ToLower(name)
	limit := max(2, len(name)/3)
	if len(name) <= 3 {
		limit = 1 // two edits turn any short name into any other
	}
	var found []scored
	for _, candidate := range candidates {
		cost := nearest.Distance(lower, strings.ToLower(candidate), limit)
		if cost > limit && len(lower) >= 3 && strings.Contains(strings.ToLower(candidate), lower) {
			cost = limit
		}
		if cost <= limit {
			found = append(found, scored{candidate, cost})
		}
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].cost < found[j].cost })
	var out []string
	for _, s := range found[:min(3, len(found))] {
		out = append(out, s.name)
	}
	return out
}

// didYouMean is a hint for the end of an error line, or "".
func didYouMean(name string, candidates []string) string {
	close := near(name, candidates)
	if len(close) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(close, ", ") + "?"
}
