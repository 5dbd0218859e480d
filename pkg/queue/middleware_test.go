package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var errWork = errors.New("work went wrong")

func TestRunReportsSuccess(t *testing.T) {
	inBubble(t, definition(), func(b *bench) {
		id := b.pushed(1)
		var seen counter
		stop := b.serve(b.middleware(), seen.wrap(func(_ context.Context, task *asynq.Task) error {
			time.Sleep(time.Second)
			if string(task.Payload()) != string(b.definition.Payload) {
				return errWork
			}
			return nil
		}))
		time.Sleep(5 * time.Second)
		stop()
		b.wantOutcome(id, claim.OutcomeSucceeded)
		b.wantTask(string(id), "completed")
		want := Firing{ID: id, Schedule: "nightly", Generation: 7, ScheduledAt: time.Date(2030, 1, 2, 3, 4, 1, 0, time.UTC), Attempt: 1, Token: 1001}
		if seen.last != want {
			b.t.Errorf("FiringFrom = %+v, want %+v", seen.last, want)
		}
		report := b.ledger.log[0]
		if report.Duration != time.Second || report.Worker != "w1" || report.KeepRuns != 20 || report.Attempt != 1 {
			b.t.Errorf("report = %+v", report)
		}
		if len(b.recorder.started) != 1 || len(b.recorder.ended) != 1 || b.recorder.ended[0].Outcome != claim.OutcomeSucceeded {
			b.t.Errorf("observed %+v, %+v", b.recorder.started, b.recorder.ended)
		}
	})
}

func TestTaskWithoutHeadersKeepsAsynqsBehaviour(t *testing.T) {
	inBubble(t, definition(), func(b *bench) {
		client := asynq.NewClientFromRedisClient(b.redis)
		runs := 0
		m := b.middleware(func(o *MiddlewareOptions) { o.Handles = func(string) bool { return false } })
		if _, err := client.Enqueue(asynq.NewTask("plain", nil), asynq.TaskID("p"), asynq.Queue(b.definition.Queue), asynq.MaxRetry(2)); err != nil {
			b.t.Fatal(err)
		}
		stop := b.serve(m, func(ctx context.Context, _ *asynq.Task) error {
			if _, ok := FiringFrom(ctx); ok {
				b.t.Error("a plain task has a firing")
			}
			runs++
			return errWork
		})
		time.Sleep(time.Minute)
		stop()
		b.wantTask("p", "archived")
		if runs != 3 || b.ledger.count("begin") != 0 {
			b.t.Errorf("%d runs and %d begins, want 3 and 0", runs, b.ledger.count("begin"))
		}
	})
}

func TestFailuresAreBoundedByMaxRetry(t *testing.T) {
	for _, maxRetry := range []int{0, 1, 3} {
		t.Run(fmt.Sprint("max_retry ", maxRetry), func(t *testing.T) {
			inBubble(t, definition(retries(maxRetry)), func(b *bench) {
				id := b.pushed(1)
				var seen counter
				stop := b.serve(b.middleware(), seen.wrap(func(context.Context, *asynq.Task) error { return errWork }))
				time.Sleep(3 * time.Minute)
				stop()
				if seen.of(id) != maxRetry+1 {
					b.t.Errorf("%d runs, want %d", seen.of(id), maxRetry+1)
				}
				b.wantOutcome(id, claim.OutcomeFailed)
				b.wantTask(string(id), "archived")
				for i, report := range b.ledger.log {
					want := claim.OutcomeRetrying
					if i == maxRetry {
						want = claim.OutcomeFailed
					}
					if report.Outcome != want || report.Error != errWork.Error() || report.Attempt != i+1 {
						b.t.Errorf("report %d = %+v, want %s", i, report, want)
					}
				}
			})
		})
	}
}

