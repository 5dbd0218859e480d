package chaos

import (
	"context"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// pages calls visit with every schedule.
func (f *fleet) pages(t *testing.T, visit func(schedule.Entry)) {
	t.Helper()
	options := schedule.ListOptions{Limit: 1000}
	for {
		page, err := f.store.List(t.Context(), options)
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		for _, e := range page.Entries {
			if e.Invalid != nil {
				t.Fatalf("%s: %v", e.Schedule.ID, e.Invalid)
			}
			visit(e)
		}
		if page.Next == "" {
			return
		}
		options.After = page.Next
	}
}

// firstTimes returns the first scheduled time of every schedule: the start of
// its verdicts, or what is pending when it has none yet.
func (f *fleet) firstTimes(t *testing.T) map[schedule.ID]time.Time {
	t.Helper()
	first := map[schedule.ID]time.Time{}
	f.pages(t, func(e schedule.Entry) {
		first[e.Schedule.ID] = e.Status.NextAt
		if len(e.Status.Verdicts) > 0 {
			first[e.Schedule.ID] = e.Status.Verdicts[0].First
		}
	})
	return first
}

// openBefore returns the open firings scheduled at or before the given time.
func (f *fleet) openBefore(t *testing.T, limit time.Time) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	key := "belfry:{" + f.env["BELFRY_NAMESPACE"] + ":00}:fir"
	all, err := f.client.HKeys(ctx, key).Result()
	if err != nil {
		t.Fatalf("open firings: %v", err)
	}
	var out []string
	for _, id := range all {
		if firing, err := claim.ParseFiringID(id); err != nil || !firing.ScheduledAt.After(limit) {
			out = append(out, id)
		}
	}
	return out
}

// A judgement is what judge found beside faults.
type judgement struct {
	firings, redriven int
	repeated          map[claim.FiringID][]time.Time // effects of firings with more than one
}

// onlyRepeatedAt checks that a firing has a second effect only when a fault met
// its first run: that is inherent to a process that dies after the effect.
func (j judgement) onlyRepeatedAt(t *testing.T, faults ...time.Time) {
	t.Helper()
	const before, after = 3 * time.Second, 500 * time.Millisecond
	for firing, at := range j.repeated {
		met := false
		for _, fault := range faults {
			met = met || at[0].After(fault.Add(-before)) && at[0].Before(fault.Add(after))
		}
		if !met {
			t.Errorf("%s: effects at %v, and no fault near the first", firing, at)
		}
	}
}

// judge compares the store's verdicts and runs, the tasks in asynq and the
// effects in the sink with an enumeration of the scheduled times.
func (f *fleet) judge(t *testing.T, first map[schedule.ID]time.Time, span time.Duration) judgement {
	t.Helper()
	tasks := f.tasks(t)
	effects := f.sink.arrivals()
	j := judgement{repeated: map[claim.FiringID][]time.Time{}}
	f.pages(t, func(e schedule.Entry) {
		id, period := e.Schedule.ID, everyOf(t, e)
		last := covered(t, e, first[id], period)
		if spent := last.Sub(first[id]); spent < span-2*period-5*time.Second {
			t.Errorf("%s: verdicts cover only %s of %s", id, spent, span)
		}
		succeeded := f.succeeded(t, id)
		for at := first[id]; !at.After(last); at = at.Add(period) {
			firing := claim.ScheduledFiring(id, e.Status.Generation, at)
			j.firings++
			if n := tasks[string(firing)]; n != 1 {
				t.Errorf("%s: enqueued %d times under its own ID", firing, n)
			}
			if tasks[firing.TaskID(1)] > 0 {
				j.redriven++
			}
			if n := succeeded[firing]; n != 1 {
				t.Errorf("%s: finished %d times", firing, n)
			}
			switch n := len(effects[string(firing)]); {
			case n == 0:
				t.Errorf("%s: finished without an effect", firing)
			case n > 1:
				j.repeated[firing] = effects[string(firing)]
			}
		}
	})
	if j.firings == 0 {
		t.Fatal("no firing was judged")
	}
	t.Logf("%d firings: each enqueued once and finished once; %d re-driven after a lost worker, %d with a second effect", j.firings, j.redriven, len(j.repeated))
	if violations, err := f.store.Check(t.Context()); err != nil || len(violations) > 0 {
		t.Errorf("invariants: %v %v", violations, err)
	}
	return j
}

func everyOf(t *testing.T, e schedule.Entry) time.Duration {
	t.Helper()
	d, err := schedule.ParseDuration(e.Schedule.Expression)
	if err != nil {
		t.Fatalf("%s: %v", e.Schedule.ID, err)
	}
	return d
}

// covered checks that the verdicts are "fired" for every scheduled time from
// first on without a gap, and returns the last one.
func covered(t *testing.T, e schedule.Entry, first time.Time, period time.Duration) time.Time {
	t.Helper()
	at := first
	for _, r := range e.Status.Verdicts {
		if r.Verdict != schedule.VerdictFired {
			t.Errorf("%s: verdict %d for %s to %s", e.Schedule.ID, r.Verdict, r.First, r.Last)
		}
		if !r.First.Equal(at) {
			t.Errorf("%s: a range starts at %s, want %s", e.Schedule.ID, r.First, at)
		}
		if want := int64(r.Last.Sub(r.First)/period) + 1; r.Count != want {
			t.Errorf("%s: %d scheduled times counted from %s to %s, want %d", e.Schedule.ID, r.Count, r.First, r.Last, want)
		}
		at = r.Last.Add(period)
	}
	return at.Add(-period)
}

// succeeded counts the final reports of each firing in the run log.
func (f *fleet) succeeded(t *testing.T, id schedule.ID) map[claim.FiringID]int {
	t.Helper()
	runs, err := f.store.Runs(t.Context(), id, 1000)
	if err != nil {
		t.Fatalf("runs of %s: %v", id, err)
	}
	out := map[claim.FiringID]int{}
	for _, r := range runs {
		switch r.Outcome {
		case claim.OutcomeSucceeded:
			out[r.Firing]++
		case claim.OutcomeRetrying:
		default:
			t.Errorf("%s: outcome %s: %s", r.Firing, r.Outcome, r.Error)
		}
	}
	return out
}

// tasks counts the tasks that asynq holds, by task ID, in every state: with
// the default retention all of them are still there.
func (f *fleet) tasks(t *testing.T) map[string]int {
	t.Helper()
	client := redis.NewClient(redistest.Options(f.redis.Addr()))
	defer client.Close()
	inspector := asynq.NewInspectorFromRedisClient(client)
	out := map[string]int{}
	for name, list := range map[string]func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error){
		"completed": inspector.ListCompletedTasks, "active": inspector.ListActiveTasks, "pending": inspector.ListPendingTasks,
		"retry": inspector.ListRetryTasks, "archived": inspector.ListArchivedTasks, "scheduled": inspector.ListScheduledTasks,
	} {
		for page := 1; ; page++ {
			tasks, err := list("default", asynq.Page(page), asynq.PageSize(1000))
			if err != nil {
				t.Fatalf("listing %s tasks: %v", name, err)
			}
			for _, task := range tasks {
				out[task.ID]++
			}
			if len(tasks) < 1000 {
				break
			}
		}
	}
	return out
}
