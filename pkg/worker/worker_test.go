package worker_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/pkg/worker"
)

// A cable connects one worker to the Redis of a bubble and can be cut.
type cable struct {
	memory *redistest.Memory

	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

var errCut = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}

func (c *cable) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		return nil, errCut
	}
	conn, err := c.memory.Dial(ctx, network, addr)
	if err == nil {
		c.conns = append(c.conns, conn)
	}
	return conn, err
}

func (c *cable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	if cut {
		for _, conn := range c.conns {
			conn.Close()
		}
		c.conns = nil
	}
}

// A rig is a Redis inside the bubble and what its workers ran.
type rig struct {
	t      *testing.T
	memory *redistest.Memory
	store  *redisstore.Store

	mu   sync.Mutex
	runs map[claim.FiringID][]string // workers that ran it, in order
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, memory: redistest.InMemory(t), runs: map[claim.FiringID][]string{}}
	var err error
	if r.store, err = redisstore.New(r.memory.Client(), redisstore.Options{}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) put(id, expression, taskType string) {
	r.t.Helper()
	_, err := r.store.Put(r.t.Context(), schedule.Schedule{ID: schedule.ID(id), Expression: expression, Type: taskType,
		Missed: schedule.MissedAll, CatchUp: time.Hour}, schedule.PutOptions{})
	if err != nil {
		r.t.Fatalf("Put(%s): %v", id, err)
	}
}

// ran notes a run and is the body of the handlers.
func (r *rig) ran(ctx context.Context, worker string) {
	firing, ok := queue.FiringFrom(ctx)
	if !ok {
		r.t.Error("a handler saw no firing")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs[firing.ID] = append(r.runs[firing.ID], worker)
}

func (r *rig) by(worker string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, workers := range r.runs {
		for _, w := range workers {
			if w == worker {
				n++
			}
		}
	}
	return n
}

// checkOnce compares the runs of an interval schedule with its scheduled times
// from first to last, both inclusive.
func (r *rig) checkOnce(id string, first, last time.Time, every time.Duration) {
	r.t.Helper()
	entry, err := r.store.Get(r.t.Context(), schedule.ID(id))
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for at := first; !at.After(last); at = at.Add(every) {
		firing := claim.ScheduledFiring(schedule.ID(id), entry.Status.Generation, at)
		if runs := r.runs[firing]; len(runs) != 1 {
			r.t.Errorf("%s was run by %v, want one run", firing, runs)
		}
	}
}

// A node is a worker on a cable of its own.
type node struct {
	*worker.Worker
	rig    *rig
	cable  *cable
	client *redis.Client
	stop   context.CancelFunc
	done   chan error
}

func (r *rig) node(id string, change func(*worker.Options)) *node {
	r.t.Helper()
	n := &node{rig: r, cable: &cable{memory: r.memory}, done: make(chan error, 1)}
	redisOptions := r.memory.Options()
	redisOptions.Dialer = n.cable.dial
	n.client = redis.NewClient(redisOptions)
	options := worker.Options{Redis: n.client, ID: id}
	if change != nil {
		change(&options)
	}
	var err error
	if n.Worker, err = worker.New(options); err != nil {
		r.t.Fatalf("New: %v", err)
	}
	return n
}

// start runs the node; tasks of type test are noted.
func (n *node) start() *node {
	n.HandleFunc("test", func(ctx context.Context, _ *asynq.Task) error {
		n.rig.ran(ctx, n.ID())
		return nil
	})
	ctx, cancel := context.WithCancel(n.rig.t.Context())
	n.stop = cancel
	go func() { n.done <- n.Run(ctx) }()
	return n
}

// halt stops the node, and returns how long that took.
func (n *node) halt() time.Duration {
	n.rig.t.Helper()
	began := time.Now()
	n.stop()
	if err := <-n.done; err != nil {
		n.rig.t.Errorf("Run of %s = %v, want nil", n.ID(), err)
	}
	if err := n.client.Close(); err != nil {
		n.rig.t.Errorf("closing the client: %v", err)
	}
	return time.Since(began)
}

func TestWorkerFiresRunsAndRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		start := time.Now()
		r.put("tick", "2s", "test")
		r.put("broken", "30s", "broken")
		n := r.node("a", func(o *worker.Options) {
			o.RetryDelay = func(int, error, *asynq.Task) time.Duration { return time.Second }
		})
		n.HandleFunc("broken", func(context.Context, *asynq.Task) error { return errors.New("no such account") })
		if err := n.Ready(t.Context()); err == nil {
			t.Error("Ready before Run = nil, want an error")
		}
		n.start()
		time.Sleep(time.Minute + 900*time.Millisecond)
		if err := errors.Join(n.Ready(t.Context()), n.Live()); err != nil {
			t.Errorf("Ready and Live = %v, want nil", err)
		}
		members, err := r.store.Members(t.Context(), time.Minute)
		if err != nil || len(members) != 1 || members[0].ID != "a" || !members[0].Claims || strings.Join(members[0].Types, ",") != "broken,test" || members[0].TimeZone != worker.TimeZoneFingerprint() {
			t.Errorf("roster: %+v, %v; want worker a with its types and its time zone data", members, err)
		}
		r.checkOnce("tick", start.Add(2*time.Second), start.Add(time.Minute), 2*time.Second)
		entry, err := r.store.Get(t.Context(), "tick")
		if err != nil || entry.Status.LastStatus != schedule.LastCompleted || entry.Status.RunCount != 30 {
			t.Errorf("status of tick: %+v, %v; want 30 completed runs", entry.Status, err)
		}
		entry, err = r.store.Get(t.Context(), "broken")
		if err != nil || entry.Status.LastStatus != schedule.LastFailed || entry.Status.LastError != "no such account" {
			t.Errorf("status of broken: %+v, %v; want failed with its error", entry.Status, err)
		}
		if took := n.halt(); took > 2*time.Second {
			t.Errorf("stopping an idle worker took %s, want at most 2s", took)
		}
		if members, err := r.store.Members(t.Context(), time.Minute); err != nil || len(members) != 0 {
			t.Errorf("roster after the stop: %+v, %v; want nobody", members, err)
		}
	})
}

