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

// countSpec counts the instants of a spec, in closed form where it has one,
// else by enumerating up to maxCounted.
func countSpec(spec Spec, first, last int64) (int64, bool) {
	if c, ok := spec.(counter); ok {
		return c.countMillis(first, last)
	}
	n := int64(0)
	at := time.UnixMilli(first - 1)
	for {
		next, ok := spec.Next(at)
		if !ok || next.UnixMilli() > last {
			return n, true
		}
		if n++; n > maxCounted {
			return 0, false
		}
		at = next
	}
}

// countMillis counts without enumerating, except near clock changes.
func (c *cronSpec) countMillis(first, last int64) (int64, bool) {
	n, exact := c.countBetween(time.UnixMilli(first-1), time.UnixMilli(last), maxClosed)
	return int64(n), exact
}
