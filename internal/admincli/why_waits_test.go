package admincli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/claim"
)

// plainServers are tasks of a deployment where a plain asynq server serves.
type plainServers struct {
	TaskStore
	queue string
}

func (p plainServers) Servers() ([]*asynq.ServerInfo, error) {
	return []*asynq.ServerInfo{{Host: "elsewhere", PID: 7, Queues: map[string]int{p.queue: 1}}}, nil
}

// A firing that is not decided says whom it waits for, and which command helps.
func TestWhySaysWhomAFiringWaitsFor(t *testing.T) {
	announce := func(types []string, claims bool, queues ...string) func(*rig) {
		return func(r *rig) {
			weights := map[string]int{}
			for _, q := range queues {
				weights[q] = 1
			}
			_, err := r.stores.Roster.Announce(context.Background(), claim.Member{ID: "w9", Queues: weights, Claims: claims, Types: types, Started: r.now, Seen: r.now})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	logs := []string{"log"}
	tests := map[string]struct {
		setUp      func(*rig)
		text, hint string
	}{
		"nobody alive":  {func(*rig) {}, "no worker is alive in this namespace", "start a worker"},
		"nobody claims": {announce(logs, false, "default"), "no live worker claims schedules", "BELFRY_SCHEDULE=false"},
		"nobody serves": {announce(logs, true, "other"), "once claimed, its task will wait: no live worker serves queue default", "BELFRY_QUEUES=default=1"},
		"no handler":    {announce([]string{"x"}, true, "default"), "no worker of queue default has a handler for type log", "add the handler to w9"},
		"paused":        {func(r *rig) { announce(logs, true, "default")(r); r.must("queue", "pause", "default", "--yes") }, "queue default is paused", "admin queue resume default"},
		"draining": {func(r *rig) {
			announce(logs, true, "default")(r)
			if _, found, err := r.stores.Roster.Drain(context.Background(), claim.Member{ID: "w9", Started: r.now}, "ana", "move"); err != nil || !found {
				t.Fatal(found, err)
			}
		}, "every worker that claims takes no new work: w9", "admin worker undrain w9"},
		"all is well":    {announce(logs, true, "default"), "no worker has claimed it yet", "admin worker list"},
		"plain consumer": {func(r *rig) { announce(logs, true, "x")(r); r.stores.Tasks = plainServers{r.stores.Tasks, "default"} }, "no worker has claimed it yet", "admin worker list"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.must("schedule", "create", "a", "--every", "5m", "--type", "log")
			r.advance(10 * time.Minute) // the workers before are gone
			test.setUp(r)
			got := r.must("schedule", "why", "a").stdout
			if !strings.Contains(got, test.text) || !strings.Contains(got, test.hint) || strings.Contains(test.text, "claimed it yet") && strings.Contains(got, "; ") {
				t.Errorf("%s", got)
			}
		})
	}
}

// A task that was pushed and does not begin waits for its queue.
func TestWhySaysThatTheQueueOfATaskIsPaused(t *testing.T) {
	r := newRig(t)
	r.must("schedule", "create", "a", "--every", "5m", "--type", "log")
	r.advance(3 * time.Minute)
	r.announce("default")
	r.must("queue", "pause", "default", "--yes")
	f := &fleet{r: r, word: map[string]string{}}
	f.work()
	got := r.must("schedule", "why", "a", "-o", "json").stdout
	if f.pushed != 1 || !strings.Contains(got, "queue default is paused") || !strings.Contains(got, `"hint": "admin queue resume default"`) {
		t.Errorf("%d pushed: %s", f.pushed, got)
	}
	r.must("queue", "resume", "default")
	if got := r.must("schedule", "why", "a").stdout; strings.Contains(got, "paused") {
		t.Errorf("after resume: %s", got)
	}
}

// pushedTask is a queue that holds one task.
type pushedTask struct {
	TaskStore
	id string
}

func (p pushedTask) GetTaskInfo(queue, id string) (*asynq.TaskInfo, error) {
	if queue != "default" || id != p.id {
		return nil, asynq.ErrTaskNotFound
	}
	return &asynq.TaskInfo{ID: id, Queue: queue}, nil
}

// The ledger hears of a push later than the queue. Meanwhile the answer says
// where the task is, and does not send to workers that claim.
func TestWhyLooksForTheTaskOfAPromisedFiring(t *testing.T) {
	r := newRig(t)
	r.must("schedule", "create", "a", "--every", "5m", "--type", "log")
	r.advance(3 * time.Minute)
	r.announce("default")
	f := &fleet{r: r, word: map[string]string{}}
	f.work()
	if got := r.must("schedule", "why", "a").stdout; !strings.Contains(got, "or will be") || strings.Contains(got, "once claimed") {
		t.Errorf("without a task: %s", got)
	}
	r.stores.Tasks = pushedTask{r.stores.Tasks, f.open[0].TaskID(0)}
	if got := r.must("schedule", "why", "a").stdout; !strings.Contains(got, "its task is in queue default and has not begun") {
		t.Errorf("with its task: %s", got)
	}
	if result, err := r.backend().Cancel(context.Background(), claim.CancelRequest{Firing: f.open[0], By: "ana"}); err != nil || result.Answer != claim.CancelAsked {
		t.Fatal(result, err)
	}
	if got := r.must("schedule", "why", "a").stdout; !strings.Contains(got, "an operator asked it to end") || strings.Contains(got, "newer firing") {
		t.Errorf("cancelled by hand: %s", got)
	}
}
