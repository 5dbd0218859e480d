package app

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/pkg/worker"
)

const (
	statsTime = 700 * time.Millisecond // bounds the question of a scrape to Redis
	statsKept = 5 * time.Second        // an answer serves all scrapes for that long
	scrapes   = 4                      // at a time
)

// Metrics are what /metrics serves. No label takes a value that users choose,
// such as a schedule or a task type: their number has no bound.
type metrics struct {
	worker.NopObserver
	registry *prometheus.Registry

	decisions, notCompleted, runs, settled *prometheus.CounterVec
	enqueued, redriven, isolated, outages  prometheus.Counter
	redisUp, running                       prometheus.Gauge
	lateness, duration                     prometheus.Histogram
}

// What may be in a label, so that each series is there from the start: an alert
// on one that appears with its first failure misses that failure.
var (
	decisionNames = []string{"enqueued", "overlap", "advanced", "coalesced", "missed", "paused", "skipped", "excluded", "superseded"}
	outcomeNames  = []string{"succeeded", "failed", "retrying", "cancelled", "lost", "unknown"}
	refusals      = []string{"already", "stale", "gone", "badnext", "mustfire", "cal"}
	unreported    = "unreported" // the lease was lost, or the task was handed back
)

// newMetrics returns metrics of a worker that is yet to come. One that claims
// nothing has no loop that notices an outage, and must not say that Redis is up.
func newMetrics(version string, claims bool) *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	m.decisions = m.counters("belfry_decisions_total", "Scheduled times that this worker decided, by what became of them.", "decision", decisionNames...)
	m.notCompleted = m.counters("belfry_claims_refused_total", "Claims whose completion the store did not take, by its answer.", "answer", refusals...)
	m.runs = m.counters("belfry_runs_total", "Attempts that ended in this worker, by outcome; unreported: the lease was lost, or the task was handed back.", "outcome", append([]string{unreported}, outcomeNames...)...)
	m.settled = m.counters("belfry_audit_settled_total", "Firings that the auditor of this worker closed, by outcome.", "outcome", outcomeNames...)
	m.enqueued = m.counter("belfry_enqueued_total", "Tasks that this worker put into queues.")
	m.redriven = m.counter("belfry_audit_redriven_total", "Lost tasks that the auditor of this worker enqueued again.")
	m.isolated = m.counter("belfry_isolated_total", "Times that a schedule was put aside, because it could not be planned or enqueued.")
	m.outages = prometheus.NewCounter(prometheus.CounterOpts{Name: "belfry_redis_outages_total", Help: "Outages of Redis that the claim loop of this worker saw."})
	m.redisUp = prometheus.NewGauge(prometheus.GaugeOpts{Name: "belfry_redis_up", Help: "1 while the claim loop of this worker is answered by Redis, otherwise 0."})
	if claims {
		m.registry.MustRegister(m.outages, m.redisUp)
	}
	m.running = m.gauge("belfry_running", "Attempts that run in this worker.")
	m.lateness = m.histogram("belfry_lateness_seconds", "From the scheduled time of a firing to its claim, on the clock of Redis.", .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 3600)
	m.duration = m.histogram("belfry_run_duration_seconds", "Duration of attempts.", .01, .05, .1, .5, 1, 5, 15, 60, 300, 900, 3600, 14400)
	m.redisUp.Set(1)
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "belfry_build_info", Help: "1, with what this worker was built from.",
		ConstLabels: prometheus.Labels{"version": version, "go": runtime.Version()}})
	build.Set(1)
	m.registry.MustRegister(build)
	return m
}

func (m *metrics) counters(name, help, label string, values ...string) *prometheus.CounterVec {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	for _, value := range values {
		vec.WithLabelValues(value)
	}
	m.registry.MustRegister(vec)
	return vec
}

func (m *metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	m.registry.MustRegister(c)
	return c
}

func (m *metrics) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	m.registry.MustRegister(g)
	return g
}

func (m *metrics) histogram(name, help string, buckets ...float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	m.registry.MustRegister(h)
	return h
}

// handler serves the metrics, those of the worker included.
func (m *metrics) handler(w measured) http.Handler {
	m.registry.MustRegister(&fleetCollector{worker: w})
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: scrapes})
}

var verdictNames = map[schedule.Verdict]string{
	schedule.VerdictCoalesced: "coalesced", schedule.VerdictMissed: "missed", schedule.VerdictOverlap: "overlap", schedule.VerdictPaused: "paused",
	schedule.VerdictSkipped: "skipped", schedule.VerdictExcluded: "excluded", schedule.VerdictSuperseded: "superseded",
}

// Decided counts what became of a scheduled time.
func (m *metrics) Decided(e worker.DecidedEvent) {
	if e.Outcome != claim.CompleteOK {
		m.notCompleted.WithLabelValues(known(lower(e.Outcome), refusals)).Inc()
		return
	}
	name := "advanced"
	switch e.Decision {
	case claim.DecideEnqueued:
		name = "enqueued"
		m.lateness.Observe(max(0, e.Lateness.Seconds()))
	case claim.DecideOverlap:
		name = "overlap"
	case claim.DecideVerdict:
		name = known(verdictNames[e.Verdict], decisionNames)
	case claim.DecideAdvance:
	}
	m.decisions.WithLabelValues(name).Inc()
}

// Enqueued counts a task.
func (m *metrics) Enqueued(queue.EnqueuedEvent) { m.enqueued.Inc() }

// RunStarted counts an attempt that runs.
func (m *metrics) RunStarted(queue.RunEvent) { m.running.Inc() }

// RunEnded counts an attempt that ended. One that was given up never started.
func (m *metrics) RunEnded(e queue.RunEvent) {
	outcome := unreported
	if e.Outcome != "" {
		outcome = known(string(e.Outcome), outcomeNames)
	}
	m.runs.WithLabelValues(outcome).Inc()
	if e.Started {
		m.running.Dec()
		m.duration.Observe(e.Duration.Seconds())
	}
}

