package chaos

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A sink is where the effects of runs land: outside Redis, so that nothing
// that Redis forgets can hide one.
type sink struct {
	server *httptest.Server
	hold   atomic.Int64 // how long a request is kept waiting, a time.Duration

	mu      sync.Mutex
	effects map[string][]time.Time // firing ID to arrivals
}

func newSink(t *testing.T) *sink {
	t.Helper()
	s := &sink{effects: map[string][]time.Time{}}
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		firing := r.Header.Get("Idempotency-Key")
		s.mu.Lock()
		s.effects[firing] = append(s.effects[firing], time.Now())
		s.mu.Unlock()
		hold := time.Duration(s.hold.Load())
		if asked, err := time.ParseDuration(r.URL.Query().Get("hold")); err == nil {
			hold = asked
		}
		<-time.After(hold)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(s.server.Close)
	return s
}

// host returns the host name and port that workers must be allowed to reach.
func (s *sink) host() string { return s.server.Listener.Addr().(*net.TCPAddr).String() }

// arrivals returns a copy of what arrived so far.
func (s *sink) arrivals() map[string][]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string][]time.Time, len(s.effects))
	for k, v := range s.effects {
		out[k] = append([]time.Time(nil), v...)
	}
	return out
}

// count returns how many effects a schedule had.
func (s *sink) count(schedule string) int {
	n := 0
	for firing, at := range s.arrivals() {
		if len(firing) > len(schedule) && firing[:len(schedule)+1] == schedule+":" {
			n += len(at)
		}
	}
	return n
}
