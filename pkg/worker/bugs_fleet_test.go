package worker_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/pkg/worker"
)

// More reports by number: those about a whole fleet, its members that come
// and go, and the Redis below it.

// queued counts the tasks of a queue by state.
func (r *rig) queued(name string) asynq.QueueInfo {
	r.t.Helper()
	client := r.memory.Client()
	info, err := asynq.NewInspectorFromRedisClient(client).GetQueueInfo(name)
	if err != nil {
		r.t.Fatalf("queue %s: %v", name, err)
	}
	return *info
}

// B001: every replica registers the same schedule; each scheduled time is one
// task all the same.
func TestB001EveryReplicaRegistersTheSameSchedule(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		start := time.Now()
		var nodes []*node
		for _, name := range names(5) {
			r.change("tick", "1s", nil) // as a program does at its start
			nodes = append(nodes, r.node(name, nil).start())
		}
		time.Sleep(time.Minute + 500*time.Millisecond)
		for _, n := range nodes {
			n.halt()
		}
		r.wantTimes("tick", every(start.Add(time.Second), time.Second, 60)...)
		if q := r.queued("default"); q.Size != 60 || q.Completed != 60 {
			t.Errorf("%d tasks, %d of them completed; want 60", q.Size, q.Completed)
		}
	})
}

// B018: Redis comes back empty. The worker goes on, and what is applied again
// is there once.
func TestB018AnEmptyRedisIsFilledAgain(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.change("tick", "10s", nil)
		n := r.node("one", nil).start()
		time.Sleep(25 * time.Second)
		r.memory.Server().FlushAll()
		time.Sleep(time.Minute)
		if stats, err := r.store.Stats(t.Context()); err != nil || stats.Total != 0 {
			t.Errorf("stats %+v, %v; want no schedules", stats, err)
		}
		before := len(r.times("tick"))
		again := time.Now()
		r.change("tick", "10s", nil)
		time.Sleep(30 * time.Second)
		n.halt()
		if before != 2 {
			t.Errorf("%d runs until Redis was emptied, want 2", before)
		}
		for at, times := range r.times("tick") {
			if times != 1 {
				t.Errorf("%s ran %d times", at, times)
			}
		}
		if after := len(r.times("tick")) - before; after != 3 {
			t.Errorf("%d runs in 30 s from %s on, want 3", after, again)
		}
		if stats, err := r.store.Stats(t.Context()); err != nil || stats.Total != 1 {
			t.Errorf("stats %+v, %v; want one schedule", stats, err)
		}
	})
}

// B030: nobody consumes the queue; the schedule goes on, one task for each
// scheduled time, or one in all when a waiting one is enough.
func TestB030SchedulesGoOnWithoutConsumers(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.change("each", "10s", func(s *schedule.Schedule) { s.Queue = "each" })
		r.change("one", "10s", func(s *schedule.Schedule) { s.Queue, s.Overlap = "one", schedule.OverlapSkip })
		n := r.node("elsewhere", func(o *worker.Options) { o.Queues = map[string]int{"other": 1} }).start()
		time.Sleep(5*time.Minute + 5*time.Second)
		n.halt()
		if q := r.queued("each"); q.Pending != 30 {
			t.Errorf("%d tasks wait after 30 scheduled times, want 30", q.Pending)
		}
		if q := r.queued("one"); q.Pending != 1 {
			t.Errorf("%d tasks wait with overlap skip, want 1", q.Pending)
		}
	})
}

// B039: a Redis that evicts takes the keys that carry a TTL. Nothing rests on
// them. TestEvictionIsWarnedAbout is about the warning.
func TestB039NothingRestsOnKeysWithATTL(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		start := time.Now()
		for _, name := range names(5) {
			r.put(name, "1s", "test")
		}
		one, two := r.node("one", nil).start(), r.node("two", nil).start()
		evicted := 0
		for range 120 { // 60 s
			time.Sleep(500 * time.Millisecond)
			server := r.memory.Server()
			for _, key := range server.Keys() {
				if server.TTL(key) > 0 && server.Del(key) {
					evicted++
				}
			}
		}
		time.Sleep(200 * time.Millisecond)
		one.halt()
		two.halt()
		if evicted == 0 {
			t.Fatal("no key had a TTL: the test takes nothing away")
		}
		for _, name := range names(5) {
			r.wantTimes(name, every(start.Add(time.Second), time.Second, 60)...)
		}
	})
}

// B076: workers die one after the other, every five seconds; whoever lives
// serves what is due, at most a claim's TTL late.
func TestB076WorkersDieInTurn(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		start := time.Now()
		for _, name := range names(4) {
			r.put(name, "1s", "test")
		}
		const ttl = 2 * time.Second
		join := func(i int) *node {
			return r.node(fmt.Sprintf("n%02d", i), func(o *worker.Options) { o.ClaimTTL = ttl }).start()
		}
		nodes := []*node{join(0), join(1), join(2)}
		for i := range 12 { // a minute
			time.Sleep(5*time.Second + 100*time.Millisecond) // runs of this second have ended
			nodes[i].cable.set(true)                         // for ever: as good as killed
			nodes = append(nodes, join(i+3))
		}
		until := time.Now().Add(-ttl - 2*time.Second)
		time.Sleep(5 * time.Second)
		for _, n := range nodes {
			n.halt()
		}
		for _, name := range names(4) {
			r.checkOnce(name, start.Add(time.Second), until, time.Second)
		}
		time.Sleep(10 * time.Second) // go-redis dials for a while after its client is closed
	})
}

