package admincli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/schedule"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(asProgram(role))
	}
	os.Exit(redistest.Run(m))
}

// A fleetRow is a schedule of testdata/fleet.tsv.
type fleetRow struct{ id, cron, zone, queue, taskType string }

func readFleet(t testing.TB) []fleetRow {
	t.Helper()
	text, err := os.ReadFile("testdata/fleet.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var rows []fleetRow
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSpace(line), "\t")
		if len(f) < 5 {
			t.Fatalf("fleet.tsv: %q", line)
		}
		rows = append(rows, fleetRow{f[0], f[1], f[2], f[3], f[4]})
	}
	if len(rows) < 36 {
		t.Fatalf("fleet.tsv has %d rows", len(rows))
	}
	return rows
}

// fleetYAML renders the rows as an operator would write them.
func fleetYAML(rows []fleetRow) string {
	var b strings.Builder
	b.WriteString("schedules:\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "  - id: %s\n    expression: %q\n    timezone: %s\n    queue: %s\n    type: %s\n", r.id, r.cron, r.zone, r.queue, r.taskType)
	}
	return b.String()
}

// onRedis returns a rig whose store is a redis-server of its own, reached as
// the program reaches it.
func onRedis(t *testing.T) (*rig, *redistest.Server) {
	t.Helper()
	server := redistest.Start(t, redistest.ServerOptions{})
	r := &rig{t: t, now: time.Now(), open: OpenRedis,
		environ: map[string]string{"BELFRY_REDIS_URL": "redis://" + server.Addr(), "BELFRY_NAMESPACE": redistest.Namespace()}}
	return r, server
}

// The real schedules of public applications, applied on a real Redis as one
// file: each is stored as written, fires when its expression says, and a
// second apply changes nothing.
func TestApplyTheFleetOnRedis(t *testing.T) {
	rows := readFleet(t)
	r, _ := onRedis(t)
	r.stdin = fleetYAML(rows)
	first := r.must("apply", "-f", "-", "-o", "json")
	var results []putJSON
	if err := json.Unmarshal([]byte(first.stdout), &results); err != nil {
		t.Fatal(err)
	}
	if len(results) != len(rows) {
		t.Fatalf("%d results for %d schedules", len(results), len(rows))
	}
	for i, row := range rows {
		if got := results[i]; got.ID != row.id || got.Action != "created" || got.Version != 1 {
			t.Errorf("%s: %+v", row.id, got)
		}
		checkStored(t, r, row)
	}
	second := r.must("apply", "-f", "-", "--exit-code")
	if want := fmt.Sprintf("%d unchanged\n", len(rows)); !strings.Contains(second.stderr, want) {
		t.Errorf("second apply: %s", second.stderr)
	}
	r.stdin = r.must("schedule", "list", "-o", "json").stdout
	r.must("apply", "-f", "-", "--exit-code")
	r.stdin = r.must("schedule", "list", "-o", "yaml").stdout
	r.must("apply", "-f", "-", "--exit-code")
	if names := r.must("schedule", "list", "-o", "name").stdout; strings.Count(names, "\n") != len(rows) {
		t.Errorf("list names %d of %d", strings.Count(names, "\n"), len(rows))
	}
}

func checkStored(t *testing.T, r *rig, row fleetRow) {
	t.Helper()
	var got struct {
		Expression, Timezone, Queue, Type, State string
		NextMS                                   int64     `json:"next_at_ms"`
		CreatedAt                                time.Time `json:"created_at"`
	}
	if err := json.Unmarshal([]byte(r.must("schedule", "get", row.id, "-o", "json").stdout), &got); err != nil {
		t.Fatal(err)
	}
	if got.Expression != row.cron || got.Timezone != row.zone || got.Queue != row.queue || got.Type != row.taskType || got.State != "active" {
		t.Errorf("%s is stored as %+v", row.id, got)
	}
	location, err := time.LoadLocation(row.zone)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := schedule.ParseCron(row.cron, location)
	if err != nil {
		t.Fatal(err)
	}
	if next, _ := spec.Next(got.CreatedAt); next.UnixMilli() != got.NextMS {
		t.Errorf("%s fires next at %d, want %s", row.id, got.NextMS, next)
	}
}