// B118: a task that always fails with no retries, ten scheduled times.
func TestArchivedTaskDoesNotBlockTheNextFiring(t *testing.T) {
	inBubble(t, definition(retries(0)), func(b *bench) {
		stop := b.serve(b.middleware(), func(context.Context, *asynq.Task) error { return errWork })
		for i := range 10 {
			b.pushed(i)
			time.Sleep(2 * time.Second)
		}
		stop()
		archived, err := b.inspector.ListArchivedTasks(b.definition.Queue)
		if err != nil || len(archived) != 10 {
			b.t.Errorf("%d archived tasks (%v), want 10", len(archived), err)
		}
		for i := range 10 {
			b.wantOutcome(firingAt(i), claim.OutcomeFailed)
		}
	})
}

func TestHandlerErrors(t *testing.T) {
	long := strings.Repeat("x", 5000)
	tests := []struct {
		name    string
		handler asynq.HandlerFunc
		outcome claim.RunOutcome
		state   string
		text    string
	}{
		{"SkipRetry", func(context.Context, *asynq.Task) error { return fmt.Errorf("no: %w", asynq.SkipRetry) }, claim.OutcomeFailed, "archived", "no: skip retry"},
		{"RevokeTask", func(context.Context, *asynq.Task) error { return fmt.Errorf("no: %w", asynq.RevokeTask) }, claim.OutcomeFailed, "none", "no: revoke"},
		{"panic", func(context.Context, *asynq.Task) error { panic("boom\x1b[31m") }, "", "retry", "panic: boom�[31m ["},
		{"nil map write", func(context.Context, *asynq.Task) error { var m map[string]int; m["a"] = 1; return nil }, "", "retry", "panic: assignment to entry in nil map ["},
		{"long text", func(context.Context, *asynq.Task) error { return errors.New(long) }, "", "retry", "xxxx"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, definition(), func(b *bench) {
				id := b.pushed(1)
				stop := b.serve(b.middleware(), tt.handler)
				time.Sleep(3 * time.Second)
				stop()
				b.wantOutcome(id, tt.outcome)
				b.wantTask(string(id), tt.state)
				text := b.ledger.log[0].Error
				if !strings.Contains(text, tt.text) || len(text) > maxErrorText || strings.ContainsAny(text, "\x1b\n") {
					b.t.Errorf("reported error (%d bytes) = %q, want it to contain %q", len(text), text, tt.text)
				}
				if info := b.task(string(id)); info != nil && len(info.LastErr) > maxErrorText {
					b.t.Errorf("asynq stores %d bytes of error", len(info.LastErr))
				}
			})
		})
	}
}

func TestPanicNamesTheHandler(t *testing.T) {
	err := call(t.Context(), asynq.HandlerFunc(explode), nil)
	var panicked *PanicError
	if !errors.As(err, &panicked) || !strings.HasPrefix(panicked.Stack, "github.com/belfryhq/belfry/pkg/queue.explode(") {
		t.Errorf("call = %v, want a PanicError whose stack starts at the handler", err)
	}
}

func explode(context.Context, *asynq.Task) error { panic(errWork) }

func TestBeginAnswers(t *testing.T) {
	tests := []struct {
		answer claim.BeginResult
		state  string // of the task afterwards
	}{
		{claim.BeginResult{Answer: claim.BeginSettled}, "completed"},
		{claim.BeginResult{Answer: claim.BeginGone}, "none"},
		{claim.BeginResult{Answer: claim.BeginCancelled}, "none"},
		{claim.BeginResult{Answer: claim.BeginUnknown}, "archived"},
		{claim.BeginResult{Answer: claim.BeginBusy, Wait: time.Minute}, "retry"},
		{claim.BeginResult{Answer: claim.BeginEarly}, "retry"},
		{claim.BeginResult{Answer: "NEWER"}, "retry"},
	}
	for _, tt := range tests {
		t.Run(string(tt.answer.Answer), func(t *testing.T) {
			inBubble(t, definition(), func(b *bench) {
				id := firingAt(1)
				b.ledger.answer(id, tt.answer)
				b.push(id)
				var seen counter
				stop := b.serve(b.middleware(), seen.wrap(func(context.Context, *asynq.Task) error { return nil }))
				time.Sleep(3 * time.Second)
				stop()
				b.wantTask(string(id), tt.state)
				if seen.of(id) != 0 || b.ledger.count("finish") != 0 {
					b.t.Errorf("%d runs, %d reports, want none", seen.of(id), b.ledger.count("finish"))
				}
				if info := b.task(string(id)); tt.state != "none" && (info == nil || info.Retried != 0) {
					b.t.Errorf("task = %+v, want no retry counted", info)
				}
			})
		})
	}
}

