package chaos

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/redis/go-redis/v9"
)

// Times of the fleet test, from its start.
const (
	fleetSchedules = 200
	fleetClaimTTL  = 5 * time.Second
	fleetKillAt    = 15 * time.Second
	fleetStopAt    = 20 * time.Second
	fleetContAt    = fleetStopAt + 3*fleetClaimTTL
	fleetPauseAt   = 60 * time.Second
	fleetRunTime   = 700 * time.Millisecond // of each run, so that faults meet runs that are going on
	fleetSettled   = 45 * time.Second       // after the kill, and after the pause
)

// A fleet is a redis-server, its store as seen by the test, and what its
// workers and admin commands need in their environment.
type fleet struct {
	redis  *redistest.Server
	client *redis.Client
	store  *redisstore.Store
	sink   *sink
	env    map[string]string
}

func newFleet(t *testing.T, options redistest.ServerOptions) *fleet {
	t.Helper()
	if testing.Short() {
		t.Skip("real processes and real time: not in short mode")
	}
	f := &fleet{redis: redistest.Start(t, options), sink: newSink(t)}
	namespace := redistest.Namespace()
	f.client = f.redis.Client()
	store, err := redisstore.New(f.client, redisstore.Options{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	f.store = store
	f.env = map[string]string{
		"BELFRY_REDIS_URL":  "redis://" + f.redis.Addr() + "/0",
		"BELFRY_NAMESPACE":  namespace,
		"BELFRY_HTTP_HOSTS": f.sink.host(),
		"BELFRY_HTTP_ADDR":  "off",
	}
	return f
}

func (f *fleet) worker(t *testing.T, name string, more map[string]string) *process {
	t.Helper()
	env := maps.Clone(f.env)
	maps.Copy(env, more)
	return startWorker(t, name, env)
}

// file renders n schedules of 1 s to 5 s that post to the sink.
func (f *fleet) file(n int) string {
	var b strings.Builder
	b.WriteString("schedules:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {id: job-%03d, labels: {suite: chaos}, expression: \"%ds\", missed: all, catch_up: 1h, type: http, payload: {method: POST, url: \"http://%s/\"}}\n",
			i, 1+i%5, f.sink.host())
	}
	return b.String()
}

func (f *fleet) stats(t *testing.T) schedule.Stats {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	s, err := f.store.Stats(ctx)
	if err != nil {
		t.Fatalf("stats: %v", err)
	}
	return s
}

// at waits until d after start.
func at(start time.Time, d time.Duration) { <-time.After(time.Until(start.Add(d))) }

// duringRuns waits until runs are going on at about the given time: everything
// is due at whole seconds.
func duringRuns(about time.Time) {
	<-time.After(time.Until(about.Truncate(time.Second).Add(fleetRunTime / 2)))
}

func TestThreeWorkersShareTheWorkThroughAKillAndAStop(t *testing.T) {
	t.Parallel()
	f := newFleet(t, redistest.ServerOptions{AOF: true})
	short := map[string]string{
		"BELFRY_CLAIM_TTL":       fleetClaimTTL.String(),
		"BELFRY_EXECUTION_LEASE": "5s",
		"BELFRY_AUDIT_AFTER":     fleetClaimTTL.String(),
		"BELFRY_KEEP_RUNS":       "1000",
		"BELFRY_CONCURRENCY":     "50",
	}
	f.sink.hold.Store(int64(fleetRunTime))
	one, two, three := f.worker(t, "one", short), f.worker(t, "two", short), f.worker(t, "three", short)
	mustAdmin(t, f.env, f.file(fleetSchedules), "apply", "-f", "-")
	first := f.firstTimes(t)
	start := time.Now()

	duringRuns(start.Add(fleetKillAt))
	two.signal(syscall.SIGKILL)
	killed := time.Now()
	duringRuns(start.Add(fleetStopAt))
	three.signal(syscall.SIGSTOP)
	stopped := time.Now()
	at(start, fleetContAt)
	three.signal(syscall.SIGCONT)

	at(start, fleetKillAt+fleetSettled)
	if open := f.openBefore(t, killed); len(open) > 0 {
		t.Errorf("%s after the kill, %d firings from before it are open: %v", fleetSettled, len(open), open[:min(5, len(open))])
	}
	at(start, fleetPauseAt)
	mustAdmin(t, f.env, "", "schedule", "pause", "-l", "suite=chaos", "--reason", "the end")
	if !eventually(t, time.Now().Add(fleetSettled), func() bool { return f.stats(t).Open == 0 }) {
		t.Errorf("%s after the pause %d firings are still open", fleetSettled, f.stats(t).Open)
	}

	j := f.judge(t, first, fleetPauseAt)
	j.onlyRepeatedAt(t, killed, stopped)
	if j.redriven == 0 {
		t.Error("no firing was re-driven: the faults met no run that was going on")
	}
	one.signal(syscall.SIGTERM)
	three.signal(syscall.SIGTERM)
	if code := one.wait(t, 30*time.Second); code != 0 {
		t.Errorf("a worker that was told to stop ended with %d", code)
	}
	if code := three.wait(t, 30*time.Second); code != 0 {
		t.Errorf("the worker that had been stopped ended with %d", code)
	}
}

func TestRedisMayBeAwayForTenSeconds(t *testing.T) {
	t.Parallel()
	f := newFleet(t, redistest.ServerOptions{AOF: true})
	quick := map[string]string{"BELFRY_KEEP_RUNS": "1000", "BELFRY_CLAIM_TTL": "5s", "BELFRY_AUDIT_AFTER": "5s",
		"BELFRY_EXECUTION_LEASE": "5s", "BELFRY_LOG_FORMAT": "json"}
	workers := []*process{f.worker(t, "one", quick), f.worker(t, "two", quick)}
	mustAdmin(t, f.env, f.file(20), "apply", "-f", "-")
	first := f.firstTimes(t)
	start := time.Now()

	at(start, 5*time.Second)
	f.redis.Stop()
	at(start, 15*time.Second)
	f.redis.Restart()
	at(start, 25*time.Second)
	mustAdmin(t, f.env, "", "schedule", "pause", "-l", "suite=chaos")
	if !eventually(t, time.Now().Add(fleetSettled), func() bool { return f.stats(t).Open == 0 }) {
		t.Errorf("%d firings are still open", f.stats(t).Open)
	}
	f.judge(t, first, 25*time.Second)
	for _, w := range workers {
		if n := strings.Count(w.text(), "waiting for Redis"); n != 1 {
			t.Errorf("%s said %d times that it waits for Redis, want once:\n%s", w.name, n, w.tail(30))
		}
		w.signal(syscall.SIGTERM)
		if code := w.wait(t, 30*time.Second); code != 0 {
			t.Errorf("%s ended with %d", w.name, code)
		}
	}
}
