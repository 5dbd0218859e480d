package bench

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/pkg/worker"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

const (
	dueAtOnce   = 10_000 // schedules due in the same second
	plainGroups = 64     // goroutines of the plain client
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

// BenchmarkTenThousandDueInTheSameSecond prints how long one worker takes from
// the due time until all tasks are in their queue, the slowest script on the
// server's own account, the rate as a ratio of a plain asynq client that only
// enqueues, in the same run, and the CPU time of both processes for each
// firing: on a busy machine that says more than the time that passed.
func BenchmarkTenThousandDueInTheSameSecond(b *testing.B) {
	for b.Loop() {
		server := redistest.Start(b, redistest.ServerOptions{Args: []string{"--slowlog-log-slower-than", "500", "--slowlog-max-len", "100000"}})
		client := server.Client()
		plain := plainEnqueue(b, server)
		due := putDue(b, client)
		before := cpuUsed(b, client)
		took := fire(b, client, due)
		used := cpuUsed(b, client).since(before)
		slowest, name := slowestScript(b, client)
		b.ReportMetric(took.Seconds(), "s-until-enqueued")
		b.ReportMetric(dueAtOnce/took.Seconds(), "firings/s")
		b.ReportMetric(plain, "plain-enqueues/s")
		b.ReportMetric(dueAtOnce/took.Seconds()/plain, "ratio")
		b.ReportMetric(float64(slowest)/float64(time.Millisecond), "slowest-script-ms")
		b.ReportMetric(float64(used.redis.Microseconds())/dueAtOnce, "redis-us/firing")
		b.ReportMetric(float64(used.worker.Microseconds())/dueAtOnce, "worker-us/firing")
		b.Logf("slowest script: %s (%s)", slowest, name)
	}
}

// payload is what every task carries.
var payload = []byte(`{"account":12345,"report":"nightly","format":"pdf","to":"ops@example.org"}`)

// plainEnqueue returns the rate of asynq's own client with 64 goroutines.
func plainEnqueue(b *testing.B, server *redistest.Server) float64 {
	b.Helper()
	options := redistest.Options(server.Addr())
	options.PoolSize = plainGroups
	conn := redis.NewClient(options)
	defer conn.Close()
	client := asynq.NewClientFromRedisClient(conn)
	var group sync.WaitGroup
	started := time.Now()
	for g := range plainGroups {
		group.Go(func() {
			for i := g; i < dueAtOnce; i += plainGroups {
				task := asynq.NewTask("report:build", payload)
				_, err := client.Enqueue(task, asynq.TaskID(fmt.Sprintf("plain-%d", i)), asynq.Queue("plain"), asynq.Retention(10*time.Minute))
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	group.Wait()
	return dueAtOnce / time.Since(started).Seconds()
}

// putDue stores the schedules and returns when they are due.
func putDue(b *testing.B, client redis.UniversalClient) time.Time {
	b.Helper()
	store := open(b, client)
	due := time.Now().Add(15 * time.Second).Truncate(time.Second)
	definitions := make([]schedule.Schedule, dueAtOnce)
	for i := range definitions {
		definitions[i] = schedule.Schedule{ID: schedule.ID(fmt.Sprintf("due-%05d", i)), Type: "report:build", Payload: payload,
			Specs: []schedule.SpecDefinition{{Every: 24 * time.Hour, Anchor: due}}}
	}
	started := time.Now()
	results, err := store.PutMany(b.Context(), definitions, schedule.PutOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for i, r := range results {
		if r.Err != nil || !r.NextAt.Equal(due) {
			b.Fatalf("%s: next %s, want %s: %v", definitions[i].ID, r.NextAt, due, r.Err)
		}
	}
	took := time.Since(started)
	b.ReportMetric(dueAtOnce/took.Seconds(), "puts/s")
	if !time.Now().Before(due) {
		b.Fatalf("storing took %s; nothing is left to wait for", took)
	}
	return due
}

func open(b *testing.B, client redis.UniversalClient) *redisstore.Store {
	b.Helper()
	store, err := redisstore.New(client, redisstore.Options{Namespace: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	return store
}

// fire runs one scheduler until all are enqueued and returns how long that
// took from the due time.
func fire(b *testing.B, client redis.UniversalClient, due time.Time) time.Duration {
	b.Helper()
	store := open(b, client)
	enqueuer, err := queue.NewEnqueuer(queue.EnqueuerOptions{Redis: client})
	if err != nil {
		b.Fatal(err)
	}
	defer enqueuer.Close()
	auditor, err := queue.NewAuditor(queue.AuditorOptions{Ledger: store, Catalog: store, Enqueuer: enqueuer, Redis: client})
	if err != nil {
		b.Fatal(err)
	}
	count := &counter{all: make(chan time.Time, 1)}
	scheduler, err := worker.NewScheduler(worker.SchedulerOptions{Definitions: store, Claims: store, Settler: store, Waker: store,
		Enqueuer: enqueuer, Auditor: auditor, ID: "bench", Observer: count})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- scheduler.Run(ctx) }()
	var last time.Time
	select {
	case last = <-count.all:
	case <-time.After(time.Until(due) + time.Minute):
		b.Error("not all were enqueued within a minute")
	}
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	if n := client.LLen(b.Context(), "asynq:{default}:pending").Val(); n != dueAtOnce {
		b.Fatalf("%d tasks are pending, want %d", n, dueAtOnce)
	}
	return last.Sub(due)
}

// A counter tells when the last claim was completed with its task enqueued.
type counter struct {
	worker.NopObserver
	mu  sync.Mutex
	n   int
	all chan time.Time
}

func (c *counter) Decided(e worker.DecidedEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n++; c.n == dueAtOnce {
		c.all <- time.Now()
	}
}

// slowestScript returns the longest run of a script in Redis's slow log.
func slowestScript(b *testing.B, client redis.UniversalClient) (time.Duration, string) {
	b.Helper()
	entries, err := client.(*redis.Client).SlowLogGet(b.Context(), -1).Result()
	if err != nil {
		b.Fatal(err)
	}
	var slowest time.Duration
	name := "none above 0.5 ms"
	for _, e := range entries {
		if len(e.Args) == 0 || !strings.HasPrefix(strings.ToLower(e.Args[0]), "eval") || e.Duration <= slowest {
			continue
		}
		slowest, name = e.Duration, fmt.Sprintf("%s with %d arguments", e.Args[0], len(e.Args))
	}
	return slowest, name
}

// A cpu is processor time, of the server and of this process.
type cpu struct{ redis, worker time.Duration }

func (c cpu) since(before cpu) cpu { return cpu{c.redis - before.redis, c.worker - before.worker} }

func cpuUsed(b *testing.B, client redis.UniversalClient) cpu {
	b.Helper()
	text, err := client.Info(b.Context(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	var used cpu
	for line := range strings.SplitSeq(text, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		if name != "used_cpu_user" && name != "used_cpu_sys" {
			continue
		}
		seconds, err := strconv.ParseFloat(value, 64)
		if err != nil {
			b.Fatal(err)
		}
		used.redis += time.Duration(seconds * float64(time.Second))
	}
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		b.Fatal(err)
	}
	used.worker = time.Duration(self.Utime.Nano() + self.Stime.Nano())
	return used
}
