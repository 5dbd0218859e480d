package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/memstore"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/pkg/worker"
)

// A fleet is one store and what was enqueued by its schedulers.
type fleet struct {
	t     *testing.T
	store *memstore.Store

	mu     sync.Mutex
	pushes []pushed
	known  map[claim.FiringID]bool
}

// A pushed is one task that reached its queue.
type pushed struct {
	worker string
	firing claim.FiringID
	at     time.Time
}

func newFleet(t *testing.T, shards int) *fleet {
	t.Helper()
	store, err := memstore.New(memstore.Options{Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	return &fleet{t: t, store: store, known: map[claim.FiringID]bool{}}
}

// put stores a schedule with a type and the given expression.
func (f *fleet) put(id, expression string, change func(*schedule.Schedule)) {
	f.t.Helper()
	s := schedule.Schedule{ID: schedule.ID(id), Expression: expression, Type: "test", Missed: schedule.MissedAll, CatchUp: time.Hour}
	if change != nil {
		change(&s)
	}
	if _, err := f.store.Put(f.t.Context(), s, schedule.PutOptions{}); err != nil {
		f.t.Fatalf("Put(%s): %v", id, err)
	}
}

func (f *fleet) pushed(worker string, firing claim.FiringID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pushes = append(f.pushes, pushed{worker, firing, time.Now()})
	f.known[firing] = true
}

// of returns what was enqueued for a schedule, in order.
func (f *fleet) of(id string) []pushed {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.pushes), func(p pushed) bool { return !strings.HasPrefix(string(p.firing), id+":") })
}

// has reports whether the firing was enqueued.
func (f *fleet) has(firing claim.FiringID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known[firing]
}

// by returns how many tasks a worker enqueued.
func (f *fleet) by(worker string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.pushes {
		if p.worker == worker {
			n++
		}
	}
	return n
}

// checkExactlyOnce compares what was enqueued for an interval schedule with
// its scheduled times from first to last, both inclusive.
func (f *fleet) checkExactlyOnce(id string, first, last time.Time, every time.Duration) {
	f.t.Helper()
	want := map[int64]int{}
	for at := first; !at.After(last); at = at.Add(every) {
		want[at.UnixMilli()] = 0
	}
	for _, p := range f.of(id) {
		firing, err := claim.ParseFiringID(string(p.firing))
		if err != nil {
			f.t.Fatal(err)
		}
		ms := firing.ScheduledAt.UnixMilli()
		if _, known := want[ms]; !known && !firing.ScheduledAt.After(last) {
			f.t.Errorf("%s was enqueued for %s, which is no scheduled time", id, firing.ScheduledAt)
		}
		want[ms]++
	}
	for ms, n := range want {
		if n != 1 && !time.UnixMilli(ms).After(last) {
			f.t.Errorf("%s at %s was enqueued %d times, want once", id, time.UnixMilli(ms).UTC(), n)
		}
	}
}

// A member is one scheduler of a fleet with faults to switch on.
type member struct {
	*worker.Scheduler
	name     string
	fleet    *fleet
	observer *observer
	stop     context.CancelFunc
	done     chan error

	mu     sync.Mutex
	fault  func(call string) error                               // before each call
	invade func(push queue.Push) error                           // instead of an enqueue
	entry  func(id schedule.ID, e schedule.Entry) schedule.Entry // what GetMany gives
	answer func(r claim.CompleteRequest, out *claim.CompleteResult)
	after  func(batch claim.Batch)
}

func (f *fleet) member(name string, change func(*worker.SchedulerOptions)) *member {
	f.t.Helper()
	m := &member{name: name, fleet: f, done: make(chan error, 1), observer: &observer{}}
	faulty := &faultyStore{Store: f.store, m: m}
	options := worker.SchedulerOptions{Definitions: faulty, Calendars: faulty, Claims: faulty, Settler: f.store, Waker: faulty,
		Enqueuer: m, Auditor: &auditor{f, m}, ID: name, KeepRuns: 5, Observer: m.observer}
	if change != nil {
		change(&options)
	}
	var err error
	if m.Scheduler, err = worker.NewScheduler(options); err != nil {
		f.t.Fatalf("NewScheduler: %v", err)
	}
	return m
}

// start runs the member until stop or the end of the test.
func (m *member) start() *member {
	ctx, cancel := context.WithCancel(m.fleet.t.Context())
	m.stop = cancel
	go func() { m.done <- m.Run(ctx) }()
	return m
}

// halt stops the member and waits for it.
func (m *member) halt() {
	m.fleet.t.Helper()
	m.stop()
	if err := <-m.done; err != nil {
		m.fleet.t.Errorf("Run of %s = %v, want nil", m.name, err)
	}
}

