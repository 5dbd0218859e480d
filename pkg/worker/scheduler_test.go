package worker_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/pkg/worker"
)

func TestFiresAtTheScheduledTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		f.put("tick", "7s", nil)
		f.put("cron", "30 * * * *", nil)
		m := f.member("a", nil).start()
		time.Sleep(2 * time.Hour)
		m.halt()
		for _, p := range append(f.of("tick"), f.of("cron")...) {
			firing, err := claim.ParseFiringID(string(p.firing))
			if err != nil {
				t.Fatal(err)
			}
			if late := p.at.Sub(firing.ScheduledAt); late < 0 || late > 2*time.Millisecond {
				t.Errorf("%s was enqueued %s after its time, want 0 to 2ms", p.firing, late)
			}
		}
		if n := len(f.of("cron")); n != 2 {
			t.Errorf("cron fired %d times in 2 h, want 2", n)
		}
		if n := len(f.of("tick")); n < 1027 || n > 1029 {
			t.Errorf("tick fired %d times in 2 h, want 1028", n)
		}
	})
}

// TestIdleCostsOneClaimASecond counts the calls of a scheduler whose only
// schedule is far away.
func TestIdleCostsOneClaimASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, shards := range []int{1, 8} {
			f := newFleet(t, shards)
			f.put("yearly", "@yearly", nil)
			m := f.member("a", nil)
			var calls atomic.Int64
			m.setFault(func(call string) error {
				calls.Add(1)
				return nil
			})
			m.start()
			time.Sleep(100 * time.Second)
			m.halt()
			// One claim a second, and an audit of each shard every 15 s.
			if n, most := calls.Load(), int64(100+shards*8+20); n > most {
				t.Errorf("%d shards: %d calls in 100 idle seconds, want at most %d", shards, n, most)
			}
		}
	})
}

func TestThreeWorkersShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 8)
		start := time.Now()
		for i, name := range names(60) {
			f.put(name, fmt.Sprintf("%ds", 1+i%5), nil)
		}
		peers := []claim.Member{{ID: "a", Claims: true}, {ID: "b", Claims: true}, {ID: "c", Claims: true}, {ID: "consumer"}}
		var members []*member
		for _, name := range []string{"a", "b", "c"} {
			m := f.member(name, nil)
			m.UpdatePeers(peers)
			members = append(members, m.start())
		}
		time.Sleep(2*time.Minute + 500*time.Millisecond)
		for _, m := range members {
			if n := f.by(m.name); n == 0 {
				t.Errorf("%s enqueued nothing", m.name)
			}
			m.halt()
		}
		for i, name := range names(60) {
			every := time.Duration(1+i%5) * time.Second
			f.checkExactlyOnce(name, start.Truncate(every).Add(every), start.Add(2*time.Minute), every)
		}
	})
}

// B003, B015: a worker that died blocks nobody for longer than one claim.
func TestOthersTakeOverWithinTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		start := time.Now()
		for _, name := range names(20) {
			f.put(name, "1s", nil)
		}
		dead := f.member("a", nil)
		var killed time.Time
		claims := 0
		dead.after = func(batch claim.Batch) {
			if claims += len(batch.Claims); claims >= 100 && killed.IsZero() {
				killed = time.Now()
				dead.die() // with claims in hand
			}
		}
		dead.start()
		other := f.member("b", nil)
		other.UpdatePeers([]claim.Member{{ID: "a", Claims: true}, {ID: "b", Claims: true}})
		time.Sleep(6 * time.Second) // alone: who wins a race for a claim is up to the scheduler of goroutines
		other.start()
		time.Sleep(54 * time.Second)
		dead.halt()
		other.halt()
		if killed.IsZero() {
			t.Fatal("the first worker was never killed")
		}
		for _, name := range names(20) {
			f.checkExactlyOnce(name, start.Add(time.Second), start.Add(59*time.Second), time.Second)
		}
		for _, p := range f.pushes {
			firing, _ := claim.ParseFiringID(string(p.firing))
			if late := p.at.Sub(firing.ScheduledAt); late > 11*time.Second {
				t.Errorf("%s was enqueued %s late, want at most the claim TTL and a second", p.firing, late)
			}
		}
	})
}

