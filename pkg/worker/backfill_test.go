package worker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/pkg/worker"
)

// slept puts a schedule of every minute and lets ten of its times pass with no
// worker, which coalesces them into one.
func (r *rig) slept(id string) {
	r.t.Helper()
	_, err := r.store.Put(r.t.Context(), schedule.Schedule{ID: schedule.ID(id), Expression: "1m", Type: "test"}, schedule.PutOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	time.Sleep(10*time.Minute + 30*time.Second)
}

func (r *rig) startBackfill(request claim.BackfillRequest) claim.Backfill {
	r.t.Helper()
	b, err := r.store.StartBackfill(r.t.Context(), request)
	if err != nil {
		r.t.Fatalf("StartBackfill: %v", err)
	}
	return b
}

func (r *rig) backfill(id schedule.ID, name string) claim.Backfill {
	r.t.Helper()
	b, err := r.store.Backfill(r.t.Context(), id, name)
	if err != nil {
		r.t.Fatalf("Backfill: %v", err)
	}
	return b
}

// checkBackfilled wants each of the scheduled times to have been run once by
// the backfill.
func (r *rig) checkBackfilled(b claim.Backfill, times []time.Time) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, at := range times {
		if runs := r.runs[claim.BackfillFiring(b.Schedule, b.Generation, b.ID, at)]; len(runs) != 1 {
			r.t.Errorf("%s of the backfill was run by %v, want one run", at, runs)
		}
	}
	n := 0
	for id := range r.runs {
		if f, _ := claim.ParseFiringID(string(id)); f.Kind == claim.KindBackfill && f.Request == b.ID {
			n++
		}
	}
	if n != len(times) {
		r.t.Errorf("the backfill ran %d scheduled times, want %d", n, len(times))
	}
}

// minutes are scheduled times from the start on.
func minutes(start time.Time, first, last int) []time.Time {
	var all []time.Time
	for n := first; n <= last; n++ {
		all = append(all, start.Truncate(time.Minute).Add(time.Duration(n)*time.Minute))
	}
	return all
}

func TestWorkersRunABackfill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		start := time.Now()
		r.slept("tick")
		one, two := r.node("one", nil).start(), r.node("two", nil).start()
		time.Sleep(5 * time.Second) // the tenth fires, the nine before it are coalesced
		b := r.startBackfill(claim.BackfillRequest{Schedule: "tick", ID: "bf", From: start.Add(time.Minute), To: start.Add(10 * time.Minute)})
		time.Sleep(30 * time.Second)
		b = r.backfill("tick", "bf")
		if b.EndedAt.IsZero() || b.Opened != 9 || b.Passed != 1 || b.Failed != 0 || b.Open != 0 {
			t.Errorf("after 30 s %+v, want 9 opened, the one that fired passed, ended", b)
		}
		if took := b.EndedAt.Sub(b.StartedAt); took < 8*time.Second || took > 20*time.Second {
			t.Errorf("nine firings at one a second took %s", took)
		}
		r.checkBackfilled(b, minutes(start, 1, 9))
		again := r.startBackfill(claim.BackfillRequest{Schedule: "tick", ID: "again", From: start.Add(time.Minute), To: start.Add(10 * time.Minute), Again: true,
			Overlap: schedule.OverlapAllow, Every: time.Millisecond})
		time.Sleep(5 * time.Second)
		r.checkBackfilled(again, minutes(start, 1, 10))
		time.Sleep(time.Minute)
		one.halt()
		two.halt()
		r.checkOnce("tick", start.Add(10*time.Minute), start.Add(12*time.Minute), time.Minute)
	})
}

// TestABackfillOutlivesItsWorker cuts the worker that made the first steps off.
func TestABackfillOutlivesItsWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		start := time.Now()
		r.slept("tick")
		one := r.node("one", nil).start()
		time.Sleep(5 * time.Second)
		b := r.startBackfill(claim.BackfillRequest{Schedule: "tick", ID: "bf", From: start.Add(time.Minute), To: start.Add(10 * time.Minute),
			Overlap: schedule.OverlapAllow, Every: 2 * time.Second})
		time.Sleep(7 * time.Second)
		if opened := r.backfill("tick", "bf").Opened; opened < 2 || opened > 5 {
			t.Errorf("%d opened after 7 s at one in 2 s", opened)
		}
		one.cable.set(true)
		two := r.node("two", nil).start()
		time.Sleep(4 * time.Minute)
		if b = r.backfill("tick", "bf"); b.EndedAt.IsZero() || b.Opened != 9 {
			t.Errorf("after the first worker was cut off: %+v, want it ended", b)
		}
		one.cable.set(false)
		time.Sleep(time.Minute)
		r.checkBackfilled(b, minutes(start, 1, 9))
		one.halt()
		two.halt()
	})
}

func TestABackfillIsSequential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		start := time.Now()
		_, err := r.store.Put(t.Context(), schedule.Schedule{ID: "slow", Expression: "1m", Type: "slow"}, schedule.PutOptions{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*time.Minute + 30*time.Second)
		n := r.node("one", nil)
		running, most := 0, 0
		n.HandleFunc("slow", func(ctx context.Context, _ *asynq.Task) error {
			if f, _ := queue.FiringFrom(ctx); f.Kind == claim.KindBackfill {
				r.mu.Lock()
				running++
				most = max(most, running)
				r.mu.Unlock()
				time.Sleep(3 * time.Second)
				r.mu.Lock()
				running--
				r.mu.Unlock()
			}
			r.ran(ctx, "one")
			return nil
		})
		n.start()
		time.Sleep(5 * time.Second)
		b := r.startBackfill(claim.BackfillRequest{Schedule: "slow", ID: "bf", From: start.Add(time.Minute), To: start.Add(4 * time.Minute), Every: time.Millisecond})
		time.Sleep(24 * time.Second)
		r.checkBackfilled(b, minutes(start, 1, 4))
		n.halt()
		if most != 1 {
			t.Errorf("%d firings of the backfill ran at a time, want 1", most)
		}
	})
}

func TestAHaltedBackfillWaitsForItsResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		start := time.Now()
		r.slept("tick")
		n := r.node("one", func(o *worker.Options) { o.Concurrency = 2 }).start()
		time.Sleep(5 * time.Second)
		b := r.startBackfill(claim.BackfillRequest{Schedule: "tick", ID: "bf", From: start.Add(time.Minute), To: start.Add(10 * time.Minute)})
		time.Sleep(2500 * time.Millisecond)
		halted, err := r.store.HaltBackfill(t.Context(), "tick", "bf")
		if err != nil || halted.Opened < 2 || halted.Opened > 4 {
			t.Fatalf("HaltBackfill after 2.5 s = %+v, %v", halted, err)
		}
		time.Sleep(20 * time.Second)
		if now := r.backfill("tick", "bf"); now.Opened != halted.Opened || !now.EndedAt.IsZero() {
			t.Errorf("it went on while halted: %+v", now)
		}
		if _, err := r.store.ResumeBackfill(t.Context(), "tick", "bf"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		r.checkBackfilled(b, minutes(start, 1, 9))
		n.halt()
	})
}
