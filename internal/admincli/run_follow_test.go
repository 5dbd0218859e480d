package admincli

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/internal/memstore"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A played firing goes on by one step a minute whenever the run log is read.
type played struct {
	RunLog
	r     *rig
	steps []func()
	reads int
	alone bool // no worker is alive
}

func (p *played) Runs(ctx context.Context, id schedule.ID, limit int) ([]claim.RunRecord, error) {
	if p.reads++; p.reads > 3 && p.reads%2 == 0 && len(p.steps) > 0 { // each step is looked at twice
		p.r.advance(time.Minute)
		if !p.alone {
			p.r.announce("default")
		}
		p.steps[0]()
		p.steps = p.steps[1:]
	}
	if p.reads > 200 {
		return nil, errors.New("it is followed for ever")
	}
	return p.RunLog.Runs(ctx, id, limit)
}

// An actor plays the worker of one firing.
type actor struct {
	t      *testing.T
	r      *rig
	ledger *memstore.Store
	firing claim.FiringID
	begun  claim.BeginResult
}

// act triggers the schedule tick and returns who runs the firing.
func act(t *testing.T, r *rig) *actor {
	t.Helper()
	r.must("schedule", "create", "tick", "--every", "1h", "--type", "log")
	got := r.must("schedule", "trigger", "tick", "--request-id", "mine", "-o", "name")
	ledger, ok := r.stores.Catalog.(*memstore.Store)
	if !ok {
		t.Fatalf("the rig's store is %T", r.stores.Catalog)
	}
	return &actor{t: t, r: r, ledger: ledger, firing: claim.FiringID(strings.TrimSpace(got.stdout))}
}

func (a *actor) begin(worker string) func() {
	return func() {
		begun, err := a.ledger.Begin(context.Background(), claim.BeginRequest{Firing: a.firing, Owner: "o" + worker, Worker: worker, Lease: 90 * time.Second})
		if err != nil || begun.Answer != claim.BeginRun {
			a.t.Errorf("begin: %+v, %v", begun, err)
		}
		a.begun = begun
	}
}

func (a *actor) finish(outcome claim.RunOutcome, text string) func() {
	return func() {
		_, err := a.ledger.Finish(context.Background(), claim.FinishRequest{Run: claim.Run{Firing: a.firing, Token: a.begun.Token}, Outcome: outcome,
			Error: text, Started: a.r.clock().Add(-time.Minute), Duration: time.Minute, Attempt: a.begun.Attempt, Worker: "w1", KeepRuns: 20})
		if err != nil {
			a.t.Errorf("finish: %v", err)
		}
	}
}

func (a *actor) plays(steps ...func()) *played {
	p := &played{RunLog: a.r.stores.Runs, r: a.r, steps: steps}
	a.r.stores.Runs = p
	return p
}

// Each thing is told when it becomes known, in its order, once; the exit code
// says how the firing ended.
func TestLogsFollowARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		a := act(t, r)
		a.plays(a.begin("w1"), a.finish(claim.OutcomeRetrying, "no \x1b[2Jroute"), a.begin("w2"), func() {},
			func() { r.left(t, string(a.firing), "done\x1b]0;x\x07\nall"); a.finish(claim.OutcomeSucceeded, "")() })
		got := r.must("run", "logs", "-f", string(a.firing))
		want := `2026-11-30 06:07:02 UTC  waits in queue default
2026-11-30 06:08:02 UTC  runs on w1, attempt 1
2026-11-30 06:09:02 UTC  attempt 1 retrying after 1m on w1, started 2026-11-30 06:08:02 UTC: no \x1b[2Jroute
2026-11-30 06:09:02 UTC  waits for another attempt
2026-11-30 06:10:02 UTC  runs on w2, attempt 2
2026-11-30 06:12:02 UTC  attempt 2 succeeded after 1m on w1, started 2026-11-30 06:11:02 UTC
2026-11-30 06:12:02 UTC  it has ended as succeeded
output (14 bytes):
  done\x1b]0;x\x07
  all
`
		if got.stdout != want {
			t.Errorf("got\n%s\nwant\n%s", got.stdout, want)
		}
	})
}

func TestLogsFollowSaysHowItEnded(t *testing.T) {
	for outcome, want := range map[claim.RunOutcome]int{claim.OutcomeSucceeded: exitDone, claim.OutcomeFailed: exitCondition, claim.OutcomeCancelled: exitCondition} {
		for _, format := range []string{"table", "jsonl", "json", "name", "raw"} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				a := act(t, r)
				a.plays(a.begin("w1"), a.finish(outcome, "x"))
				args := []string{"run", "logs", "-f", string(a.firing), "-o", format}
				if format == "raw" {
					args = append(args[:4], "--raw")
				}
				got := r.run(args...)
				if got.code != want {
					t.Errorf("%s, %s: exit %d, %s%s", outcome, format, got.code, got.stdout, got.stderr)
				}
				if shown := string(a.firing); format == "name" && strings.TrimSpace(got.stdout) != shown {
					t.Errorf("%s: name is %q", outcome, got.stdout)
				}
				if format == "json" && (!json.Valid([]byte(got.stdout)) || !strings.Contains(got.stdout, `"open": false`)) {
					t.Errorf("%s: %s", outcome, got.stdout)
				}
				if format == "raw" && got.stdout != "" {
					t.Errorf("%s: raw printed %q", outcome, got.stdout)
				}
				if format == "jsonl" {
					checkFollowed(t, got.stdout, outcome)
				}
			})
		}
	}
}