// B080, B102: 600 schedules of the same minute, and a pool of few connections:
// the pool is never above its limit and nobody waits for it in vain.
func TestB080ABurstStaysWithinThePool(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		start := time.Now()
		all := names(600)
		for _, name := range all {
			r.change(name, "* * * * *", nil)
		}
		n := r.node("one", nil)
		n.client.Close() // its pool is too large for this test
		options := r.memory.Options()
		options.PoolSize, options.Dialer = 3, n.cable.dial
		n.client = redis.NewClient(options)
		var err error
		if n.Worker, err = worker.New(worker.Options{Redis: n.client, ID: "one"}); err != nil {
			t.Fatal(err)
		}
		n.start()
		most := uint32(0)
		for range 110 { // 66 s
			time.Sleep(600 * time.Millisecond)
			most = max(most, n.client.PoolStats().TotalConns)
		}
		stats := n.client.PoolStats()
		n.halt()
		if most > 3 || stats.Timeouts > 0 {
			t.Errorf("%d connections at a time and %d that waited in vain, want at most 3 and none", most, stats.Timeouts)
		}
		for _, name := range all {
			r.wantTimes(name, every(start.Truncate(time.Minute).Add(time.Minute), time.Minute, 1)...)
		}
	})
}

// B083: a worker is cut off for two leases while another works, and comes
// back believing what it believed: no scheduled time is enqueued twice.
func TestB083AWorkerThatWasCutOffRepeatsNothing(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		start := time.Now()
		for _, name := range names(3) {
			r.put(name, "1s", "test")
		}
		one, two := r.node("one", nil).start(), r.node("two", nil).start()
		time.Sleep(20*time.Second + 500*time.Millisecond) // no run is going on
		one.cable.set(true)
		time.Sleep(time.Minute) // six claim TTLs, two execution leases
		if err := one.Ready(t.Context()); err == nil {
			t.Error("a worker that is cut off calls itself ready")
		}
		one.cable.set(false)
		time.Sleep(20 * time.Second)
		late := r.by("one")
		time.Sleep(20 * time.Second)
		one.halt()
		two.halt()
		if r.by("one") == late {
			t.Error("the worker that came back takes no part")
		}
		for _, name := range names(3) {
			r.wantTimes(name, every(start.Add(time.Second), time.Second, 120)...)
		}
		if q := r.queued("default"); q.Size != 3*120 {
			t.Errorf("%d tasks for %d scheduled times", q.Size, 3*120)
		}
	})
}

// B110: workers are stopped in rotation, as a deployment does, while fifteen
// firings a second go on: nothing in progress is dropped.
func TestB110ARollingDeploymentDropsNothing(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		start := time.Now()
		for _, name := range names(15) {
			r.put(name, "1s", "test")
		}
		join := func(i int) *node { return r.node(fmt.Sprintf("n%02d", i), nil).start() }
		nodes := []*node{join(0), join(1), join(2)}
		var stopping sync.WaitGroup
		for i := range 15 { // half a minute
			time.Sleep(2*time.Second + time.Duration(i%3)*time.Millisecond) // before, at and after a second
			stopping.Go(func() { nodes[i].halt() })
			nodes = append(nodes, join(i+3))
		}
		time.Sleep(5 * time.Second)
		stopping.Wait()
		for _, n := range nodes[15:] {
			n.halt()
		}
		for _, name := range names(15) {
			r.checkOnce(name, start.Add(time.Second), start.Add(30*time.Second), time.Second)
		}
	})
}

// B025: what an idle worker asks for does not depend on how many schedules
// there are.
func TestB025AnIdleWorkerDoesNotSeeHowManyThereAre(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		var commands []int
		for _, many := range []int{10, 1000} {
			r := newRig(t)
			for _, name := range names(many) {
				r.change(name, "0 0 1 7 *", nil)
			}
			n := r.node("one", nil)
			count := &counter{}
			n.client.AddHook(count)
			n.start()
			time.Sleep(5 * time.Minute)
			n.halt()
			commands = append(commands, count.n)
		}
		if commands[1] > commands[0]+commands[0]/10 {
			t.Errorf("%d commands in five minutes with 10 schedules and %d with 1,000", commands[0], commands[1])
		}
	})
}

// A counter counts commands, each of a pipeline too.
type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.add(1)
		return next(ctx, cmd)
	}
}

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.add(len(cmds))
		return next(ctx, cmds)
	}
}

func (c *counter) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += n
}
