package worker_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/belfryhq/belfry/pkg/worker"
)

// muteDial connects to somebody who listens and never answers, like a server
// behind a firewall that drops packets, or one that expects no TLS.
func muteDial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, server) }()
	return client, nil
}

// A journal is a log that several goroutines write.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) lines(part string) (found []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.text.String()) {
		if strings.Contains(line, part) {
			found = append(found, line)
		}
	}
	return found
}

// TestAWorkerStopsInTimeWhenRedisDoesNotAnswer has no Redis that refuses, but
// one that hangs: calls under way can only be waited for.
func TestAWorkerStopsInTimeWhenRedisDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: muteDial, ContextTimeoutEnabled: true,
			ReadTimeout: time.Minute, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}})
		defer client.Close()
		var log journal
		const drain = 10 * time.Second
		w, err := worker.New(worker.Options{Redis: client, Drain: drain, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		w.HandleFunc("log", func(context.Context, *asynq.Task) error { return nil })
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		time.Sleep(6 * time.Second)
		if said := log.lines("waiting for Redis"); len(said) != 1 {
			t.Errorf("after 6 s the log says %q, want once that it waits", said)
		}
		time.Sleep(time.Minute)
		stop()
		stopped := time.Now()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
		if took := time.Since(stopped); took > drain+4*time.Second {
			t.Errorf("the worker stopped after %s, want about %s", took, drain)
		}
		if said := append(log.lines("waiting for Redis"), log.lines("msg=asynq")...); len(said) != 1 {
			t.Errorf("in a minute the log says %q, want once that it waits", said)
		}
		time.Sleep(time.Hour) // what was left behind gives up by itself
	})
}

// TestReadinessIsAnsweredInTimeWhenRedisHangs asks as an orchestrator does,
// which gives up after a second, and as many do at once.
func TestReadinessIsAnsweredInTimeWhenRedisHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int32
		dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials.Add(1)
			return muteDial(ctx, network, addr)
		}
		options := &redis.Options{Addr: "127.0.0.1:1", Dialer: muteDial, ContextTimeoutEnabled: true,
			ReadTimeout: time.Minute, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}}
		client := redis.NewClient(options)
		defer client.Close()
		options.Dialer = dial
		queues := redis.NewClient(options)
		defer queues.Close()
		w, err := worker.New(worker.Options{Redis: client, QueueRedis: queues, Drain: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		w.HandleFunc("log", func(context.Context, *asynq.Task) error { return nil })
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		time.Sleep(time.Second)
		before := dials.Load()
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				asked := time.Now()
				if err := w.Ready(context.Background()); err == nil || !strings.Contains(err.Error(), "waiting for Redis") {
					t.Errorf("Ready = %v, want that it waits for Redis", err)
				}
				if took := time.Since(asked); took > time.Second {
					t.Errorf("Ready took %s, want at most a second", took)
				}
			})
		}
		group.Wait()
		if n := dials.Load() - before; n > 5 {
			t.Errorf("50 at once made %d connections, want one question", n)
		}
		time.Sleep(6 * time.Second) // no announcement is under way: gocron waits for one without a pause, and time stands still
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
		time.Sleep(time.Hour) // what was left behind gives up by itself
	})
}
