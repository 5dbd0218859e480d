package worker_test

import (
	"context"
	"sync"
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

// plainQueue is consumed by plain asynq servers only.
const plainQueue = "plain"

// A plainRun is what a plain consumer saw of one task.
type plainRun struct {
	firing     claim.FiringID
	from, to   time.Time
	cancelled  bool
	overlapped bool // another was running when it began
}

// A plainServer is an asynq server that knows nothing of Belfry.
type plainServer struct {
	mu      sync.Mutex
	running int
	runs    []plainRun
	stop    func()
}

// servePlain runs tasks for the given time each, or until they are cancelled.
func servePlain(t *testing.T, client redis.UniversalClient, takes time.Duration) *plainServer {
	t.Helper()
	p := &plainServer{}
	server := asynq.NewServerFromRedisClient(client, asynq.Config{Concurrency: 5, Queues: map[string]int{plainQueue: 1},
		TaskCheckInterval: 50 * time.Millisecond, Logger: queue.NewAsynqLogger(nil), ShutdownTimeout: time.Second})
	err := server.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		firing, ok := queue.FiringOf(task)
		if !ok {
			t.Error("a task without the headers of a firing")
		}
		run := plainRun{firing: firing.ID, from: time.Now()}
		p.mu.Lock()
		run.overlapped = p.running > 0
		p.running++
		p.mu.Unlock()
		timer := time.NewTimer(takes)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			run.cancelled = true
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		run.to = time.Now()
		p.running--
		p.runs = append(p.runs, run)
		if run.cancelled {
			return ctx.Err()
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	p.stop = server.Shutdown
	return p
}

func (p *plainServer) all() []plainRun {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]plainRun(nil), p.runs...)
}

// putPlain stores a schedule whose tasks plain consumers run.
func putPlain(t *testing.T, store *redisstore.Store, expression string, policy schedule.Overlap, change ...func(*schedule.Schedule)) {
	t.Helper()
	s := schedule.Schedule{ID: "plain", Expression: expression, Type: "test", Queue: plainQueue, Overlap: policy,
		Missed: schedule.MissedAll, CatchUp: time.Minute}
	for _, c := range change {
		c(&s)
	}
	if _, err := store.Put(t.Context(), s, schedule.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

// counts sums up the verdicts of a schedule.
func counts(t *testing.T, store *redisstore.Store) map[schedule.Verdict]int64 {
	t.Helper()
	entry, err := store.Get(t.Context(), "plain")
	if err != nil {
		t.Fatal(err)
	}
	n := map[schedule.Verdict]int64{}
	for _, v := range entry.Status.Verdicts {
		n[v.Verdict] += v.Count
	}
	return n
}

// With an audit only after minutes, skip is right all the same: who meets an
// open firing looks at its task first.
func TestSkipWithPlainConsumersLooksBeforeItSkips(t *testing.T) {
	tests := []struct {
		name               string
		takes              time.Duration
		fired, overlapped  int64 // in a minute of a schedule of every 2 s
		leastRuns, mostOff int
	}{
		{"tasks that end in time", 200 * time.Millisecond, 30, 0, 29, 0},
		{"tasks that take three periods", 5 * time.Second, 10, 20, 9, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				n := r.node("one", func(o *worker.Options) { o.AuditAfter = 5 * time.Minute }).start()
				plain := servePlain(t, r.memory.Client(), tt.takes)
				putPlain(t, r.store, "2s", schedule.OverlapSkip)
				time.Sleep(time.Minute + time.Second)
				got := counts(t, r.store)
				if got[schedule.VerdictFired] != tt.fired || got[schedule.VerdictOverlap] != tt.overlapped {
					t.Errorf("verdicts %v, want %d fired and %d overlapping", got, tt.fired, tt.overlapped)
				}
				for _, run := range plain.all() {
					if run.overlapped {
						t.Errorf("%s ran beside another", run.firing)
					}
				}
				if len(plain.all()) < tt.leastRuns {
					t.Errorf("%d runs, want at least %d", len(plain.all()), tt.leastRuns)
				}
				n.halt()
				plain.stop()
			})
		})
	}
}