// B015, B098: a stop lets enqueues end and gives the other claims back at once.
func TestAStopHandsClaimsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		for _, name := range names(40) {
			f.put(name, "once:2000-01-01T00:00:10Z", nil)
		}
		stopping := f.member("a", func(o *worker.SchedulerOptions) { o.Batch = 5 })
		stopping.invade = func(queue.Push) error { // four batches are enqueued slowly while a fifth is claimed
			time.Sleep(150 * time.Millisecond)
			return nil
		}
		stopping.start()
		time.Sleep(10*time.Second + 500*time.Millisecond)
		halted := time.Now()
		stopping.halt()
		if took := time.Since(halted); took > 5*time.Second {
			t.Errorf("the stop took %s, want at most the grace of 5s", took)
		}
		if n := f.by("a"); n != 20 {
			t.Errorf("the stopping worker enqueued %d, want the 20 that were being enqueued", n)
		}
		stats, err := f.store.Stats(t.Context())
		if err != nil || stats.Claimed != 0 || stats.Due != 20 {
			t.Fatalf("after the stop: claimed %d, due %d, %v; want 0 and 20", stats.Claimed, stats.Due, err)
		}
		next := f.member("b", nil).start()
		time.Sleep(100 * time.Millisecond)
		next.halt()
		if n := f.by("b"); n != 20 {
			t.Errorf("the next worker enqueued %d within 100ms, want 20", n)
		}
	})
}

func TestAPutWakesASleeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2)
		m := f.member("a", func(o *worker.SchedulerOptions) { o.IdleSleep = time.Hour }).start()
		time.Sleep(10 * time.Minute)
		at := time.Now().Add(300 * time.Millisecond)
		f.put("soon", "once:"+at.Format(time.RFC3339Nano), nil)
		time.Sleep(time.Second)
		pushes := f.of("soon")
		if len(pushes) != 1 || pushes[0].at.Sub(at) > 2*time.Millisecond {
			t.Errorf("pushes of a new schedule: %v, want one at %s", pushes, at)
		}
		m.halt()
	})
}

func TestATriggerFiresWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, deaf := range []bool{false, true} {
			f := newFleet(t, 2)
			f.put("yearly", "@yearly", nil)
			m := f.member("a", nil)
			if deaf {
				m.setFault(func(call string) error {
					if call == "wake" {
						return errAway
					}
					return nil
				})
			}
			m.start()
			time.Sleep(10 * time.Minute)
			asked := time.Now()
			got, err := f.store.Trigger(t.Context(), "yearly", schedule.TriggerOptions{})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			pushes := f.of("yearly")
			if len(pushes) != 1 || string(pushes[0].firing) != got.FiringID || pushes[0].at.Sub(asked) > time.Second {
				t.Errorf("deaf %v: pushes after a trigger: %v, want %s within a second", deaf, pushes, got.FiringID)
			}
			m.halt()
		}
	})
}

func TestARedisThatIsAwayIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2)
		start := time.Now()
		for _, name := range names(10) {
			f.put(name, "1s", nil)
		}
		m := f.member("a", nil)
		m.die() // away from the start on
		m.start()
		time.Sleep(30 * time.Second)
		if err := m.Ready(); err == nil {
			t.Error("Ready without a store = nil, want an error")
		}
		if err := m.Live(); err != nil {
			t.Errorf("Live without a store = %v, want nil", err)
		}
		for range 5 {
			m.setFault(nil)
			time.Sleep(10 * time.Second)
			if err := m.Ready(); err != nil {
				t.Errorf("Ready with the store back = %v, want nil", err)
			}
			m.die()
			time.Sleep(10 * time.Second)
		}
		m.setFault(nil)
		back := time.Now()
		time.Sleep(15 * time.Second)
		m.halt()
		for _, name := range names(10) {
			f.checkExactlyOnce(name, start.Add(time.Second), back.Add(10*time.Second), time.Second)
		}
		if len(m.observer.waits) != 6 || len(m.observer.returns) != 6 {
			t.Errorf("said %d times that it waits and %d times that it goes on, want 6 each", len(m.observer.waits), len(m.observer.returns))
		}
	})
}

