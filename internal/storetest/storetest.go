// Package storetest is the contract of the stores, as tests.
//
// [Run] takes a backend through every answer that the contracts of packages
// schedule and claim list: each call sent twice, by callers that slept through
// their claims, by many at once. [Model] runs random operations on a backend
// and on package memstore and compares every answer. A backend that passes
// both may stand behind the workers.
//
// Protocol time moves only when a test moves it, so expiry costs no waiting,
// on a real cluster neither. Every test opens a store of its own and runs in
// parallel with the others.
package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// Stores are the contracts of one store, over the same data.
type Stores struct {
	Catalog schedule.Catalog
	Claims  claim.Store
	Ledger  claim.Ledger
	Leases  claim.Leases
	Waker   claim.Waker  // nil: wake-ups are not tested
	Roster  claim.Roster // nil: the roster is not tested

	Backfills claim.Backfills    // nil: backfills are not tested
	Skipper   schedule.Skipper   // nil: skips are not tested
	Events    schedule.EventLog  // nil: events are not tested
	Firings   claim.FiringReader // nil: looking at firings is not tested

	Cancels claim.Canceller // nil: cancelling firings is not tested

	Periodic claim.PeriodicStore // nil: the model leaves periodic tasks out; see Periodic

	// Repair returns an error when it found something to repair. nil: there is
	// nothing that could need it.
	Repair func(ctx context.Context) error
	// Litter writes an entry into the ledger of a shard, as a slip with redis-cli
	// does, that is audited now. nil: the store can hold no such entry.
	Litter func(ctx context.Context, shard int, name, record string) error
	// Check returns an error when an invariant of the stored data is broken:
	// indexes that disagree, counts that are off. nil: not checked.
	Check func(ctx context.Context) error
	// Calendars is nil where calendars are not tested.
	Calendars schedule.CalendarStore
	// Peer opens the same data as a caller whose clock is wall, while the
	// store keeps its own. nil: clock skew is not tested.
	Peer func(wall func() time.Time) Stores
}

// A Backend opens an empty store that no other test uses. Its clock is now;
// with nil it is the clock that production uses.
type Backend func(t *testing.T, now func() time.Time) Stores

// Epoch is where the time of every test starts.
var Epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// What the tests ask for where the value does not matter.
const (
	period    = 10 * time.Second // of the schedules
	claimTTL  = 10 * time.Second
	runLease  = 30 * time.Second
	auditTime = 15 * time.Second
)

// A testCase is one sentence of the contract.
type testCase struct {
	name string
	run  func(e *env)
}

// Run runs the contract against a backend.
func Run(t *testing.T, open Backend) {
	groups := []struct {
		name  string
		cases []testCase
	}{
		{"catalog", catalogCases}, {"put", putCases}, {"list", listCases},
		{"claim", claimCases}, {"complete", completeCases}, {"zombie", zombieCases},
		{"overlap", overlapCases}, {"operate", operateCases}, {"trigger", triggerCases}, {"extra", extraCases}, {"override", overrideCases},
		{"breaker", breakerCases}, {"begin", beginCases}, {"finish", finishCases},
		{"calendar", calendarCases}, {"audit", auditCases}, {"lease", leaseCases}, {"fleet", fleetCases},
		{"concurrency", concurrencyCases}, {"clock", clockCases},
		{"backfill", backfillCases}, {"skip", skipCases}, {"event", eventCases}, {"look", lookCases}, {"cancel", cancelCases},
		{"garbage", garbageCases},
	}
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range group.cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					e := newEnv(t, open)
					c.run(e)
					e.check()
				})
			}
		})
	}
	t.Run("the store's own clock drives it too", func(t *testing.T) {
		t.Parallel()
		ownClock(t, open)
	})
}

// A clock is protocol time, moved by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// An env is a fresh store with a clock, and verbs to act on it. A verb fails
// the test when the store returns an error.
type env struct {
	*testing.T
	Stores
	*clock
	shards int
	rest   []claim.Released // told by the last claim, complete, begin, finish, audit or settle
}

func newEnv(t *testing.T, open Backend) *env {
	t.Helper()
	e := &env{T: t, clock: &clock{now: Epoch}}
	e.Stores = open(t, e.clock.Now)
	shards, err := e.Claims.Shards(t.Context())
	if err != nil || shards < 1 {
		t.Fatalf("Shards = %d, %v, want at least 1", shards, err)
	}
	e.shards = shards
	return e
}

// check fails when an invariant of the data is broken.
func (e *env) check() {
	e.Helper()
	if e.Check == nil {
		return
	}
	if err := e.Check(e.Context()); err != nil {
		e.Errorf("at the end: %v", err)
	}
}

// must fails the test on an error.
func (e *env) must(doing string, err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("%s: %v", doing, err)
	}
}

// want compares and fails with what was asked.
func want[V comparable](e *env, what string, got, want V) {
	e.Helper()
	if got != want {
		e.Errorf("%s = %v, want %v", what, got, want)
	}
}

// wantTime compares instants, whatever their location.
func wantTime(e *env, what string, got, want time.Time) {
	e.Helper()
	if !got.Equal(want) {
		e.Errorf("%s = %s, want %s", what, got.UTC().Format(time.RFC3339Nano), want.UTC().Format(time.RFC3339Nano))
	}
}
