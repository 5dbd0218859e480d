package admincli

import (
	"time"
)

// footer ends a table with a summary, the store's clock and how far the
// caller's is from it. It goes to standard error, since it is no data.
func (s *session) footer(summary string) {
	if s.flags.quiet || s.stores == nil {
		return
	}
	ctx, cancel := s.call()
	defer cancel()
	sent := s.ownNow()
	stats, err := s.stores.Catalog.Stats(ctx)
	if err != nil || stats.Now.IsZero() {
		s.note("%s.", summary) // the clock is an extra; its absence is no failure
		return
	}
	middle := between(sent, s.ownNow())
	zone := time.UTC
	if s.viewer != nil {
		zone = s.viewer
	}
	s.note("%s.   now %s (Redis clock%s)", summary, stats.Now.In(zone).Format("2006-01-02 15:04:05 MST"), skew(middle.Sub(stats.Now)))
}

// skew says how far the caller's clock is from the store's.
func skew(ahead time.Duration) string {
	switch {
	case ahead >= time.Millisecond:
		return ", yours is " + fine(ahead) + " ahead"
	case ahead <= -time.Millisecond:
		return ", yours is " + fine(-ahead) + " behind"
	}
	return ", yours agrees"
}

// fine renders a short duration to the millisecond.
func fine(d time.Duration) string {
	if d < time.Minute {
		return d.Round(time.Millisecond).String()
	}
	return span(d)
}
