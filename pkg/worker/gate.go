package worker

import (
	"context"
	"sync"
	"time"
)

// A gate lets loops take new work, or holds them back, and knows who is at it.
// What has come in is never interrupted.
type gate struct {
	mu     sync.Mutex
	shut   bool
	inside int
	left   time.Time     // when somebody last came out
	opened chan struct{} // closed while it is open
	closed chan struct{} // closed while it is shut
}

const (
	gateLook  = time.Second // how often who waits says that he is alive
	gateQuiet = time.Second // after the last one came out: what he took may not have begun yet
)

// newGate returns an open gate.
func newGate() *gate {
	g := &gate{opened: make(chan struct{}), closed: make(chan struct{})}
	close(g.opened)
	return g
}

// set shuts or opens the gate, and reports whether that changed anything.
func (g *gate) set(shut bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == shut {
		return false
	}
	g.shut = shut
	if shut {
		close(g.closed)
		g.opened, g.left = make(chan struct{}), time.Now()
	} else {
		close(g.opened)
		g.closed = make(chan struct{})
	}
	return true
}

// enter goes in, unless the gate is shut. Who went in leaves.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.left = time.Now()
}

// pass waits until the gate is open and goes in. False: ctx ended first.
// Meanwhile alive is called now and then; nil: nobody is told.
func (g *gate) pass(ctx context.Context, alive func()) bool {
	for ctx.Err() == nil {
		if g.enter() {
			return true
		}
		opened, _ := g.doors()
		timer := time.NewTimer(gateLook)
		select {
		case <-opened:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if alive != nil {
			alive()
		}
	}
	return false
}

// doors return what is closed once the gate is open, and once it is shut.
func (g *gate) doors() (opened, closed <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened, g.closed
}

func (g *gate) isOpen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.shut
}

// deserted reports whether the gate is shut, nobody is inside, and what the last
// ones took has begun.
func (g *gate) deserted() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut && g.inside == 0 && time.Since(g.left) >= gateQuiet
}
