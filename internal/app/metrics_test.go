package app

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/config"
	"github.com/belfryhq/belfry/internal/connect"
	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/pkg/worker"
)

// A scraper reads what the worker program serves at /metrics.
type scraper struct {
	t   *testing.T
	url string
}

// scrape returns the series by name and labels, and the text.
func (s scraper) scrape() (map[string]float64, string) {
	s.t.Helper()
	code, text := get(s.t, s.url+"/metrics")
	if code != http.StatusOK {
		s.t.Fatalf("/metrics answers %d: %s", code, text)
	}
	series := map[string]float64{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if name == strings.TrimSpace(line) {
			name, value, _ = strings.Cut(name, " ")
		} else {
			name += "}"
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			s.t.Fatalf("line %q: %v", line, err)
		}
		series[name] = n
	}
	return series, text
}

// await waits until a series is as wanted.
func (s scraper) await(name string, ok func(float64) bool) {
	s.t.Helper()
	wait(s.t, func() bool {
		series, _ := s.scrape()
		value, there := series[name]
		return there && ok(value)
	})
}

func atLeast(n float64) func(float64) bool { return func(v float64) bool { return v >= n } }
func exactly(n float64) func(float64) bool { return func(v float64) bool { return v == n } }

// TestMetricsFollowTheWorker runs the program with a schedule that succeeds and
// one that fails, stops its Redis and starts it again.
func TestMetricsFollowTheWorker(t *testing.T) {
	server := redistest.Start(t, redistest.ServerOptions{})
	environ := map[string]string{"BELFRY_REDIS_URL": "redis://" + server.Addr() + "/0", "BELFRY_EXEC_ALLOW": "/bin/false", "BELFRY_DRAIN": "2s"}
	redisConfig, err := config.LoadRedis(map[string]string{"BELFRY_REDIS_URL": environ["BELFRY_REDIS_URL"]})
	if err != nil {
		t.Fatal(err)
	}
	store, client, err := connect.Open(t.Context(), redisConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	none := 0
	for _, definition := range []schedule.Schedule{
		{ID: "canary-good", Expression: "1s", Type: "log"},
		{ID: "canary-bad", Expression: "1s", Type: "exec", Payload: []byte(`{"command":"/bin/false"}`), MaxRetry: &none},
		{ID: "canary-paused", Expression: "1s", Type: "log", Paused: true},
	} {
		if _, err := store.Put(t.Context(), definition, schedule.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var stderr buffer
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, Options{Version: "v9.9.9", Stdout: io.Discard, Stderr: &stderr, Environ: environ})
	}()
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
	wait(t, func() bool { return address.MatchString(stderr.String()) })
	s := scraper{t, address.FindString(stderr.String())}
	s.await(`belfry_runs_total{outcome="succeeded"}`, atLeast(2))
	s.await(`belfry_runs_total{outcome="failed"}`, atLeast(2))
	s.await(`belfry_schedules{state="paused"}`, exactly(1))
	s.await(`belfry_schedules{state="active"}`, exactly(2))
	series, text := s.scrape()
	for name, ok := range map[string]func(float64) bool{
		`belfry_decisions_total{decision="enqueued"}`: atLeast(4), "belfry_enqueued_total": atLeast(4), "belfry_claimed_total": atLeast(4),
		"belfry_lateness_seconds_count": atLeast(4), "belfry_run_duration_seconds_count": atLeast(4), "belfry_redis_up": exactly(1), "belfry_stats_up": exactly(1),
		"belfry_redis_outages_total": exactly(0), `belfry_runs_total{outcome="lost"}`: exactly(0), `belfry_decisions_total{decision="missed"}`: exactly(0),
		`belfry_last_success_timestamp_seconds{loop="claim"}`: atLeast(float64(time.Now().Unix() - 5)), "belfry_due_lateness_seconds": atLeast(0),
	} {
		if value, there := series[name]; !there || !ok(value) {
			t.Errorf("%s is %v (there: %t)", name, value, there)
		}
	}
	if !strings.Contains(text, `version="v9.9.9"`) || strings.Contains(text, "canary") {
		t.Errorf("the metrics lack the version, or name a schedule:\n%s", text)
	}
	signal(t, server, syscall.SIGSTOP)
	t.Cleanup(func() { signal(t, server, syscall.SIGCONT) })
	s.await("belfry_redis_up", exactly(0))
	s.await("belfry_stats_up", exactly(0))
	asked := time.Now()
	s.scrape()
	if took := time.Since(asked); took > 1500*time.Millisecond {
		t.Errorf("a scrape took %s while Redis hangs, want about a second at most", took)
	}
	signal(t, server, syscall.SIGCONT)
	s.await("belfry_redis_up", exactly(1))
	s.await("belfry_stats_up", exactly(1))
	s.await("belfry_redis_outages_total", atLeast(1))
	stop()
	if err := <-done; err != nil {
		t.Errorf("Run = %v", err)
	}
}

func signal(t *testing.T, server *redistest.Server, what syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(server.PID(), what); err != nil {
		t.Fatal(err)
	}
}

// Whatever a store answers, and however many schedules there are, the number of
// series stays the same.
func TestMetricsHaveBoundedSeries(t *testing.T) {
	m := newMetrics("v1", true)
	count := func() (n int) {
		families, err := m.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			n += len(family.Metric)
		}
		return n
	}
	before := count()
	for i := range 200 {
		id := schedule.ID("s" + strconv.Itoa(i))
		m.Decided(worker.DecidedEvent{Schedule: id, Type: string(id), Queue: string(id), Decision: claim.DecideEnqueued, Outcome: claim.CompleteOK})
		m.Decided(worker.DecidedEvent{Decision: claim.DecideVerdict, Verdict: schedule.Verdict(i), Outcome: claim.CompleteOK})
		m.Decided(worker.DecidedEvent{Outcome: claim.Outcome(id)})
		m.RunStarted(queue.RunEvent{})
		m.RunEnded(queue.RunEvent{Type: string(id), Outcome: claim.RunOutcome(id), Started: true})
		m.RunEnded(queue.RunEvent{})
		m.Settled(queue.AuditEvent{Queue: string(id), Outcome: claim.RunOutcome(id)})
	}
	if after := count(); after > before+4 {
		t.Errorf("%d series became %d", before, after)
	}
}

