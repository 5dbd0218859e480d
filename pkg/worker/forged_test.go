package worker_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/pkg/worker"
)

// A stranger may enqueue tasks, and no more. He knows the names of schedules.
type stranger struct {
	*realWorker
	client *asynq.Client
	asynq.Inspector
	nightly schedule.Entry // what he is after; it is due at New Year

	mu  sync.Mutex
	ran map[string]bool // tasks that ran, by payload: true when as a firing
}

// newStranger starts a worker with a schedule of a second and one of a year.
func newStranger(t *testing.T, client *redis.Client) *stranger {
	t.Helper()
	s := &stranger{client: asynq.NewClientFromRedisClient(client), Inspector: *asynq.NewInspectorFromRedisClient(client), ran: map[string]bool{}}
	s.realWorker = startReal(t, client, 1, func(w *worker.Worker) {
		w.HandleFunc("victim", func(ctx context.Context, task *asynq.Task) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			_, s.ran[string(task.Payload())] = queue.FiringFrom(ctx)
			return nil
		})
	})
	s.rig.put("nightly", "@yearly", "victim")
	var err error
	if s.nightly, err = s.rig.store.Get(t.Context(), "nightly"); err != nil {
		t.Fatal(err)
	}
	return s
}

// A forgery is a task of the stranger, and what must become of it: "run", as a
// plain task, "dropped", unrun, "archived" or "later", handed back.
type forgery struct {
	name, firing, taskID string
	headers              map[string]string
	want                 string
}

func (s *stranger) forgeries() []forgery {
	gen, next := s.nightly.Status.Generation, s.nightly.Status.NextAt
	pending := string(claim.ScheduledFiring("nightly", gen, next))
	of := func(generation int64, key any) string { return fmt.Sprintf("nightly:%d:%v", generation, key) }
	own := func(name, firing, want string) forgery { return forgery{name, firing, firing, nil, want} }
	all := []forgery{
		{"no headers", "", "", nil, "run"},
		{"headers of others only", "", "", map[string]string{"Traceparent": "00-1", queue.HeaderToken: "7"}, "run"},
		{"headers handed on to another task", pending, "", nil, "run"},
		{"headers of a settled firing handed on", of(gen, next.Add(-time.Hour).UnixMilli()), "", nil, "run"},
		own("the pending time before it is due", pending, "later"),
		own("a time after it", of(gen, next.Add(time.Hour).UnixMilli()), "later"),
		own("the end of time", of(gen, int64(253402300799999)), "later"), // of the year 9999
		own("after the end of time", of(gen, int64(253402300800000)), "archived"),
		{"a re-drive of the pending time", pending, pending + "~3", nil, "later"},
		own("a time before it", of(gen, next.Add(-2*time.Hour).UnixMilli()), "dropped"),
		own("another generation", of(gen+1, next.UnixMilli()), "dropped"),
		own("the last generation", of(1<<53-1, next.UnixMilli()), "dropped"),
		own("a generation above", of(1<<53, next.UnixMilli()), "archived"),
		own("generation 0", of(0, next.UnixMilli()), "dropped"),
		own("a generation below", of(-1, next.UnixMilli()), "archived"),
		own("nobody's schedule", "stranger:1:1893456000000", "dropped"),
		own("a run by hand that nobody asked for", of(gen, "mforged"), "dropped"),
		own("a backfill that nobody started", of(gen, "bforged."+strconv.FormatInt(next.UnixMilli(), 10)), "dropped"),
	}
	for _, number := range []string{"", "-5", "x", "9223372036854775807", "99999999999999999999", "1e9", "NaN"} {
		all = append(all, forgery{"numbers " + number, of(gen, next.UnixMilli()-1), of(gen, next.UnixMilli()-1) + "~" + strconv.Itoa(len(all)),
			map[string]string{queue.HeaderMaxRetry: number, queue.HeaderToken: number, queue.HeaderGeneration: number, queue.HeaderScheduledAt: number,
				queue.HeaderEffect: "at_most_once", queue.HeaderSchedule: number}, "dropped"})
	}
	for _, bad := range []string{":", "::", "nightly", "nightly:1:", of(gen, "NaN"), of(gen, "1e12"), of(gen, "0x7fffffff"), of(gen, -5), of(gen, "007"),
		pending + "\x00", pending + "\n", pending + "~1", "}{:1:1", strings.Repeat("n", 300) + ":1:1", strings.Repeat("A", 1<<20), "nightly:99999999999999999999:1"} {
		all = append(all, forgery{fmt.Sprintf("no firing %.40q", bad), bad, "", nil, "archived"})
	}
	return append(all, forgery{"a header of a megabyte", pending, "", map[string]string{"Belfry-Effect": strings.Repeat("B", 1<<20)}, "run"})
}

