package worker_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/pkg/worker"
)

// The tests of this file are reports of people who ran other schedulers, by
// number, each against whole workers.

// long skips a test of many virtual minutes under -short.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("many virtual minutes of whole workers")
	}
}

// change stores a schedule with what the test changes about it.
func (r *rig) change(id, expression string, change func(*schedule.Schedule)) {
	r.t.Helper()
	s := schedule.Schedule{ID: schedule.ID(id), Expression: expression, Type: "test"}
	if change != nil {
		change(&s)
	}
	if _, err := r.store.Put(r.t.Context(), s, schedule.PutOptions{}); err != nil {
		r.t.Fatalf("Put(%s): %v", id, err)
	}
}

// times are the scheduled times of a schedule that were run, and how often.
func (r *rig) times(id string) map[time.Time]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	ran := map[time.Time]int{}
	for firing, by := range r.runs {
		if f, err := claim.ParseFiringID(string(firing)); err == nil && f.Schedule == schedule.ID(id) {
			ran[f.ScheduledAt] += len(by)
		}
	}
	return ran
}

// wantTimes wants exactly these scheduled times, each run once.
func (r *rig) wantTimes(id string, want ...time.Time) {
	r.t.Helper()
	got := r.times(id)
	for _, at := range want {
		if got[at.UTC()] != 1 {
			r.t.Errorf("%s at %s ran %d times, want once", id, at.UTC().Format(time.TimeOnly), got[at.UTC()])
		}
		delete(got, at.UTC())
	}
	for at, n := range got {
		r.t.Errorf("%s at %s ran %d times, want never", id, at.Format(time.TimeOnly), n)
	}
}

func every(first time.Time, step time.Duration, n int) []time.Time {
	var all []time.Time
	for i := range n {
		all = append(all, first.Add(time.Duration(i)*step))
	}
	return all
}

// B006, B012, B095: workers whose clocks are a minute apart fire each
// scheduled time once, and none before its time by the clock of Redis.
func TestB012B095ClocksThatDisagree(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		start := time.Now()
		r.put("tick", "10s", "early")
		var mu sync.Mutex
		var nodes []*node
		for name, offset := range map[string]time.Duration{"behind": -time.Minute, "late": -time.Second, "soon": time.Second, "ahead": 10 * time.Minute} {
			n := r.node(name, func(o *worker.Options) {
				o.SimulationNow = func() time.Time { return time.Now().Add(offset) }
			})
			n.HandleFunc("early", func(ctx context.Context, _ *asynq.Task) error {
				f, _ := queue.FiringFrom(ctx)
				mu.Lock()
				defer mu.Unlock()
				if time.Now().Before(f.ScheduledAt) {
					t.Errorf("%s ran %s early", f.ID, f.ScheduledAt.Sub(time.Now()))
				}
				r.ran(ctx, name)
				return nil
			})
			nodes = append(nodes, n.start())
		}
		time.Sleep(2*time.Minute + 5*time.Second)
		for _, n := range nodes {
			n.halt()
		}
		r.wantTimes("tick", every(start.Add(10*time.Second), 10*time.Second, 12)...)
	})
}

// B096: a worker whose clock is an hour ahead plans from the scheduled time,
// not from its clock.
func TestB096TheNextTimeFollowsTheScheduledOne(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		start := time.Now()
		r.put("tick", "10m", "test")
		n := r.node("ahead", func(o *worker.Options) { o.SimulationNow = func() time.Time { return time.Now().Add(time.Hour) } }).start()
		time.Sleep(31 * time.Minute)
		n.halt()
		r.wantTimes("tick", every(start.Add(10*time.Minute), 10*time.Minute, 3)...)
	})
}

// B019, B082, B122: restarts move nothing and delete nothing.
func TestB019B122RestartsKeepThePhase(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		start := time.Now()
		r.put("tick", "10m", "test")
		for i := range 31 {
			n := r.node(fmt.Sprintf("n%d", i), nil).start()
			time.Sleep(50 * time.Second)
			n.halt()
			time.Sleep(10 * time.Second)
		}
		r.wantTimes("tick", every(start.Add(10*time.Minute), 10*time.Minute, 3)...)
		if stats, err := r.store.Stats(t.Context()); err != nil || stats.Total != 1 || stats.NextAt.IsZero() {
			t.Errorf("after 31 restarts: %+v, %v", stats, err)
		}
	})
}

// B027, B124: a changed rule replaces the pending time at once.
func TestB027AnEditReplacesThePendingTime(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		start := time.Now()
		r.change("tick", "*/2 * * * *", nil)
		one, two := r.node("one", nil).start(), r.node("two", nil).start()
		time.Sleep(2*time.Minute + 30*time.Second)
		r.change("tick", "10 * * * * *", nil)
		time.Sleep(2 * time.Minute)
		one.halt()
		two.halt()
		r.wantTimes("tick", start.Add(2*time.Minute), start.Add(3*time.Minute+10*time.Second), start.Add(4*time.Minute+10*time.Second))
	})
}

