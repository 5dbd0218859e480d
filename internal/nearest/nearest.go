// Package nearest measures how far a mistyped name is from one that exists, for
// hints of the programs. Package schedule has a smaller measure of its own, since
// nothing in pkg imports internal, and a library of schedules should not export
// one.
package nearest

// Distance counts the edits (insert, delete, replace, swap of neighbours)
// between a and b, in bytes; more than limit is limit+1.
func Distance(a, b string, limit int) int {
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

// Limit is how many edits make a slip of the hand: one for each three letters
// of the name that was typed, and at least one. More turns any short word into
// any other.
func Limit(name string) int { return max(1, len(name)/3) }

// Slip returns how far name is from candidate, and whether a slip of the hand
// explains that: within [Limit], and with something in common.
func Slip(name, candidate string) (edits int, ok bool) {
	limit := Limit(name)
	edits = Distance(name, candidate, limit)
	return edits, edits <= limit && edits < min(len(name), len(candidate))
}