// The metrics that the manual names, and the label values of its alert rules,
// are those that are served.
func TestMetricsOfTheManualExist(t *testing.T) {
	manual, err := os.ReadFile("../../docs/OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	m := newMetrics("v1", true)
	w := httptest.NewRecorder()
	now := time.Now()
	m.handler(measuredOnce{worker.Counts{ClaimedAt: now, SweptAt: now}}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	served := w.Body.String()
	names := regexp.MustCompile(`belfry_[a-z_]+`).FindAllString(string(manual), -1)
	if len(names) < 25 {
		t.Fatalf("the manual names %d metrics", len(names))
	}
	for _, name := range names {
		if !strings.Contains(served, "# TYPE "+name+" ") {
			t.Errorf("the manual names %s, which is not served", name)
		}
	}
	for line := range strings.Lines(served) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok && !strings.Contains(string(manual), strings.Fields(name)[0]) {
			t.Errorf("the manual does not name %s", name)
		}
	}
	for _, match := range regexp.MustCompile(`(belfry_[a-z_]+)\{([a-z]+)=~?"([a-z|]+)"\}`).FindAllStringSubmatch(string(manual), -1) {
		for value := range strings.SplitSeq(match[3], "|") {
			if series := match[1] + "{" + match[2] + `="` + value + `"}`; !strings.Contains(served, series) {
				t.Errorf("a rule reads %s, which is not served", series)
			}
		}
	}
}

// A worker that only runs tasks does not notice an outage: it must not tell, and
// with max() outshout, that Redis is up.
func TestMetricsOfAWorkerThatClaimsNothing(t *testing.T) {
	for claims, want := range map[bool]bool{true: true, false: false} {
		w := httptest.NewRecorder()
		newMetrics("v1", claims).handler(measuredOnce{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		for _, name := range []string{"\nbelfry_redis_up ", "\nbelfry_redis_outages_total "} {
			if got := strings.Contains(w.Body.String(), name); got != want {
				t.Errorf("claims %t: %q is served: %t", claims, name, got)
			}
		}
	}
}

// measuredOnce is a worker with an empty namespace.
type measuredOnce struct{ counts worker.Counts }

func (m measuredOnce) Counts() worker.Counts                         { return m.counts }
func (m measuredOnce) Stats(context.Context) (schedule.Stats, error) { return schedule.Stats{}, nil }
