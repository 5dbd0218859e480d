package worker_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/worker"
)

// Reports by number that need a Redis of their own, in real time.

// A realWorker is a worker on a real Redis and what it ran.
type realWorker struct {
	*worker.Worker
	rig  *rig
	stop context.CancelFunc
	done chan error
}

// startReal starts a worker with n schedules of one second on the client, after
// what prepare does to it.
func startReal(t *testing.T, client *redis.Client, n int, prepare ...func(*worker.Worker)) *realWorker {
	t.Helper()
	namespace := redistest.Namespace()
	store, err := redisstore.New(client, redisstore.Options{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	w := &realWorker{rig: &rig{t: t, store: store, runs: map[claim.FiringID][]string{}}, done: make(chan error, 1)}
	if w.Worker, err = worker.New(worker.Options{Redis: client, Namespace: namespace, ClaimTTL: 2 * time.Second, AuditAfter: 2 * time.Second, Lease: 2 * time.Second}); err != nil {
		t.Fatal(err)
	}
	w.HandleFunc("test", func(ctx context.Context, _ *asynq.Task) error {
		w.rig.ran(ctx, "one")
		return nil
	})
	for _, name := range names(n) {
		w.rig.put(name, "1s", "test")
	}
	for _, f := range prepare {
		f(w.Worker)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w.stop = cancel
	go func() { w.done <- w.Run(ctx) }()
	return w
}

func (w *realWorker) halt() {
	w.rig.t.Helper()
	w.stop()
	if err := <-w.done; err != nil {
		w.rig.t.Errorf("Run = %v, want nil", err)
	}
}

// newest is the newest scheduled time that ran.
func (w *realWorker) newest(id string) (newest time.Time) {
	for at := range w.rig.times(id) {
		if at.After(newest) {
			newest = at
		}
	}
	return newest
}

// wantAllOnce wants every second from the first run up to the newest, each run
// once: nothing was lost and nothing came twice.
func (w *realWorker) wantAllOnce(id string) {
	w.rig.t.Helper()
	w.wantAll(id, func(runs int) bool { return runs == 1 })
}

// wantAll wants every second from the first run up to the newest, each run as
// often as ok says.
func (w *realWorker) wantAll(id string, ok func(runs int) bool) {
	w.rig.t.Helper()
	ran := w.rig.times(id)
	first := w.newest(id)
	for at := range ran {
		if at.Before(first) {
			first = at
		}
	}
	for at := first; !at.After(w.newest(id)); at = at.Add(time.Second) {
		if !ok(ran[at]) {
			w.rig.t.Errorf("%s at %s ran %d times", id, at.Format(time.TimeOnly), ran[at])
		}
	}
}

// awaitNewer waits until something that is due after the given time ran.
func (w *realWorker) awaitNewer(id string, after time.Time, bound time.Duration) bool {
	limit := time.After(bound)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !w.newest(id).After(after) {
		select {
		case <-limit:
			return false
		case <-tick.C:
		}
	}
	return true
}

// B040: Redis is at its memory limit and refuses every write. The worker says
// so; once there is room, what was missed follows, and nothing comes twice.
func TestB040ARedisWithoutMemoryLosesNothing(t *testing.T) {
	long(t)
	t.Parallel()
	server := redistest.Start(t, redistest.ServerOptions{})
	admin := server.Client()
	w := startReal(t, server.Client(), 5)
	limit := func(bytes string) time.Time {
		t.Helper()
		if err := admin.ConfigSet(t.Context(), "maxmemory", bytes).Err(); err != nil {
			t.Fatal(err)
		}
		return time.Now()
	}
	if !w.awaitNewer("s00", time.Time{}, 30*time.Second) {
		t.Fatal("nothing ran")
	}
	full := limit("1") // the policy is noeviction
	<-time.After(8 * time.Second)
	if err := w.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("Ready of a worker whose Redis is full = %v, want its OOM", err)
	}
	if newest := w.newest("s00"); newest.After(full.Add(2 * time.Second)) {
		t.Fatalf("%s ran while Redis refused writes since %s: the test tests nothing", newest, full)
	}
	room := limit("0")
	for _, name := range names(5) {
		if !w.awaitNewer(name, room, 30*time.Second) {
			t.Errorf("%s: newest run is for %s, half a minute after there was room again at %s", name, w.newest(name), room)
		}
	}
	w.halt()
	for _, name := range names(5) {
		w.wantAllOnce(name)
	}
	if broken, err := w.rig.store.Check(t.Context()); err != nil || len(broken) > 0 {
		t.Errorf("Check = %v, %v; want nothing", broken, err)
	}
}

// A pair is two servers of which one is the master, and the one that says
// which, as Sentinel does. Connections that are open stay open over a change.
type pair struct {
	servers [2]*redistest.Server
	clients [2]*redis.Client

	mu     sync.Mutex
	master int
	dials  [2]int
}

func startPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{}
	for i := range p.servers {
		p.servers[i] = redistest.Start(t, redistest.ServerOptions{Args: []string{"--repl-diskless-sync-delay", "0"}})
		p.clients[i] = p.servers[i].Client()
	}
	host, port, _ := net.SplitHostPort(p.servers[0].Addr())
	if err := p.clients[1].SlaveOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	return p
}

// awaitReplica waits until the other server has all that the given one has
// acknowledged so far: one that never had the schedules can run none.
func (p *pair) awaitReplica(t *testing.T, master int) {
	t.Helper()
	limit := time.Now().Add(40 * time.Second)
	for {
		synced, err := p.clients[master].Wait(t.Context(), 1, time.Second).Result()
		if err == nil && synced == 1 {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("the replica did not follow: %d, %v", synced, err)
		}
	}
}

func (p *pair) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	p.mu.Lock()
	p.dials[p.master]++
	addr := p.servers[p.master].Addr()
	p.mu.Unlock()
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}