// A task that is delivered while another attempt runs waits for its lease.
func TestBusyTaskWaitsForTheLease(t *testing.T) {
	inBubble(t, definition(), func(b *bench) {
		id := firingAt(1)
		b.ledger.add(id, claim.FiringRunning, b.definition.Queue, func(f *claim.OpenFiring) {
			f.Attempt, f.Token, f.LeaseUntil = 1, 5, time.Now().Add(20*time.Second)
		})
		b.push(id)
		start := time.Now()
		var ran time.Duration
		stop := b.serve(b.middleware(), func(context.Context, *asynq.Task) error { ran = time.Since(start); return nil })
		time.Sleep(time.Minute)
		stop()
		if ran < 20*time.Second || ran > 25*time.Second {
			b.t.Errorf("ran after %s, want soon after the lease of 20 s", ran)
		}
		b.wantOutcome(id, claim.OutcomeSucceeded)
		if begins := b.ledger.count("begin"); begins > 4 {
			b.t.Errorf("asked %d times", begins)
		}
	})
}

// asynq archives a task on its last attempt whatever IsFailure says; one that
// was handed back must vanish instead, or it would look like one that failed.
func TestHandBackOnTheLastAttempt(t *testing.T) {
	inBubble(t, definition(retries(1)), func(b *bench) {
		id := b.pushed(1)
		var unknown atomic.Bool
		m := b.middleware(func(o *MiddlewareOptions) { o.Handles = func(string) bool { return !unknown.Load() } })
		var seen counter
		stop := b.serve(m, seen.wrap(func(context.Context, *asynq.Task) error {
			if seen.of(id) == 1 {
				unknown.Store(true)
				return errWork
			}
			return nil
		}))
		time.Sleep(30 * time.Second)
		b.wantTask(string(id), "none")
		if f, ok := b.ledger.get(id); !ok || f.State != claim.FiringWaiting || f.Attempt != 1 {
			b.t.Fatalf("open firing = %+v, want one that waits", f)
		}
		unknown.Store(false)
		if r := b.sweep(id); r.Redriven != 1 {
			b.t.Errorf("sweep = %+v, want one re-drive", r)
		}
		time.Sleep(5 * time.Second)
		stop()
		b.wantOutcome(id, claim.OutcomeSucceeded)
		if seen.of(id) != 2 {
			b.t.Errorf("%d runs, want 2", seen.of(id))
		}
	})
}

func TestUnknownTypeIsHandedBack(t *testing.T) {
	tests := []struct {
		name    string
		handles func(string) bool
		begins  int
	}{
		{"before begin, when Handles says so", func(string) bool { return false }, 0},
		{"after begin, when the mux says so", nil, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, definition(), func(b *bench) {
				id := b.pushed(1)
				m := b.middleware(func(o *MiddlewareOptions) { o.Handles = tt.handles })
				mux := asynq.NewServeMux()
				stop := b.serve(m, mux.ProcessTask)
				time.Sleep(900 * time.Millisecond)
				if n := b.ledger.count("begin"); n != tt.begins {
					b.t.Errorf("%d begins, want %d", n, tt.begins)
				}
				time.Sleep(10 * time.Minute)
				stop()
				f, ok := b.ledger.get(id)
				if !ok || f.Attempt != 0 || f.State != claim.FiringEnqueued {
					b.t.Errorf("open firing = %+v, want it enqueued and unattempted", f)
				}
				if info := b.task(string(id)); info == nil || info.State == asynq.TaskStateArchived || info.Retried != 0 {
					b.t.Errorf("task = %+v, want it alive", info)
				}
			})
		})
	}
}

