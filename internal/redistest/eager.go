package redistest

import (
	"net"
	"sync"
	"time"
)

// An eager connection takes every write at once, as a socket with room does.
// Those of miniredis are a net.Pipe, where a write waits for the reader: a
// client that sends a long pipeline to a server that answers meanwhile would
// wait for ever.
type eager struct {
	net.Conn
	news chan struct{} // holds a token while there is something to write
	done chan struct{}

	mu     sync.Mutex
	unsent []byte
	err    error
}

func newEager(conn net.Conn) *eager {
	c := &eager{Conn: conn, news: make(chan struct{}, 1), done: make(chan struct{})}
	go c.pass()
	return c
}

// pass writes to the other end what was taken, until the connection is closed.
func (c *eager) pass() {
	for {
		select {
		case <-c.done:
			return
		case <-c.news:
		}
		c.mu.Lock()
		bytes := c.unsent
		c.unsent = nil
		c.mu.Unlock()
		if _, err := c.Conn.Write(bytes); err != nil {
			c.mu.Lock()
			c.err = err
			c.mu.Unlock()
			return
		}
	}
}

// Write fails when an earlier write did, or after Close.
func (c *eager) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	c.unsent = append(c.unsent, p...)
	select {
	case c.news <- struct{}{}:
	default:
	}
	return len(p), nil
}

// Close ends both directions.
func (c *eager) Close() error {
	c.mu.Lock()
	if c.err == nil {
		c.err = net.ErrClosed
		close(c.done)
	}
	c.mu.Unlock()
	return c.Conn.Close()
}

// SetWriteDeadline does nothing: writes never wait.
func (c *eager) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline is SetReadDeadline.
func (c *eager) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }
