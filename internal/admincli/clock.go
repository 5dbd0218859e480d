package admincli

import (
	"sync"
	"time"
)

// storeClock lets the session tell the time as the store does: what is due,
// late or long ago is told by the clock that fires. The store is asked when the
// time is needed first. When it does not answer, the caller's clock has to do.
func (s *session) storeClock() {
	own := s.env.Now
	ahead := sync.OnceValue(func() time.Duration { // of the caller's clock
		ctx, cancel := s.call()
		defer cancel()
		sent := own()
		stats, err := s.stores.Catalog.Stats(ctx)
		if err != nil || stats.Now.IsZero() {
			return 0
		}
		return between(sent, own()).Sub(stats.Now)
	})
	s.own = own
	s.env.Now = func() time.Time { return own().Add(-ahead()) }
}

// ownNow is the time by the caller's clock, for what is measured here.
func (s *session) ownNow() time.Time {
	if s.own != nil {
		return s.own()
	}
	return s.env.Now()
}

// between is when the store most likely answered a call.
func between(sent, received time.Time) time.Time { return sent.Add(received.Sub(sent) / 2) }
