package queue

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
)

// A breach stands between asynq's server and Redis and fails the scripts by which
// it ends tasks, under what it says they do.
type breach struct {
	redis.Hook
	mu    sync.Mutex
	tries map[string]int
	fails func(end string) error // nil: goes through
	after bool                   // the script runs all the same, and its reply is lost
}

func newBreach(fails func(string) error) *breach {
	return &breach{Hook: NewBackoffHook(), tries: map[string]int{}, fails: fails}
}

// ProcessHook fails scripts.
func (b *breach) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		end := endOf(cmd)
		if end == "" || ctx.Err() != nil { // the tries of asynq's own are of no use
			return next(ctx, cmd)
		}
		b.mu.Lock()
		b.tries[end]++
		err := b.fails(end)
		b.mu.Unlock()
		if err == nil || b.after {
			if done := next(ctx, cmd); err == nil || redis.HasErrorPrefix(done, "NOSCRIPT") {
				return done
			}
		}
		return err
	}
}

// endOf says how a script of asynq's ends a task, by the third key, or the
// fourth where the first is the task's; "" when it is another one.
func endOf(cmd redis.Cmder) string {
	args := cmd.Args()
	if _, ok := scriptOf(cmd); !ok || len(args) < 7 {
		return ""
	}
	text := func(i int) string { s, _ := args[i].(string); return s }
	first, to := text(3), text(5)
	if strings.Contains(first, ":t:") && strings.HasSuffix(text(4), ":active") {
		to = text(6)
	} else if !strings.HasSuffix(first, ":active") {
		return ""
	}
	_, to, _ = strings.Cut(to, "}:")
	to, _, _ = strings.Cut(to, ":")
	return to
}

// ended runs one task on a server whose completions fail.
func ended(t *testing.T, breach *breach, handler asynq.HandlerFunc, wait time.Duration, options ...asynq.Option) (state string) {
	t.Helper()
	client := redistest.InMemory(t).Client()
	client.AddHook(NewBackoffHook())
	client.AddHook(breach)
	enqueue := asynq.NewClientFromRedisClient(client)
	if _, err := enqueue.Enqueue(asynq.NewTask("x", nil), append(options, asynq.TaskID("one"), asynq.Queue("q"))...); err != nil {
		t.Fatal(err)
	}
	server := asynq.NewServerFromRedisClient(client, asynq.Config{Concurrency: 1, Queues: map[string]int{"q": 1}, ShutdownTimeout: time.Second,
		TaskCheckInterval: 200 * time.Millisecond, Logger: NewAsynqLogger(nil), RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour }})
	if err := server.Start(handler); err != nil {
		t.Fatal(err)
	}
	time.Sleep(wait)
	info, err := asynq.NewInspectorFromRedisClient(client).GetTaskInfo("q", "one")
	server.Shutdown()
	switch {
	case errors.Is(err, asynq.ErrTaskNotFound):
		return "gone"
	case err != nil:
		t.Fatal(err)
	}
	return info.State.String()
}

// errCut is a connection that ended: whether the script ran, nobody knows.
var errCut = &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}

// asynq ends a task once, and what is refused then stays undone until the lease
// of the task is over.
func TestCompletionsAreRepeated(t *testing.T) {
	fail := func(context.Context, *asynq.Task) error { return errors.New("no") }
	succeed := func(context.Context, *asynq.Task) error { return nil }
	tests := []struct {
		name     string
		handler  asynq.HandlerFunc
		options  []asynq.Option
		end      string
		want     string
		repeated bool
	}{
		{"succeeded", succeed, nil, "t", "gone", true},
		{"succeeded and retained", succeed, []asynq.Option{asynq.Retention(time.Hour)}, "completed", "completed", true},
		{"succeeded, unique", succeed, []asynq.Option{asynq.Unique(time.Hour)}, "t", "gone", true},
		{"revoked", func(context.Context, *asynq.Task) error { return asynq.RevokeTask }, nil, "t", "gone", true},
		{"failed for good", func(context.Context, *asynq.Task) error { return asynq.SkipRetry }, nil, "archived", "archived", true},
		{"attempts used up", fail, []asynq.Option{asynq.MaxRetry(0)}, "archived", "archived", true},
		{"failed", fail, nil, "retry", "active", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, lost := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					began := time.Now()
					breach := newBreach(func(string) error {
						if time.Since(began) < 10*time.Second {
							return errCut
						}
						return nil
					})
					breach.after = lost
					state := ended(t, breach, tt.handler, 15*time.Second, tt.options...)
					want := tt.want
					if lost && !tt.repeated {
						want = tt.end // it ran at once
					}
					if state != want {
						t.Errorf("reply lost %v: after the outage the task is %s, want %s", lost, state, want)
					}
					if n := breach.tries[tt.end]; (n > 4) != tt.repeated || n > 15 {
						t.Errorf("reply lost %v: %d tries, want some: %v", lost, n, tt.repeated)
					}
				})
			}
		})
	}
}

