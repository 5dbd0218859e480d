package redistest

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// A Memory is a miniredis that is reached without sockets, so that tests
// inside a testing/synctest bubble can use it: goroutines that wait for it
// block durably, and virtual time goes on. Keys expire by the clock of the
// bubble.
type Memory struct {
	t      testing.TB
	server *miniredis.Miniredis
}

// InMemory starts a miniredis for this test. Inside a bubble, call it inside.
func InMemory(t testing.TB) *Memory {
	t.Helper()
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	t.Cleanup(server.Close)
	return &Memory{t: t, server: server}
}

// Dial connects. It fits redis.Options.Dialer and ignores its address; wrap it
// to cut, delay or drop replies.
func (m *Memory) Dial(context.Context, string, string) (net.Conn, error) {
	conn, err := m.server.Dial()
	if err != nil {
		return nil, err
	}
	return newEager(conn), nil
}

// Options returns client options that connect with Dial. The address is a
// literal IP because a host name would be looked up outside the bubble.
func (m *Memory) Options() *redis.Options {
	options := Options("127.0.0.1:6379")
	options.Dialer = m.Dial
	return options
}

// Client returns a client that is closed when the test ends.
func (m *Memory) Client() *redis.Client {
	return closeWith(m.t, redis.NewClient(m.Options()))
}

// FastForward lets keys expire as if d had passed, without moving the clock.
// Inside a bubble sleeping does both.
func (m *Memory) FastForward(d time.Duration) { m.server.FastForward(d) }

// Server returns the miniredis itself, for SetError, SetTime and the like.
func (m *Memory) Server() *miniredis.Miniredis { return m.server }
