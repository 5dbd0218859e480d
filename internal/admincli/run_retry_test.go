package admincli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// carriedBy is what the open firing that a command printed carries.
func (r *rig) carriedBy(t *testing.T, stdout string) *claim.Extra {
	t.Helper()
	var printed triggerJSON
	if err := json.Unmarshal([]byte(stdout), &printed); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	id := claim.FiringID(printed.FiringID)
	open, _, err := r.stores.Firings.Firings(context.Background(), []claim.FiringID{id})
	if err != nil || open[id].Firing != id {
		t.Fatalf("%s is not open: %v", id, err)
	}
	return open[id].Extra
}

// A firing that is run again keeps payload and scheduled time, from the ledger
// or from the task that asynq keeps; when both are gone that is told.
func TestRunRetryKeepsWhatTheFiringCarried(t *testing.T) {
	r := newRig(t)
	r.must("schedule", "create", "a", "--every", "1h", "--type", "x", "--payload", `"of the definition"`)
	at := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	first := r.must("schedule", "trigger", "a", "--payload", "7", "--at-instant", at.Format(time.RFC3339), "--request-id", "one", "-o", "json").stdout
	var printed triggerJSON
	if err := json.Unmarshal([]byte(first), &printed); err != nil {
		t.Fatal(err)
	}
	id := claim.FiringID(printed.FiringID)
	check := func(when string, x *claim.Extra, payload string, at time.Time) {
		t.Helper()
		if x == nil || string(x.Payload) != payload || !x.ScheduledAt.Equal(at) {
			t.Errorf("%s it carries %+v, want %q and %s", when, x, payload, at)
		}
	}
	check("open,", r.carriedBy(t, r.must("run", "retry", string(id), "-o", "json").stdout), "7", at)

	r.runThrough(id, claim.OutcomeSucceeded, "")
	tasks := newCannedTasks(r)
	tasks.tasks = append(tasks.tasks, &asynq.TaskInfo{ID: id.TaskID(2), Queue: "low", Type: "x", State: asynq.TaskStateCompleted, Payload: []byte("8"),
		Headers: map[string]string{queue.HeaderFiring: string(id), queue.HeaderScheduledAt: "1796000000000"}})
	r.stores.Tasks = tasks
	check("kept by asynq,", r.carriedBy(t, r.must("run", "retry", string(id), "-o", "json").stdout), "8", time.UnixMilli(1796000000000))

	tasks.tasks = nil
	got := r.must("run", "retry", string(id), "-o", "json")
	if x := r.carriedBy(t, got.stdout); x != nil || !strings.Contains(got.stderr, "its task is gone") {
		t.Errorf("gone, it carries %+v and says %s", x, got.stderr)
	}

	// The ID of a scheduled firing says its time for ever.
	planned := claim.ScheduledFiring("a", mustParse(t, id).Generation, at)
	got = r.must("run", "retry", string(planned), "-o", "json")
	x := r.carriedBy(t, got.stdout)
	if x == nil || x.Payload != nil || !x.ScheduledAt.Equal(at) || !strings.Contains(got.stderr, "payload of the present definition") {
		t.Errorf("a scheduled one carries %+v and says %s", x, got.stderr)
	}

	big := strings.Repeat("p", schedule.MaxTriggerPayload+1)
	tasks.tasks = []*asynq.TaskInfo{{ID: string(planned), Queue: "low", Type: "x", Payload: []byte(big), Headers: map[string]string{queue.HeaderFiring: string(planned)}}}
	if got := r.run("run", "retry", string(planned)); got.code != exitCondition || !strings.Contains(got.stderr, "an extra firing can carry 65536") {
		t.Errorf("too large: exit %d, %s", got.code, got.stderr)
	}
}

func mustParse(t *testing.T, id claim.FiringID) claim.Firing {
	t.Helper()
	f, err := claim.ParseFiringID(string(id))
	if err != nil {
		t.Fatal(err)
	}
	return f
}
