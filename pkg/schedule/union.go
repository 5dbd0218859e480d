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
	return s.seek(after, false, &effort{})
}

func (s unionSpec) Prev(before time.Time) (time.Time, bool) {
	return s.seek(before, true, &effort{})
}

func (s unionSpec) seek(at time.Time, back bool, e *effort) (time.Time, bool) {
	var best time.Time
	found := false
	for _, part := range s.parts {
		if t, ok := seek(part, at, back, e); ok && (!found || back && t.After(best) || !back && t.Before(best)) {
			best, found = t, true
		}
	}
	return best, found
}

// seek is Next, or Prev if back, of any spec, and adds its work to e.
func seek(spec Spec, at time.Time, back bool, e *effort) (time.Time, bool) {
	switch s := spec.(type) {
	case *cronSpec:
		return s.seek(at, back, e)
	case unionSpec:
		return s.seek(at, back, e)
	}
	e.steps++
	if back {
		return spec.Prev(at)
	}
	return spec.Next(at)
}

func (s unionSpec) String() string {
	texts := make([]string, len(s.parts))
	for i, part := range s.parts {
		texts[i] = part.String()
	}
	return strings.Join(texts, " | ")
}
