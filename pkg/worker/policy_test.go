package worker_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/pkg/worker"
)

// TestOneBadScheduleStopsNoOther replaces one definition of a hundred by one
// that cannot be used, in different ways.
func TestOneBadScheduleStopsNoOther(t *testing.T) {
	bad := map[string]func(schedule.Entry) schedule.Entry{
		"invalid": func(e schedule.Entry) schedule.Entry {
			e.Invalid = errors.New("timezone \"Mars/Phobos\": allowed: an IANA name")
			return e
		},
		"does not compile": func(e schedule.Entry) schedule.Entry {
			e.Schedule.Expression = "61 * * * *"
			return e
		},
		"another generation": func(e schedule.Entry) schedule.Entry {
			e.Status.Generation++
			return e
		},
	}
	for name, spoil := range bad {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, 1)
				start := time.Now()
				for i := range 100 {
					f.put(fmt.Sprintf("s%02d", i), "1s", nil)
				}
				m := f.member("a", nil)
				known := time.Now().Add(30 * time.Second)
				m.entry = func(id schedule.ID, e schedule.Entry) schedule.Entry {
					if id != "s42" || time.Now().After(known) {
						return e
					}
					return spoil(e)
				}
				m.start()
				time.Sleep(29*time.Second + 500*time.Millisecond)
				for i := range 100 {
					if i != 42 {
						f.checkExactlyOnce(fmt.Sprintf("s%02d", i), start.Add(time.Second), start.Add(29*time.Second), time.Second)
					}
				}
				if pushes := f.of("s42"); len(pushes) != 0 {
					t.Errorf("the bad schedule was enqueued: %v", pushes)
				}
				time.Sleep(time.Minute)
				m.halt()
				if pushes := f.of("s42"); len(pushes) < 60 {
					t.Errorf("%d pushes after the schedule became good, want all of the minute and more", len(pushes))
				}
				if n := m.Counts().Isolated; n < 3 || n > 8 {
					t.Errorf("put aside %d times in 30 s, want a growing pause between", n)
				}
				checkIsolated(t, m, "s42")
			})
		})
	}
}

func checkIsolated(t *testing.T, m *member, id schedule.ID) {
	t.Helper()
	for i, e := range m.observer.isolated {
		if e.Schedule != id || e.Failures != i+1 || e.Err == nil {
			t.Errorf("isolated %+v, want failure %d of %s with its error", e, i+1, id)
		}
	}
}

func TestAFailedEnqueueIsRepeatedAndRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		f.put("bad", "once:2000-01-01T00:00:10Z", nil)
		f.put("good", "once:2000-01-01T00:00:10Z", nil)
		m := f.member("a", nil)
		tries := 0
		m.invade = func(p queue.Push) error {
			if !strings.HasPrefix(string(p.Firing), "bad:") {
				return nil
			}
			if tries++; tries <= 3 {
				return errors.New("OOM command not allowed")
			}
			return nil
		}
		m.start()
		time.Sleep(11 * time.Second)
		entry, err := f.store.Get(t.Context(), "bad")
		if err != nil || !strings.Contains(entry.Status.LastError, "OOM") || entry.Status.ConsecutiveFails == 0 {
			t.Errorf("status after a failed enqueue: %+v, %v; want the error and a failure", entry.Status, err)
		}
		if n := len(f.of("good")); n != 1 {
			t.Errorf("the other schedule was enqueued %d times, want once", n)
		}
		time.Sleep(time.Minute)
		m.halt()
		if n := len(f.of("bad")); n != 1 || tries != 4 {
			t.Errorf("enqueued %d times after %d tries, want once after 4", n, tries)
		}
	})
}

func TestAForeignTaskFailsTheFiring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		f.put("taken", "once:2000-01-01T00:00:10Z", nil)
		m := f.member("a", nil)
		m.invade = func(queue.Push) error { return fmt.Errorf("push: %w", queue.ErrForeignTask) }
		m.start()
		time.Sleep(12 * time.Second)
		m.halt()
		runs, err := f.store.Runs(t.Context(), "taken", 10)
		if err != nil || len(runs) != 1 || runs[0].Outcome != claim.OutcomeFailed || !strings.Contains(runs[0].Error, queue.ErrForeignTask.Error()) {
			t.Errorf("runs of a firing whose ID is taken: %+v, %v; want one failed with the reason", runs, err)
		}
	})
}

func TestHigherPriorityIsEnqueuedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		for i, priority := range []int{0, -5, 10, 3} {
			f.put(fmt.Sprintf("s%d", i), "once:2000-01-01T00:00:10Z", func(s *schedule.Schedule) { s.Priority = priority })
		}
		m := f.member("a", nil).start()
		time.Sleep(11 * time.Second)
		m.halt()
		var got []string
		for _, p := range f.pushes {
			id, _, _ := strings.Cut(string(p.firing), ":")
			got = append(got, id)
		}
		if want := []string{"s2", "s3", "s0", "s1"}; !slices.Equal(got, want) {
			t.Errorf("enqueued in the order %v, want %v", got, want)
		}
	})
}

