package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// An Enqueuer puts firings into their queues. A *queue.Enqueuer is one.
type Enqueuer interface {
	// PushAll returns one error per push, in order. Pushing again is harmless.
	PushAll(ctx context.Context, pushes []queue.Push) []error
}

// An Auditor looks after firings that have been open for too long. A
// *queue.Auditor is one.
type Auditor interface {
	// Sweep audits some overdue firings of a shard.
	Sweep(ctx context.Context, shard int) (queue.SweepResult, error)
	// Release enqueues buffered firings that became free.
	Release(ctx context.Context, released []claim.Released) error
}

// A Looker looks at open firings before their audit is due, because others
// wait for them. A *queue.Auditor is one.
type Looker interface {
	// Look closes those of the firings that have ended, and returns them. With
	// cancel it also ends those that a newer firing cancels.
	Look(ctx context.Context, firings []claim.FiringID) (queue.LookResult, error)
}

// A Settler closes firings. A claim.Ledger is one.
type Settler interface {
	Settle(ctx context.Context, request claim.SettleRequest) (claim.RedriveResult, error)
}

// SchedulerOptions configure a Scheduler. Definitions to Auditor are needed.
type SchedulerOptions struct {
	Definitions Definitions
	Claims      claim.Store
	Settler     Settler
	Waker       claim.Waker
	Enqueuer    Enqueuer
	Auditor     Auditor
	Backfills   claim.Backfills // nil: this scheduler makes no steps of backfills
	Looker      Looker          // nil: what overlaps is not looked at before its time

	Calendars schedule.CalendarReader // that definitions name; nil: there are none

	ID         string        // of this worker, unique in the fleet; needed
	ClaimTTL   time.Duration // 0 is 10 s; at least 1 s
	Batch      int           // schedules per claim; 0 is 100, at most 500
	AuditAfter time.Duration // when the auditor first looks at a firing; 0 is 15 s; at least ClaimTTL
	IdleSleep  time.Duration // longest sleep per shard while the wake-up channel works; 0 is 1 s
	Grace      time.Duration // for enqueues in progress once Run's context ended; 0 is ClaimTTL/2
	KeepRuns   int           // length of the run log; 0: none

	Logger   *slog.Logger // nil: dropped
	Observer Observer     // may be nil

	// SimulationNow replaces the clock that claims are trusted by. Leave it
	// nil outside simulations.
	SimulationNow func() time.Time
	// SimulationDraw replaces the randomness of sleeps: it returns a duration
	// from 0 up to the bound, exclusive. Leave it nil outside simulations.
	SimulationDraw func(bound time.Duration) time.Duration

	gate *gate  // of the worker; nil: always open
	back func() // called when the store answers again; may be nil
}

// A Scheduler claims due schedules and gets their firings enqueued. It runs no
// tasks; a [Worker] is a Scheduler and an asynq server.
type Scheduler struct {
	options  SchedulerOptions
	claims   claim.Store
	cache    *cache
	outage   *outage
	ranking  ranking
	failures failures
	returned failures // claims that went back because what they met had ended
	watch    watch
	hints    chan hint // for the sweeper
	logger   *slog.Logger
	observer Observer
	now      func() time.Time
	draw     func(bound time.Duration) time.Duration // in [0, bound)

	started  atomic.Bool
	stopping atomic.Bool
	beat     atomic.Int64 // when a loop last turned, in Unix nanoseconds
	progress atomic.Int64 // when a claim last succeeded, likewise
	offset   atomic.Int64 // store clock minus ours, in nanoseconds, as last seen
	shards   atomic.Int64
	counters counters
	gate     *gate
}