func checkFollowed(t *testing.T, text string, outcome claim.RunOutcome) {
	t.Helper()
	var events []string
	var last followJSON
	for line := range strings.Lines(text) {
		last = followJSON{}
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		events = append(events, last.Event+" "+last.State)
	}
	if got := strings.Join(events, ", "); got != "state waiting, state running, attempt , end ended" || last.Outcome != string(outcome) || last.Worker != "w1" {
		t.Errorf("%s: %s, last %+v", outcome, got, last)
	}
}

// A worker that died, nobody to run it, a store that does not answer for a
// while: what keeps a firing from going on is told, and the following goes on.
func TestLogsFollowWhatGoesWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		a := act(t, r)
		nothing, down := func() {}, &brokenRuns{}
		a.plays(nothing, nothing, nothing, nothing, nothing, nothing, a.begin("w3"), func() { down.broken = true }, nothing, nothing, a.finish(claim.OutcomeFailed, "x")).alone = true
		down.RunLog = r.stores.Runs
		r.stores.Runs = down
		got := r.run("run", "logs", "-f", string(a.firing))
		for _, want := range []string{"  waits in queue default\n", "  waits in queue default; no worker is alive in this namespace (start a worker, and see it with: admin worker list)\n",
			"w3 does not answer in attempt 1, its lease ran out 2026-11-30 06:15:32 UTC: the next audit decides", "  it has ended as failed\n"} {
			if strings.Count(got.stdout, want) != 1 {
				t.Errorf("%q is missing or told again in\n%s", want, got.stdout)
			}
		}
		if got.code != exitCondition || strings.Count(got.stderr, "it goes on when the store answers") != 1 {
			t.Errorf("exit %d, %s", got.code, got.stderr)
		}
	})
}

// brokenRuns do not answer a few times.
type brokenRuns struct {
	RunLog
	broken bool
	times  int
}

func (b *brokenRuns) Runs(ctx context.Context, id schedule.ID, limit int) ([]claim.RunRecord, error) {
	if b.broken && b.times < 5 {
		b.times++
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	return b.RunLog.Runs(ctx, id, limit)
}

// What was told before an interrupt stands, and the run goes on.
func TestLogsFollowIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		a := act(t, r)
		ctx, cancel := context.WithCancel(t.Context())
		a.plays(a.begin("w1"), cancel)
		got := r.runContext(ctx, "run", "logs", "-f", string(a.firing))
		if got.code != exitInterrupted || !strings.HasSuffix(got.stdout, "  runs on w1, attempt 1\n") || !strings.Contains(got.stderr, "goes on: see admin run get "+string(a.firing)) {
			t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
		}
		if got := r.run("run", "logs", "-f", string(a.firing)+"x"); got.code != exitNotFound {
			t.Errorf("one that is not: exit %d, %s", got.code, got.stderr)
		}
	})
}

// A firing that is over and whose run log is off is not followed for ever, and
// did not succeed as far as anybody knows.
func TestLogsFollowWithoutARunLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		a := act(t, r)
		a.plays(a.begin("w1"), a.finish(claim.OutcomeSucceeded, ""))
		r.stores.Runs = emptyRuns{r.stores.Runs}
		r.left(t, string(a.firing), "ok")
		got := r.run("run", "logs", "-f", string(a.firing))
		if got.code != exitCondition || !strings.Contains(got.stdout, "does not hold how it ended\noutput (2 bytes):\n  ok\n") {
			t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
		}
	})
}

// emptyRuns forget everything.
type emptyRuns struct{ RunLog }

func (e emptyRuns) Runs(ctx context.Context, id schedule.ID, limit int) ([]claim.RunRecord, error) {
	_, err := e.RunLog.Runs(ctx, id, limit)
	return nil, err
}

// The task of a firing that was enqueued anew is the newest one, not that of the
// worker that died; logs say where an open firing stands.
func TestAFiringThatWasEnqueuedAnew(t *testing.T) {
	r := newRig(t)
	a := act(t, r)
	a.begin("w1")()
	tasks := newCannedTasks(r)
	for n, state := range []asynq.TaskState{asynq.TaskStateRetry, asynq.TaskStateActive} {
		tasks.tasks = append(tasks.tasks, &asynq.TaskInfo{ID: a.firing.TaskID(n), Queue: "default", Type: "log", State: state})
	}
	r.stores.Tasks = tasks
	if got := r.must("run", "get", string(a.firing)).stdout; !strings.Contains(got, "active in queue default") {
		t.Errorf("run get: %s", got)
	}
	if got := r.must("run", "logs", string(a.firing)).stdout; !strings.Contains(got, "running, attempt 1 on w1") {
		t.Errorf("run logs: %s", got)
	}
}
