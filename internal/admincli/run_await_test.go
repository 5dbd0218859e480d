package admincli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// trigger --wait returns when that one firing has ended, whatever others do.
func TestTriggerWaitsForItsRun(t *testing.T) {
	for outcome, want := range map[claim.RunOutcome]int{claim.OutcomeSucceeded: exitDone, claim.OutcomeFailed: exitCondition, claim.OutcomeCancelled: exitCondition} {
		r := newRig(t)
		r.must("schedule", "create", "tick", "--every", "1h", "--type", "log")
		r.runOnce(t, "tick", "other", claim.OutcomeSucceeded)
		catalog := r.stores.Catalog
		r.stores.Runs = &laterRuns{RunLog: r.stores.Runs, after: 2, end: func() {
			r.stores.Catalog = catalog
			r.runOnce(t, "tick", "mine", outcome)
		}}
		got := r.run("schedule", "trigger", "tick", "--request-id", "mine", "--wait")
		if got.code != want || !strings.Contains(got.stdout, ":mmine "+string(outcome)+" after 1.5s") || !strings.Contains(got.stderr, "waiting for its end") {
			t.Errorf("%s: exit %d, %s%s", outcome, got.code, got.stdout, got.stderr)
		}
		again := r.run("schedule", "trigger", "tick", "--request-id", "mine", "--wait", "-o", "json")
		if again.code != want || !strings.Contains(again.stdout, `"outcome": "`+string(outcome)+`"`) || !strings.Contains(again.stdout, `"duplicate": true`) {
			t.Errorf("%s again: exit %d, %s", outcome, again.code, again.stdout)
		}
	}
}

// laterRuns ends a run when it is asked for the second time.
type laterRuns struct {
	RunLog
	after int
	end   func()
}

func (l *laterRuns) Runs(ctx context.Context, id schedule.ID, limit int) ([]claim.RunRecord, error) {
	if l.after--; l.after == 0 {
		l.end()
	}
	return l.RunLog.Runs(ctx, id, limit)
}

func TestTriggerWaitsNoLongerThanItMay(t *testing.T) {
	r := newRig(t)
	r.must("schedule", "create", "tick", "--every", "1h", "--type", "log")
	got := r.run("schedule", "trigger", "tick", "--wait", "--wait-timeout", "1ms")
	if got.code != exitCondition || !strings.Contains(got.stdout, "has not ended yet") {
		t.Errorf("exit %d, %s%s", got.code, got.stdout, got.stderr)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	got = r.runContext(ctx, "schedule", "trigger", "tick", "--wait")
	if got.code != exitInterrupted || !strings.Contains(got.stderr, "goes on: see admin run get tick:") {
		t.Errorf("interrupted: exit %d, %s%s", got.code, got.stdout, got.stderr)
	}
	if got := r.run("schedule", "trigger", "tick", "--wait", "--wait-timeout", "-1s"); got.code != exitUsage {
		t.Errorf("a negative limit: exit %d", got.code)
	}
}

// A firing that is over and left no run in the log is not waited for for ever.
func TestTriggerWaitsNotForWhatLeftNoRun(t *testing.T) {
	r := newRig(t)
	r.must("schedule", "create", "tick", "--every", "1h", "--type", "log")
	r.runOnce(t, "tick", "mine", claim.OutcomeSucceeded)
	r.stores.Runs = &laterRuns{RunLog: noRuns{}, end: func() {}}
	got := r.run("schedule", "trigger", "tick", "--request-id", "mine", "--wait")
	if got.code != exitCondition || !strings.Contains(got.stdout, "does not hold how it ended") {
		t.Errorf("exit %d, %s%s", got.code, got.stdout, got.stderr)
	}
}

type noRuns struct{}

func (noRuns) Runs(context.Context, schedule.ID, int) ([]claim.RunRecord, error) { return nil, nil }

// What a pause passed over does not fire when resume is told so.
func TestResumeWithoutCatchingUp(t *testing.T) {
	for catchUp, want := range map[string]string{"policy": "missed latest decides", "none": "next firing 2026-11-30 12:00 UTC"} {
		r := newRig(t)
		r.must("schedule", "create", "tick", "--every", "1h", "--type", "log")
		r.must("schedule", "pause", "tick", "--reason", "test")
		r.advance(5 * time.Hour)
		dry := r.must("schedule", "resume", "tick", "--catch-up", catchUp, "--dry-run")
		got := r.must("schedule", "resume", "tick", "--catch-up", catchUp)
		if !strings.Contains(dry.stdout, want) || !strings.Contains(got.stdout, want) {
			t.Errorf("%s: %s%s", catchUp, dry.stdout, got.stdout)
		}
		if why := r.must("schedule", "why", "tick", "2026-11-30 09:00"); strings.Contains(why.stdout, "paused") != (catchUp == "none") {
			t.Errorf("%s: why\n%s", catchUp, why.stdout)
		}
	}
	r := newRig(t)
	r.must("schedule", "create", "tick", "--every", "1h", "--type", "log")
	if got := r.run("schedule", "resume", "tick", "--catch-up", "some"); got.code != exitUsage {
		t.Errorf("exit %d", got.code)
	}
}
