package redistest_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/schedule"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

func TestBackendsRunScriptsAndKeepNamespacesApart(t *testing.T) {
	t.Parallel()
	for _, backend := range redistest.Backends() {
		t.Run(backend.Name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			client := backend.Dial(t)
			for range 3 { // a shared server answers every one
				key := "belfry:{" + redistest.Namespace() + ":00}:x"
				got, err := client.Eval(ctx, `return redis.call("HINCRBY", KEYS[1], "n", ARGV[1])`, []string{key}, 7).Int()
				if err != nil || got != 7 {
					t.Errorf("Eval on a fresh namespace = %d, %v, want 7, nil", got, err)
				}
			}
			if again := backend.Dial(t).Ping(ctx); again.Err() != nil {
				t.Errorf("Ping of a second client: %v", again.Err())
			}
		})
	}
}

func TestClusterSpreadsSlots(t *testing.T) {
	t.Parallel()
	client := redistest.Backends()[2].Dial(t)
	err := client.MSet(t.Context(), "{a}x", 1, "{b}x", 2).Err()
	if err == nil || !strings.Contains(err.Error(), "CROSSSLOT") && !strings.Contains(err.Error(), "same slot") {
		t.Errorf("MSET over two slots: %v, want a refusal", err)
	}
}

func TestNamespaceIsRandomAndValid(t *testing.T) {
	t.Parallel()
	a, b := redistest.Namespace(), redistest.Namespace()
	if a == b {
		t.Errorf("two calls gave %q", a)
	}
	if err := schedule.ValidateNamespace(a); err != nil {
		t.Error(err)
	}
}

func TestServerKeepsItsDataThroughKillWithAOF(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		options redistest.ServerOptions
		want    int64
	}{
		{"nothing survives without", redistest.ServerOptions{}, 0},
		{"the key survives with it", redistest.ServerOptions{AOF: true, Args: []string{"--appendfsync", "always"}}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, server := t.Context(), redistest.Start(t, tt.options)
			addr, client := server.Addr(), server.Client()
			if err := client.Set(ctx, "k", "v", 0).Err(); err != nil {
				t.Fatal(err)
			}
			server.Kill()
			if pid := server.PID(); pid != 0 {
				t.Errorf("PID after Kill = %d, want 0", pid)
			}
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if err := client.Ping(short).Err(); err == nil {
				t.Error("a killed server answered")
			}
			server.Restart()
			if server.Addr() != addr {
				t.Errorf("Addr after Restart = %s, want %s", server.Addr(), addr)
			}
			if got, err := client.Exists(ctx, "k").Result(); err != nil || got != tt.want {
				t.Errorf("Exists after Kill and Restart = %d, %v, want %d", got, err, tt.want)
			}
			server.Stop()
			server.Stop()
		})
	}
}

func TestInMemoryFollowsTheBubblesClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, memory := t.Context(), redistest.InMemory(t)
		client := memory.Client()
		if err := client.Set(ctx, "k", "v", time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
		before, err := client.Time(ctx).Result()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(59 * time.Minute)
		if n := client.Exists(ctx, "k").Val(); n != 1 {
			t.Errorf("Exists after 59 minutes = %d, want 1", n)
		}
		time.Sleep(2 * time.Minute)
		if n := client.Exists(ctx, "k").Val(); n != 0 {
			t.Errorf("Exists after 61 minutes = %d, want 0", n)
		}
		if after := client.Time(ctx).Val(); after.Sub(before) != 61*time.Minute {
			t.Errorf("TIME moved by %s, want 61m", after.Sub(before))
		}
		client.Set(ctx, "k", "v", time.Hour)
		memory.FastForward(time.Hour)
		if n := client.Exists(ctx, "k").Val(); n != 0 {
			t.Errorf("Exists after FastForward = %d, want 0", n)
		}
	})
}
