package worker

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/belfryhq/belfry/internal/redistest"
)

func TestCalmSlowsDownRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := redistest.InMemory(t)
		client := newCalm(memory.Client())
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

// K8: asynq's dequeue is refused while its other scripts are answered.
func TestCalmSlowsDownOneScriptOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newCalm(redistest.InMemory(t).Client())
		refused, answered := redis.NewScript("return redis.error_reply('OOM refused')"), redis.NewScript("return 1")
		began, calls := time.Now(), 0
		for time.Since(began) < 30*time.Second {
			if err := refused.Run(t.Context(), client, []string{"k"}).Err(); err == nil || redis.HasErrorPrefix(err, "NOSCRIPT") {
				t.Fatalf("the refused script = %v", err)
			}
			before := time.Now()
			if err := answered.Run(t.Context(), client, []string{"k"}).Err(); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(before); took > 0 {
				t.Fatalf("a script that is answered took %s", took)
			}
			calls++
			// The answer of the last try was held back for up to a second.
			if err := client.stuck(); err == nil && time.Since(began) > calmStuck+time.Second || err != nil && time.Since(began) <= calmStuck {
				t.Fatalf("after %s stuck = %v", time.Since(began), err)
			}
		}
		if calls > 60 {
			t.Errorf("%d refused calls in 30s, want few", calls)
		}
	})
}

// What comes once a minute and met a second in which Redis loaded its file, and
// what Redis ran and answered with no, is not stuck.
func TestCalmForgivesSingleRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := redistest.InMemory(t)
		client := newCalm(memory.Client())
		seldom, no := redis.NewScript("return 1"), redis.NewScript("return redis.error_reply('NOT FOUND')")
		memory.Server().SetError("LOADING Redis is loading the dataset in memory")
		if err := seldom.Run(t.Context(), client, []string{"k"}).Err(); err == nil {
			t.Fatal("a refused script succeeded")
		}
		memory.Server().SetError("")
		for range 6 {
			if err := no.Run(t.Context(), client, []string{"k"}).Err(); !redis.HasErrorPrefix(err, "NOT FOUND") {
				t.Fatalf("the script said %v", err)
			}
			time.Sleep(calmStuck / 2)
			if err := client.stuck(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// asynq does not repeat what ends a task; and readiness hears of the refusals
// while they last.
func TestCalmRepeatsCompletions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := redistest.InMemory(t)
		client := newCalm(memory.Client())
		done := redis.NewScript("return redis.call('LREM', KEYS[1], 0, ARGV[1])")
		keys := []string{"asynq:{q}:active", "asynq:{q}:lease", "asynq:{q}:t:one", "asynq:{q}:processed:2026-11-30", "asynq:{q}:processed"}
		if err := memory.Client().LPush(t.Context(), keys[0], "one").Err(); err != nil {
			t.Fatal(err)
		}
		memory.Server().SetError("OOM command not allowed when used memory > 'maxmemory'")
		time.AfterFunc(calmStuck+3*time.Second, func() { // tries are up to 2 s apart
			if client.stuck() == nil {
				t.Errorf("nothing is stuck after %s of refusals", calmStuck+3*time.Second)
			}
		})
		time.AfterFunc(calmStuck+5*time.Second, func() { memory.Server().SetError("") })
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if n, err := done.Run(ctx, client, keys, "one").Int(); err != nil || n != 1 {
			t.Errorf("the completion = %d, %v, want 1", n, err)
		}
		if err := client.stuck(); err != nil {
			t.Errorf("after an answer: %v", err)
		}
	})
}

// A server that takes a script and never answers.
func TestCalmSetsDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: mute, ContextTimeoutEnabled: true, ReadTimeout: time.Hour,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}, MaxRetries: -1})
		defer client.Close()
		calm := newCalm(client)
		for n := 1; n <= 6; n++ {
			began := time.Now()
			err := calm.EvalSha(t.Context(), "sha", []string{"k"}).Err()
			if took := time.Since(began); err == nil || took > calmCall+time.Second {
				t.Errorf("call %d = %v after %s, want an error within %s", n, err, took, calmCall+time.Second)
			}
		}
	})
}

// mute connects to somebody who listens and never answers.
func mute(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, server) }()
	return client, nil
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

// The jobs beside the loops do not repeat what the loop that claims says of an
// outage, but tell of what it does not meet.
func TestOfAnOutageTheJobsSayNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := redistest.InMemory(t)
		var out strings.Builder
		w, err := New(Options{Redis: memory.Client(), Logger: slog.New(slog.NewTextHandler(&out, nil))})
		if err != nil {
			t.Fatal(err)
		}
		m, err := newMender(w.store)
		if err != nil {
			t.Fatal(err)
		}
		var answered error
		w.unlisted.Store(&answered)
		w.scheduler.shards.Store(1) // as after the first answer
		for says, lines := range map[string]int{"LOADING Redis is loading the dataset in memory": 0, "NOPERM this user has no permissions": 2} {
			out.Reset()
			memory.Server().SetError(says)
			w.finishCalendars(t.Context())
			w.mend(t.Context(), m)
			if got := strings.Count(out.String(), "level=WARN"); got != lines {
				t.Errorf("while Redis says %q: %d warnings, want %d:\n%s", says, got, lines, out.String())
			}
		}
	})
}
