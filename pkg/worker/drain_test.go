package worker_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/pkg/worker"
)

// memberOf reads a worker from the roster.
func memberOf(t *testing.T, store *redisstore.Store, id string) claim.Member {
	t.Helper()
	members, err := store.Members(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		if m.ID == id {
			return m
		}
	}
	t.Fatalf("%s is not in the roster", id)
	return claim.Member{}
}

func (r *rig) drain(id string) {
	r.t.Helper()
	if _, ok, err := r.store.Drain(r.t.Context(), memberOf(r.t, r.store, id), "ana", "kernel"); err != nil || !ok {
		r.t.Fatalf("Drain(%s) = %t, %v", id, ok, err)
	}
}

func (r *rig) undrain(id string) {
	r.t.Helper()
	if ok, err := r.store.Undrain(r.t.Context(), memberOf(r.t, r.store, id)); err != nil || !ok {
		r.t.Fatalf("Undrain(%s) = %t, %v", id, ok, err)
	}
}

// states wants what the roster and the worker say of the worker.
func (n *node) states(state claim.MemberState) {
	n.rig.t.Helper()
	if got := memberOf(n.rig.t, n.rig.store, n.ID()); got.State != state {
		n.rig.t.Errorf("%s is %s by the roster (%d running), want %s", n.ID(), got.State, got.Running, state)
	}
	wish, drained := n.Drain()
	if wish.Wanted() != (state != claim.MemberWorking) || drained != (state == claim.MemberDrained) {
		n.rig.t.Errorf("Drain of %s = %+v, %t, want %s", n.ID(), wish, drained, state)
	}
	err := n.Ready(n.rig.t.Context())
	if ready := err == nil; ready != (state == claim.MemberWorking) {
		n.rig.t.Errorf("Ready of %s = %v while it is %s", n.ID(), err, state)
	}
	if err := n.Live(); err != nil {
		n.rig.t.Errorf("Live of %s = %v while it is %s", n.ID(), err, state)
	}
}

// TestDrainAndUndrain drains one of two workers again and again: it takes
// nothing meanwhile, the other does, and no scheduled time is lost or doubled.
func TestDrainAndUndrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		first := time.Now().Truncate(time.Second).Add(time.Second)
		for _, id := range []string{"one", "two", "three"} {
			r.put(id, "1s", "test")
		}
		a, b := r.node("a", nil).start(), r.node("b", nil).start()
		time.Sleep(20 * time.Second)
		for range 5 {
			a.states(claim.MemberWorking)
			r.drain("a")
			time.Sleep(3 * time.Second)
			a.states(claim.MemberDrained)
			b.states(claim.MemberWorking)
			byA, byB, claimedByA := r.by("a"), r.by("b"), a.Counts().Claimed
			time.Sleep(20 * time.Second)
			if n := r.by("a") - byA; n != 0 || a.Counts().Claimed != claimedByA {
				t.Errorf("the drained worker ran %d tasks and claimed %d schedules", n, a.Counts().Claimed-claimedByA)
			}
			if n := r.by("b") - byB; n < 55 {
				t.Errorf("the other ran %d tasks of 60 meanwhile", n)
			}
			r.undrain("a")
			byA = r.by("a")
			time.Sleep(20 * time.Second)
			if r.by("a") == byA {
				t.Error("the worker ran nothing after undrain")
			}
		}
		last := time.Now().Truncate(time.Second)
		time.Sleep(5 * time.Second)
		for _, id := range []string{"one", "two", "three"} {
			r.checkOnce(id, first, last, time.Second)
		}
		a.halt()
		b.halt()
	})
}

// TestDrainLetsRunsEnd holds a run: the worker drains until it has ended, and
// what waits in the queue meanwhile waits for undrain when nobody else is there.
func TestDrainLetsRunsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		a, held := r.node("a", nil), make(chan struct{})
		a.HandleFunc("slow", func(ctx context.Context, _ *asynq.Task) error {
			<-held
			return ctx.Err()
		})
		a.start()
		time.Sleep(2 * time.Second)
		slow, err := r.store.Put(t.Context(), schedule.Schedule{ID: "slow", Expression: "@yearly", Type: "slow"}, schedule.PutOptions{})
		if err != nil || !slow.Created {
			t.Fatal(slow, err)
		}
		r.trigger("slow")
		time.Sleep(3 * time.Second)
		r.drain("a")
		r.put("quick", "1s", "test")
		time.Sleep(time.Minute)
		a.states(claim.MemberDraining)
		if m := memberOf(t, r.store, "a"); m.Running != 1 || m.Drain.By != "ana" || m.Drain.Reason != "kernel" {
			t.Errorf("the roster says %+v, want one run and who asked", m)
		}
		close(held)
		time.Sleep(3 * time.Second)
		a.states(claim.MemberDrained)
		if n := r.by("a"); n != 0 {
			t.Errorf("%d tasks ran while it drained", n)
		}
		entry, err := r.store.Get(t.Context(), "slow")
		if err != nil || entry.Status.LastStatus != schedule.LastCompleted {
			t.Errorf("the slow run ended as %s, %v", entry.Status.LastStatus, err)
		}
		quick, err := r.store.Get(t.Context(), "quick")
		if err != nil {
			t.Fatal(err)
		}
		r.undrain("a")
		time.Sleep(10 * time.Second)
		r.checkOnce("quick", quick.Status.NextAt, time.Now().Add(-2*time.Second), time.Second)
		a.halt()
	})
}

