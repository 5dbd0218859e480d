package claim

import (
	"context"
	"sync"
	"time"
)

// A Bell wakes the loops of a process that sleep until something is due. Each
// loop has a rope of its own. It is safe for concurrent use; the zero value
// has no ropes, use [NewBell].
type Bell struct {
	ropes []chan struct{}

	mu    sync.Mutex
	works func() bool // of the channel; nil: there is none
}

// NewBell returns a bell with a rope for each of so many loops.
func NewBell(loops int) *Bell {
	b := &Bell{ropes: make([]chan struct{}, loops)}
	for i := range b.ropes {
		b.ropes[i] = make(chan struct{}, 1)
	}
	return b
}

// Rope is what a loop, counted from 0, waits for.
func (b *Bell) Rope(loop int) <-chan struct{} { return b.ropes[loop] }

// ring wakes all loops. A loop that has not yet answered the last ring is not
// rung twice.
func (b *Bell) ring() {
	for _, rope := range b.ropes {
		select {
		case rope <- struct{}{}:
		default:
		}
	}
}

// Healthy reports whether rings by other processes are heard. While they are
// not, loops sleep shorter.
func (b *Bell) Healthy() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.works != nil && b.works()
}

func (b *Bell) connect(works func() bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.works = works
}

// restEar is how long Listen rests after a ring, so that a thousand puts in a
// row cost each worker fifty looks a second and not a thousand.
const restEar = 20 * time.Millisecond

// Listen rings the bell for every wake-up of the store until ctx ends, and
// subscribes anew when a subscription fails or ends. Retry tells how long it
// waits before: attempt is 0 after a subscription that worked, and counts
// failures in a row.
func (b *Bell) Listen(ctx context.Context, waker Waker, retry func(attempt int) time.Duration) {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		wake, healthy, err := waker.Wake(ctx)
		if err == nil {
			attempt = 0
			b.connect(healthy)
			b.ring() // whatever happened before the subscription
			b.hear(ctx, wake)
			b.connect(nil)
		}
		if !wait(ctx, retry(attempt)) {
			return
		}
	}
}

func (b *Bell) hear(ctx context.Context, wake <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-wake:
			if !ok {
				return
			}
			b.ring()
			if !wait(ctx, restEar) {
				return
			}
		}
	}
}