// TestAZombieChangesNothing stops a worker, renewals included, between its
// claim and its enqueue for longer than the claim lasts.
func TestAZombieChangesNothing(t *testing.T) {
	for _, where := range []string{"in the reply to its claim", "get", "push"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testZombie(t, where) })
		})
	}
}

func testZombie(t *testing.T, where string) {
	f := newFleet(t, 1)
	f.put("tick", "1m", nil)
	zombie := f.member("zombie", nil)
	var asleep, slept atomic.Bool
	sleep := func() {
		if !slept.Swap(true) {
			asleep.Store(true)
			time.Sleep(90 * time.Second)
			asleep.Store(false)
		}
	}
	zombie.after = func(batch claim.Batch) {
		if len(batch.Claims) > 0 && where == "in the reply to its claim" {
			sleep()
		}
	}
	zombie.setFault(func(call string) error {
		if call == where {
			sleep()
		} else if asleep.Load() {
			return errAway
		}
		return nil
	})
	zombie.start()
	time.Sleep(59 * time.Second)
	other := f.member("b", nil).start()
	other.UpdatePeers([]claim.Member{{ID: "zombie", Claims: true}, {ID: "y", Claims: true}, {ID: "x", Claims: true}})
	time.Sleep(14 * time.Second) // the claim was made at 60 s and ran out at 70 s
	if pushes := f.of("tick"); len(pushes) != 1 || pushes[0].worker != "b" {
		t.Fatalf("pushes at 73s: %v, want one by b", pushes)
	}
	time.Sleep(78 * time.Second) // the zombie woke at 150 s
	if pushes := f.of("tick"); len(pushes) != 2 || f.by("zombie") != 0 {
		t.Errorf("pushes at 151s: %v, want two by b", pushes)
	}
	zombie.halt()
	other.halt()
	if n := zombie.Counts().Completed; n != 0 {
		t.Errorf("the zombie completed %d claims, want none", n)
	}
	if err := f.store.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestASuspendedHostTrustsNothing moves the wall clock only, as a suspend of
// the host does.
func TestASuspendedHostTrustsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		f.put("tick", "1m", nil)
		var shift atomic.Int64
		m := f.member("a", func(o *worker.SchedulerOptions) {
			o.SimulationNow = func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }
		})
		m.after = func(batch claim.Batch) {
			if len(batch.Claims) > 0 && shift.Load() == 0 {
				shift.Store(int64(9500 * time.Millisecond)) // inside the TTL, past the trust
			}
		}
		m.start()
		time.Sleep(60*time.Second + 500*time.Millisecond)
		if pushes := f.of("tick"); len(pushes) != 0 {
			t.Errorf("pushes by the claim that the suspend outlasted: %v, want none", pushes)
		}
		time.Sleep(15 * time.Second) // it handed the claim back, or the claim ran out
		if pushes := f.of("tick"); len(pushes) != 1 {
			t.Errorf("pushes after the TTL: %v, want one", pushes)
		}
		m.halt()
	})
}

// B099: enqueuing takes longer than a claim lasts.
func TestB099ASlowEnqueueKeepsItsClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		f.put("tick", "1m", nil)
		slow := f.member("slow", nil)
		slow.invade = func(queue.Push) error {
			time.Sleep(25 * time.Second)
			return nil
		}
		slow.start()
		other := f.member("b", nil)
		other.UpdatePeers([]claim.Member{{ID: "slow", Claims: true}})
		time.Sleep(59 * time.Second)
		synctest.Wait()
		other.invade = func(p queue.Push) error {
			t.Errorf("b enqueued %s, which slow holds", p.Firing)
			return nil
		}
		time.Sleep(1500 * time.Millisecond)
		other.start()
		time.Sleep(30 * time.Second)
		if pushes := f.of("tick"); len(pushes) != 1 || pushes[0].worker != "slow" {
			t.Errorf("pushes: %v, want one by slow", pushes)
		}
		slow.halt()
		other.halt()
	})
}
