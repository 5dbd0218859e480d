package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/config"
	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/queue"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

// A patient is checked.
type patient struct{ ready, live error }

func (p patient) Ready(context.Context) error { return p.ready }
func (p patient) Live() error                 { return p.live }

func TestHealthAnswers(t *testing.T) {
	sick := errors.New("worker: draining")
	tests := []struct {
		name, path string
		worker     patient
		code       int
		body       string
	}{
		{"ready", "/readyz", patient{}, 200, "ok\n"},
		{"not ready", "/readyz", patient{ready: sick}, 503, "worker: draining\n"},
		{"live", "/livez", patient{ready: sick}, 200, "ok\n"},
		{"not live", "/livez", patient{live: sick}, 503, "worker: draining\n"},
		{"not ready, for a hostile reason", "/readyz", patient{ready: errors.New("by eve: \x1b[2J\xff\r\n\u009b\u202eü")}, 503, "by eve: \ufffd[2J\ufffd\ufffd\ufffd\ufffd\ufffdü\n"},
		{"elsewhere", "/", patient{}, 404, "404 page not found\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			healthHandler(tt.worker, http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest("GET", tt.path, nil))
			if w.Code != tt.code || w.Body.String() != tt.body {
				t.Errorf("GET %s = %d %q, want %d %q", tt.path, w.Code, w.Body, tt.code, tt.body)
			}
		})
	}
}

func TestProbe(t *testing.T) {
	server := httptest.NewServer(healthHandler(patient{ready: errors.New("worker: draining")}, http.NotFoundHandler()))
	t.Cleanup(server.Close)
	if err := Probe(t.Context(), server.URL+"/livez"); err != nil {
		t.Errorf("Probe of a live worker = %v, want nil", err)
	}
	if err := Probe(t.Context(), server.URL+"/readyz"); ExitCode(err) != ExitFailed || !strings.Contains(err.Error(), "draining") {
		t.Errorf("Probe of a draining worker = %v, want the reason", err)
	}
	hostile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "\x1b]0;x\a", http.StatusTeapot)
	}))
	t.Cleanup(hostile.Close)
	if err := Probe(t.Context(), hostile.URL); err == nil || strings.ContainsAny(err.Error(), "\x1b\a") {
		t.Errorf("Probe of a hostile server = %q, want an error without control characters", err)
	}
	if err := Probe(t.Context(), ":"); ExitCode(err) != ExitUsage {
		t.Errorf("Probe of no URL = %v with exit code %d, want %d", err, ExitCode(err), ExitUsage)
	}
}

// B039: a Redis that may evict is warned about.
func TestEvictionIsWarnedAbout(t *testing.T) {
	server := redistest.Start(t, redistest.ServerOptions{})
	denied := redistest.Start(t, redistest.ServerOptions{Args: []string{"--rename-command", "CONFIG", ""}})
	client := server.Client()
	tests := []struct {
		name   string
		client redis.UniversalClient
		policy string
		want   string
	}{
		{"the right policy", client, "noeviction", ""},
		{"a policy that drops keys", client, "allkeys-lru", "allkeys-lru"},
		{"CONFIG denied, the right policy", denied.Client(), "", ""},
		{"miniredis tells nothing", redistest.InMemory(t).Client(), "", "not known"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.policy != "" {
				if err := tt.client.ConfigSet(t.Context(), "maxmemory-policy", tt.policy).Err(); err != nil {
					t.Fatal(err)
				}
			}
			var log strings.Builder
			checkEviction(t.Context(), tt.client, slog.New(slog.NewTextHandler(&log, nil)))
			if (tt.want == "") != (log.Len() == 0) || !strings.Contains(log.String(), tt.want) {
				t.Errorf("the log says %q, want %q", log.String(), tt.want)
			}
		})
	}
}

func TestLogObserverSaysWhatFailed(t *testing.T) {
	var out strings.Builder
	o := logObserver{logger: newLogger(&out, false, config.Process{LogFormat: "json", LogLevel: slog.LevelInfo})}
	o.RunEnded(queue.RunEvent{Firing: queue.Firing{ID: "ok:1:2"}, Outcome: claim.OutcomeSucceeded})
	if out.Len() != 0 {
		t.Errorf("a success was logged: %s", out.String())
	}
	o.RunEnded(queue.RunEvent{Firing: queue.Firing{ID: "bad:1:2"}, Outcome: claim.OutcomeFailed, Err: io.ErrUnexpectedEOF})
	for _, want := range []string{`"level":"ERROR"`, `"firing":"bad:1:2"`, `"outcome":"failed"`, `"error":"unexpected EOF"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("log of a failed run lacks %s: %s", want, out.String())
		}
	}
}
