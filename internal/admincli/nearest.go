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
	bare := func(text string) string { return strings.ToLower(strings.TrimLeft(text, "-")) }
	lower := bare(name)
	var found []scored
	for _, candidate := range candidates {
		other := bare(candidate)
		edits, ok := nearest.Slip(lower, other)
		if !ok && len(lower) >= 3 && strings.Contains(other, lower) {
			edits, ok = nearest.Limit(lower), true
		}
		if ok {
			found = append(found, scored{candidate, edits})
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
