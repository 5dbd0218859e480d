package admincli

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/handler"
	"github.com/belfryhq/belfry/pkg/queue"
)

// answering serves one reply, as it is, to every request.
func answering(t *testing.T, reply string) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if request, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					_, _ = io.Copy(io.Discard, request.Body)
					_, _ = io.WriteString(conn, reply)
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// What a stranger's server answers to an http task is kept to the byte, and no
// view of it is obeyed by a terminal: neither its status line nor its body.
func TestHTTPResultsAreShownEscaped(t *testing.T) {
	const status = "200 \x1b]0;owned\x07\u202efine"
	const body = "<b>\x1b[2J\x1b[31mred\r\n\u009b31m\x00\xff\u2066end\twith tab"
	kept := httpResult(t, "HTTP/1.1 "+status+"\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n"+body)
	if kept != "HTTP/1.1 "+status+"\n\n"+body {
		t.Fatalf("the task keeps %q", kept)
	}
	r := newRig(t)
	a := act(t, r)
	a.begin("w1")()
	r.left(t, string(a.firing), kept)
	a.finish(claim.OutcomeSucceeded, "")()
	for _, args := range [][]string{{"run", "logs"}, {"run", "logs", "-f"}, {"run", "get"}, {"task", "get", "--queue", "default"}} {
		for _, format := range []string{"table", "wide", "json", "jsonl", "yaml", "name"} {
			got := r.must(append(append([]string{}, args...), string(a.firing), "-o", format)...)
			if err := safe(strings.ReplaceAll(got.stdout+got.stderr, "\t", "")); err != nil {
				t.Errorf("%v -o %s: %v", args, format, err)
			}
			if args[1] == "logs" && (format == "table" || format == "wide") && !strings.Contains(got.stdout,
				`  HTTP/1.1 200 \x1b]0;owned\x07\u202efine`+"\n  \n"+`  <b>\x1b[2J\x1b[31mred`+"\n"+`  \u009b31m\x00\xff\u2066end`+"\twith tab\n") {
				t.Errorf("%v -o %s: %q", args, format, got.stdout)
			}
		}
	}
	var exact logsJSON
	if err := json.Unmarshal([]byte(r.must("run", "logs", string(a.firing), "-o", "json").stdout), &exact); err != nil || exact.Output != nil || exact.OutputBase64 == "" {
		t.Errorf("bytes that are no UTF-8: %+v, %v", exact, err)
	}
	if raw := r.must("run", "logs", string(a.firing), "--raw").stdout; raw != kept {
		t.Errorf("--raw: %q", raw)
	}
}

// httpResult is what the http handler leaves of a reply in a task of a queue.
func httpResult(t *testing.T, reply string) string {
	t.Helper()
	address := answering(t, reply)
	h, err := handler.NewHTTP(handler.HTTPOptions{AllowedHosts: []string{address}})
	if err != nil {
		t.Fatal(err)
	}
	client := redistest.InMemory(t).Client()
	server := asynq.NewServerFromRedisClient(client, asynq.Config{Concurrency: 1, Logger: queue.NewAsynqLogger(nil), TaskCheckInterval: 10 * time.Millisecond})
	if err := server.Start(h); err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	payload, err := json.Marshal(map[string]string{"url": "http://" + address})
	if err != nil {
		t.Fatal(err)
	}
	task := asynq.NewTaskWithHeaders("http", payload, map[string]string{queue.HeaderFiring: "tick:1:mmine"})
	if _, err := asynq.NewClientFromRedisClient(client).Enqueue(task, asynq.TaskID("tick:1:mmine"), asynq.Retention(time.Hour), asynq.MaxRetry(0)); err != nil {
		t.Fatal(err)
	}
	inspector := asynq.NewInspectorFromRedisClient(client)
	deadline := time.After(20 * time.Second)
	for ticker := time.NewTicker(10 * time.Millisecond); ; {
		select {
		case <-deadline:
			t.Fatal("the task has not ended")
		case <-ticker.C:
		}
		info, err := inspector.GetTaskInfo("default", "tick:1:mmine")
		if err != nil {
			t.Fatal(err)
		}
		if info.State == asynq.TaskStateCompleted {
			return string(info.Result)
		}
		if info.State == asynq.TaskStateArchived {
			t.Fatalf("the request failed: %s", info.LastErr)
		}
	}
}
