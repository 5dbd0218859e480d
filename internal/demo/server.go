package demo

import (
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// A Server is a Redis inside this process, on a free port of the loopback
// interface, with a random password.
type Server struct {
	redis    *miniredis.Miniredis
	password string
	stop     chan struct{}
	stopped  sync.WaitGroup
}

// tick is how often keys are aged. miniredis lets keys expire only when it is
// told that time has passed.
const tick = 250 * time.Millisecond

// Start starts a server; Close it.
func Start() (*Server, error) {
	s := &Server{redis: miniredis.NewMiniRedis(), password: rand.Text(), stop: make(chan struct{})}
	s.redis.RequireAuth(s.password)
	if err := s.redis.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("demo: listen on the loopback interface: %w", err)
	}
	s.stopped.Go(s.age)
	return s, nil
}

// URL is what reaches the server, password included. It works on this machine
// and until the process ends.
func (s *Server) URL() string { return "redis://:" + s.password + "@" + s.redis.Addr() + "/0" }

// Close stops the server; its data is gone.
func (s *Server) Close() {
	close(s.stop)
	s.stopped.Wait()
	s.redis.Close()
}

// age tells miniredis how much time has passed, by the monotonic clock.
func (s *Server) age() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-s.stop:
			return
		case now := <-ticker.C:
			s.redis.FastForward(now.Sub(last))
			last = now
		}
	}
}
