package claim_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/memstore"
	"github.com/belfryhq/belfry/pkg/claim"
)

func newStore(t testing.TB) *memstore.Store {
	t.Helper()
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

var errAway = errors.New("the store is away")

// A faulty is a catalog of periodic tasks that notes the calls to it and can
// be told to fail.
type faulty struct {
	claim.PeriodicStore
	mu       sync.Mutex
	calls    []call
	fail     map[string]int           // verb -> how many calls do nothing and fail
	lose     map[string]int           // verb -> how many calls work, and their reply is lost
	slow     map[string]time.Duration // verb -> how long one call takes
	gone     int                      // claims that are answered PeriodicGone
	requests []claim.PeriodicRequest
}

type call struct {
	verb string
	at   time.Time
}

func newFaulty(store claim.PeriodicStore) *faulty {
	return &faulty{PeriodicStore: store, fail: map[string]int{}, lose: map[string]int{}, slow: map[string]time.Duration{}}
}

// enter notes a call; lost says that its reply will be.
func (f *faulty) enter(verb string) (lost bool, err error) {
	f.mu.Lock()
	f.calls = append(f.calls, call{verb, time.Now()})
	delay := f.slow[verb]
	delete(f.slow, verb)
	if f.fail[verb] > 0 {
		f.fail[verb]--
		err = errAway
	}
	if lost = err == nil && f.lose[verb] > 0; lost {
		f.lose[verb]--
	}
	f.mu.Unlock()
	if delay > 0 {
		<-time.After(delay) // a store that is slow; virtual time in the bubbles that use it
	}
	return lost, err
}

func (f *faulty) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// times returns when a verb was called.
func (f *faulty) times(verb string) []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	var times []time.Time
	for _, c := range f.calls {
		if c.verb == verb {
			times = append(times, c.at)
		}
	}
	return times
}

func reply[V any](value V, lost bool, err error) (V, error) {
	if lost && err == nil {
		err = errAway
	}
	if err != nil {
		var none V
		return none, err
	}
	return value, nil
}

func (f *faulty) Claim(ctx context.Context, request claim.PeriodicRequest) (claim.PeriodicResult, error) {
	lost, err := f.enter("claim")
	if err != nil {
		return claim.PeriodicResult{}, err
	}
	f.mu.Lock()
	f.requests = append(f.requests, request)
	gone := f.gone > 0
	f.gone--
	f.mu.Unlock()
	if gone {
		return claim.PeriodicResult{Answer: claim.PeriodicGone}, nil
	}
	result, err := f.PeriodicStore.Claim(ctx, request)
	return reply(result, lost, err)
}

func (f *faulty) Ensure(ctx context.Context, task claim.PeriodicTask) (claim.PeriodicEntry, bool, error) {
	if _, err := f.enter("ensure"); err != nil {
		return claim.PeriodicEntry{}, false, err
	}
	return f.PeriodicStore.Ensure(ctx, task)
}

func (f *faulty) Renew(ctx context.Context, held claim.PeriodicClaim, ttl time.Duration) (claim.PeriodicClaim, bool, error) {
	if _, err := f.enter("renew"); err != nil {
		return held, false, err
	}
	return f.PeriodicStore.Renew(ctx, held, ttl)
}

func (f *faulty) Complete(ctx context.Context, completion claim.PeriodicCompletion) (claim.PeriodicCompleted, error) {
	lost, err := f.enter("complete")
	if err != nil {
		return "", err
	}
	answer, err := f.PeriodicStore.Complete(ctx, completion)
	return reply(answer, lost, err)
}

// A logbook keeps what is logged, as text.
type logbook struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logbook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// count returns how many lines hold the words.
func (l *logbook) count(words string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), words)
}
