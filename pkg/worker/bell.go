package worker

import (
	"context"
	"sync"
	"time"
)

// A bell wakes the loops of a scheduler. Each loop has a rope of its own.
type bell struct {
	ropes []chan struct{}

	mu    sync.Mutex
	works func() bool // of the channel; nil: there is none
}

func newBell(loops int) *bell {
	b := &bell{ropes: make([]chan struct{}, loops)}
	for i := range b.ropes {
		b.ropes[i] = make(chan struct{}, 1)
	}
	return b
}

// ring wakes all loops. A loop that has not yet answered the last ring is not
// rung twice.
func (b *bell) ring() {
	for _, rope := range b.ropes {
		select {
		case rope <- struct{}{}:
		default:
		}
	}
}

// healthy reports whether rings by other processes are heard.
func (b *bell) healthy() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.works != nil && b.works()
}

func (b *bell) connect(works func() bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.works = works
}

// restEar is how long listen rests after a ring, so that a thousand puts in a
// row cost each worker fifty looks a second and not a thousand.
const restEar = 20 * time.Millisecond

// listen rings the bell for every wake-up of the store, and subscribes anew
// when the subscription ends.
func (s *Scheduler) listen(ctx context.Context, b *bell) {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		wake, healthy, err := s.options.Waker.Wake(ctx)
		if err == nil {
			attempt = 0
			b.connect(healthy)
			b.ring() // whatever happened before the subscription
			s.hear(ctx, b, wake)
			b.connect(nil)
		}
		if !pause(ctx, fullJitter(attempt, s.draw)) {
			return
		}
	}
}

func (s *Scheduler) hear(ctx context.Context, b *bell, wake <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-wake:
			if !ok {
				return
			}
			b.ring()
			if !pause(ctx, restEar) {
				return
			}
		}
	}
}