// failover swaps the two without losing a write, and tells nobody who is
// connected.
func (p *pair) failover(t *testing.T) {
	t.Helper()
	old, next := p.clients[p.master], 1-p.master
	host, port, _ := net.SplitHostPort(p.servers[next].Addr())
	limit := time.After(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	asked := false
	for {
		if !asked { // refused until the replica is in step
			asked = old.Do(t.Context(), "FAILOVER", "TO", host, port).Err() == nil
		}
		info, err := p.clients[next].Info(t.Context(), "replication").Result()
		if err == nil && asked && strings.Contains(info, "role:master") {
			break
		}
		select {
		case <-limit:
			t.Fatalf("the replica was not promoted: %v\n%s", err, info)
		case <-tick.C:
		}
	}
	p.mu.Lock()
	p.master = next
	p.mu.Unlock()
}

// B049: the master is demoted under its connections. A write that it refuses
// as READONLY makes the worker connect to the new one and repeat it.
func TestB049ADemotedMasterIsLeft(t *testing.T) {
	long(t)
	t.Parallel()
	p := startPair(t)
	options := redistest.Options("127.0.0.1:0")
	options.Dialer = p.dial
	client := redis.NewClient(options)
	defer client.Close()
	w := startReal(t, client, 20)
	if !w.awaitNewer("s00", time.Time{}, 30*time.Second) {
		t.Fatal("nothing ran")
	}
	for i := range 6 {
		p.failover(t)
		changed := time.Now()
		for _, name := range names(20) {
			if !w.awaitNewer(name, changed, 15*time.Second) {
				t.Errorf("failover %d: nothing of %s ran for 15 s", i+1, name)
			}
		}
	}
	w.halt()
	for _, name := range names(20) {
		w.wantAllOnce(name)
	}
	if p.dials[1] == 0 {
		t.Error("nobody ever connected to the second server")
	}
}

// B049, with a real Sentinel. It does not wait for the replica, so that writes
// of the last second may be lost and a run may come again; none is left out.
func TestB049ASentinelFailoverIsFollowed(t *testing.T) {
	long(t)
	t.Parallel()
	p := startPair(t)
	sentinel := redistest.StartSentinel(t, p.servers[0])
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.SentinelMaster,
		SentinelAddrs: []string{sentinel.Addr()}, ContextTimeoutEnabled: true})
	defer client.Close()
	w := startReal(t, client, 10)
	if !w.awaitNewer("s00", time.Time{}, 30*time.Second) {
		t.Fatal("nothing ran")
	}
	for i := range 2 {
		replaced := p.servers[i]
		p.awaitReplica(t, i)
		failoverBySentinel(t, sentinel, replaced)
		changed := time.Now()
		for _, name := range names(10) {
			if !w.awaitNewer(name, changed, 20*time.Second) {
				t.Errorf("failover %d: nothing of %s ran for 20 s", i+1, name)
			}
		}
	}
	w.halt()
	for _, name := range names(10) {
		w.wantAll(name, func(runs int) bool { return runs >= 1 })
	}
}

// failoverBySentinel makes the Sentinel replace the master, and waits until it
// names another.
func failoverBySentinel(t *testing.T, sentinel, replaced *redistest.Server) {
	t.Helper()
	admin := redis.NewSentinelClient(redistest.Options(sentinel.Addr()))
	defer admin.Close()
	limit := time.After(40 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	asked := false
	for {
		if !asked { // refused until the Sentinel knows a good replica
			asked = admin.Failover(t.Context(), redistest.SentinelMaster).Err() == nil
		}
		at, err := admin.GetMasterAddrByName(t.Context(), redistest.SentinelMaster).Result()
		if err == nil && asked && net.JoinHostPort(at[0], at[1]) != replaced.Addr() {
			return
		}
		select {
		case <-limit:
			t.Fatalf("Sentinel still names %v, %v", at, err)
		case <-tick.C:
		}
	}
}
