package simtest

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
)

// A cable connects one worker to the Redis of its world, and can be hurt. The
// seed fixes what the faults are drawn from; who is hit by a draw depends on
// the order in which goroutines run, so a seed gives the same weather and not
// the same trace.
type cable struct {
	world *world

	mu      sync.Mutex
	draw    *rand.Rand
	lose    float64 // share of replies that are lost after the server acted
	refuse  float64 // share of requests that never reach the server
	dead    bool
	stalled bool
	conns   map[*conn]bool
	held    []func() // what happens to the server when the stall ends, in order
	lost    int
	refused int
}

func (w *world) cable(seed uint64) *cable {
	return &cable{world: w, draw: rand.New(rand.NewPCG(seed, 0)), conns: map[*conn]bool{}}
}

var errCut = &net.OpError{Op: "dial", Net: "wire", Err: errors.New("connection refused")}

func (c *cable) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return nil, errCut
	}
	plain, err := c.world.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	n := &conn{end: plain.(*end), cable: c}
	c.conns[n] = true
	return n, nil
}

// weather sets the shares of lost replies and of refused requests.
func (c *cable) weather(lose, refuse float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lose, c.refuse = lose, refuse
}

// kill ends every connection and refuses new ones for ever: to the others, the
// worker died without a word.
func (c *cable) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
	for n := range c.conns {
		_ = n.end.Close() // never fails
	}
	clear(c.conns)
}

// stall holds back every request until resume; they then arrive, late and in
// order, even those that the worker has given up.
func (c *cable) stall() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stalled = true
}

func (c *cable) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stalled = false
	for _, late := range c.held {
		late()
	}
	c.held = nil
}

// faults returns how many replies were lost and requests refused.
func (c *cable) faults() (lost, refused int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost, c.refused
}

// A conn is the worker's end of a connection.
type conn struct {
	*end
	cable *cable
}

// Read loses some replies, and the connection with them.
func (n *conn) Read(p []byte) (int, error) {
	got, err := n.end.Read(p)
	if got == 0 {
		return got, err
	}
	n.cable.mu.Lock()
	lost := n.cable.draw.Float64() < n.cable.lose
	if lost {
		n.cable.lost++
	}
	n.cable.mu.Unlock()
	if lost {
		return 0, errors.Join(io.EOF, n.Close())
	}
	return got, err
}

// Write refuses some requests, and holds them all during a stall.
func (n *conn) Write(p []byte) (int, error) {
	n.cable.mu.Lock()
	if n.cable.draw.Float64() < n.cable.refuse {
		n.cable.refused++
		n.cable.mu.Unlock()
		return 0, errors.Join(io.ErrClosedPipe, n.Close())
	}
	defer n.cable.mu.Unlock()
	if !n.cable.stalled {
		return n.end.Write(p)
	}
	late := append([]byte(nil), p...)
	n.cable.held = append(n.cable.held, func() { _, _ = n.end.Write(late) }) // the server may be gone by then
	return len(p), nil
}

// Close ends the connection. During a stall the server learns of it later.
func (n *conn) Close() error {
	n.cable.mu.Lock()
	defer n.cable.mu.Unlock()
	delete(n.cable.conns, n)
	if !n.cable.stalled {
		return n.end.Close()
	}
	n.end.in.change(func() { n.end.in.dropped = true })
	n.cable.held = append(n.cable.held, func() { n.end.out.change(func() { n.end.out.ended = true }) })
	return nil
}
