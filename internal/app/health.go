package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode"
)

// A checked is what the health endpoints ask.
type checked interface {
	Ready(ctx context.Context) error
	Live() error
}

// A health serves /livez, /readyz and /metrics.
type health struct {
	listener net.Listener
	server   *http.Server
	done     chan error
}

// Bounds of the health endpoints.
const (
	healthCheckTime = 2 * time.Second
	healthHTTPTime  = 5 * time.Second
)

// startHealth listens on addr; port 0 picks a free one.
func startHealth(addr string, worker checked, metrics http.Handler) (*health, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("app: serve health at BELFRY_HTTP_ADDR %q: %w (choose a free address, or off)", addr, err)
	}
	h := &health{listener: listener, done: make(chan error, 1), server: &http.Server{Handler: healthHandler(worker, metrics),
		ReadHeaderTimeout: healthHTTPTime, ReadTimeout: healthHTTPTime, WriteTimeout: healthHTTPTime, IdleTimeout: healthHTTPTime,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}}
	go func() { h.done <- h.server.Serve(listener) }()
	return h, nil
}

func healthHandler(worker checked, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { answer(w, worker.Live()) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), healthCheckTime)
		defer cancel()
		answer(w, worker.Ready(ctx))
	})
	mux.Handle("GET /metrics", metrics)
	return mux
}

func answer(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprintln(w, harmless(err.Error())) // the client went away
		return
	}
	_, _ = io.WriteString(w, "ok\n") // likewise
}

// harmless replaces what a terminal would obey. An answer may hold what somebody
// typed, such as the reason of a drain, and is read with curl.
func harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// url returns where the endpoints are.
func (h *health) url() string { return "http://" + h.listener.Addr().String() }

func (h *health) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), healthCheckTime)
	defer cancel()
	err := h.server.Shutdown(ctx)
	if served := <-h.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// Probe asks a health endpoint, for container health checks in images that
// have no shell. It returns an error unless the answer is 200.
func Probe(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, healthHTTPTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil || request.URL.Host == "" || request.URL.Scheme != "http" && request.URL.Scheme != "https" {
		return &UsageError{fmt.Errorf("--health %q: allowed: a URL such as http://127.0.0.1:8080/readyz", url)}
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("app: ask %s: %w", url, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1024)) // what came is enough
		return fmt.Errorf("app: %s answered %d: %s", url, response.StatusCode, harmless(string(bytes.TrimSpace(text))))
	}
	return nil
}