// B026, B032: many puts of one schedule at once leave one.
func TestB032ParallelPutsLeaveOneSchedule(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		n := r.node("one", nil).start()
		var group sync.WaitGroup
		for i := range 100 {
			group.Go(func() {
				s := schedule.Schedule{ID: "tick", Expression: fmt.Sprintf("%ds", 60+i%10), Type: "test"}
				if _, err := r.store.Put(t.Context(), s, schedule.PutOptions{}); err != nil {
					t.Errorf("Put: %v", err)
				}
			})
		}
		group.Wait()
		r.change("tick", "1m", nil)
		for range 100 { // at every boot
			r.change("tick", "1m", nil)
		}
		start := time.Now()
		time.Sleep(3*time.Minute + 30*time.Second)
		n.halt()
		stats, err := r.store.Stats(t.Context())
		if err != nil || stats.Total != 1 {
			t.Errorf("stats %+v, %v; want one schedule", stats, err)
		}
		r.wantTimes("tick", every(start.Truncate(time.Minute).Add(time.Minute), time.Minute, 3)...)
	})
}

// B038: deleting one of many with an equal rule touches that one.
func TestB038DeletingOneTouchesNoOther(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		start := time.Now()
		for _, name := range names(20) {
			r.put(name, "*/1 * * * *", "test")
		}
		n := r.node("one", nil).start()
		if existed, err := r.store.Remove(t.Context(), "s07", schedule.RemoveOptions{}); err != nil || !existed {
			t.Fatalf("Remove = %t, %v", existed, err)
		}
		time.Sleep(90 * time.Second)
		n.halt()
		for _, name := range names(20) {
			if name == "s07" {
				r.wantTimes(name)
				continue
			}
			r.wantTimes(name, start.Add(time.Minute))
		}
	})
}

// B043: scripts that vanish from the server are sent again.
func TestB043ScriptFlushesAreNotNoticed(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		start := time.Now()
		for _, name := range names(20) {
			r.put(name, "1s", "test")
		}
		n := r.node("one", nil).start()
		admin := r.memory.Client()
		for range 150 { // 30 s
			if err := admin.ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(200 * time.Millisecond)
		}
		time.Sleep(500 * time.Millisecond)
		n.halt()
		for _, name := range names(20) {
			r.checkOnce(name, start.Add(time.Second), start.Add(29*time.Second), time.Second)
		}
	})
}

// B087: an edit of a paused schedule does not resume it.
func TestB087AnEditDoesNotResume(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		start := time.Now()
		r.change("tick", "1m", nil)
		n := r.node("one", nil).start()
		if _, err := r.store.Pause(t.Context(), "tick", schedule.PauseOptions{By: "ops"}); err != nil {
			t.Fatal(err)
		}
		r.change("tick", "20s", func(s *schedule.Schedule) { s.Missed = schedule.MissedSkip })
		time.Sleep(50 * time.Second)
		r.wantTimes("tick")
		if _, err := r.store.Resume(t.Context(), "tick", schedule.ResumeOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(35 * time.Second)
		n.halt()
		r.wantTimes("tick", start.Add(60*time.Second), start.Add(80*time.Second))
	})
}

// B090: with missed skip nothing of a pause is made up for.
func TestB090ResumeMakesUpForNothing(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		start := time.Now()
		r.change("tick", "5s", func(s *schedule.Schedule) { s.Missed = schedule.MissedSkip })
		n := r.node("one", nil).start()
		time.Sleep(6 * time.Second)
		if _, err := r.store.Pause(t.Context(), "tick", schedule.PauseOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		if _, err := r.store.Resume(t.Context(), "tick", schedule.ResumeOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		n.halt()
		r.wantTimes("tick", start.Add(5*time.Second), start.Add(30*time.Second), start.Add(35*time.Second))
		entry, err := r.store.Get(t.Context(), "tick")
		if err != nil {
			t.Fatal(err)
		}
		if v, known := entry.Status.VerdictAt(start.Add(15 * time.Second)); !known || v.Verdict != schedule.VerdictPaused || v.Count != 4 {
			t.Errorf("verdict of the pause %+v, want four as paused", v)
		}
	})
}