// Tasks of a type that nobody serves pile up, so each must cost less the longer
// it waits.
func TestUnknownTypeIsDeliveredLessAndLessOften(t *testing.T) {
	inBubble(t, definition(), func(b *bench) {
		id := claim.ScheduledFiring(b.definition.ID, 7, time.Now())
		b.ledger.add(id, claim.FiringEnqueued, b.definition.Queue)
		b.push(id)
		var deliveries, known atomic.Int64
		m := b.middleware(func(o *MiddlewareOptions) {
			o.Handles = func(string) bool { deliveries.Add(1); return known.Load() == 1 }
		})
		var seen counter
		stop := b.serve(m, seen.wrap(func(context.Context, *asynq.Task) error { return nil }))
		time.Sleep(5 * time.Second)
		if n := deliveries.Load(); n < 3 {
			b.t.Errorf("%d deliveries in the first 5 s, want about one a second", n)
		}
		time.Sleep(10 * time.Minute)
		if n := deliveries.Load(); n > 100 {
			b.t.Errorf("%d deliveries in ten minutes, want at most 100", n)
		}
		known.Store(1) // a worker with the handler joins
		time.Sleep(maxUnserved + 3*time.Second)
		stop()
		if seen.of(id) != 1 {
			b.t.Errorf("%d runs once the type is known, want 1", seen.of(id))
		}
	})
}

func TestDamagedHeadersAreArchived(t *testing.T) {
	inBubble(t, definition(), func(b *bench) {
		task := asynq.NewTaskWithHeaders("x", nil, map[string]string{HeaderFiring: "not a firing\n"})
		if _, err := asynq.NewClientFromRedisClient(b.redis).Enqueue(task, asynq.TaskID("d"), asynq.Queue(b.definition.Queue)); err != nil {
			b.t.Fatal(err)
		}
		stop := b.serve(b.middleware(), func(context.Context, *asynq.Task) error { b.t.Error("it ran"); return nil })
		time.Sleep(3 * time.Second)
		stop()
		b.wantTask("d", "archived")
	})
}

// A handler that kills its process again and again is given up.
func TestPoisonPillIsGivenUp(t *testing.T) {
	inBubble(t, definition(retries(1)), func(b *bench) {
		id := firingAt(1)
		b.ledger.add(id, claim.FiringWaiting, b.definition.Queue, func(f *claim.OpenFiring) { f.Attempt = 1 + 1 + poisonAttempts })
		b.push(id)
		var seen counter
		stop := b.serve(b.middleware(), seen.wrap(func(context.Context, *asynq.Task) error { return nil }))
		time.Sleep(3 * time.Second)
		stop()
		b.wantOutcome(id, claim.OutcomeFailed)
		b.wantTask(string(id), "archived")
		if seen.of(id) != 0 {
			b.t.Error("it ran once more")
		}
	})
}

// Re-driving starts asynq's count anew; the ledger's attempts still bound it.
func TestRedrivenFiringKeepsItsBound(t *testing.T) {
	inBubble(t, definition(retries(2)), func(b *bench) {
		id := firingAt(1)
		b.ledger.add(id, claim.FiringWaiting, b.definition.Queue, func(f *claim.OpenFiring) { f.Attempt, f.Redrives = 2, 1 })
		if err := b.enqueuer.Push(b.t.Context(), Push{Firing: id, Redrives: 1, Definition: b.definition}); err != nil {
			b.t.Fatal(err)
		}
		var seen counter
		stop := b.serve(b.middleware(), seen.wrap(func(context.Context, *asynq.Task) error { return errWork }))
		time.Sleep(time.Minute)
		stop()
		b.wantOutcome(id, claim.OutcomeFailed)
		b.wantTask(string(id)+"~1", "archived")
		if seen.of(id) != 1 {
			b.t.Errorf("%d runs, want 1", seen.of(id))
		}
	})
}

