package app

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/config"
	"github.com/belfryhq/belfry/internal/connect"
	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/schedule"
)

const canary = "canary-9Zk"

// A buffer may be written and read at the same time.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestRunWithoutRedisNamesBothWays(t *testing.T) {
	err := Run(t.Context(), Options{Environ: map[string]string{}, Stdout: io.Discard, Stderr: io.Discard})
	if ExitCode(err) != ExitUsage || !strings.Contains(err.Error(), "BELFRY_REDIS_URL") || !strings.Contains(err.Error(), "--demo") {
		t.Errorf("Run = %v with exit code %d, want both ways named and %d", err, ExitCode(err), ExitUsage)
	}
}

func TestRunRefusesSettings(t *testing.T) {
	tests := []struct{ name, variable, value string }{
		{"concurrency", "BELFRY_CONCURRENCY", "many"},
		{"host list", "BELFRY_HTTP_HOSTS", "http://example.com"},
		{"program", "BELFRY_EXEC_ALLOW", "relative/path"},
		{"directory of programs that are off", "BELFRY_EXEC_DIRS", "/a/../b"},
		{"environment of programs that are off", "BELFRY_EXEC_ENV", "A B"},
		{"certificates", "BELFRY_REDIS_CA_FILE", "/does/not/exist"},
		{"address", "BELFRY_HTTP_ADDR", "nowhere"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			environ := map[string]string{"BELFRY_REDIS_URL": "rediss://u:" + canary + "@127.0.0.1:1", tt.variable: tt.value}
			err := Run(t.Context(), Options{Environ: environ, Stdout: io.Discard, Stderr: io.Discard})
			if ExitCode(err) != ExitUsage || !strings.Contains(err.Error(), tt.variable) {
				t.Errorf("Run with %s=%s = %v with exit code %d, want the variable named and %d", tt.variable, tt.value, err, ExitCode(err), ExitUsage)
			}
			if err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("the error holds the password: %v", err)
			}
		})
	}
}

func TestExitCode(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{{nil, 0}, {errors.New("x"), 1}, {&UsageError{errors.New("x")}, 2}, {errors.Join(errors.New("y"), &UsageError{errors.New("x")}), 2}} {
		if got := ExitCode(tt.err); got != tt.want {
			t.Errorf("ExitCode(%v) = %d, want %d", tt.err, got, tt.want)
		}
	}
}

