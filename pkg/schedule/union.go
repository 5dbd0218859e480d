package schedule

import (
	"slices"
	"strings"
	"time"
)

// unionSpec fires whenever one of its parts does; equal instants fire once.
type unionSpec struct {
	parts []Spec // at least two, sorted by their canonical form
}

// newUnion unites specs. One alone is itself; equal ones count once.
func newUnion(parts []Spec) Spec {
	parts = slices.Clone(parts)
	slices.SortStableFunc(parts, func(a, b Spec) int { return strings.Compare(a.String(), b.String()) })
	parts = slices.CompactFunc(parts, func(a, b Spec) bool { return specKey(a) == specKey(b) })
	if len(parts) == 1 {
		return parts[0]
	}
	return unionSpec{parts: parts}
}

func (s unionSpec) sealed() {}

func (s unionSpec) Next(after time.Time) (time.Time, bool) {
	var best time.Time
	found := false
	for _, part := range s.parts {
		if t, ok := part.Next(after); ok && (!found || t.Before(best)) {
			best, found = t, true
		}
	}
	return best, found
}

func (s unionSpec) Prev(before time.Time) (time.Time, bool) {
	var best time.Time
	found := false
	for _, part := range s.parts {
		if t, ok := part.Prev(before); ok && (!found || t.After(best)) {
			best, found = t, true
		}
	}
	return best, found
}

func (s unionSpec) String() string {
	texts := make([]string, len(s.parts))
	for i, part := range s.parts {
		texts[i] = part.String()
	}
	return strings.Join(texts, " | ")
}
