package admincli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
)

// A wait ends with the first run that ends after it began and is as wanted.
func TestWaitEndsWithARun(t *testing.T) {
	t.Chdir("testdata/files")
	for condition, outcome := range map[string]claim.RunOutcome{"run=success": claim.OutcomeSucceeded, "run=failure": claim.OutcomeFailed, "run": claim.OutcomeFailed} {
		r := newRig(t)
		r.must("apply", "-f", "schedules.yaml", "-q")
		r.seedRun(t, "cache-warm", outcome) // before it began: does not count
		done := make(chan result, 1)
		go func() {
			done <- r.run("wait", "schedule", "cache-warm", "--for", condition, "--interval", "10ms", "--timeout", "30s", "-o", "json")
		}()
		got := r.runUntil(t, done, outcome)
		var v waitJSON
		if err := json.Unmarshal([]byte(got.stdout), &v); err != nil {
			t.Fatalf("%s: %v: %+v", condition, err, got)
		}
		if got.code != exitDone || !v.Met || v.Outcome != string(outcome) || !strings.Contains(v.FiringID, ":mlater-") {
			t.Errorf("%s: %+v", condition, got)
		}
	}
}

// runUntil lets runs end, each later than the one before, until a command ends.
func (r *rig) runUntil(t *testing.T, done <-chan result, outcome claim.RunOutcome) result {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case got := <-done:
			return got
		case <-ticker.C:
			r.advance(time.Millisecond)
			r.runOnce(t, "cache-warm", fmt.Sprintf("later-%d", i), outcome)
		}
	}
}

// Queues and tasks of asynq on a real server.
func TestQueuesAndTasksOnRedis(t *testing.T) {
	r, server := onRedis(t)
	client := asynq.NewClientFromRedisClient(server.Client())
	for i, options := range [][]asynq.Option{{}, {asynq.ProcessIn(time.Hour)}, {asynq.ProcessIn(time.Hour)}} {
		task := asynq.NewTask("mail:send", []byte(`{"n": 9007199254740993}`))
		if _, err := client.Enqueue(task, append(options, asynq.TaskID(fmt.Sprintf("t%d", i)), asynq.Queue("mail"))...); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.must("queue", "list", "-o", "name").stdout; got != "mail\n" {
		t.Errorf("queues: %q", got)
	}
	if got := r.must("task", "list", "--state", "scheduled", "-o", "name").stdout; got != "t1\nt2\n" {
		t.Errorf("scheduled: %q", got)
	}
	if got := r.must("task", "get", "t0").stdout; !strings.Contains(got, "9007199254740993") || !strings.Contains(got, "pending") {
		t.Errorf("get: %q", got)
	}
	r.must("task", "run", "t1")
	r.must("task", "archive", "t2", "--yes")
	r.must("queue", "pause", "mail", "--yes")
	var q queueStatsJSON
	if err := json.Unmarshal([]byte(r.must("queue", "stats", "mail", "-o", "json").stdout), &q); err != nil {
		t.Fatal(err)
	}
	if !q.Paused || q.Pending != 2 || q.Archived != 1 || q.Scheduled != 0 {
		t.Errorf("stats: %+v", q)
	}
	r.must("queue", "resume", "mail")
	r.must("task", "delete", "--all-matching", "--queue", "mail", "--yes")
	if got := r.must("task", "list", "-o", "json").stdout; got != "[]\n" {
		t.Errorf("after delete: %q", got)
	}
}

// Doctor on a real server: first as it is, then as a user who may ask it
// nothing about itself.
func TestDoctorOnRedis(t *testing.T) {
	r, server := onRedis(t)
	ctx := context.Background()
	r.must("schedule", "create", "a", "--every", "1h", "--type", "log")
	client := server.Client()
	if err := client.ConfigSet(ctx, "maxmemory-policy", "allkeys-lru").Err(); err != nil {
		t.Fatal(err)
	}
	if got := r.run("check", "scheduler", "--namespace", "elsewhere"); got.code != checkUnknown || !strings.Contains(got.stdout, "UNKNOWN scheduler: this namespace holds no schedule") {
		t.Errorf("check of a namespace that is not there: exit %d, %s", got.code, got.stdout)
	}
	got := r.run("doctor")
	for _, want := range []string{"redis ", "ERROR    eviction     maxmemory-policy allkeys-lru", "neither append-only file nor snapshots",
		"Redis and this machine agree", "scripts run", "no live worker", "index, ledger, verdicts and counters agree"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("%q is not in\n%s", want, got.stdout)
		}
	}
	if got.code != exitCondition {
		t.Errorf("exit %d", got.code)
	}
	if got := r.run("doctor", "--fix").stdout; !strings.Contains(got, "fixed    eviction") {
		t.Errorf("--fix: %s", got)
	}
	if policy := client.ConfigGet(ctx, "maxmemory-policy").Val()["maxmemory-policy"]; policy != "noeviction" {
		t.Errorf("after --fix the policy is %s", policy)
	}
	err := client.Do(ctx, "ACL", "SETUSER", "shy", "on", ">secret", "~*", "&*", "+@all", "-config", "-info").Err()
	if err != nil {
		t.Fatal(err)
	}
	r.environ["BELFRY_REDIS_URL"] = strings.Replace(r.environ["BELFRY_REDIS_URL"], "redis://", "redis://shy:secret@", 1)
	got = r.run("doctor", "-o", "json")
	var v doctorJSON
	if err := json.Unmarshal([]byte(got.stdout), &v); err != nil {
		t.Fatal(err)
	}
	levels := map[string]string{}
	for _, f := range v.Findings {
		levels[f.Check] = string(f.Level)
		if (f.Do == "") != (f.Level == "ok") {
			t.Errorf("%+v: what is not ok says what to do", f)
		}
	}
	for check, want := range map[string]string{"version": "unknown", "eviction": "unknown", "persistence": "unknown", "clock": "ok", "scripts": "ok", "invariants": "ok", "workers": "error"} {
		if levels[check] != want {
			t.Errorf("%s is %q, want %q", check, levels[check], want)
		}
	}
	if strings.Contains(got.stdout+got.stderr, "secret") {
		t.Errorf("the password is shown")
	}
}