func TestReleasedFiringsAreEnqueued(t *testing.T) {
	inBubble(t, definition(), func(b *bench) {
		first, next := firingAt(1), firingAt(2)
		b.ledger.add(first, claim.FiringEnqueued, b.definition.Queue)
		b.push(first)
		gone := claim.FiringID("nightly:6:1000") // of an earlier generation
		b.ledger.fault = func(call string, done bool) error {
			if call == "finish" && !done {
				b.ledger.fault = nil
				b.ledger.add(next, claim.FiringIntent, b.definition.Queue)
				b.ledger.release = []claim.Released{{Firing: next, Queue: b.definition.Queue}, {Firing: gone, Queue: b.definition.Queue}}
			}
			return nil
		}
		stop := b.serve(b.middleware(), func(context.Context, *asynq.Task) error { return nil })
		time.Sleep(5 * time.Second)
		stop()
		b.wantOutcome(first, claim.OutcomeSucceeded)
		b.wantOutcome(next, claim.OutcomeSucceeded)
		b.wantTask(string(gone), "none")
		if b.ledger.count("mark") != 1 {
			b.t.Error("the released firing was not marked")
		}
	})
}

func TestNewMiddlewareRefuses(t *testing.T) {
	b := newBench(t, newBenchClient(t), definition())
	good := MiddlewareOptions{Ledger: b.ledger, Enqueuer: b.enqueuer, Catalog: b.catalog}
	tests := []struct {
		field  string
		change func(*MiddlewareOptions)
	}{
		{"ledger", func(o *MiddlewareOptions) { o.Ledger = nil }},
		{"catalog", func(o *MiddlewareOptions) { o.Catalog = nil }},
		{"enqueuer", func(o *MiddlewareOptions) { o.Enqueuer = nil }},
		{"lease", func(o *MiddlewareOptions) { o.Lease = -1 }},
		{"lease", func(o *MiddlewareOptions) { o.Lease = time.Millisecond }},
		{"audit_after", func(o *MiddlewareOptions) { o.AuditAfter = -1 }},
		{"keep_runs", func(o *MiddlewareOptions) { o.KeepRuns = -1 }},
	}
	for _, tt := range tests {
		options := good
		tt.change(&options)
		var field *schedule.FieldError
		if _, err := NewMiddleware(options); !errors.As(err, &field) || field.Field != tt.field {
			t.Errorf("NewMiddleware without a good %s = %v", tt.field, err)
		}
	}
}

func TestRetryDelay(t *testing.T) {
	b := newBench(t, newBenchClient(t), definition())
	m := b.middleware()
	firing := asynq.NewTaskWithHeaders("x", nil, map[string]string{HeaderFiring: string(firingAt(1))})
	plain := asynq.NewTask("x", nil)
	tests := []struct {
		name string
		err  error
		task *asynq.Task
		want time.Duration
	}{
		{"handed back", fmt.Errorf("x: %w", &HandBackError{After: 7 * time.Second}), firing, 7 * time.Second},
		{"handed back at once", &HandBackError{}, firing, time.Second},
		{"worker of a firing died", asynq.ErrLeaseExpired, firing, time.Second},
		{"worker of another task died", asynq.ErrLeaseExpired, plain, 10 * time.Second},
		{"failed", errWork, firing, 10 * time.Second},
	}
	for _, tt := range tests {
		if got := m.RetryDelay(0, tt.err, tt.task); got != tt.want {
			t.Errorf("%s: RetryDelay = %s, want %s", tt.name, got, tt.want)
		}
	}
	if m.IsFailure(&HandBackError{}) || m.IsFailure(&DroppedError{}) || !m.IsFailure(errWork) || !m.IsFailure(asynq.ErrLeaseExpired) || m.IsFailure(nil) {
		t.Error("IsFailure judges wrongly")
	}
	m = b.middleware(func(o *MiddlewareOptions) { o.IsFailure = func(err error) bool { return !errors.Is(err, errWork) } })
	if m.IsFailure(errWork) || m.IsFailure(&HandBackError{Cause: errWork}) {
		t.Error("IsFailure does not ask the user's")
	}
}

// Goexit, as t.FailNow does it, must not hang the worker.
func TestHandlerThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := call(t.Context(), asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
			runtime.Goexit()
			return nil
		}), nil)
		if !errors.Is(err, errGoexit) {
			t.Errorf("call = %v", err)
		}
	})
}
