package worker

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
)

func TestCalmSlowsDownRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := redistest.InMemory(t)
		client := &calm{UniversalClient: memory.Client()}
		script := redis.NewScript("return redis.call('GET', KEYS[1])")
		memory.Server().SetError("OOM command not allowed when used memory > 'maxmemory'")
		began, calls := time.Now(), 0
		for time.Since(began) < 10*time.Second {
			if err := script.Run(t.Context(), client, []string{"k"}).Err(); err == nil {
				t.Fatal("a refused script succeeded")
			}
			calls++
		}
		if calls > 25 {
			t.Errorf("%d refused calls in 10s, want few", calls)
		}
		memory.Server().SetError("")
		began = time.Now()
		for range 100 {
			if err := script.Run(t.Context(), client, []string{"k"}).Err(); err != redis.Nil {
				t.Fatalf("script = %v, want redis.Nil", err)
			}
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("100 calls that are answered took %s, want no pause", took)
		}
	})
}

func TestQuietDropsWhatTheOutageSays(t *testing.T) {
	var out strings.Builder
	away := false
	logger := slog.New(quiet{slog.NewTextHandler(&out, nil), func() bool { return away }})
	logger.Error("asynq", "text", "Dequeue error: dial tcp 127.0.0.1:1: connect: connection refused")
	if out.Len() != 0 {
		t.Errorf("a failed connection was logged: %s", out.String())
	}
	logger.Error("asynq", "text", "Dequeue error: NOPERM this user has no permissions")
	if !strings.Contains(out.String(), "NOPERM") {
		t.Errorf("a missing permission was not logged: %s", out.String())
	}
	out.Reset()
	away = true
	logger.Error("asynq", "text", "Dequeue error: WRONGPASS invalid username-password pair")
	if out.Len() != 0 {
		t.Errorf("what the scheduler said already was logged: %s", out.String())
	}
}