// The store of a demo is known as one.
func TestDoctorKnowsTheEmbeddedStore(t *testing.T) {
	client := redistest.Backends()[0].Dial(t)
	r := newRig(t)
	r.open = OpenRedis
	r.environ["BELFRY_REDIS_URL"] = "redis://" + address(t, client)
	got := r.run("doctor", "--production")
	if got.code != exitCondition || !strings.Contains(got.stdout, "ERROR    store") || !strings.Contains(got.stdout, "embedded") {
		t.Errorf("%+v", got)
	}
}

func address(t *testing.T, client redis.UniversalClient) string {
	t.Helper()
	single, ok := client.(*redis.Client)
	if !ok {
		t.Fatalf("the client is %T", client)
	}
	return single.Options().Addr
}

// A backup of a real server is restored into another namespace, which then has
// the same schedules.
func TestBackupOnRedis(t *testing.T) {
	rows := readFleet(t)
	r, _ := onRedis(t)
	t.Chdir(t.TempDir())
	r.stdin = fleetYAML(rows)
	r.must("apply", "-f", "-", "-q")
	r.must("backup", "create", "fleet.backup")
	if files, err := os.ReadDir("."); err != nil || len(files) != 1 {
		t.Errorf("left behind: %v %v", files, err)
	}
	if stat, err := os.Stat("fleet.backup"); err != nil || stat.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", stat.Mode(), err)
	}
	want := r.must("schedule", "list", "-o", "json").stdout
	r.environ["BELFRY_NAMESPACE"] = redistest.Namespace()
	r.must("backup", "restore", "fleet.backup", "--yes")
	if got := r.must("schedule", "list", "-o", "json").stdout; got != want {
		t.Errorf("restored schedules differ: %d bytes, were %d", len(got), len(want))
	}
	if got := r.run("doctor", "-o", "jsonl"); !strings.Contains(got.stdout, "index, ledger, verdicts and counters agree") {
		t.Errorf("doctor: %s", got.stdout)
	}
	r.environ["BELFRY_NAMESPACE"] = redistest.Namespace()
	if got := r.run("backup", "create", "empty.backup"); got.code != exitNotFound {
		t.Errorf("an empty namespace: %+v", got)
	}
}

// Doctor tells that the server is a replica, and goes on as far as one can read.
func TestDoctorOnAReplica(t *testing.T) {
	r, server := onRedis(t)
	r.must("schedule", "create", "a", "--every", "1h", "--type", "log")
	if err := server.Client().Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	got := r.run("doctor")
	if got.code != exitCondition || !strings.Contains(got.stdout, "ERROR    role         the server is a replica") || !strings.Contains(got.stdout, "invariants") {
		t.Errorf("%+v", got)
	}
	for _, args := range [][]string{{"schedule", "pause", "a"}, {"schedule", "create", "b", "--every", "1h", "--type", "log"}, {"schedule", "delete", "a", "--yes"}, {"queue", "list"}} {
		if got := r.run(args...); got.code != exitUnreachable || !strings.Contains(got.stderr, "is a read-only replica: name the master in BELFRY_REDIS_URL") {
			t.Errorf("%q: %+v", args, got)
		}
	}
}

// What run get says of a firing that is open.
func TestAnOpenFiringInWords(t *testing.T) {
	for _, tt := range []struct {
		open openJSON
		want string
	}{
		{openJSON{State: "waiting"}, "waiting"},
		{openJSON{State: "running", Attempt: 2, Worker: "w1"}, "running, attempt 2 on w1"},
		{openJSON{State: "retrying", Attempt: 1, Worker: "w1", Redrives: 1, CancelRequested: true}, "retrying, attempt 1, enqueued anew 1 time, asked to end"},
	} {
		if got := tt.open.line(); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.open, got, tt.want)
		}
	}
}
