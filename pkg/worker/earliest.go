package worker

import (
	"sync"
	"time"
)

// An earliest keeps the earliest of the times that it is told; zero times
// mean none.
type earliest struct {
	mu sync.Mutex
	at time.Time
}

func (e *earliest) add(at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !at.IsZero() && (e.at.IsZero() || at.Before(e.at)) {
		e.at = at
	}
}

func (e *earliest) get() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.at
}
