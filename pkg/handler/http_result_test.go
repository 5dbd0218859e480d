package handler

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/queue"
)

// The status and the beginning of the response are the result of the task, byte
// by byte: who shows it escapes it.
func TestHTTPKeepsTheResponse(t *testing.T) {
	client := redistest.InMemory(t).Client()
	inspector := asynq.NewInspectorFromRedisClient(client)
	status, body := http.StatusOK, ""
	target, _ := serverOf(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body)) // 204 takes none
	})
	h := httpFor(t, HTTPOptions{}, target)
	kept := make(chan string, 1)
	server := asynq.NewServerFromRedisClient(client, asynq.Config{Concurrency: 1, Logger: queue.NewAsynqLogger(nil), TaskCheckInterval: 10 * time.Millisecond})
	if err := server.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		err := h.ProcessTask(ctx, task)
		id, _ := asynq.GetTaskID(ctx)
		info, lookErr := inspector.GetTaskInfo("default", id)
		if (err != nil) != (status >= 400) || lookErr != nil {
			t.Errorf("status %d: %v, %v", status, err, lookErr)
			kept <- ""
			return nil
		}
		kept <- string(info.Result)
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	binary := "\x00\x1b[31m\xff\xfe\r\n"
	for _, tt := range []struct {
		name   string
		status int
		body   string
		want   string
	}{
		{"text", 200, "done", "HTTP/1.1 200 OK\n\ndone"},
		{"another status", 202, `{"a":1}`, "HTTP/1.1 202 Accepted\n\n{\"a\":1}"},
		{"no body", 204, "", "HTTP/1.1 204 No Content\n\n"},
		{"binary", 200, binary, "HTTP/1.1 200 OK\n\n" + binary},
		{"long", 200, "begin" + strings.Repeat("x", 100<<10), "HTTP/1.1 200 OK\n\nbegin" + strings.Repeat("x", maxOutput-5)},
		{"a failure", 500, "why", ""},
	} {
		status, body = tt.status, tt.body
		if _, err := asynq.NewClientFromRedisClient(client).Enqueue(taskOf(t, map[string]any{"url": target.URL}), asynq.TaskID(tt.name)); err != nil {
			t.Fatal(err)
		}
		if got := <-kept; got != tt.want {
			t.Errorf("%s: %d bytes, %.80q, want %d, %.80q", tt.name, len(got), got, len(tt.want), tt.want)
		}
	}
}