func (r *rig) trigger(id schedule.ID) {
	r.t.Helper()
	if _, err := r.store.Trigger(r.t.Context(), id, schedule.TriggerOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// TestDrainMovesGroups gives the group of a drained worker to the other one, and
// its periodic tasks with it.
func TestDrainMovesGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d := newRig(t), &diary{}
		a := r.member("a", d)
		time.Sleep(10 * time.Second)
		b := r.member("b", d)
		time.Sleep(10 * time.Second)
		r.drain("a")
		time.Sleep(10 * time.Second)
		a.states(claim.MemberDrained)
		r.drain("b")
		time.Sleep(3 * time.Second)
		r.undrain("a")
		time.Sleep(10 * time.Second)
		a.states(claim.MemberWorking)
		b.states(claim.MemberDrained)
		sweeps := func(by string) (n int) {
			for _, note := range d.read() {
				if note == "sweep by "+by {
					n++
				}
			}
			return n
		}
		before := sweeps("b")
		time.Sleep(5 * time.Minute)
		if n := sweeps("b") - before; n != 0 {
			t.Errorf("the drained worker swept %d times", n)
		}
		if n := sweeps("a"); n < 5 {
			t.Errorf("the other swept %d times", n)
		}
		notes := slices.DeleteFunc(d.read(), func(note string) bool { return strings.HasPrefix(note, "sweep") })
		if want := []string{"tail by a", "tail ends by a", "tail by b", "tail ends by b", "tail by a"}; !slices.Equal(notes, want) {
			t.Errorf("the group went %v, want %v", notes, want)
		}
		a.halt()
		b.halt()
	})
}

// TestADrainedWorkerStops ends a drained worker, and one that drains and whose
// next process has the same name.
func TestADrainedWorkerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		a := r.node("a", nil).start()
		time.Sleep(2 * time.Second)
		r.drain("a")
		time.Sleep(5 * time.Second)
		if took := a.halt(); took > 5*time.Second {
			t.Errorf("a drained worker took %s to stop", took)
		}
		again := r.node("a", nil).start()
		time.Sleep(5 * time.Second)
		again.states(claim.MemberWorking)
		again.halt()
	})
}

// TestDrainOnRedis is the same on a real server: a worker is drained while it
// works, and the other takes over.
func TestDrainOnRedis(t *testing.T) {
	server := redistest.Start(t, redistest.ServerOptions{})
	client := redis.NewClient(redistest.Options(server.Addr()))
	defer func() { _ = client.Close() }() // the server is going
	store, err := redisstore.New(client, redisstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	ran, by := map[string]int{}, map[string]int{}
	count := func(id string) int {
		mu.Lock()
		defer mu.Unlock()
		return by[id]
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var group sync.WaitGroup
	workers := map[string]*worker.Worker{}
	for _, id := range []string{"a", "b"} {
		w, err := worker.New(worker.Options{Redis: client, ID: id, PollInterval: 10 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		w.HandleFunc("test", func(ctx context.Context, task *asynq.Task) error {
			mu.Lock()
			defer mu.Unlock()
			taskID, _ := asynq.GetTaskID(ctx)
			ran[taskID]++
			by[w.ID()]++
			return nil
		})
		workers[id] = w
		group.Go(func() {
			if err := w.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := store.Put(t.Context(), schedule.Schedule{ID: "fast", Expression: "100ms", Type: "test", Missed: schedule.MissedAll, CatchUp: time.Hour}, schedule.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both work", func() bool { return count("a") > 0 && count("b") > 0 })
	if _, ok, err := store.Drain(t.Context(), memberOf(t, store, "a"), "", ""); err != nil || !ok {
		t.Fatal(ok, err)
	}
	eventually(t, "a has drained", func() bool { return memberOf(t, store, "a").State == claim.MemberDrained })
	before, other := count("a"), count("b")
	eventually(t, "b goes on", func() bool { return count("b") > other+10 })
	if n := count("a") - before; n != 0 {
		t.Errorf("the drained worker ran %d tasks", n)
	}
	if ok, err := store.Undrain(t.Context(), memberOf(t, store, "a")); err != nil || !ok {
		t.Fatal(ok, err)
	}
	eventually(t, "a works again", func() bool { return count("a") > before })
	stop()
	group.Wait()
	entry, err := store.Get(t.Context(), "fast")
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for id, n := range ran {
		if n != 1 {
			t.Errorf("%s ran %d times", id, n)
		}
	}
	if int64(len(ran)) > entry.Status.Fired || int64(len(ran)) < entry.Status.Fired-3 {
		t.Errorf("%d scheduled times fired and %d ran", entry.Status.Fired, len(ran))
	}
}

// eventually waits until it is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for !so() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("it never was so that %s", what)
		}
	}
}
