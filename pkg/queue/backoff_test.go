package queue

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"

	"github.com/hibiken/asynq"
)

// K8: a dequeue that is refused would spin.
func TestBackoffHookSlowsRefusedDequeues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := redistest.InMemory(t)
		client := memory.Client()
		client.AddHook(NewBackoffHook())
		counts := &countHook{}
		client.AddHook(counts)
		b := newBench(t, client, definition())
		id := b.pushed(1)
		memory.Server().SetError("OOM command not allowed when used memory > 'maxmemory'.")
		stop := b.serveUnpinged(b.middleware(), func(context.Context, *asynq.Task) error { return nil })
		time.Sleep(time.Minute)
		// Above all the dequeue: at most 8 calls until the delay is full, then
		// about 1.3 a second; the rest is asynq's housekeeping.
		if n := counts.scripts.Load(); n > 300 {
			t.Errorf("%d scripts in a minute of refusals", n)
		}
		memory.Server().SetError("")
		time.Sleep(10 * time.Second)
		stop()
		b.wantOutcome(id, claim.OutcomeSucceeded)
	})
}

// serveUnpinged is serve for a Redis that refuses everything: Start pings.
func (b *bench) serveUnpinged(m *Middleware, handler asynq.HandlerFunc) func() {
	b.t.Helper()
	server := asynq.NewServerFromRedisClient(b.redis, asynq.Config{
		Concurrency: 1, Queues: map[string]int{b.definition.Queue: 1}, IsFailure: m.IsFailure, RetryDelayFunc: m.RetryDelay,
		TaskCheckInterval: 200 * time.Millisecond, Logger: NewAsynqLogger(nil),
	})
	if err := server.Start(m.Wrap(handler)); err != nil {
		b.t.Fatal(err)
	}
	return server.Shutdown
}

// countHook counts scripts.
type countHook struct {
	backoffHook
	scripts atomic.Int64
}

func (h *countHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if _, ok := scriptOf(cmd); ok {
			h.scripts.Add(1)
		}
		return next(ctx, cmd)
	}
}

func TestBackoffHookLeavesOthersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := NewBackoffHook().ProcessHook
		took := func(err error, args ...any) time.Duration {
			start := time.Now()
			cmd := redis.NewCmd(t.Context(), args...)
			if got := hook(func(context.Context, redis.Cmder) error { return err })(t.Context(), cmd); !errors.Is(got, err) {
				t.Errorf("the hook turned %v into %v", err, got)
			}
			return time.Since(start)
		}
		// One hook value per call above has its own counts; share one below.
		shared := NewBackoffHook()
		hook = shared.ProcessHook
		refusal := errors.New("OOM command not allowed")
		for range 20 {
			for _, other := range []struct {
				err  error
				args []any
			}{
				{refusal, []any{"get", "k"}},
				{redis.Nil, []any{"evalsha", "aa"}},
				{errors.New("NOSCRIPT No matching script"), []any{"evalsha", "bb"}},
				{nil, []any{"evalsha", "cc"}},
			} {
				if d := took(other.err, other.args...); d != 0 {
					t.Errorf("%v with %v took %s", other.args, other.err, d)
				}
			}
		}
		var last time.Duration
		for range 10 {
			last = took(refusal, "evalsha", "dd")
		}
		if last < backoffMost/2 || last > backoffMost {
			t.Errorf("the tenth refusal took %s, want up to %s", last, backoffMost)
		}
		took(nil, "evalsha", "dd")
		if d := took(refusal, "evalsha", "dd"); d > backoffFirst {
			t.Errorf("the first refusal after a success took %s", d)
		}
	})
}

func TestBackoffHookEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		run := NewBackoffHook().ProcessHook(func(context.Context, redis.Cmder) error { return errDown })
		for range 10 {
			_ = run(t.Context(), redis.NewCmd(ctx, "evalsha", "aa"))
		}
		time.AfterFunc(time.Millisecond, cancel)
		start := time.Now()
		if err := run(ctx, redis.NewCmd(ctx, "evalsha", "aa")); !errors.Is(err, errDown) || time.Since(start) > time.Millisecond {
			t.Errorf("it held on for %s and answered %v", time.Since(start), err)
		}
	})
}