// Every command on a real server, in the order of a working day.
func TestCommandsOnRedis(t *testing.T) {
	r, server := onRedis(t)
	r.must("schedule", "create", "a", "--every", "1h", "--type", "log", "--payload", `{"n": 9007199254740993}`, "--label", "k=v")
	if got := r.run("schedule", "create", "a", "--every", "2h", "--type", "log"); got.code != exitConflict {
		t.Errorf("create twice: exit %d %s", got.code, got.stderr)
	}
	if got := r.must("schedule", "get", "a"); !strings.Contains(got.stdout, `{"n":9007199254740993}`) {
		t.Errorf("get: %s", got.stdout)
	}
	r.must("schedule", "pause", "a", "--reason", "test", "--for", "2h")
	if got := r.must("s", "list"); !strings.Contains(got.stdout, "test)") || !strings.Contains(got.stderr, "Redis clock") {
		t.Errorf("list: %s%s", got.stdout, got.stderr)
	}
	r.must("schedule", "resume", "-l", "k=v")
	one, two := r.must("schedule", "trigger", "a", "--request-id", "x", "-o", "name"), r.must("schedule", "trigger", "a", "--request-id", "x", "-o", "name")
	if one.stdout != two.stdout || one.stdout == "" {
		t.Errorf("the same request opened %q and %q", one.stdout, two.stdout)
	}
	for _, line := range []string{"schedule preview a", "schedule history a", "stats", "stats -o json"} {
		r.must(strings.Fields(line)...)
	}
	if got := r.run("schedule", "delete", "a"); got.code != exitDeclined {
		t.Errorf("delete without --yes: exit %d", got.code)
	}
	r.must("schedule", "delete", "a", "--yes")
	if got := r.run("schedule", "get", "a"); got.code != exitNotFound {
		t.Errorf("get after delete: exit %d", got.code)
	}
	server.Kill()
	if got := r.run("schedule", "list"); got.code != exitUnreachable || strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("with the server down: exit %d, stderr %q", got.code, got.stderr)
	}
}

// A namespace that was mistyped stays absent, whatever reads it.
func TestMistypedNamespace(t *testing.T) {
	r, server := onRedis(t)
	r.must("schedule", "create", "a", "--every", "1h", "--type", "log")
	r.stdin = "schedules: [{id: b, expression: 1h, type: log}]"
	for line, want := range map[string]int{"schedule list": exitDone, "schedule get a": exitNotFound, "stats": exitDone, "worker list": exitDone,
		"schedule pause a": exitNotFound, "schedule trigger a": exitNotFound, "schedule history a": exitNotFound, "calendar list": exitDone,
		"lease list": exitDone, "periodic list": exitDone, "doctor": exitCondition, "doctor --fix": exitCondition, "events": exitDone,
		"export": exitDone, "apply -f - --plan": exitDone, "schedule delete a --yes": exitNotFound} {
		if got := r.run(append(strings.Fields(line), "--namespace", "typo")...); got.code != want {
			t.Errorf("%s --namespace typo: exit %d, want %d: %s", line, got.code, want, got.stderr)
		}
	}
	client := redis.NewClient(redistest.Options(server.Addr()))
	t.Cleanup(func() { _ = client.Close() })
	if keys, err := client.Keys(t.Context(), "belfry:{typo:*").Result(); err != nil || len(keys) > 0 {
		t.Errorf("these were created: %q, %v", keys, err)
	}
}

// Calendars of a file are stored for the schedules of the same file.
func TestCalendarsOnRedis(t *testing.T) {
	r, _ := onRedis(t)
	text, err := os.ReadFile("testdata/files/calendars.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r.stdin = strings.ReplaceAll(string(text), "2026-12-01", time.Now().AddDate(0, 0, 1).Format(time.DateOnly))
	plan := r.must("apply", "-f", "-", "--plan", "-o", "name").stdout
	if got := r.must("schedule", "list", "-o", "name").stdout; got != "" {
		t.Fatalf("a plan wrote %q", got)
	}
	if got := r.must("apply", "-f", "-", "-o", "name").stdout; got != plan || got != "calendar/holidays-de\nworkdays\n" {
		t.Errorf("planned %q, applied %q", plan, got)
	}
	if got := r.must("apply", "-f", "-", "--exit-code"); !strings.Contains(got.stderr, "2 unchanged") {
		t.Errorf("again: %s", got.stderr)
	}
	r.must("schedule", "preview", "workdays")
	r.stdin = r.must("schedule", "list", "-o", "json").stdout
	r.must("apply", "-f", "-", "--exit-code")
}

// No output may hold the password, whatever fails.
func TestPasswordsStaySecret(t *testing.T) {
	const canary = "hunter2canary"
	server := redistest.Start(t, redistest.ServerOptions{})
	client := redis.NewClient(redistest.Options(server.Addr()))
	t.Cleanup(func() { _ = client.Close() })
	if err := client.ConfigSet(t.Context(), "requirepass", "right").Err(); err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, now: time.Now(), open: OpenRedis, environ: map[string]string{}}
	for url, want := range map[string]int{
		"redis://:" + canary + "@" + server.Addr(): exitUnauthorised,
		"redis://" + server.Addr():                 exitUnauthorised,
		"redis://:" + canary + "@127.0.0.1:1":      exitUnreachable,
		"redis://:" + canary + "@host:port:x":      exitUsage,
		"rdis://:" + canary + "@host":              exitUsage,
		canary:                                     exitUsage,
		"redis-sentinel://h/m?sentinel_password=" + canary + "&x=" + canary: exitUsage,
		"rediss://:" + canary + "@" + server.Addr():                         exitUnreachable,
		"redis://:right@" + server.Addr():                                   exitDone,
	} {
		r.environ["BELFRY_REDIS_URL"] = url
		got := r.run("schedule", "list", "--timeout", "3s")
		if got.code != want || strings.Contains(got.stdout+got.stderr, canary) {
			t.Errorf("%s: exit %d, want %d; %s", strings.ReplaceAll(url, canary, "CANARY"), got.code, want, got.stderr)
		}
	}
}

