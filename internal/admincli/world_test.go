package admincli

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// worldBegan is when the schedules of the world were created; its clock stands
// at the epoch.
var worldBegan = epoch.Truncate(time.Minute).Add(-9 * time.Minute)

// worldFile is what the world holds beside schedules.yaml and calendars.yaml.
const worldFile = `
- {id: launch-mail, specs: [{at: ["2026-11-30T06:01:00Z"]}], type: "mail:launch", queue: mailers}
- {id: partner-sync, specs: [{every: 3m}], type: log, max_failures: 2}
- {id: disk-check, specs: [{every: 4m}], type: log, queue: ops, jitter: 10s}
- {id: after-all, specs: [{after: 10m}], type: log}
`

// newWorld returns a rig whose store holds something of every kind: schedules
// that are active, paused, failing, disabled, completed, waiting and about to
// be skipped, with runs, verdicts and events; a calendar, leases, periodic
// tasks, a worker, queues, tasks and contexts. The working directory must be a
// copy of testdata/files.
func newWorld(t *testing.T) *rig {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r := newRig(t)
	r.now = worldBegan
	r.stdin = worldFile
	r.must("apply", "-f", "schedules.yaml", "-f", "calendars.yaml", "-f", "-", "-q")
	r.stdin = ""
	for !r.now.After(epoch) {
		r.workThrough(map[schedule.ID]string{"partner-sync": "dial tcp 10.0.0.7:443: connection refused", "disk-check": "exit status 1"})
		r.advance(time.Minute)
	}
	r.now = epoch
	_, err := r.backend().Pause(ctx, "nightly-report", schedule.PauseOptions{By: "ana", Reason: "database move", Until: epoch.Add(2 * time.Hour)})
	must(err)
	entry, err := r.backend().Get(ctx, "billing-close")
	must(err)
	must(r.backend().Skip(ctx, "billing-close", entry.Status.NextAt))
	_, err = r.backend().Trigger(ctx, "billing-close", schedule.TriggerOptions{RequestID: "open"})
	must(err)
	r.seedRun(t, "cache-warm", claim.OutcomeFailed)
	r.saveContexts()
	r.announce("default", "reports", "low", "ops", "mailers")
	return r
}

// worldContexts is the file of contexts, which is the same in each world.
var worldContexts []byte

// saveContexts leaves prod in use after dev.
func (r *rig) saveContexts() {
	r.t.Helper()
	file := filepath.Join(r.config, "contexts.yaml")
	if worldContexts == nil {
		r.must("context", "save", "prod", "-q")
		r.must("context", "save", "dev", "--redis", "redis://localhost", "-q")
		r.must("context", "use", "dev")
		r.must("context", "use", "prod")
		text, err := os.ReadFile(file)
		if err != nil {
			r.t.Fatal(err)
		}
		worldContexts = text
		return
	}
	if err := os.WriteFile(file, worldContexts, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// workThrough fires and runs what is due, as a worker does. Schedules with an
// error text fail with it.
func (r *rig) workThrough(failing map[schedule.ID]string) {
	r.t.Helper()
	ctx := context.Background()
	r.claimDue(func(c claim.Claim, compiled *schedule.Compiled) {
		next, _ := compiled.Next(c.ScheduledAt)
		result, err := r.backend().Complete(ctx, claim.CompleteRequest{AuditBuffered: time.Second, Completions: []claim.Completion{{
			Schedule: c.Schedule, Token: c.Token, ScheduledAt: c.ScheduledAt, Decision: claim.DecideEnqueued, Next: next}}})
		if err != nil || result.Outcomes[0] != claim.CompleteOK {
			r.t.Fatalf("Complete = %+v, %v", result, err)
		}
		if text := failing[c.Schedule]; text != "" {
			r.runThrough(c.Firing(), claim.OutcomeFailed, text)
		} else {
			r.runThrough(c.Firing(), claim.OutcomeSucceeded, "")
		}
	})
}

// claimDue claims what is due and hands out each claim with its schedule.
func (r *rig) claimDue(each func(claim.Claim, *schedule.Compiled)) {
	r.t.Helper()
	ctx := context.Background()
	batch, err := r.backend().ClaimDue(ctx, claim.ClaimRequest{Owner: "w1", Limit: 100, TTL: 10 * time.Second, AuditAfter: 15 * time.Second})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, c := range batch.Claims {
		entry, err := r.backend().Get(ctx, c.Schedule)
		if err != nil {
			r.t.Fatal(err)
		}
		compiled, err := schedule.Compile(entry.Schedule, nil)
		if err != nil {
			r.t.Fatal(err)
		}
		each(c, compiled)
	}
}