// enqueue enqueues the forgery and returns its task ID.
func (s *stranger) enqueue(f forgery) string {
	s.rig.t.Helper()
	headers := maps.Clone(f.headers)
	if f.firing != "" || f.want == "archived" {
		if headers == nil {
			headers = map[string]string{}
		}
		headers[queue.HeaderFiring] = f.firing
	}
	options := []asynq.Option{asynq.Retention(time.Hour), asynq.MaxRetry(3)}
	if f.taskID != "" {
		options = append(options, asynq.TaskID(f.taskID))
	}
	info, err := s.client.Enqueue(asynq.NewTaskWithHeaders("victim", []byte(f.name), headers), options...)
	if err != nil {
		s.rig.t.Fatalf("%s: %v", f.name, err)
	}
	return info.ID
}

// became returns what became of a task, "" while it waits or runs.
func (s *stranger) became(f forgery, id string) string {
	info, err := s.GetTaskInfo("default", id)
	s.mu.Lock()
	defer s.mu.Unlock()
	asFiring, ran := s.ran[f.name]
	switch {
	case asFiring:
		return "run as a firing"
	case errors.Is(err, asynq.ErrTaskNotFound):
		return "dropped"
	case err != nil:
		return err.Error()
	case info.State == asynq.TaskStateCompleted && ran:
		return "run"
	case info.State == asynq.TaskStateCompleted:
		return "dropped"
	case info.State == asynq.TaskStateArchived:
		return "archived"
	case info.State == asynq.TaskStateRetry && info.Retried == 0:
		return "later"
	}
	return ""
}

// TestForgedTasksTouchNoSchedule enqueues what somebody may who can enqueue
// tasks and nothing else. Holding the ID of a firing that is open or due lets
// him run it, once, in place of its task; the rest must be as if he was not
// there.
func TestForgedTasksTouchNoSchedule(t *testing.T) {
	for name, dial := range map[string]func(t *testing.T) string{
		"miniredis": func(t *testing.T) string { return miniredis.RunT(t).Addr() },
		"redis":     func(t *testing.T) string { return redistest.Start(t, redistest.ServerOptions{}).Addr() },
	} {
		t.Run(name, func(t *testing.T) {
			client := redis.NewClient(redistest.Options(dial(t)))
			t.Cleanup(func() { _ = client.Close() })
			s := newStranger(t, client)
			forgeries := s.forgeries()
			ids := make([]string, len(forgeries))
			for i, f := range forgeries {
				ids[i] = s.enqueue(f)
			}
			began := time.Now()
			for i, f := range forgeries {
				await(t, 20*time.Second, func() bool { return s.became(f, ids[i]) != "" })
				if got := s.became(f, ids[i]); got != f.want {
					t.Errorf("%s: %s, want %s", f.name, got, f.want)
				}
			}
			if !s.awaitNewer("s00", began.Add(2*time.Second), 20*time.Second) {
				t.Error("the other schedule does not go on")
			}
			s.halt()
			s.wantAllOnce("s00")
			s.wantUntouched()
		})
	}
}

// wantUntouched wants the schedule as it was, and a store without a fault.
func (s *stranger) wantUntouched() {
	s.rig.t.Helper()
	now, err := s.rig.store.Get(s.rig.t.Context(), "nightly")
	if diff := cmp.Diff(s.nightly.Status, now.Status); diff != "" || err != nil {
		s.rig.t.Errorf("the schedule changed (%v): %s", err, diff)
	}
	runs, err := s.rig.store.Runs(s.rig.t.Context(), "nightly", 10)
	if len(runs) != 0 || err != nil {
		s.rig.t.Errorf("its run log holds %+v, %v; want nothing", runs, err)
	}
	if violations, err := s.rig.store.Check(s.rig.t.Context()); len(violations) != 0 || err != nil {
		s.rig.t.Errorf("Check = %+v, %v; want nothing", violations, err)
	}
}

// await polls for what happens in other goroutines and in Redis.
func await(t *testing.T, bound time.Duration, ok func() bool) {
	t.Helper()
	limit := time.After(bound)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-limit:
			t.Fatalf("waited %s in vain", bound)
		case <-tick.C:
		}
	}
}
