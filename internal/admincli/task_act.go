package admincli

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/hibiken/asynq"
	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/pkg/queue"
)

// A taskVerb is one thing that can be done to tasks.
type taskVerb struct {
	name, done, short, long string
	states                  []string // in which it can be done
	destructive             bool
	act                     func(TaskStore) func(queue, id string) error
}

var taskVerbs = []taskVerb{
	{name: "run", done: "queued", short: "Run tasks now that are scheduled, wait for a retry or are archived",
		long: `Put tasks into their queue now. A task of a firing that is settled is
acknowledged by workers and not run again: use admin run retry for that.`,
		states: []string{"scheduled", "retry", "archived"}, act: func(t TaskStore) func(string, string) error { return t.RunTask }},
	{name: "retry", done: "queued", short: "Run failed tasks again that wait for a retry or are archived",
		long: `Put failed tasks into their queue now. A task of a firing that is settled is
acknowledged by workers and not run again: use admin run retry for that.`,
		states: []string{"retry", "archived"}, act: func(t TaskStore) func(string, string) error { return t.RunTask }},
	{name: "archive", done: "archived", short: "Archive tasks: they are kept and not run", destructive: true,
		long: `Archive tasks that wait: they are kept for asynq's retention and not run. A
firing whose task was never tried is enqueued again by the auditor.`,
		states: []string{"pending", "scheduled", "retry"}, act: func(t TaskStore) func(string, string) error { return t.ArchiveTask }},
	{name: "delete", done: "deleted", short: "Delete tasks that are not running", destructive: true,
		long: `Delete tasks that are not running. The schedule of a firing stays as it is. A
firing that is not settled and whose task is gone is enqueued again by the
auditor. Deleting completed tasks deletes evidence that they ran.`,
		states: []string{"pending", "scheduled", "retry", "archived", "completed"}, act: func(t TaskStore) func(string, string) error { return t.DeleteTask }},
}

type taskActFlags struct {
	taskFilter
	all, yes, dryRun bool
}

func (s *session) taskAction(verb taskVerb) *cobra.Command {
	f := &taskActFlags{}
	example := "  admin task " + verb.name + " task-3\n  admin task " + verb.name + " --all-matching --state retry"
	if verb.destructive {
		example = "  admin task " + verb.name + " task-2 --yes\n  admin task " + verb.name + " --all-matching --state retry --queue default --yes"
	}
	cmd := &cobra.Command{Use: verb.name + " ID... | --all-matching", Short: verb.short, Long: verb.long, Example: example,
		RunE: func(_ *cobra.Command, args []string) error { return s.actOnTasks(verb, f, args) }}
	f.register(cmd, s)
	cmd.Flags().BoolVar(&f.all, "all-matching", false, "all tasks that --queue, --state, --type and --schedule select")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show what would be done")
	if verb.destructive {
		cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
	}
	return cmd
}

// A taskActionJSON is what an action prints for one task.
type taskActionJSON struct {
	ID     string `json:"id"`
	Queue  string `json:"queue"`
	Action string `json:"action"` // what was done, "would be" it, or gone
}

func (s *session) actOnTasks(verb taskVerb, f *taskActFlags, args []string) error {
	found, err := s.tasksToAct(verb, f, args)
	if err != nil {
		return err
	}
	if verb.destructive && !f.dryRun {
		var lines []string
		for _, task := range found {
			lines = append(lines, fmt.Sprintf("%s  %s, %s in queue %s", task.ID, task.Type, task.State, task.Queue))
		}
		if err := s.consent(f.yes, verb.name, "task", lines); err != nil {
			return err
		}
	}
	results := []taskActionJSON{}
	for _, task := range found {
		action, err := s.actOnTask(verb, f.dryRun, task)
		if err != nil {
			s.warn("%d of %d tasks were %s before the error", len(results), len(found), verb.done)
			return err
		}
		results = append(results, taskActionJSON{task.ID, task.Queue, action})
	}
	if len(results) == 0 {
		s.note("no task matches")
	}
	v := view{data: results, table: func(w io.Writer) {
		for _, r := range results {
			fmt.Fprintln(w, visible(fmt.Sprintf("%s %s in queue %s", r.Action, r.ID, r.Queue)))
		}
	}}
	for _, r := range results {
		v.names = append(v.names, r.ID)
	}
	if err := s.emit(v); err != nil {
		return err
	}
	s.warnSettled(verb, found)
	return nil
}

// tasksToAct finds the tasks, and refuses those in a state that does not allow
// it before anything is changed.
func (s *session) tasksToAct(verb taskVerb, f *taskActFlags, args []string) ([]*asynq.TaskInfo, error) {
	switch {
	case f.all && len(args) > 0:
		return nil, usageErrorf("give IDs or --all-matching, not both")
	case f.all:
		found, more, err := f.find(s, verb.states)
		if more {
			s.note("there are more than %d; call again, or raise --limit", f.limit)
		}
		return found, err
	case len(args) == 0:
		return nil, usageErrorf("which tasks? give IDs, or --all-matching with --queue, --state, --type or --schedule")
	}
	var found []*asynq.TaskInfo
	for _, id := range args {
		task, err := s.findTask(id, f.queue)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(verb.states, task.State.String()) {
			return nil, codedErrorf(exitCondition, "task %q is %s; %s works on tasks that are %s; nothing was changed",
				clip(id, 60), task.State, verb.name, list(verb.states))
		}
		found = append(found, task)
	}
	return found, nil
}

// list joins words as English does.
func list(words []string) string {
	out := words[0]
	for i, word := range words[1:] {
		sep := ", "
		if i == len(words)-2 {
			sep = " or "
		}
		out += sep + word
	}
	return out
}

func (s *session) actOnTask(verb taskVerb, dryRun bool, task *asynq.TaskInfo) (string, error) {
	if dryRun {
		return "would be " + verb.done, nil
	}
	if s.ctx.Err() != nil {
		return "", errInterrupted
	}
	err := verb.act(s.stores.Tasks)(task.Queue, task.ID)
	if errors.Is(err, asynq.ErrTaskNotFound) {
		return "gone", nil
	}
	if err != nil {
		return "", fmt.Errorf("%s task %q: %w", verb.name, clip(task.ID, 60), err)
	}
	return verb.done, nil
}

// warnSettled says what putting back a finished task of a firing is worth.
func (s *session) warnSettled(verb taskVerb, found []*asynq.TaskInfo) {
	if verb.done != "queued" {
		return
	}
	for _, task := range found {
		if id := task.Headers[queue.HeaderFiring]; id != "" && task.State == asynq.TaskStateArchived {
			s.warn("%s belongs to a firing: if that is settled, workers acknowledge the task without running it; to run it again: admin run retry %s", task.ID, id)
			return
		}
	}
}
