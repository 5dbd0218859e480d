package claim

import (
	"context"
	"sync"
	"time"
)

const (
	// wokenPoll is the longest sleep of a task while wake-ups are heard; one of
	// them can be lost.
	wokenPoll = 10 * time.Second
	// earRetry is how long a subscription that failed waits, and how long one
	// rests after a wake-up.
	earRetry = time.Second
	earRest  = 20 * time.Millisecond
)

// An ear hears the wake-ups of a store of periodic tasks and wakes the loops,
// each by a rope of its own.
type ear struct {
	waker Waker // nil: the store has none
	ropes []chan struct{}

	mu    sync.Mutex
	hears func() bool // nil: it is not subscribed
}

func newEar(store PeriodicStore, loops int) *ear {
	e := &ear{ropes: make([]chan struct{}, loops)}
	e.waker, _ = store.(Waker)
	for i := range e.ropes {
		e.ropes[i] = make(chan struct{}, 1)
	}
	return e
}

// healthy reports whether a trigger would be heard.
func (e *ear) healthy() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.hears != nil && e.hears()
}

func (e *ear) connect(hears func() bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hears = hears
}

func (e *ear) ring() {
	for _, rope := range e.ropes {
		select {
		case rope <- struct{}{}:
		default: // it has not answered the last ring
		}
	}
}

// run listens until ctx ends, and subscribes anew when a subscription ends.
func (e *ear) run(ctx context.Context) {
	for e.waker != nil && ctx.Err() == nil {
		if wake, hears, err := e.waker.Wake(ctx); err == nil {
			e.connect(hears)
			e.ring() // whatever happened before
			for range wake {
				e.ring()
				if !wait(ctx, earRest) {
					break
				}
			}
			e.connect(nil)
		}
		if !wait(ctx, earRetry) {
			return
		}
	}
}
