package worker

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A watch knows when each loop of a scheduler last made progress. One that
// hangs in a call makes none, even while the others go on.
type watch struct {
	mu    sync.Mutex
	loops []*watched
}

// A watched loop says when it has turned.
type watched struct {
	name  string
	bound time.Duration // longer without a turn is no progress
	last  atomic.Int64  // Unix nanoseconds
}

// loop adds a loop, which counts as having just turned.
func (w *watch) loop(name string, bound time.Duration) *watched {
	l := &watched{name: name, bound: bound}
	l.turned()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loops = append(w.loops, l)
	return l
}

func (l *watched) turned() { l.last.Store(time.Now().UnixNano()) }

// stuck returns an error that names a loop without progress; nil: there is
// none.
func (w *watch) stuck() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.loops {
		if idle := time.Since(time.Unix(0, l.last.Load())); idle > l.bound {
			return fmt.Errorf("worker: the %s loop has made no progress for %s", l.name, idle.Round(time.Second))
		}
	}
	return nil
}
