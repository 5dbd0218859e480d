package admincli

import (
	"sort"
	"strings"
)

// nearest returns up to three candidates that a slip of the hand could have
// turned into name, best first.
func nearest(name string, candidates []string) []string {
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
		cost := distance(lower, strings.ToLower(candidate), limit)
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
	near := nearest(name, candidates)
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(near, ", ") + "?"
}

// distance counts the edits (insert, delete, replace, swap of neighbours)
// between a and b, in bytes; more than limit is limit+1.
func distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		best := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
			best = min(best, row[j])
		}
		if best > limit {
			return limit + 1
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
