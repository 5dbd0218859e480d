package admincli

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/claim"
)

// A leaving fleet changes when it is looked at for the third time; the first look
// is before the wish.
type leaving struct {
	claim.Roster
	looks int
	then  func()
}

func (l *leaving) Members(ctx context.Context, maxAge time.Duration) ([]claim.Member, error) {
	if l.looks++; l.looks == 3 {
		l.then()
	}
	return l.Roster.Members(ctx, maxAge)
}

// busyTasks say that the one server runs these tasks.
type busyTasks struct {
	TaskStore
	running []string
}

func (b *busyTasks) Servers() ([]*asynq.ServerInfo, error) {
	server := &asynq.ServerInfo{}
	for _, id := range b.running {
		server.ActiveWorkers = append(server.ActiveWorkers, &asynq.WorkerInfo{TaskID: id, Queue: "default", TaskType: "log"})
	}
	return []*asynq.ServerInfo{server}, nil
}

// A worker that leaves before it has drained had ended its work, or it had not:
// the exit code tells.
func TestDrainTellsHowAWorkerLeft(t *testing.T) {
	type world struct {
		*actor
		tasks  *busyTasks
		member claim.Member
	}
	kill := func(w *world) { w.r.advance(2 * time.Minute) }
	leave := func(w *world) {
		if err := w.r.stores.Roster.Withdraw(t.Context(), "w1"); err != nil {
			t.Error(err)
		}
	}
	plain := func(w *world) { w.tasks.running = []string{"task-1"} } // which asynq has as active
	idle := func(w *world) { w.tasks.running, w.member.Running = nil, 0 }
	ends := func(w *world) { w.finish(claim.OutcomeSucceeded, "")() }
	restart := func(w *world) {
		w.r.advance(2 * time.Second)
		w.r.announce("default")
	}
	for name, tt := range map[string]struct {
		before, then []func(*world)
		code         int
		action       string
		text         []string
	}{
		"it ended its work and left":       {nil, []func(*world){ends, leave}, exitDone, "drained", []string{"has left the fleet after it had ended what it ran"}},
		"it ran nothing and left":          {[]func(*world){idle}, []func(*world){leave}, exitDone, "drained", []string{"after it had ended what it ran"}},
		"it left in the middle of a run":   {nil, []func(*world){leave}, exitFailed, "left", []string{"did not end 1 task (tick:", "is taken over when its leases run out"}},
		"it left in the middle of a task":  {[]func(*world){plain}, []func(*world){leave}, exitFailed, "left", []string{"did not end 1 task (task-1)"}},
		"it was killed in a run":           {nil, []func(*world){kill}, exitFailed, "vanished", []string{"w1 vanished: its last sign of life was 2026-11-30 06:07:02 UTC (2m ago), when it was draining and ran 1 task (tick:"}},
		"it was killed and ran nothing":    {[]func(*world){idle}, []func(*world){kill}, exitFailed, "vanished", []string{"ran 0 tasks"}},
		"it took long to stop":             {nil, []func(*world){ends, kill}, exitDone, "drained", []string{"after it had ended what it ran"}},
		"it restarted in the middle":       {nil, []func(*world){restart}, exitFailed, "left", []string{"did not end 1 task"}},
		"it ended its work and restarted":  {nil, []func(*world){ends, restart}, exitDone, "drained", []string{"another one of that name works now"}},
		"killed with what nobody knows of": {[]func(*world){func(w *world) { idle(w); w.member.Running = 2 }}, []func(*world){kill}, exitFailed, "vanished", []string{"ran 2 tasks:"}},
	} {
		for _, format := range []string{"table", "json"} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				w := &world{actor: act(t, r), member: claim.Member{ID: "w1", State: claim.MemberDraining, Queues: map[string]int{"default": 1}, Claims: true,
					Types: []string{"log"}, Started: epoch, Running: 1}}
				w.begin("w1")()
				w.tasks = &busyTasks{r.stores.Tasks, []string{string(w.firing)}}
				r.stores.Tasks = w.tasks
				for _, step := range tt.before {
					step(w)
				}
				if _, err := r.stores.Roster.Announce(t.Context(), w.member); err != nil {
					t.Fatal(err)
				}
				r.stores.Roster = &leaving{Roster: r.stores.Roster, then: func() {
					for _, step := range tt.then {
						step(w)
					}
				}}
				got := r.run("worker", "drain", "w1", "--wait", "--yes", "--wait-timeout", "5m", "-o", format)
				if got.code != tt.code {
					t.Errorf("%s: exit %d, want %d: %s%s", name, got.code, tt.code, got.stdout, got.stderr)
				}
				checkLeft(t, name, got.stdout, format, tt.action, tt.text)
			})
		}
	}
}

func checkLeft(t *testing.T, name, text, format, action string, parts []string) {
	t.Helper()
	if format == "table" {
		if slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) }) {
			t.Errorf("%s: %q is not in %s", name, parts, text)
		}
		return
	}
	var row drainJSON
	if err := json.Unmarshal([]byte(text), &row); err != nil || row.Action != action || row.State != "gone" || (row.Running > 0 && action == "drained") {
		t.Errorf("%s: %+v, %v", name, row, err)
	}
}
