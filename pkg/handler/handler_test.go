package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/schedule"
)

const testFiring = "nightly:7:1893553441000"

// taskOf returns a task of the test firing with the payload as JSON.
func taskOf(t *testing.T, payload any) *asynq.Task {
	t.Helper()
	data, ok := payload.([]byte)
	if !ok {
		var err error
		if data, err = json.Marshal(payload); err != nil {
			t.Fatal(err)
		}
	}
	return asynq.NewTaskWithHeaders("test", data, map[string]string{queue.HeaderFiring: testFiring})
}

// refused fails unless the error is final and names the field.
func refused(t *testing.T, name string, err error, field string) {
	t.Helper()
	if !errors.Is(err, asynq.SkipRetry) {
		t.Errorf("%s: error %v is not final", name, err)
		return
	}
	var fieldError *schedule.FieldError
	if field != "" && (!errors.As(err, &fieldError) || fieldError.Field != field) {
		t.Errorf("%s: error %v, want a FieldError of %s", name, err, field)
	}
	if len(err.Error()) > 2000 || strings.ContainsAny(err.Error(), "\x00\x1b\n\r") {
		t.Errorf("%s: error of %d bytes is not fit to show: %.200q", name, len(err.Error()), err.Error())
	}
}

func TestLogWritesOneLine(t *testing.T) {
	hostile := []byte("forged\nlevel=ERROR msg=\"x\"\x1b[31m \xff ‮ end")
	tests := []struct {
		name    string
		options LogOptions
		task    *asynq.Task
		want    []string
		not     []string
	}{
		{"a firing", LogOptions{}, taskOf(t, []byte(`{"a":1}`)),
			[]string{"firing=" + testFiring, "schedule=nightly", "scheduled_at=2030-01-02T03:04:01Z", "payload_bytes=7", `{\\\"a\\\":1}`}, nil},
		{"hostile payload", LogOptions{}, taskOf(t, hostile), []string{`forged\\nlevel=ERROR`, `\\x1b[31m`, `\\xff`, `\\u202e`}, []string{"\x1b", "\xff", "\u202e"}},
		{"long payload", LogOptions{MaxPayload: 5}, taskOf(t, []byte("0123456789")), []string{"payload_bytes=10", "payload=01234"}, []string{"012345"}},
		{"hidden payload", LogOptions{HidePayload: true}, taskOf(t, []byte("secret")), []string{"payload_bytes=6"}, []string{"secret"}},
		{"a plain task", LogOptions{}, asynq.NewTask("x", nil), []string{`firing=""`, "payload_bytes=0"}, []string{"schedule="}},
	}
	for _, tt := range tests {
		var buffer bytes.Buffer
		tt.options.Logger = slog.New(slog.NewTextHandler(&buffer, nil))
		h, err := NewLog(tt.options)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.ProcessTask(t.Context(), tt.task); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		line := buffer.String()
		if strings.Count(line, "\n") != 1 {
			t.Errorf("%s: %d lines", tt.name, strings.Count(line, "\n"))
		}
		for _, want := range tt.want {
			if !strings.Contains(line, want) {
				t.Errorf("%s: line %q lacks %q", tt.name, line, want)
			}
		}
		for _, not := range tt.not {
			if strings.Contains(line, not) {
				t.Errorf("%s: line %q has %q", tt.name, line, not)
			}
		}
	}
	for _, options := range []LogOptions{{}, {Logger: slog.Default(), MaxPayload: -1}} {
		var field *schedule.FieldError
		if _, err := NewLog(options); !errors.As(err, &field) {
			t.Errorf("NewLog = %v, want a FieldError", err)
		}
	}
}

// A handler that enqueues a task with the headers of its own: that task is not
// the firing's, and must not use its idempotency key.
func TestHeadersThatWereHandedOnAreNoFiring(t *testing.T) {
	client := redistest.InMemory(t).Client()
	var log bytes.Buffer
	h, err := NewLog(LogOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	server := asynq.NewServerFromRedisClient(client, asynq.Config{Concurrency: 1, Logger: queue.NewAsynqLogger(nil), TaskCheckInterval: 10 * time.Millisecond})
	if err := server.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		err := h.ProcessTask(ctx, task)
		ended <- err
		return err
	})); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"follow-up", testFiring} {
		if _, err := asynq.NewClientFromRedisClient(client).Enqueue(taskOf(t, []byte("x")), asynq.TaskID(id)); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	server.Shutdown()
	first, second, _ := strings.Cut(log.String(), "\n")
	if !strings.Contains(first, "firing=follow-up") || strings.Contains(first, "nightly") || !strings.Contains(second, "firing="+testFiring) {
		t.Errorf("logged %q and %q, want the ID of the follow-up and then the firing", first, second)
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	all := strings.Repeat("0123456789", 10)
	for _, chunk := range []int{1, 3, 7, 16, 40, 100} {
		out := &tail{limit: 16}
		for rest := all; rest != ""; {
			n := min(chunk, len(rest))
			if written, err := out.Write([]byte(rest[:n])); written != n || err != nil {
				t.Fatalf("Write = %d, %v", written, err)
			}
			rest = rest[n:]
		}
		if got := string(out.bytes()); got != all[len(all)-16:] {
			t.Errorf("in chunks of %d: %q", chunk, got)
		}
	}
	if got := (&tail{limit: 4}).text(); got != "no output" {
		t.Errorf("text of nothing = %q", got)
	}
}