// B108: after Remove has returned nothing of the schedule begins.
func TestB108NothingBeginsAfterADelete(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var mu sync.Mutex
		gone := map[schedule.ID]bool{}
		n := r.node("one", nil)
		n.HandleFunc("mortal", func(ctx context.Context, _ *asynq.Task) error {
			f, _ := queue.FiringFrom(ctx)
			mu.Lock()
			defer mu.Unlock()
			if gone[f.Schedule] {
				t.Errorf("%s began after its schedule was deleted", f.ID)
			}
			return nil
		})
		n.start()
		for i := range 200 {
			id := schedule.ID(fmt.Sprintf("once%d", i))
			due := time.Now().Add(100 * time.Millisecond)
			r.put(string(id), "once:"+due.UTC().Format(time.RFC3339Nano), "mortal")
			time.Sleep(time.Duration(80+i%50) * time.Millisecond) // before, at and after its time
			if _, err := r.store.Remove(t.Context(), id, schedule.RemoveOptions{}); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			gone[id] = true
			mu.Unlock()
		}
		time.Sleep(time.Minute)
		n.halt()
	})
}

// B118: a failed run that asynq keeps does not block the next ones.
func TestB118ArchivedTasksBlockNothing(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		never := 0
		r.change("bad", "1m", func(s *schedule.Schedule) { s.Type, s.MaxRetry = "bad", &never })
		n := r.node("one", nil)
		var runs atomic.Int64
		n.HandleFunc("bad", func(context.Context, *asynq.Task) error {
			return fmt.Errorf("run %d failed", runs.Add(1))
		})
		n.start()
		time.Sleep(10*time.Minute + 30*time.Second)
		n.halt()
		entry, err := r.store.Get(t.Context(), "bad")
		if err != nil || runs.Load() != 10 || entry.Status.FailCount != 10 {
			t.Errorf("%d runs, status %+v, %v; want ten failures", runs.Load(), entry.Status, err)
		}
	})
}

// slowRuns counts how many runs of a slow schedule there are at a time.
func (r *rig) slowRuns(n *node, takes time.Duration) (most func() int) {
	var mu sync.Mutex
	running, peak := 0, 0
	n.HandleFunc("slow", func(ctx context.Context, _ *asynq.Task) error {
		mu.Lock()
		running++
		peak = max(peak, running)
		mu.Unlock()
		time.Sleep(takes)
		mu.Lock()
		running--
		mu.Unlock()
		r.ran(ctx, n.ID())
		return nil
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return peak
	}
}

// B132: a job that takes three intervals, with skip, runs alone.
func TestB132SkipKeepsOneRunning(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		start := time.Now()
		r.change("slow", "10s", func(s *schedule.Schedule) { s.Type, s.Overlap = "slow", schedule.OverlapSkip })
		n := r.node("one", nil)
		most := r.slowRuns(n, 35*time.Second)
		n.start()
		time.Sleep(2 * time.Minute)
		n.halt()
		if most() != 1 {
			t.Errorf("%d ran at a time, want 1", most())
		}
		r.wantTimes("slow", start.Add(10*time.Second), start.Add(50*time.Second), start.Add(90*time.Second))
		entry, err := r.store.Get(t.Context(), "slow")
		if v, known := entry.Status.VerdictAt(start.Add(20 * time.Second)); err != nil || !known || v.Verdict != schedule.VerdictOverlap || v.Count != 3 {
			t.Errorf("verdict of those between %+v, %v; want three as overlapping", v, err)
		}
	})
}

// B133: buffer_one keeps exactly one that follows.
func TestB133BufferOneKeepsOne(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		start := time.Now()
		r.change("slow", "10s", func(s *schedule.Schedule) {
			s.Type, s.Overlap, s.Ends = "slow", schedule.OverlapBufferOne, start.Add(45*time.Second)
		})
		n := r.node("one", nil)
		most := r.slowRuns(n, 31*time.Second)
		n.start()
		time.Sleep(3 * time.Minute)
		n.halt()
		if most() != 1 {
			t.Errorf("%d ran at a time, want 1", most())
		}
		// The one of 20 s follows the first; those of 30 and 40 s find the buffer full.
		r.wantTimes("slow", start.Add(10*time.Second), start.Add(20*time.Second))
	})
}

// B013: operators change schedules while no worker is there, or one that
// cannot reach Redis.
func TestB013OperatorsNeedNoWorker(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.put("tick", "10s", "test")
		n := r.node("one", nil).start()
		time.Sleep(10*time.Second + time.Millisecond)
		n.cable.set(true) // with whatever it holds
		for i := range 5 {
			r.change("tick", fmt.Sprintf("%ds", 10+i), nil)
			if _, err := r.store.Pause(t.Context(), "tick", schedule.PauseOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := r.store.Resume(t.Context(), "tick", schedule.ResumeOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		before := len(r.times("tick"))
		n.cable.set(false)
		time.Sleep(time.Minute)
		if after := len(r.times("tick")); after < before+3 {
			t.Errorf("%d runs a minute after it came back, %d before", after, before)
		}
		n.halt()
		for at, times := range r.times("tick") {
			if times != 1 {
				t.Errorf("%s ran %d times", at, times)
			}
		}
	})
}