// NewScheduler returns a *schedule.FieldError for options that are refused.
func NewScheduler(options SchedulerOptions) (*Scheduler, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	s := &Scheduler{options: options, claims: options.Claims, cache: newCache(options.Definitions, options.Calendars),
		ranking: ranking{self: options.ID}, hints: make(chan hint, 64), logger: options.Logger, observer: options.Observer,
		now: options.SimulationNow, draw: options.SimulationDraw, gate: options.gate}
	if s.gate == nil {
		s.gate = newGate()
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.draw == nil {
		s.draw = rand.N[time.Duration]
	}
	s.outage = &outage{logger: s.logger, observer: s.observer, now: s.now, draw: s.draw, back: options.back}
	return s, nil
}

// errRunTwice reports that Run was called a second time.
var errRunTwice = errors.New("worker: a scheduler runs once: build a new one")

// Run claims until ctx ends. It then finishes what is being enqueued, hands
// back its other claims, within SchedulerOptions.Grace, and returns nil. It waits for
// a store that does not answer, from the start on.
func (s *Scheduler) Run(ctx context.Context) error {
	if s.started.Swap(true) {
		return errRunTwice
	}
	s.touch()
	stopped := context.AfterFunc(ctx, func() { s.stopping.Store(true) })
	defer stopped()
	shards := 0
	if !s.outage.retry(ctx, func(ctx context.Context) (err error) {
		s.touch()
		ctx, cancel := context.WithTimeout(ctx, s.options.ClaimTTL/2)
		defer cancel()
		shards, err = s.claims.Shards(ctx)
		return err
	}) {
		return nil
	}
	if shards < 1 {
		return fmt.Errorf("worker: the store says %d shards: allowed: 1 or more", shards)
	}
	s.shards.Store(int64(shards))
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	graceOver := context.AfterFunc(ctx, func() { time.AfterFunc(s.options.Grace, cancel) })
	defer graceOver()
	s.serve(ctx, work, shards)
	return nil
}

// serve runs one lane a shard, the sweeper, the backfiller and the wake-up
// channel.
func (s *Scheduler) serve(ctx, work context.Context, shards int) {
	bell := claim.NewBell(shards + 2)
	var group sync.WaitGroup
	group.Go(func() {
		bell.Listen(ctx, s.options.Waker, func(attempt int) time.Duration { return fullJitter(attempt, s.draw) })
	})
	group.Go(func() { newSweeper(s, shards, bell).run(ctx) })
	if s.options.Backfills != nil {
		group.Go(func() { newBackfiller(s, shards, bell).run(ctx) })
	}
	order := rand.Perm(shards)
	for _, shard := range order {
		l := &lane{s: s, shard: shard, bell: bell, work: work}
		group.Go(func() { l.run(ctx) })
	}
	group.Wait()
}

// touch notes that a loop turns.
func (s *Scheduler) touch() { s.beat.Store(time.Now().UnixNano()) }

// away reports whether the store did not answer lately, or not yet.
func (s *Scheduler) away() bool { return s.shards.Load() == 0 || s.outage.err() != nil }

// claimed notes that the store answered, and how its clock differs from ours.
func (s *Scheduler) claimed(loop any, storeNow, received time.Time) {
	s.offset.Store(int64(storeNow.Sub(received)))
	s.progress.Store(time.Now().UnixNano())
	s.outage.recovered(loop)
}

// local turns an instant of the store's clock into one of ours.
func (s *Scheduler) local(at time.Time) time.Time {
	return at.Add(-time.Duration(s.offset.Load()))
}

// nap is the longest sleep of a loop: long while wake-ups arrive, short enough
// for an effect within a second while they do not.
func (s *Scheduler) nap(bell *claim.Bell) time.Duration {
	if bell.Healthy() {
		return s.options.IdleSleep * time.Duration(max(1, s.shards.Load()))
	}
	return min(s.options.IdleSleep, deafSleep)
}

// deafSleep is the longest sleep while the wake-up channel does not work.
const deafSleep = 500 * time.Millisecond

// UpdatePeers tells who else is in the fleet, so that the workers divide the
// shards among themselves. A scheduler that is never told serves all shards.
func (s *Scheduler) UpdatePeers(members []claim.Member) { s.ranking.update(members) }

// Ready returns nil when the scheduler claims: it was started, is not
// stopping, and the store answered lately.
func (s *Scheduler) Ready() error {
	switch {
	case !s.started.Load():
		return errors.New("worker: not started")
	case s.stopping.Load():
		return errors.New("worker: stopping")
	}
	if err := s.outage.err(); err != nil {
		return fmt.Errorf("worker: waiting for Redis: %w", err)
	}
	last := s.progress.Load()
	if last == 0 {
		return errors.New("worker: nothing was claimed from yet")
	}
	if idle := time.Since(time.Unix(0, last)); idle > s.stall() {
		return fmt.Errorf("worker: no claim for %s", idle.Round(time.Second))
	}
	return s.watch.stuck()
}

// Live returns an error when no loop has turned for so long that only a
// restart helps. A store that is away is no reason.
func (s *Scheduler) Live() error {
	if !s.started.Load() || s.stopping.Load() {
		return nil
	}
	if idle := time.Since(time.Unix(0, s.beat.Load())); idle > 3*s.stall() {
		return fmt.Errorf("worker: the claim loop has stood still for %s: restart", idle.Round(time.Second))
	}
	return nil
}

// stall is how long no progress is normal: a sleep and a slow claim.
func (s *Scheduler) stall() time.Duration {
	return 2*s.options.IdleSleep*time.Duration(max(1, s.shards.Load())) + 2*s.options.ClaimTTL
}

// failures counts failures in a row of schedules that this worker could not
// handle.
type failures struct {
	mu    sync.Mutex
	count map[schedule.ID]int
}

// maxFailuresKept bounds the memory for failing schedules; beyond it they are
// counted anew.
const maxFailuresKept = 100_000

func (f *failures) add(id schedule.ID) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == nil || len(f.count) >= maxFailuresKept {
		f.count = map[schedule.ID]int{}
	}
	f.count[id]++
	return f.count[id]
}

func (f *failures) clear(id schedule.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.count, id)
}