func TestBufferWithPlainConsumersRunsOneAfterTheOther(t *testing.T) {
	for _, policy := range []schedule.Overlap{schedule.OverlapBufferOne, schedule.OverlapBufferAll} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				n := r.node("one", func(o *worker.Options) { o.AuditAfter = 5 * time.Minute }).start()
				plain := servePlain(t, r.memory.Client(), 3*time.Second)
				putPlain(t, r.store, "2s", policy, func(s *schedule.Schedule) { s.Ends = time.Now().Add(13 * time.Second) })
				time.Sleep(2 * time.Minute)
				runs := plain.all()
				for i, run := range runs {
					if run.overlapped {
						t.Errorf("%s ran beside another", run.firing)
					}
					if i > 0 && run.firing <= runs[i-1].firing {
						t.Errorf("%s ran after %s", run.firing, runs[i-1].firing)
					}
				}
				// Of six in 12 s buffer_all runs all; buffer_one keeps one beside the
				// one that runs, and gives the others their verdict.
				got := counts(t, r.store)
				fired, overlapped := got[schedule.VerdictFired], got[schedule.VerdictOverlap]
				if int(fired) != len(runs) || fired+overlapped != 6 || policy == schedule.OverlapBufferAll && fired != 6 || fired < 4 {
					t.Errorf("%d fired, %d overlapped, %d runs of 6", fired, overlapped, len(runs))
				}
				n.halt()
				plain.stop()
			})
		})
	}
}

// A task that waits in its queue is deleted, one that runs is asked to stop.
func TestCancelOtherWithPlainConsumers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		n := r.node("one", func(o *worker.Options) { o.AuditAfter = 5 * time.Minute }).start()
		putPlain(t, r.store, "10s", schedule.OverlapCancelOther, func(s *schedule.Schedule) { s.Limit = 5 })
		time.Sleep(35 * time.Second)
		inspector := asynq.NewInspectorFromRedisClient(r.memory.Client())
		pending, err := inspector.ListPendingTasks(plainQueue)
		if err != nil || len(pending) != 1 {
			t.Errorf("pending tasks: %d, %v; want only the newest", len(pending), err)
		}
		plain := servePlain(t, r.memory.Client(), time.Hour)
		time.Sleep(30 * time.Second)
		runs := plain.all()
		if len(runs) != 2 || !runs[0].cancelled || !runs[1].cancelled {
			t.Errorf("runs that ended: %+v, want the third and fourth, cancelled", runs)
		}
		for _, run := range runs {
			if took := run.to.Sub(run.from); took > 10*time.Second {
				t.Errorf("%s was cancelled after %s", run.firing, took)
			}
		}
		plain.stop()
		n.halt()
	})
}

// The same on a real server and a real clock, for a few seconds.
func TestSkipWithPlainConsumersOnRedis(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time")
	}
	t.Parallel()
	server := redistest.Start(t, redistest.ServerOptions{})
	client := server.Client()
	store, err := redisstore.New(client, redisstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := worker.New(worker.Options{Redis: client, AuditAfter: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	w.HandleFunc("nothing", func(context.Context, *asynq.Task) error { return nil })
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	plain := servePlain(t, client, 100*time.Millisecond)
	putPlain(t, store, "500ms", schedule.OverlapSkip, func(s *schedule.Schedule) { s.Limit = 6 })
	deadline, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for len(plain.all()) < 6 && deadline.Err() == nil {
		select {
		case <-tick.C:
		case <-deadline.Done():
		}
	}
	got := counts(t, store)
	// A machine that stalls for a period may let one overlap.
	if got[schedule.VerdictFired] != 6 || got[schedule.VerdictOverlap] > 2 {
		t.Errorf("verdicts %v, want 6 fired and next to none overlapping: the tasks end in time", got)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	plain.stop()
}