// TestAnAmbiguousEnqueueIsNotDecidedAgain loses the replies of a worker's
// calls after they took effect, with a policy that would coalesce the second
// time.
func TestAnAmbiguousEnqueueIsNotDecidedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		f.put("tick", "2s", func(s *schedule.Schedule) { s.Missed = schedule.MissedLatest })
		first := f.member("first", nil)
		first.setFault(func(call string) error {
			if call == "complete" || call == "renew" || call == "release" {
				return errAway
			}
			return nil
		})
		first.start()
		time.Sleep(2100 * time.Millisecond) // enqueued the first, could not complete it
		first.die()
		second := f.member("second", nil).start()
		time.Sleep(30 * time.Second)
		first.halt()
		second.halt()
		entry, err := f.store.Get(t.Context(), "tick")
		if err != nil {
			t.Fatal(err)
		}
		if v := entry.Status.Verdicts; len(v) == 0 || v[0].Verdict != schedule.VerdictFired || !v[0].First.Equal(time.Date(2000, 1, 1, 0, 0, 2, 0, time.UTC)) {
			t.Errorf("first verdict %+v, want fired for 00:00:02, which was enqueued", v)
		}
	})
}

func TestMustFireIsEnqueuedAndCompleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		f.put("tick", "once:2000-01-01T00:00:10Z", nil)
		m := f.member("a", nil)
		refused := false
		m.answer = func(r claim.CompleteRequest, out *claim.CompleteResult) {
			if !refused {
				refused = true
				out.Outcomes = []claim.Outcome{claim.CompleteMustFire}
			}
		}
		m.start()
		time.Sleep(11 * time.Second)
		m.halt()
		if n := m.Counts().Completed; !refused || n != 1 || len(f.of("tick")) == 0 {
			t.Errorf("refused %v, completed %d, pushes %v; want the firing enqueued and completed", refused, n, f.of("tick"))
		}
	})
}

func TestARefusedNextTimeIsIsolated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		f.put("odd", "1s", nil)
		f.put("even", "1s", nil)
		m := f.member("a", nil)
		m.answer = func(r claim.CompleteRequest, out *claim.CompleteResult) {
			if len(r.Completions) != 1 || r.Completions[0].Schedule != "odd" {
				return
			}
			out.Outcomes = []claim.Outcome{claim.CompleteBadNext}
		}
		m.start()
		f.put("even", "2s", nil) // they part, so that odd is claimed alone
		time.Sleep(30 * time.Second)
		m.halt()
		if n := len(f.of("even")); n < 14 {
			t.Errorf("the other schedule fired %d times in 30 s, want 14 and more", n)
		}
		if m.Counts().Isolated == 0 {
			t.Error("the schedule with the refused time was never put aside")
		}
	})
}

func TestNewSchedulerRefuses(t *testing.T) {
	f := newFleet(t, 1)
	m := f.member("a", nil)
	good := worker.SchedulerOptions{Definitions: f.store, Claims: f.store, Settler: f.store, Waker: f.store, Enqueuer: m,
		Auditor: &auditor{f, m}, ID: "x"}
	tests := []struct {
		field  string
		change func(*worker.SchedulerOptions)
	}{
		{"definitions", func(o *worker.SchedulerOptions) { o.Definitions = nil }},
		{"claims", func(o *worker.SchedulerOptions) { o.Claims = nil }},
		{"settler", func(o *worker.SchedulerOptions) { o.Settler = nil }},
		{"waker", func(o *worker.SchedulerOptions) { o.Waker = nil }},
		{"enqueuer", func(o *worker.SchedulerOptions) { o.Enqueuer = nil }},
		{"auditor", func(o *worker.SchedulerOptions) { o.Auditor = nil }},
		{"id", func(o *worker.SchedulerOptions) { o.ID = "" }},
		{"claim_ttl", func(o *worker.SchedulerOptions) { o.ClaimTTL = -1 }},
		{"batch", func(o *worker.SchedulerOptions) { o.Batch = 501 }},
		{"audit_after", func(o *worker.SchedulerOptions) { o.ClaimTTL, o.AuditAfter = 10*time.Second, 9*time.Second }},
		{"idle_sleep", func(o *worker.SchedulerOptions) { o.IdleSleep = time.Millisecond }},
		{"grace", func(o *worker.SchedulerOptions) { o.Grace = -1 }},
		{"keep_runs", func(o *worker.SchedulerOptions) { o.KeepRuns = -1 }},
	}
	for _, tt := range tests {
		options := good
		tt.change(&options)
		_, err := worker.NewScheduler(options)
		var field *schedule.FieldError
		if !errors.As(err, &field) || field.Field != tt.field {
			t.Errorf("NewScheduler with a bad %s = %v, want a *FieldError of that field", tt.field, err)
		}
	}
	if _, err := worker.NewScheduler(good); err != nil {
		t.Errorf("NewScheduler with good options = %v", err)
	}
}