// A database that the server has not is told once, by the setting that names it.
func TestADatabaseThatDoesNotExist(t *testing.T) {
	server := redistest.Start(t, redistest.ServerOptions{})
	url := "redis://" + server.Addr() + "/99"
	for want, r := range map[string]*rig{
		"redis":            {t: t, now: time.Now(), open: OpenRedis, environ: map[string]string{}},
		"BELFRY_REDIS_URL": {t: t, now: time.Now(), open: OpenRedis, environ: map[string]string{"BELFRY_REDIS_URL": url}},
	} {
		args := []string{"schedule", "list"}
		if want == "redis" {
			args = append(args, "--redis", url)
		}
		got := r.run(args...)
		if line := "error: " + want + ` "` + url + `": allowed: a database that this server has: most have 0 to 15 (ERR DB index is out of range)` + "\n"; got.code != exitUsage || got.stderr != line {
			t.Errorf("exit %d, %q; want %q", got.code, got.stderr, line)
		}
	}
}

// Ten thousand schedules in one file.
func TestApplyTenThousand(t *testing.T) {
	if testing.Short() {
		t.Skip("applies 10,000 schedules")
	}
	const n = 10_000
	r, _ := onRedis(t)
	var b bytes.Buffer
	b.WriteString("schedules:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {id: s-%d, expression: \"%d * * * *\", timezone: Europe/Berlin, type: log, payload: {n: %d}}\n", i, i%60, i)
	}
	r.stdin = b.String()
	calls := 0
	r.open = func(ctx context.Context, target Target) (*Stores, error) {
		stores, err := OpenRedis(ctx, target)
		if err == nil {
			stores.Catalog = countingCatalog{stores.Catalog, &calls}
		}
		return stores, err
	}
	for _, want := range []string{"created", "unchanged"} {
		calls = 0
		start := time.Now()
		got := r.must("apply", "-f", "-", "-o", "name")
		took := time.Since(start)
		t.Logf("%d %s in %s with %d calls", n, want, took.Round(time.Millisecond), calls)
		if !strings.Contains(got.stderr, fmt.Sprintf("%d %s\n", n, want)) {
			t.Fatalf("stderr %q", got.stderr)
		}
		// The work is counted, not timed: make bench prints how long it takes.
		if most := n/applyBatch + n/pageSize; calls > most {
			t.Errorf("apply of %d made %d calls to the catalog, at most %d", n, calls, most)
		}
	}
	start := time.Now()
	r.must("schedule", "list", "--limit", "100", "-o", "json")
	t.Logf("first 100 of %d listed in %s", n, time.Since(start).Round(time.Millisecond))
}

func TestInterruptedApplyGoesOn(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(context.Background())
	r.stores.Catalog = &stoppingCatalog{Catalog: r.stores.Catalog, stop: cancel, after: 2}
	var b strings.Builder
	for i := range 4 * applyBatch {
		fmt.Fprintf(&b, "- {id: s-%d, expression: \"@hourly\", type: log}\n", i)
	}
	r.stdin = b.String()
	got := r.runContext(ctx, "apply", "-f", "-", "-q", "-o", "name")
	if got.code != exitInterrupted || !strings.Contains(got.stderr, fmt.Sprintf("(%d created)", 3*applyBatch)) { // the batch under way ends
		t.Fatalf("exit %d, stderr %q", got.code, got.stderr)
	}
	again := r.must("apply", "-f", "-", "-o", "name")
	if want := fmt.Sprintf("%d created, %d unchanged", applyBatch, 3*applyBatch); !strings.Contains(again.stderr, want) {
		t.Errorf("again: %q, want %q", again.stderr, want)
	}
}

// A stopping catalog interrupts the caller after some batches.
type stoppingCatalog struct {
	schedule.Catalog
	stop  func()
	after int
}

func (c *stoppingCatalog) PutMany(ctx context.Context, all []schedule.Schedule, o schedule.PutOptions) ([]schedule.PutResult, error) {
	if c.after--; c.after < 0 {
		c.stop()
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("redisstore: put: %w", err)
	}
	return c.Catalog.PutMany(ctx, all, o)
}

// A counting catalog counts the calls of apply.
type countingCatalog struct {
	schedule.Catalog
	calls *int
}

func (c countingCatalog) PutMany(ctx context.Context, all []schedule.Schedule, o schedule.PutOptions) ([]schedule.PutResult, error) {
	*c.calls++
	return c.Catalog.PutMany(ctx, all, o)
}

func (c countingCatalog) GetMany(ctx context.Context, ids []schedule.ID) (map[schedule.ID]schedule.Entry, error) {
	*c.calls++
	return c.Catalog.GetMany(ctx, ids)
}
