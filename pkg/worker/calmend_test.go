package worker

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
)

// asynq's server panics when what it subscribed to is closed under it, as with
// its client.
func TestTheSubscriptionOutlivesTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := redistest.InMemory(t)
		client := twin(memory.Client()).(*redis.Client) // which nobody closes a second time
		calm := newCalm(client)
		heard := calm.Subscribe(t.Context(), "c")
		if _, err := heard.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		messages := heard.Channel()
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		memory.Server().Publish("c", "hello")
		select {
		case m, ok := <-messages:
			if !ok || m.Payload != "hello" {
				t.Errorf("after the client was closed: %v, open: %v, want a message", m, ok)
			}
		case <-time.After(time.Second):
			t.Error("no message after the client was closed")
		}
		if err := heard.Close(); err != nil {
			t.Error(err)
		}
		if err := calm.deafen(); err != nil {
			t.Error(err)
		}
	})
}

func TestTwinsTalkToTheSameServer(t *testing.T) {
	node, cluster := redis.NewClient(&redis.Options{Addr: "a:1", MinIdleConns: 3}), redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"b:1"}})
	defer node.Close()
	defer cluster.Close()
	one, ok := twin(node).(*redis.Client)
	if !ok || one == node || one.Options().Addr != "a:1" || one.Options().MinIdleConns != 0 {
		t.Errorf("the twin of a client is %v", one)
	}
	many, ok := twin(cluster).(*redis.ClusterClient)
	if !ok || many == cluster || many.Options().Addrs[0] != "b:1" {
		t.Errorf("the twin of a cluster client is %v", many)
	}
	other := struct{ redis.UniversalClient }{node}
	if twin(other) != redis.UniversalClient(other) {
		t.Error("a client of another kind has a twin")
	}
	_, _ = one.Close(), many.Close()
}

// refuseCompletions is a permission that is missing.
type refuseCompletions struct{ redis.Hook }

// ProcessHook refuses.
func (refuseCompletions) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		for _, arg := range cmd.Args() {
			if s, ok := arg.(string); ok && strings.HasSuffix(s, "}:completed") && strings.HasPrefix(cmd.Name(), "eval") {
				err := redistest.Refusal("NOPERM this user has no permissions to access one of the keys used as arguments")
				cmd.SetErr(err)
				return err
			}
		}
		return next(ctx, cmd)
	}
}

// A task whose completion is refused keeps a server from stopping for as long as
// its lease lives, which is longer than a worker has.
func TestAWorkerStopsInTimeWhileCompletionsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := redistest.InMemory(t).Client()
		client.AddHook(refuseCompletions{&redisIdle{}})
		if _, err := asynq.NewClientFromRedisClient(client).Enqueue(asynq.NewTask("log", nil), asynq.Retention(time.Hour), asynq.TaskID("one")); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		var mu sync.Mutex
		const drain = 5 * time.Second
		w, err := New(Options{Redis: client, Drain: drain, Logger: slog.New(slog.NewTextHandler(lockedWriter{&mu, &out}, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ran := make(chan struct{})
		w.HandleFunc("log", func(context.Context, *asynq.Task) error { close(ran); return nil })
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		<-ran
		time.Sleep(time.Second)
		stop()
		began := time.Now()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
		if took := time.Since(began); took < drain/2 || took > drain+time.Second {
			t.Errorf("the worker stopped after %s, want after most of %s", took, drain)
		}
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(out.String(), "not everything stopped") {
			t.Errorf("the log says:\n%s", out.String())
		}
	})
}

type redisIdle struct{ redis.Hook }

// DialHook changes nothing.
func (*redisIdle) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook changes nothing.
func (*redisIdle) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

type lockedWriter struct {
	mu  *sync.Mutex
	out *strings.Builder
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}
