// Package memstore is the store's protocol as straightforward Go.
//
// It keeps everything in maps under one mutex and is meant to be read: what
// the scripts of package redisstore do in pieces over many keys is written
// here once, in the order in which it is thought. The suite in package
// storetest holds both to the same contract and compares them operation by
// operation. Nothing survives the process; production uses redisstore.
//
// The heart is record.go: a schedule's high-water mark, which only advance and
// cover raise, each time together with a verdict, and its open firings.
package memstore

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"sync"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// DefaultSkew is how far a caller's clock may be behind the store's before the
// caller's decides what is due.
const DefaultSkew = 500 * time.Millisecond

// requestTerm is how long request IDs are remembered.
const requestTerm = 24 * time.Hour

// releaseAudit is when the auditor looks at a buffered firing that somebody
// was told to enqueue.
const releaseAudit = 5 * time.Second

// Options configure a Store. The zero value is one shard on the clock of the
// process.
type Options struct {
	Now    func() time.Time // the store's clock; nil is time.Now
	Wall   func() time.Time // the caller's clock; nil is Now
	Skew   time.Duration    // how far Wall may be behind Now; 0 is DefaultSkew
	Shards int              // 0 is 1
}

// A Store holds schedules and their open firings. It implements
// schedule.Catalog, claim.Store, claim.Ledger, claim.Waker and claim.Roster;
// Leases returns the claim.Leases. All methods are safe for concurrent use.
type Store struct {
	*data
	wall func() time.Time
}

// data is what all callers of a store share.
type data struct {
	mu        sync.Mutex
	clock     func() time.Time
	skew      time.Duration
	tokens    []claim.Token // last one granted, by shard
	schedules map[schedule.ID]*record
	firings   map[claim.FiringID]*firing // open ones, buffered ones included
	requests  map[string]request
	calendars []schedule.Calendar // ascending order of name
	calendarV int64               // version of the calendars
	leases    map[string]*lease
	members   map[string]claim.Member
	wakers    map[chan struct{}]struct{}
	periodic  map[string]*periodic
	backfills map[string]*backfill // by schedule:backfill
	events    []schedule.Event     // oldest first
	forgotten int                  // events that were dropped
}

// New returns an empty store.
func New(options Options) (*Store, error) {
	if options.Shards < 0 {
		return nil, &schedule.FieldError{Field: "shards", Value: strconv.Itoa(options.Shards), Allowed: "0 (one shard) or more"}
	}
	if options.Skew < 0 {
		return nil, &schedule.FieldError{Field: "skew", Value: options.Skew.String(), Allowed: "0 (" + DefaultSkew.String() + ") or more"}
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Wall == nil {
		options.Wall = options.Now
	}
	if options.Skew == 0 {
		options.Skew = DefaultSkew
	}
	return &Store{wall: options.Wall, data: &data{
		clock:     options.Now,
		skew:      options.Skew,
		tokens:    make([]claim.Token, max(1, options.Shards)),
		schedules: map[schedule.ID]*record{},
		firings:   map[claim.FiringID]*firing{},
		requests:  map[string]request{},
		leases:    map[string]*lease{},
		members:   map[string]claim.Member{},
		wakers:    map[chan struct{}]struct{}{},
		periodic:  map[string]*periodic{},
		backfills: map[string]*backfill{},
	}}, nil
}

// Peer returns another caller of the same data, with a clock of its own.
func (s *Store) Peer(wall func() time.Time) *Store { return &Store{data: s.data, wall: wall} }

// Leases returns the leases of the store.
func (s *Store) Leases() *Leases { return &Leases{store: s} }

// enter locks the store and reads the time: the store's clock, capped by the
// caller's plus the allowance, so that both must agree before anything fires.
// The caller unlocks unless it gets an error.
func (s *Store) enter(ctx context.Context) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, fmt.Errorf("memstore: not started: %w", err)
	}
	s.mu.Lock()
	now, limit := s.clock(), s.wall().Add(s.skew)
	if limit.Before(now) {
		now = limit
	}
	return millis(now), nil
}

// millis cuts to whole milliseconds in UTC, the store's precision.
func millis(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMilli(t.UnixMilli()).UTC()
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// shardOf places a schedule.
func (d *data) shardOf(id schedule.ID) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // never fails
	return int(h.Sum64() % uint64(len(d.tokens)))
}

// grant returns the next fencing token of the schedule's shard. It follows the
// clock, so that tokens are larger after data was lost, and never repeats.
func (d *data) grant(id schedule.ID, now time.Time) claim.Token {
	shard := d.shardOf(id)
	d.tokens[shard] = max(d.tokens[shard]+1, claim.Token(now.UnixMilli()*1000))
	return d.tokens[shard]
}

// A request is a request ID that took effect.
type request struct {
	expires time.Time
	put     schedule.PutResult // of a Put
	firing  claim.FiringID     // of a Trigger
	asked   string             // likewise: what the firing carries
}

// recall returns what the request did; false when it is new or forgotten.
func (d *data) recall(key string, now time.Time) (request, bool) {
	for k, r := range d.requests {
		if !r.expires.After(now) {
			delete(d.requests, k)
		}
	}
	r, ok := d.requests[key]
	return r, ok
}

// Check reports the first broken invariant of the store's data, for tests.
func (s *Store) Check(ctx context.Context) error {
	if _, err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	listed := 0
	for id, r := range s.schedules {
		if err := r.check(); err != nil {
			return fmt.Errorf("memstore: schedule %s: %w", id, err)
		}
		listed += len(r.open) + len(r.buffer)
	}
	if listed != len(s.firings) {
		return fmt.Errorf("memstore: %d firings, but schedules list %d", len(s.firings), listed)
	}
	return nil
}

// check reports a broken invariant of one schedule.
func (r *record) check() error {
	last := time.Time{}
	for _, v := range r.ranges {
		if v.First.After(v.Last) || !v.First.After(last) {
			return fmt.Errorf("verdict range %+v overlaps or is empty", v)
		}
		last = v.Last
	}
	if !last.Equal(r.hwm) {
		return fmt.Errorf("high-water mark %s, but the last verdict is for %s", r.hwm, last)
	}
	if r.flag == enabled && len(r.buffer) > 0 && len(r.open) == 0 {
		return errors.New("a buffered firing waits for nothing")
	}
	if r.token == 0 && !r.deadline.IsZero() {
		return errors.New("a deadline without a claim")
	}
	return nil
}