// After the lease another worker may have the task.
func TestCompletionsEndWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, last := time.Now(), time.Duration(0)
		breach := newBreach(func(string) error { last = time.Since(began); return errCut })
		ended(t, breach, func(context.Context, *asynq.Task) error { return nil }, 40*time.Second)
		if last < 25*time.Second || last > 31*time.Second {
			t.Errorf("the last try was after %s, want about the lease of 30s", last)
		}
	})
}

// What the server cannot be told again is not repeated.
func TestCompletionsHeedAnswers(t *testing.T) {
	done := []any{"evalsha", "aa", 5, "asynq:{q}:active", "asynq:{q}:lease", "asynq:{q}:t:one", "x", "y"}
	kept := []any{"eval", "source", 6, "asynq:{q}:active", "asynq:{q}:lease", "asynq:{q}:completed", "asynq:{q}:t:one"}
	archived := []any{"eval", "source", 9, "asynq:{q}:t:one", "asynq:{q}:active", "asynq:{q}:lease", "asynq:{q}:archived"}
	tests := []struct {
		name   string
		ends   bool // the context
		args   []any
		err    error
		repeat bool
	}{
		{"the connection failed", true, done, errCut, true},
		{"out of memory", true, kept, redistest.Refusal("OOM command not allowed"), true},
		{"no permission", true, archived, redistest.Refusal("NOPERM this user has no permissions"), true},
		{"one try took too long", true, kept, context.DeadlineExceeded, true},
		{"no context that ends: asynq's recoverer", false, archived, errCut, false},
		{"the script is missing", true, done, redistest.Refusal("NOSCRIPT No matching script"), false},
		{"the task is not active", true, done, redistest.Refusal("NOT FOUND"), false},
		{"the task is completed", true, kept, redistest.Refusal("INTERNAL"), false},
		{"the client is closed", true, done, redis.ErrClosed, false},
		{"another script", true, []any{"evalsha", "aa", 3, "asynq:{q}:active", "asynq:{q}:lease", "asynq:{q}:pending", "x"}, errCut, false},
		{"a retry", true, []any{"evalsha", "aa", 4, "asynq:{q}:t:one", "asynq:{q}:active", "asynq:{q}:lease", "asynq:{q}:retry"}, errCut, false},
		{"keys of somebody else", true, []any{"evalsha", "aa", 3, "mine:active", "mine:lease", "mine}:t:one", "x"}, errCut, false},
		{"too few words", true, []any{"evalsha", "aa", 2, "asynq:{q}:active", "asynq:{q}:lease"}, errCut, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tt.ends {
					bounded, cancel := context.WithTimeout(ctx, time.Minute)
					defer cancel()
					ctx = bounded
				}
				tries := 0
				run := NewBackoffHook().ProcessHook(func(context.Context, redis.Cmder) error {
					if tries++; tries < 3 {
						return tt.err
					}
					return nil
				})
				err := run(ctx, redis.NewCmd(ctx, tt.args...))
				if want := map[bool]int{true: 3, false: 1}[tt.repeat]; tries != want {
					t.Errorf("%d tries, want %d", tries, want)
				}
				if tt.repeat != (err == nil) {
					t.Errorf("error = %v", err)
				}
			})
		})
	}
}

// A try whose reply was lost took effect: what the next one does not find is done.
func TestCompletionsThatTookEffectAreNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, first := range []error{errCut, redistest.Refusal("NOT FOUND")} {
			answers := []error{first, redistest.Refusal("NOT FOUND")}
			run := NewBackoffHook().ProcessHook(func(context.Context, redis.Cmder) error {
				err := answers[0]
				answers = answers[1:]
				return err
			})
			err := run(ctx, redis.NewCmd(ctx, "evalsha", "aa", 5, "asynq:{q}:active", "asynq:{q}:lease", "asynq:{q}:t:one", "x", "y"))
			if (err == nil) != (first == errCut) {
				t.Errorf("after %v: error = %v", first, err)
			}
		}
	})
}

// A store that goes back after it took the report, while asynq's completion is
// refused, has the completed task as the record of the run.
func TestRefusedCompletionOfAForgottenSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := redistest.InMemory(t).Client()
		began := time.Now()
		client.AddHook(NewBackoffHook())
		client.AddHook(newBreach(func(string) error {
			if time.Since(began) < 3*time.Second {
				return errCut
			}
			return nil
		}))
		b := newBench(t, client, definition())
		id := b.pushed(1)
		counts := &counter{}
		stop := b.serve(b.middleware(), counts.wrap(func(context.Context, *asynq.Task) error { return nil }))
		time.Sleep(2 * time.Second)
		b.wantOutcome(id, claim.OutcomeSucceeded)
		b.ledger.add(id, claim.FiringEnqueued, b.definition.Queue) // it went back
		time.Sleep(5 * time.Second)
		b.wantTask(string(id), "completed")
		b.sweep(id)
		b.wantOutcome(id, claim.OutcomeSucceeded)
		time.Sleep(3 * time.Minute)
		stop()
		if n := counts.of(id); n != 1 {
			t.Errorf("it ran %d times, want once", n)
		}
	})
}
