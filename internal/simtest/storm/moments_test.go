package storm

import (
	"context"
	"sync"
	"time"
)

// Moments keep apart what would happen at the same nanosecond. The runtime
// decides in which order goroutines wake that waited for one instant, and a
// seed would not replay where that order matters: where one draws a crash and
// the other a pause, or both change the store.
type moments struct {
	mu    sync.Mutex
	names map[int64][]string // by instant, in nanoseconds: what waits for it, or waited
}

// wait lets d pass, at least a nanosecond. Of those that wait for the same
// instant the first by name goes on at that instant, and the others later. It
// returns errDead when over is closed before. When ctx ends before it returns
// its error, a microsecond later and at a moment that is the waiter's own too:
// what ended the context goes on meanwhile, and others hear of its end.
func (m *moments) wait(ctx context.Context, over <-chan struct{}, name string, d time.Duration) error {
	// All that wait for an instant are known when it comes, since nobody joins
	// for the present one.
	var ended error
	for at := time.Now().Add(max(d, 1)); ; {
		m.join(at, name)
		timer := time.NewTimer(time.Until(at))
		select {
		case <-over:
			timer.Stop()
			return errDead
		case <-ctx.Done():
			timer.Stop()
			ended, ctx = ctx.Err(), context.WithoutCancel(ctx)
			at = time.Now().Add(time.Microsecond)
			continue
		case <-timer.C:
		}
		before := m.before(at, name)
		if before == 0 {
			return ended
		}
		at = at.Add(time.Duration(before))
	}
}

func (m *moments) join(at time.Time, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names == nil {
		m.names = map[int64][]string{}
	}
	m.names[at.UnixNano()] = append(m.names[at.UnixNano()], name)
}

// before counts what waited for the same instant and comes first.
func (m *moments) before(at time.Time, name string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, other := range m.names[at.UnixNano()] {
		if other < name {
			n++
		}
	}
	return n
}

// pass lets virtual time pass, up to a moment of its own.
func (s *sim) pass(name string, d time.Duration) {
	_ = s.moments.wait(context.Background(), nil, name, d) // nothing ends it before
}

// pass is for what may share its moment.
func pass(d time.Duration) { <-time.NewTimer(d).C }
