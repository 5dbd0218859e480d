package schedule

import "time"

// Limits on the work of one count. They bound what a claim costs after a long
// outage; beyond them a count is not known.
const (
	maxCounted = 10_000  // scheduled times enumerated
	maxClosed  = 1 << 50 // scheduled times computed in closed form
)

// A counter counts its instants from first to last (Unix milliseconds, both
// inclusive) without enumerating them. False: too many.
type counter interface {
	countMillis(first, last int64) (int64, bool)
}

// countSpec counts the instants of a spec from first to last.
func countSpec(spec Spec, first, last int64) (int64, bool) {
	w := newWalk(spec, false)
	return w.count(first, last, &effort{})
}

// count counts the instants from first to last, in closed form where the spec
// has one, else by enumerating up to maxCounted.
func (w *walk) count(first, last int64, e *effort) (int64, bool) {
	if c, ok := w.spec.(counter); ok {
		return c.countMillis(first, last)
	}
	n, at := int64(0), time.UnixMilli(first-1)
	for e.work() < maxCountSteps {
		next, ok := w.next(at, e)
		if !ok || next.UnixMilli() > last {
			return n, true
		}
		if n++; n > maxCounted {
			return 0, false
		}
		at = next
	}
	return 0, false
}

// A walk goes through the instants of a spec in order. Of a union it remembers
// where each part stands, and searches a part only when its instant has passed:
// a union has up to 64 parts, and most of them may be rare and hard to find.
type walk struct {
	spec  Spec
	back  bool
	parts []partWalk
}

type partWalk struct {
	spec   Spec
	at     time.Time // its first instant after what was asked for, before it with back
	known  bool
	ending bool // it has none any more
}

func newWalk(spec Spec, back bool) walk {
	w := walk{spec: spec, back: back}
	if union, ok := spec.(unionSpec); ok {
		w.parts = make([]partWalk, len(union.parts))
		for i, part := range union.parts {
			w.parts[i].spec = part
		}
	}
	return w
}

// next is Next for instants that never go back, and Prev for such that never go
// on.
func (w *walk) next(from time.Time, e *effort) (best time.Time, found bool) {
	if w.parts == nil {
		return seek(w.spec, from, w.back, e)
	}
	for i := range w.parts {
		p := &w.parts[i]
		if !p.ending && (!p.known || !w.beyond(p.at, from)) {
			at, ok := seek(p.spec, from, w.back, e)
			p.at, p.known, p.ending = at, true, !ok
		}
		if !p.ending && (!found || w.beyond(best, p.at)) {
			best, found = p.at, true
		}
	}
	return best, found
}

// beyond reports whether the walk comes to t later than to the other instant.
func (w *walk) beyond(t, other time.Time) bool {
	if w.back {
		return t.Before(other)
	}
	return t.After(other)
}

// countMillis counts without enumerating, except near clock changes.
func (c *cronSpec) countMillis(first, last int64) (int64, bool) {
	n, exact := c.countBetween(time.UnixMilli(first-1), time.UnixMilli(last), maxClosed)
	return int64(n), exact
}
