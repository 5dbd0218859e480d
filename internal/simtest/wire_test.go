package simtest

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// newWire returns the two ends of an in-memory connection. Unlike those of
// net.Pipe, writes do not wait for the reader: a client that sends a long
// pipeline to a server that answers meanwhile would wait for ever there.
func newWire() (a, b *end) {
	there, back := newStream(), newStream()
	return &end{in: back, out: there}, &end{in: there, out: back}
}

// An end is one end of a wire. It is a net.Conn; waiting readers block
// durably, so that the virtual time of a bubble goes on.
type end struct{ in, out *stream }

// A stream carries bytes one way. One goroutine reads it.
type stream struct {
	news chan struct{} // holds one token after every change

	mu       sync.Mutex
	bytes    []byte
	ended    bool // no more bytes will come
	dropped  bool // nobody will read
	deadline time.Time
	timer    *time.Timer // of the reader
}

func newStream() *stream { return &stream{news: make(chan struct{}, 1)} }

// change applies a change under the lock and tells the reader.
func (s *stream) change(apply func()) {
	s.mu.Lock()
	apply()
	s.mu.Unlock()
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// try reads what is there. It returns false when the reader has to wait, until
// the deadline if that is not zero.
func (s *stream) try(p []byte) (n int, err error, done bool, deadline time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.dropped:
		return 0, net.ErrClosed, true, time.Time{}
	case len(s.bytes) > 0:
		n = copy(p, s.bytes)
		if s.bytes = s.bytes[n:]; len(s.bytes) == 0 {
			s.bytes = nil
		}
		return n, nil, true, time.Time{}
	case s.ended:
		return 0, io.EOF, true, time.Time{}
	default:
		return 0, nil, false, s.deadline
	}
}

// Read waits for bytes, the end of the stream or the read deadline.
func (e *end) Read(p []byte) (int, error) {
	for {
		n, err, done, deadline := e.in.try(p)
		if done {
			return n, err
		}
		if deadline.IsZero() {
			<-e.in.news
			continue
		}
		left := time.Until(deadline)
		if left <= 0 {
			return 0, os.ErrDeadlineExceeded
		}
		if e.in.timer == nil {
			e.in.timer = time.NewTimer(left)
		} else {
			e.in.timer.Reset(left)
		}
		select {
		case <-e.in.news:
			e.in.timer.Stop()
		case <-e.in.timer.C:
		}
	}
}

// Write never waits. It fails once either end is closed.
func (e *end) Write(p []byte) (int, error) {
	var err error
	e.out.change(func() {
		if e.out.ended || e.out.dropped {
			err = io.ErrClosedPipe
			return
		}
		e.out.bytes = append(e.out.bytes, p...)
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close ends both directions. The other end still reads what was written.
func (e *end) Close() error {
	e.out.change(func() { e.out.ended = true })
	e.in.change(func() { e.in.dropped = true })
	return nil
}

// SetReadDeadline holds for a Read that waits already as well.
func (e *end) SetReadDeadline(t time.Time) error {
	e.in.change(func() { e.in.deadline = t })
	return nil
}

// SetWriteDeadline does nothing: writes never wait.
func (e *end) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline is SetReadDeadline.
func (e *end) SetDeadline(t time.Time) error { return e.SetReadDeadline(t) }

// LocalAddr returns a name for logs.
func (e *end) LocalAddr() net.Addr { return wireAddr{} }

// RemoteAddr returns a name for logs.
func (e *end) RemoteAddr() net.Addr { return wireAddr{} }

type wireAddr struct{}

// Network returns the name of the network.
func (wireAddr) Network() string { return "wire" }

// String returns the name of the address.
func (wireAddr) String() string { return "wire" }