// Redriven counts a lost task.
func (m *metrics) Redriven(queue.AuditEvent) { m.redriven.Inc() }

// Settled counts a firing that the auditor closed.
func (m *metrics) Settled(e queue.AuditEvent) {
	m.settled.WithLabelValues(known(string(e.Outcome), outcomeNames)).Inc()
}

// Isolated counts a schedule that was put aside.
func (m *metrics) Isolated(worker.IsolatedEvent) { m.isolated.Inc() }

// Waiting notes an outage.
func (m *metrics) Waiting(error) {
	m.outages.Inc()
	m.redisUp.Set(0)
}

// Recovered notes its end.
func (m *metrics) Recovered(time.Duration) { m.redisUp.Set(1) }

// A measured worker is what a scrape asks.
type measured interface {
	Counts() worker.Counts
	Stats(ctx context.Context) (schedule.Stats, error)
}

// A measuredWorker asks its store.
type measuredWorker struct{ *worker.Worker }

// Stats sums up the namespace.
func (w measuredWorker) Stats(ctx context.Context) (schedule.Stats, error) {
	return w.Store().Stats(ctx)
}

// A fleetCollector reads totals of the worker, and what the store says of all
// schedules, when it is scraped.
type fleetCollector struct {
	worker measured

	mu    sync.Mutex
	asked time.Time
	stats schedule.Stats
	err   error
}

// reading is one series of the collector.
type reading struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value float64
	label []string
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	claimedDesc   = describe("belfry_claimed_total", "Scheduled times that this worker claimed.")
	releasedDesc  = describe("belfry_claims_released_total", "Claims that this worker handed back.")
	staleDesc     = describe("belfry_claims_stale_total", "Claims that ran out before this worker acted upon them, or were lost.")
	sweptDesc     = describe("belfry_audits_total", "Audits of this worker.")
	lastDesc      = describe("belfry_last_success_timestamp_seconds", "When Redis last answered a loop of this worker; absent before the first time.", "loop")
	readDesc      = describe("belfry_stats_up", "Whether Redis told the numbers of the namespace; without it those are absent.")
	schedulesDesc = describe("belfry_schedules", "Schedules of the namespace. Every worker tells the same.", "state")
	dueDesc       = describe("belfry_due", "Schedules of the namespace that are due and unclaimed. Every worker tells the same.")
	claimsDesc    = describe("belfry_claimed", "Schedules of the namespace that are claimed. Every worker tells the same.")
	openDesc      = describe("belfry_open_firings", "Firings of the namespace that are not settled. Every worker tells the same.")
	bufferedDesc  = describe("belfry_buffered_firings", "Firings of the namespace that wait for another one. Every worker tells the same.")
	oldestDesc    = describe("belfry_due_lateness_seconds", "How long the oldest due and unclaimed time waits. Every worker tells the same.")
)

// Describe tells what the collector may send.
func (c *fleetCollector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{claimedDesc, releasedDesc, staleDesc, sweptDesc, lastDesc, readDesc, schedulesDesc, dueDesc, claimsDesc, openDesc, bufferedDesc, oldestDesc} {
		to <- desc
	}
}

// Collect asks the worker and, at most every few seconds, the store.
func (c *fleetCollector) Collect(to chan<- prometheus.Metric) {
	for _, r := range append(c.own(), c.fleet()...) {
		to <- prometheus.MustNewConstMetric(r.desc, r.kind, r.value, r.label...)
	}
}

func (c *fleetCollector) own() []reading {
	n := c.worker.Counts()
	all := []reading{
		{claimedDesc, prometheus.CounterValue, float64(n.Claimed), nil}, {releasedDesc, prometheus.CounterValue, float64(n.Released), nil},
		{staleDesc, prometheus.CounterValue, float64(n.Stale), nil}, {sweptDesc, prometheus.CounterValue, float64(n.Swept), nil},
	}
	for loop, at := range map[string]time.Time{"claim": n.ClaimedAt, "audit": n.SweptAt} {
		if !at.IsZero() {
			all = append(all, reading{lastDesc, prometheus.GaugeValue, float64(at.UnixMilli()) / 1000, []string{loop}})
		}
	}
	return all
}

func (c *fleetCollector) fleet() []reading {
	stats, err := c.read()
	if err != nil {
		return []reading{{readDesc, prometheus.GaugeValue, 0, nil}}
	}
	all := []reading{{readDesc, prometheus.GaugeValue, 1, nil}}
	gauge := func(desc *prometheus.Desc, value float64, label ...string) {
		all = append(all, reading{desc, prometheus.GaugeValue, value, label})
	}
	gauge(schedulesDesc, float64(stats.Active), "active")
	gauge(schedulesDesc, float64(stats.Paused), "paused")
	gauge(schedulesDesc, float64(stats.Disabled), "disabled")
	gauge(schedulesDesc, float64(stats.Completed), "completed")
	gauge(dueDesc, float64(stats.Due))
	gauge(claimsDesc, float64(stats.Claimed))
	gauge(openDesc, float64(stats.Open))
	gauge(bufferedDesc, float64(stats.Buffered))
	gauge(oldestDesc, stats.Lateness.Seconds())
	return all
}

// read asks the store unless it was asked a moment ago.
func (c *fleetCollector) read() (schedule.Stats, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.asked.IsZero() && time.Since(c.asked) < statsKept {
		return c.stats, c.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), statsTime) // a scrape that went away leaves its answer to the next
	defer cancel()
	c.stats, c.err = c.worker.Stats(ctx)
	c.asked = time.Now()
	return c.stats, c.err
}