func (m *member) setFault(fault func(call string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = fault
}

func (m *member) fails(call string) error {
	m.mu.Lock()
	fault := m.fault
	m.mu.Unlock()
	if fault == nil {
		return nil
	}
	return fault(call)
}

// errAway is what a store that is away answers.
var errAway = errors.New("connection refused")

// die makes every further call of the member fail, as if it had been killed:
// nothing that it holds is handed back.
func (m *member) die() { m.setFault(func(string) error { return errAway }) }

// PushAll enqueues.
func (m *member) PushAll(ctx context.Context, pushes []queue.Push) []error {
	errs := make([]error, len(pushes))
	for i, push := range pushes {
		if errs[i] = m.fails("push"); errs[i] != nil {
			continue
		}
		if m.invade != nil {
			if errs[i] = m.invade(push); errs[i] != nil {
				continue
			}
		}
		if errs[i] = ctx.Err(); errs[i] == nil {
			m.fleet.pushed(m.name, push.Firing)
		}
	}
	return errs
}

// A faultyStore is the store as one member sees it.
type faultyStore struct {
	*memstore.Store
	m *member
}

func (s *faultyStore) Shards(ctx context.Context) (int, error) {
	if err := s.m.fails("shards"); err != nil {
		return 0, err
	}
	return s.Store.Shards(ctx)
}

func (s *faultyStore) Wake(ctx context.Context) (<-chan struct{}, func() bool, error) {
	if err := s.m.fails("wake"); err != nil {
		return nil, nil, err
	}
	return s.Store.Wake(ctx)
}

func (s *faultyStore) ClaimDue(ctx context.Context, r claim.ClaimRequest) (claim.Batch, error) {
	if err := s.m.fails("claim"); err != nil {
		return claim.Batch{}, err
	}
	batch, err := s.Store.ClaimDue(ctx, r)
	if err == nil && s.m.after != nil {
		s.m.after(batch)
	}
	return batch, err
}

func (s *faultyStore) Renew(ctx context.Context, ttl time.Duration, holds []claim.Hold) ([]bool, error) {
	if err := s.m.fails("renew"); err != nil {
		return nil, err
	}
	return s.Store.Renew(ctx, ttl, holds)
}

func (s *faultyStore) Complete(ctx context.Context, r claim.CompleteRequest) (claim.CompleteResult, error) {
	if err := s.m.fails("complete"); err != nil {
		return claim.CompleteResult{}, err
	}
	if s.m.answer != nil {
		var out claim.CompleteResult
		if s.m.answer(r, &out); out.Outcomes != nil {
			return out, nil
		}
	}
	return s.Store.Complete(ctx, r)
}

func (s *faultyStore) Release(ctx context.Context, r claim.Release) (bool, error) {
	if err := s.m.fails("release"); err != nil {
		return false, err
	}
	return s.Store.Release(ctx, r)
}

func (s *faultyStore) GetMany(ctx context.Context, ids []schedule.ID) (map[schedule.ID]schedule.Entry, error) {
	if err := s.m.fails("get"); err != nil {
		return nil, err
	}
	entries, err := s.Store.GetMany(ctx, ids)
	if s.m.entry != nil {
		for id, e := range entries {
			entries[id] = s.m.entry(id, e)
		}
	}
	return entries, err
}

// An auditor enqueues intents and settles everything else, as if a plain
// consumer had run it.
type auditor struct {
	fleet *fleet
	m     *member
}

func (a *auditor) Sweep(ctx context.Context, shard int) (queue.SweepResult, error) {
	if err := a.m.fails("audit"); err != nil {
		return queue.SweepResult{}, err
	}
	batch, err := a.fleet.store.Audit(ctx, claim.AuditRequest{Shard: shard, Limit: 100, Hide: 15 * time.Second})
	if err != nil {
		return queue.SweepResult{}, err
	}
	for _, open := range batch.Firings {
		switch {
		case open.Position == claim.PositionPending:
		case open.State == claim.FiringIntent && !a.fleet.has(open.Firing):
			a.fleet.pushed(a.m.name, open.Firing)
			err = errors.Join(err, a.fleet.store.Mark(ctx, 15*time.Second, []claim.FiringID{open.Firing}))
		default:
			_, settleErr := a.fleet.store.Settle(ctx, claim.SettleRequest{Firing: open.Firing, Token: open.Token, Outcome: claim.OutcomeSucceeded})
			err = errors.Join(err, settleErr)
		}
	}
	return queue.SweepResult{Now: batch.Now, NextAudit: batch.NextAudit, Looked: len(batch.Firings)}, err
}

func (a *auditor) Release(_ context.Context, released []claim.Released) error {
	for _, r := range released {
		a.fleet.pushed(a.m.name, r.Firing)
	}
	return nil
}

// An observer remembers what it is told.
type observer struct {
	worker.NopObserver

	mu       sync.Mutex
	decided  []worker.DecidedEvent
	isolated []worker.IsolatedEvent
	waits    []error
	returns  []time.Duration
}

func (o *observer) Decided(e worker.DecidedEvent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.decided = append(o.decided, e)
}

func (o *observer) Isolated(e worker.IsolatedEvent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.isolated = append(o.isolated, e)
}

func (o *observer) Waiting(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waits = append(o.waits, err)
}

func (o *observer) Recovered(after time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.returns = append(o.returns, after)
}

func names(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("s%02d", i)
	}
	return out
}
