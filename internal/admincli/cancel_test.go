package admincli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/queue"
)

// Only what runs of the deleted generation is told to end, and only when asked.
func TestDeleteTellsRunsToEnd(t *testing.T) {
	for _, asked := range []bool{false, true} {
		r := newRig(t)
		r.must("schedule", "create", "tick", "--every", "1h", "--type", "log")
		entry, err := r.stores.Catalog.Get(t.Context(), "tick")
		if err != nil {
			t.Fatal(err)
		}
		tasks := newCannedTasks(r)
		for i, generation := range []int64{entry.Status.Generation, entry.Status.Generation + 1} {
			for _, state := range []asynq.TaskState{asynq.TaskStateActive, asynq.TaskStatePending} {
				tasks.tasks = append(tasks.tasks, &asynq.TaskInfo{ID: fmt.Sprintf("%s-%d", state, i), Queue: "default", Type: "log", State: state,
					Headers: map[string]string{queue.HeaderSchedule: "tick", queue.HeaderGeneration: fmt.Sprint(generation)}})
			}
		}
		r.stores.Tasks = tasks
		args := []string{"schedule", "delete", "tick", "--yes"}
		want, line := []string(nil), "deleted tick\n"
		if asked {
			args, want, line = append(args, "--cancel-running"), []string{"active-0"}, "deleted tick, 1 run under way told to end\n"
		}
		got := r.must(args...)
		if !slices.Equal(tasks.stops, want) || !strings.Contains(got.stdout, line) {
			t.Errorf("asked %v: told %v, want %v: %s", asked, tasks.stops, want, got.stdout)
		}
	}
}