// TestARedisThatIsAwayIsNoError runs the program with nobody at the other end:
// it waits, says so once, shows no password, and stops in order.
func TestARedisThatIsAwayIsNoError(t *testing.T) {
	var stderr buffer
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, Options{Stdout: io.Discard, Stderr: &stderr, Environ: map[string]string{
			"BELFRY_REDIS_URL": "redis://user:" + canary + "@127.0.0.1:1", "BELFRY_LOG_LEVEL": "DEBUG", "BELFRY_DRAIN": "1s"}})
	}()
	wait(t, func() bool { return strings.Contains(stderr.String(), "waiting for Redis") })
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(stderr.String())
	if code, text := get(t, address+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(text, "waiting for Redis") {
		t.Errorf("/readyz answers %d %q, want 503 and the reason", code, text)
	}
	if code, _ := get(t, address+"/livez"); code != http.StatusOK {
		t.Errorf("/livez answers %d, want 200: a restart would not help", code)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
	if n := strings.Count(stderr.String(), `"waiting for Redis"`); n != 1 {
		t.Errorf("said %d times that it waits, want once:\n%s", n, stderr.String())
	}
	if strings.Contains(stderr.String(), canary) {
		t.Errorf("the log holds the password:\n%s", stderr.String())
	}
}

// TestDemo runs the demo as a user does and uses the line that it prints.
func TestDemo(t *testing.T) {
	var stdout, stderr buffer
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, Options{Demo: true, Stdout: &stdout, Stderr: &stderr, Environ: map[string]string{}})
	}()
	wait(t, func() bool { return strings.Contains(stdout.String(), "  ran    tick") })
	for _, want := range []string{"NOTHING IS DURABLE", "  fired  tick"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the demo did not print %q:\n%s", want, stdout.String())
		}
	}
	url := regexp.MustCompile(`export BELFRY_REDIS_URL=(redis://:[A-Z0-9]+@127\.0\.0\.1:\d+/0)\n`).FindStringSubmatch(stdout.String())
	if url == nil {
		t.Fatalf("no export line:\n%s", stdout.String())
	}
	redisConfig, err := config.LoadRedis(map[string]string{"BELFRY_REDIS_URL": url[1]})
	if err != nil {
		t.Fatal(err)
	}
	store, client, err := connect.Open(ctx, redisConfig)
	if err != nil {
		t.Fatalf("OpenStore with the exported URL: %v", err)
	}
	defer client.Close()
	if page, err := store.List(ctx, schedule.ListOptions{}); err != nil || len(page.Entries) < 4 {
		t.Errorf("schedules of the demo: %d, %v; want the examples", len(page.Entries), err)
	}
	if _, err := store.Trigger(ctx, "nightly-report", schedule.TriggerOptions{}); err != nil {
		t.Fatal(err)
	}
	triggered := time.Now()
	wait(t, func() bool { return strings.Contains(stdout.String(), "fired  nightly-report") })
	if took := time.Since(triggered); took > time.Second {
		t.Errorf("a trigger took %s, want at most a second", took)
	}
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/readyz`).FindString(stdout.String())
	if err := Probe(ctx, address); err != nil {
		t.Errorf("Probe(%s) = %v, want nil", address, err)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
	if log := stderr.String(); log != "" {
		t.Errorf("the demo logged beside what it tells:\n%s", log)
	}
}

// The demo has a Redis of its own: one that the environment names is left
// alone, and that is said, without its password.
func TestTheDemoLeavesAGivenRedisAlone(t *testing.T) {
	const canary = "hunter2canary"
	server := redistest.Start(t, redistest.ServerOptions{})
	var stdout, stderr buffer
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, Options{Demo: true, Stdout: &stdout, Stderr: &stderr, Environ: map[string]string{
			"BELFRY_REDIS_URL": "redis://:" + canary + "@" + server.Addr() + "/0", "BELFRY_HTTP_ADDR": "off"}})
	}()
	wait(t, func() bool { return strings.Contains(stdout.String(), "  ran  ") })
	stop()
	if err := <-done; err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
	if said := stderr.String(); !strings.Contains(said, "BELFRY_REDIS_URL is not used") || !strings.Contains(said, server.Addr()) || strings.Contains(said, canary) {
		t.Errorf("the demo said %q, want that %s is not used, and no password", said, server.Addr())
	}
	if keys, err := server.Client().DBSize(t.Context()).Result(); err != nil || keys != 0 {
		t.Errorf("the given Redis has %d keys, %v; want none", keys, err)
	}
}

// TestDemoTellsARun reads the lines of the demo.
func TestDemoTellsARun(t *testing.T) {
	line := regexp.MustCompile(`^\d\d:\d\d:\d\d\.\d{3}  (fired|ran  )  [a-z-]+ +\S`)
	var stdout buffer
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, Options{Demo: true, Stdout: &stdout, Stderr: io.Discard, Environ: map[string]string{"BELFRY_HTTP_ADDR": "off"}})
	}()
	wait(t, func() bool { return strings.Contains(stdout.String(), "  ran  ") })
	stop()
	if err := <-done; err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
	_, lines, _ := strings.Cut(stdout.String(), "Ctrl-C stops it.\n\n")
	scanner := bufio.NewScanner(strings.NewReader(lines))
	for scanner.Scan() {
		if !line.MatchString(scanner.Text()) {
			t.Errorf("line %q is not time, what, schedule and text", scanner.Text())
		}
	}
}

// wait polls until ok or fails the test after 20 s.
func wait(t *testing.T, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatal("waited 20s in vain")
		case <-ticker.C:
		}
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}
