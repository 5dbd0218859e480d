package queue

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

const testGeneration = 7

// definition returns a schedule whose tasks go to a queue of its own.
func definition(change ...func(*schedule.Schedule)) schedule.Schedule {
	d := schedule.Schedule{
		ID: "nightly", Type: "report:build", Queue: "q" + strings.ToLower(rand.Text()[:12]),
		Payload: []byte(`{"account":1}`), Timeout: time.Minute,
	}
	for _, f := range change {
		f(&d)
	}
	return d
}

func retries(n int) func(*schedule.Schedule) {
	return func(d *schedule.Schedule) { d.MaxRetry = &n }
}

// firingAt returns the n-th firing of the schedule.
func firingAt(n int) claim.FiringID {
	return claim.ScheduledFiring("nightly", testGeneration, time.Date(2030, 1, 2, 3, 4, n, 0, time.UTC))
}

// A recorder is an Observer that keeps what it was told.
type recorder struct {
	mu       sync.Mutex
	enqueued []EnqueuedEvent
	started  []RunEvent
	ended    []RunEvent
	redriven []AuditEvent
	settled  []AuditEvent
}

func (r *recorder) add(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func (r *recorder) Enqueued(e EnqueuedEvent) { r.add(func() { r.enqueued = append(r.enqueued, e) }) }
func (r *recorder) RunStarted(e RunEvent)    { r.add(func() { r.started = append(r.started, e) }) }
func (r *recorder) RunEnded(e RunEvent)      { r.add(func() { r.ended = append(r.ended, e) }) }
func (r *recorder) Redriven(e AuditEvent)    { r.add(func() { r.redriven = append(r.redriven, e) }) }
func (r *recorder) Settled(e AuditEvent)     { r.add(func() { r.settled = append(r.settled, e) }) }

// A bench is one schedule with everything that runs its firings. The ledger is
// in memory, the queue is real.
type bench struct {
	t          *testing.T
	redis      redis.UniversalClient
	inspector  *asynq.Inspector
	ledger     *fakeLedger
	catalog    *fakeCatalog
	definition schedule.Schedule
	enqueuer   *Enqueuer
	auditor    *Auditor
	recorder   *recorder
}

func newBench(t *testing.T, client redis.UniversalClient, definition schedule.Schedule) *bench {
	t.Helper()
	b := &bench{
		t: t, redis: client, inspector: asynq.NewInspectorFromRedisClient(client),
		ledger: newFakeLedger(), definition: definition, recorder: &recorder{},
		catalog: &fakeCatalog{definitions: map[schedule.ID]schedule.Schedule{definition.ID: definition}, generation: testGeneration},
	}
	var err error
	b.enqueuer, err = NewEnqueuer(EnqueuerOptions{Redis: client, Observer: b.recorder})
	if err != nil {
		t.Fatal(err)
	}
	b.auditor, err = NewAuditor(AuditorOptions{
		Ledger: b.ledger, Catalog: b.catalog, Enqueuer: b.enqueuer, Redis: client, Observer: b.recorder, KeepRuns: 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// inBubble runs f in a bubble with a bench on an in-memory Redis.
func inBubble(t *testing.T, definition schedule.Schedule, f func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(newBench(t, redistest.InMemory(t).Client(), definition))
	})
}

// onRedis runs f with a bench on every single-node Redis.
func onRedis(t *testing.T, definition schedule.Schedule, f func(*bench)) {
	t.Helper()
	for _, backend := range redistest.Backends() {
		if backend.Name == "cluster" {
			continue
		}
		t.Run(backend.Name, func(t *testing.T) {
			definition.Queue = "q" + strings.ToLower(rand.Text()[:12])
			b := newBench(t, backend.Dial(t), definition)
			b.t = t
			f(b)
		})
	}
}

// push enqueues the firing.
func (b *bench) push(id claim.FiringID) {
	b.t.Helper()
	if err := b.enqueuer.Push(b.t.Context(), Push{Firing: id, Definition: b.definition, Token: 42}); err != nil {
		b.t.Fatalf("Push(%s): %v", id, err)
	}
}

// pushed returns the firing of second n, enqueued in ledger and queue.
func (b *bench) pushed(n int) claim.FiringID {
	b.t.Helper()
	id := firingAt(n)
	b.ledger.add(id, claim.FiringEnqueued, b.definition.Queue)
	b.push(id)
	return id
}

// middleware returns one for the bench's schedule.
func (b *bench) middleware(change ...func(*MiddlewareOptions)) *Middleware {
	b.t.Helper()
	options := MiddlewareOptions{
		Ledger: b.ledger, Enqueuer: b.enqueuer, Catalog: b.catalog, Worker: "w1", KeepRuns: 20, Observer: b.recorder,
		RetryDelay: func(int, error, *asynq.Task) time.Duration { return 10 * time.Second },
	}
	for _, f := range change {
		f(&options)
	}
	m, err := NewMiddleware(options)
	if err != nil {
		b.t.Fatal(err)
	}
	return m
}

// serve starts an asynq server and returns how to stop it.
func (b *bench) serve(m *Middleware, handler asynq.HandlerFunc) (stop func()) {
	b.t.Helper()
	config := asynq.Config{
		Concurrency: 8, Queues: map[string]int{b.definition.Queue: 1}, ShutdownTimeout: 2 * time.Second,
		TaskCheckInterval: 200 * time.Millisecond, DelayedTaskCheckInterval: time.Second,
		Logger: NewAsynqLogger(nil),
	}
	var wrapped asynq.Handler = handler
	if m != nil {
		config.IsFailure, config.RetryDelayFunc = m.IsFailure, m.RetryDelay
		wrapped = m.Wrap(handler)
	}
	server := asynq.NewServerFromRedisClient(b.redis, config)
	if err := server.Start(wrapped); err != nil {
		b.t.Fatal(err)
	}
	return server.Shutdown
}

// task returns the task, or nil.
func (b *bench) task(id string) *asynq.TaskInfo {
	b.t.Helper()
	info, err := b.inspector.GetTaskInfo(b.definition.Queue, id)
	if err != nil {
		return nil
	}
	return info
}

// state returns the state of the task, or "none".
func (b *bench) state(id string) string {
	b.t.Helper()
	if info := b.task(id); info != nil {
		return info.State.String()
	}
	return "none"
}

// key returns an asynq key of the queue.
func (b *bench) key(name string) string {
	return fmt.Sprintf("asynq:{%s}:%s", b.definition.Queue, name)
}

// sweep audits all that is open, at once.
func (b *bench) sweep(ids ...claim.FiringID) SweepResult {
	b.t.Helper()
	for _, id := range ids {
		b.ledger.due(id)
	}
	result, err := b.auditor.Sweep(b.t.Context(), 0)
	if err != nil {
		b.t.Fatalf("Sweep: %v", err)
	}
	return result
}

// wantOutcome fails unless the firing was settled so.
func (b *bench) wantOutcome(id claim.FiringID, want claim.RunOutcome) {
	b.t.Helper()
	if got, text := b.ledger.outcome(id); got != want {
		open, _ := b.ledger.get(id)
		b.t.Errorf("outcome of %s = %q (%s), want %q; open: %+v", id, got, text, want, open)
	}
}

func (b *bench) wantTask(taskID, want string) {
	b.t.Helper()
	if got := b.state(taskID); got != want {
		b.t.Errorf("task %s is %s, want %s", taskID, got, want)
	}
}

// a counter counts calls of a handler by firing, and how many overlapped.
type counter struct {
	mu      sync.Mutex
	runs    map[claim.FiringID]int
	running map[claim.FiringID]int
	overlap int
	last    Firing
}

// wrap counts around f.
func (c *counter) wrap(f asynq.HandlerFunc) asynq.HandlerFunc {
	return func(ctx context.Context, task *asynq.Task) error {
		firing, ok := FiringFrom(ctx)
		if !ok {
			firing, _ = FiringOf(task)
		}
		c.mu.Lock()
		if c.runs == nil {
			c.runs, c.running = map[claim.FiringID]int{}, map[claim.FiringID]int{}
		}
		c.last = firing
		c.runs[firing.ID]++
		if c.running[firing.ID]++; c.running[firing.ID] > 1 {
			c.overlap++
		}
		c.mu.Unlock()
		defer func() {
			c.mu.Lock()
			c.running[firing.ID]--
			c.mu.Unlock()
		}()
		return f(ctx, task)
	}
}

func (c *counter) of(id claim.FiringID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runs[id]
}

// newBenchClient returns a client of a miniredis.
func newBenchClient(t *testing.T) redis.UniversalClient {
	t.Helper()
	return redistest.Backends()[0].Dial(t)
}

// redisZ returns a member of a sorted set whose score is a time in seconds.
func redisZ(at time.Time, member string) redis.Z {
	return redis.Z{Score: float64(at.Unix()), Member: member}
}