// B010, B035: Redis comes up after the worker, and goes away again and again.
func TestB010AWorkerWaitsForRedisFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		start := time.Now()
		r.put("tick", "1s", "test")
		n := r.node("a", nil)
		n.cable.set(true)
		n.start()
		time.Sleep(30 * time.Second)
		if err := n.Ready(t.Context()); err == nil {
			t.Error("Ready without Redis = nil, want an error")
		}
		if err := n.Live(); err != nil {
			t.Errorf("Live without Redis = %v, want nil", err)
		}
		for range 3 {
			n.cable.set(false)
			back := time.Now()
			time.Sleep(10 * time.Second)
			if err := n.Ready(t.Context()); err != nil {
				t.Errorf("Ready with Redis back = %v, want nil", err)
			}
			r.checkOnce("tick", start.Add(time.Second), back.Add(5*time.Second), time.Second)
			n.cable.set(true)
			time.Sleep(15 * time.Second)
		}
		n.cable.set(false)
		time.Sleep(2 * time.Minute) // what ran when the cable was cut is begun anew after its lease
		n.halt()
		r.checkOnce("tick", start.Add(time.Second), start.Add(2*time.Minute), time.Second)
		if broken, err := r.store.Check(t.Context()); err != nil || len(broken) > 0 {
			t.Errorf("Check = %v, %v; want nothing", broken, err)
		}
	})
}

func TestThreeWorkersOneDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		start := time.Now()
		for _, name := range names(12) {
			r.put(name, "3s", "test")
		}
		nodes := []*node{r.node("a", nil).start(), r.node("b", nil).start(), r.node("c", nil).start()}
		time.Sleep(31 * time.Second)
		nodes[0].cable.set(true) // as good as dead
		time.Sleep(3 * time.Minute)
		for _, name := range names(12) {
			r.checkOnce(name, start.Add(3*time.Second), start.Add(180*time.Second), 3*time.Second)
		}
		for _, n := range nodes {
			n.halt()
		}
		time.Sleep(10 * time.Second) // go-redis dials for a while after its client is closed
	})
}

func TestStopLetsHandlersEnd(t *testing.T) {
	tests := []struct {
		name    string
		takes   time.Duration
		longest time.Duration
		ended   bool
	}{
		{"a handler that ends in time", 8 * time.Second, 9 * time.Second, true},
		{"a handler that never ends", time.Hour, 11 * time.Second, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.put("long", "once:2000-01-01T00:00:05Z", "long")
				n := r.node("a", func(o *worker.Options) { o.Drain = 10 * time.Second })
				var ended atomic.Bool
				n.HandleFunc("long", func(context.Context, *asynq.Task) error {
					time.Sleep(tt.takes)
					ended.Store(true)
					return nil
				})
				n.start()
				time.Sleep(6 * time.Second)
				took := n.halt()
				if took > tt.longest || ended.Load() != tt.ended {
					t.Errorf("the stop took %s and the handler ended: %v; want at most %s and %v", took, ended.Load(), tt.longest, tt.ended)
				}
				time.Sleep(2 * time.Hour) // the handler's goroutine must end before the bubble does
			})
		})
	}
}

func TestUnknownTypesAreLeftToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.put("special", "once:2000-01-01T00:00:05Z", "special")
		plain := r.node("a", nil).start()
		time.Sleep(20 * time.Second)
		other := r.node("b", nil)
		var ran []string
		other.HandleFunc("special", func(ctx context.Context, _ *asynq.Task) error {
			firing, _ := queue.FiringFrom(ctx)
			ran = append(ran, string(firing.ID))
			return nil
		})
		other.start()
		time.Sleep(2 * time.Minute)
		plain.halt()
		other.halt()
		if len(ran) != 1 {
			t.Errorf("the special task ran %d times, want once, by the worker that has its handler", len(ran))
		}
		entry, err := r.store.Get(t.Context(), "special")
		if err != nil || entry.Status.LastStatus != schedule.LastCompleted || entry.Status.FailCount != 0 {
			t.Errorf("status: %+v, %v; want completed without a failure", entry.Status, err)
		}
	})
}

func TestWorkerWithoutSchedulesClaimsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.put("tick", "1s", "test")
		n := r.node("a", func(o *worker.Options) { o.NoSchedules = true }).start()
		time.Sleep(time.Minute)
		if err := errors.Join(n.Ready(t.Context()), n.Live()); err != nil {
			t.Errorf("Ready and Live = %v, want nil", err)
		}
		if n.halt(); r.by("a") != 0 {
			t.Errorf("a worker without schedules ran %d firings", r.by("a"))
		}
	})
}

func TestNewRefuses(t *testing.T) {
	client := redis.NewClient(redistest.Options("127.0.0.1:1"))
	t.Cleanup(func() { _ = client.Close() })
	tests := []struct {
		field  string
		change func(*worker.Options)
	}{
		{"redis", func(o *worker.Options) { o.Redis = nil }},
		{"namespace", func(o *worker.Options) { o.Namespace = "a{b}" }},
		{"queues", func(o *worker.Options) { o.Queues = map[string]int{} }},
		{"queue", func(o *worker.Options) { o.Queues = map[string]int{"}x": 1} }},
		{"queues.low", func(o *worker.Options) { o.Queues = map[string]int{"low": 0} }},
		{"concurrency", func(o *worker.Options) { o.Concurrency = -1 }},
		{"enqueue_concurrency", func(o *worker.Options) { o.EnqueueConcurrency = 10_001 }},
		{"claim_ttl", func(o *worker.Options) { o.ClaimTTL = time.Millisecond }},
		{"batch", func(o *worker.Options) { o.Batch = -1 }},
		{"audit_after", func(o *worker.Options) { o.AuditAfter = time.Second }},
		{"lease", func(o *worker.Options) { o.Lease = -1 }},
		{"poll_interval", func(o *worker.Options) { o.PollInterval = time.Millisecond }},
		{"keep_runs", func(o *worker.Options) { o.KeepRuns = -1 }},
		{"keep_runs", func(o *worker.Options) { o.NoRunLog, o.KeepRuns = true, 1 }},
		{"drain", func(o *worker.Options) { o.Drain = -1 }},
		{"shards", func(o *worker.Options) { o.Shards = -1 }},
		{"skew_allowance", func(o *worker.Options) { o.SkewAllowance = -1 }},
		{"idle_sleep", func(o *worker.Options) { o.IdleSleep = -1 }},
	}
	for _, tt := range tests {
		options := worker.Options{Redis: client}
		tt.change(&options)
		_, err := worker.New(options)
		var field *schedule.FieldError
		if !errors.As(err, &field) || field.Field != tt.field {
			t.Errorf("New with a bad %s = %v, want a *FieldError of that field", tt.field, err)
		}
	}
	w, err := worker.New(worker.Options{Redis: client})
	if err != nil {
		t.Fatalf("New with Redis alone = %v", err)
	}
	if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "Handle") {
		t.Errorf("Run without handlers = %v, want an error that names Handle", err)
	}
}

func TestHandlePanicsOnFaultsOfTheProgram(t *testing.T) {
	client := redis.NewClient(redistest.Options("127.0.0.1:1"))
	t.Cleanup(func() { _ = client.Close() })
	w, err := worker.New(worker.Options{Redis: client})
	if err != nil {
		t.Fatal(err)
	}
	nop := func(context.Context, *asynq.Task) error { return nil }
	w.HandleFunc("twice", nop)
	for name, register := range map[string]func(){
		"a type with a space": func() { w.HandleFunc("a b", nop) },
		"nil":                 func() { w.Handle("x", nil) },
		"nil function":        func() { w.HandleFunc("x", nil) },
		"twice":               func() { w.HandleFunc("twice", nop) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			register()
		})
	}
}
