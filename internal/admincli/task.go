package admincli

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// taskStates are asynq's states in the order of a task's life.
var taskStates = []string{"pending", "active", "scheduled", "retry", "archived", "completed"}

// A taskFilter selects tasks.
type taskFilter struct {
	queue, state, kind, schedule string
	limit                        int
}

func (f *taskFilter) register(cmd *cobra.Command, s *session) {
	flags := cmd.Flags()
	flags.StringVar(&f.queue, "queue", "", "tasks of this queue; default all")
	flags.StringVar(&f.state, "state", "", "tasks in this state: "+strings.Join(taskStates, ", "))
	flags.StringVar(&f.kind, "type", "", "tasks of this type")
	flags.StringVar(&f.schedule, "schedule", "", "tasks of firings of this schedule")
	flags.IntVarP(&f.limit, "limit", "n", 100, "at most this many")
	// The names of queues are a help, not a condition.
	_ = cmd.RegisterFlagCompletionFunc("queue", func(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return s.completeQueues(cmd, nil, prefix)
	})
}

func newTask(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "task", Short: "Show and act on single tasks of asynq",
		Example: "  admin task list --state archived\n  admin task get task-3"}
	f := &taskFilter{}
	list := &cobra.Command{Use: "list", Short: "List tasks by queue, state, type or schedule",
		Example: "  admin task list --queue default\n  admin task list --state archived --schedule cache-warm -o json",
		Args:    arguments(0, 0, "nothing"), RunE: func(*cobra.Command, []string) error { return s.listTasks(f) }}
	f.register(list, s)
	place := ""
	get := &cobra.Command{Use: "get ID", Short: "Show a task with its payload",
		Example: "  admin task get task-3 --queue default", Args: arguments(1, 1, "ID"),
		RunE: func(_ *cobra.Command, args []string) error { return s.getTask(args[0], place) }}
	get.Flags().StringVar(&place, "queue", "", "where it is; default: look into all queues")
	cmd.AddCommand(s.watched(list), get)
	for _, verb := range taskVerbs {
		cmd.AddCommand(s.taskAction(verb))
	}
	return group(cmd)
}

// A taskJSON is a task as list and get print it.
type taskJSON struct {
	ID          string            `json:"id"`
	Queue       string            `json:"queue"`
	Type        string            `json:"type"`
	State       string            `json:"state"`
	Schedule    string            `json:"schedule"` // "" for a task that is no firing
	Retried     int               `json:"retried"`
	MaxRetry    int               `json:"max_retry"`
	NextAt      *string           `json:"next_at"`
	CompletedAt *string           `json:"completed_at"`
	LastFailed  *string           `json:"last_failed_at"`
	LastError   string            `json:"last_error"`
	Orphaned    bool              `json:"orphaned"`
	Timeout     string            `json:"timeout"`
	Headers     map[string]string `json:"headers"`
	Payload     json.RawMessage   `json:"payload,omitempty"`
	PayloadB64  string            `json:"payload_base64,omitempty"`
}

func (s *session) taskJSON(i *asynq.TaskInfo) taskJSON {
	in := s.location(time.UTC)
	v := taskJSON{ID: i.ID, Queue: i.Queue, Type: i.Type, State: i.State.String(), Schedule: i.Headers[queue.HeaderSchedule], Retried: i.Retried,
		MaxRetry: i.MaxRetry, NextAt: iso(i.NextProcessAt, in), CompletedAt: iso(i.CompletedAt, in), LastFailed: iso(i.LastFailedAt, in),
		LastError: i.LastErr, Orphaned: i.IsOrphaned, Timeout: i.Timeout.String(), Headers: i.Headers}
	if v.Headers == nil {
		v.Headers = map[string]string{}
	}
	if json.Valid(i.Payload) {
		v.Payload = i.Payload
	} else if len(i.Payload) > 0 {
		v.PayloadB64 = base64.StdEncoding.EncodeToString(i.Payload)
	}
	return v
}

// lister returns asynq's call for a state.
func lister(tasks TaskStore, state string) func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error) {
	return map[string]func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error){
		"pending": tasks.ListPendingTasks, "active": tasks.ListActiveTasks, "scheduled": tasks.ListScheduledTasks,
		"retry": tasks.ListRetryTasks, "archived": tasks.ListArchivedTasks, "completed": tasks.ListCompletedTasks}[state]
}

// taskPage is how many tasks one call lists.
const taskPage = 200

// find returns the tasks that the filter selects; true means that there are
// more.
func (f *taskFilter) find(s *session, states []string) ([]*asynq.TaskInfo, bool, error) {
	if f.limit < 1 {
		return nil, false, &schedule.FieldError{Field: "limit", Value: fmt.Sprint(f.limit), Allowed: "1 or more"}
	}
	if f.state != "" {
		if err := oneOf("state", f.state, states...); err != nil {
			return nil, false, err
		}
		states = []string{f.state}
	}
	names, err := s.queueNames()
	if err != nil {
		return nil, false, err
	}
	if f.queue != "" {
		if _, err := s.queueInfo(f.queue); err != nil {
			return nil, false, err
		}
		names = []string{f.queue}
	}
	var found []*asynq.TaskInfo
	for _, name := range names {
		for _, state := range states {
			if found, err = f.page(s, found, name, state); err != nil {
				return nil, false, err
			}
			if len(found) > f.limit {
				return found[:f.limit], true, nil
			}
		}
	}
	return found, false, nil
}

// page adds the tasks of one queue and state, up to one above the limit.
func (f *taskFilter) page(s *session, found []*asynq.TaskInfo, name, state string) ([]*asynq.TaskInfo, error) {
	list := lister(s.stores.Tasks, state)
	lost := 0
	defer func() {
		if lost > 0 {
			s.warn("queue %q is torn: %s in state %s left out, whose record is lost; see admin doctor", name, count(lost, "task"), state)
		}
	}()
	for page := 1; len(found) <= f.limit; page++ {
		if s.ctx.Err() != nil {
			return nil, errInterrupted
		}
		tasks, err := list(name, asynq.PageSize(taskPage), asynq.Page(page))
		if errors.Is(err, asynq.ErrQueueNotFound) {
			return found, nil // deleted meanwhile
		}
		if err != nil {
			err = fmt.Errorf("list the %s tasks of queue %q: %w", state, name, err)
			if isUnauthorised(err) || isUnreachable(err) {
				return nil, err
			}
			s.warn("%s; admin doctor says what to do", describe(err, "")) // one list must not hide the others
			return found, nil
		}
		for _, task := range tasks {
			if task.ID == "" {
				lost++ // asynq makes an empty task of an entry whose record is gone
				continue
			}
			if (f.kind == "" || task.Type == f.kind) && (f.schedule == "" || task.Headers[queue.HeaderSchedule] == f.schedule) && len(found) <= f.limit {
				found = append(found, task)
			}
		}
		// A page can be short without being the last: asynq leaves out what it
		// cannot decode.
		if len(tasks) == 0 {
			break
		}
	}
	return found, nil
}

func (s *session) listTasks(f *taskFilter) error {
	found, more, err := f.find(s, taskStates)
	if err != nil {
		return err
	}
	views, v := []taskJSON{}, view{}
	for _, task := range found {
		views, v.names = append(views, s.taskJSON(task)), append(v.names, task.ID)
	}
	v.data = views
	v.table = func(w io.Writer) {
		if len(found) == 0 {
			s.note("no task matches")
			return
		}
		t := newTable("ID", "QUEUE", "TYPE", "STATE", "TRIED", "WHEN", "LAST ERROR")
		for _, task := range found {
			t.addCells(cell{text: task.ID}, cell{text: task.Queue}, cell{text: task.Type}, taskState(task),
				cell{text: fmt.Sprintf("%d of %d", task.Retried, task.MaxRetry+1)}, cell{text: s.taskTime(task)}, cell{text: task.LastErr})
		}
		t.flush(w, s.painted(s.env.Terminal.Stdout))
	}
	if err := s.emit(v); err != nil {
		return err
	}
	if more {
		s.note("there are more; raise --limit, or narrow with --queue, --state, --type or --schedule")
	}
	return nil
}

func taskState(task *asynq.TaskInfo) cell {
	state := cell{task.State.String(), ""}
	switch {
	case task.IsOrphaned:
		return cell{"orphaned", red}
	case task.State == asynq.TaskStateArchived:
		state.color = red
	case task.State == asynq.TaskStateRetry:
		state.color = yellow
	case task.State == asynq.TaskStateCompleted:
		state.color = green
	}
	return state
}

// taskTime is what happens to a task next, or what happened last.
func (s *session) taskTime(task *asynq.TaskInfo) string {
	for _, t := range []time.Time{task.NextProcessAt, task.CompletedAt, task.LastFailedAt} {
		if !t.IsZero() && t.Unix() > 0 {
			return when(t, s.env.Now(), s.location(time.UTC))
		}
	}
	return none
}

// findTask looks for a task in one queue or in all.
func (s *session) findTask(id, place string) (*asynq.TaskInfo, error) {
	names, err := s.queueNames()
	if err != nil {
		return nil, err
	}
	if place != "" {
		if _, err := s.queueInfo(place); err != nil {
			return nil, err
		}
		names = []string{place}
	}
	var broken error // of the first queue that could not be asked; another may have the task
	for _, name := range names {
		task, err := s.stores.Tasks.GetTaskInfo(name, id)
		switch {
		case err == nil:
			return task, nil
		case !errors.Is(err, asynq.ErrTaskNotFound) && !errors.Is(err, asynq.ErrQueueNotFound) && broken == nil:
			broken = fmt.Errorf("look for task %q in queue %q: %w", clip(id, 60), name, err)
		}
	}
	if broken != nil {
		return nil, broken
	}
	where := "any queue"
	if place != "" {
		where = fmt.Sprintf("queue %q", place)
	}
	return nil, codedErrorf(exitNotFound, "task %q is not in %s: it was deleted or its retention is over; see admin task list", clip(id, 60), where)
}

func (s *session) getTask(id, place string) error {
	task, err := s.findTask(id, place)
	if err != nil {
		return err
	}
	return s.emit(view{data: s.taskJSON(task), names: []string{task.ID}, table: func(w io.Writer) {
		state := taskState(task)
		fmt.Fprintf(w, "%s  %s\n", visible(task.ID), paint(state.text, state.color, s.painted(s.env.Terminal.Stdout)))
		f := &sheet{}
		f.add("queue", task.Queue)
		f.add("type", task.Type)
		f.add("schedule", task.Headers[queue.HeaderSchedule])
		f.add("tried", fmt.Sprintf("%d of %d", task.Retried, task.MaxRetry+1))
		f.add("when", s.taskTime(task))
		f.add("last error", task.LastErr)
		f.add("timeout", task.Timeout.String())
		var headers []string
		for name, value := range task.Headers {
			headers = append(headers, name+": "+value)
		}
		slices.Sort(headers)
		f.add("headers", headers...)
		f.add("payload", clip(string(task.Payload), 2000))
		f.write(w)
	}})
}
