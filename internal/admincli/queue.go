package admincli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/internal/doctor"
)

func newQueue(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "queue", Short: "Show, pause and resume the queues of asynq",
		Example: "  admin queue list\n  admin queue stats default"}
	list := &cobra.Command{Use: "list", Short: "List the queues with their tasks by state",
		Example: "  admin queue list\n  admin queue list -o json", Args: arguments(0, 0, "nothing"),
		RunE: func(*cobra.Command, []string) error { return s.listQueues() }}
	stats := &cobra.Command{Use: "stats NAME", Short: "Show a queue and its last days",
		Example: "  admin queue stats default", Args: arguments(1, 1, "NAME"), ValidArgsFunction: s.completeQueues,
		RunE: func(_ *cobra.Command, args []string) error { return s.queueStats(args[0]) }}
	yes := false
	pause := &cobra.Command{Use: "pause NAME", Short: "Stop all workers from taking tasks of a queue",
		Long: `Stop all workers from taking tasks of a queue, those of other programs too.
Schedules keep firing into it, and running tasks go on. To stop a schedule, use
admin schedule pause.`,
		Example: "  admin queue pause low --yes", Args: arguments(1, 1, "NAME"), ValidArgsFunction: s.completeQueues,
		RunE: func(_ *cobra.Command, args []string) error { return s.pauseQueue(args[0], true, yes) }}
	pause.Flags().BoolVar(&yes, "yes", false, "do not ask")
	resume := &cobra.Command{Use: "resume NAME", Short: "Let workers take tasks of a queue again",
		Example: "  admin queue resume low", Args: arguments(1, 1, "NAME"), ValidArgsFunction: s.completeQueues,
		RunE: func(_ *cobra.Command, args []string) error { return s.pauseQueue(args[0], false, true) }}
	cmd.AddCommand(s.watched(list), stats, pause, resume)
	return group(cmd)
}

// A queueJSON is a queue as list prints it.
type queueJSON struct {
	Name        string `json:"name"`
	Paused      bool   `json:"paused"`
	Size        int    `json:"size"`
	Pending     int    `json:"pending"`
	Active      int    `json:"active"`
	Scheduled   int    `json:"scheduled"`
	Retry       int    `json:"retry"`
	Archived    int    `json:"archived"`
	Completed   int    `json:"completed"`
	Aggregating int    `json:"aggregating"`
	Processed   int    `json:"processed_today"`
	Failed      int    `json:"failed_today"`
	LatencyMS   int64  `json:"latency_ms"`
	MemoryBytes int64  `json:"memory_bytes"`
	Workers     int    `json:"workers"` // asynq servers that serve it
	// Torn says what its keys lack, when asynq's scripts cannot read it; "" is
	// nothing. The memory and what was done today are not known then.
	Torn string `json:"torn"`
}

func newQueueJSON(i queueState, servers []*asynq.ServerInfo) queueJSON {
	v := queueJSON{Name: i.Queue, Paused: i.Paused, Size: i.Size, Pending: i.Pending, Active: i.Active, Scheduled: i.Scheduled,
		Retry: i.Retry, Archived: i.Archived, Completed: i.Completed, Aggregating: i.Aggregating, Processed: i.Processed, Failed: i.Failed,
		LatencyMS: i.Latency.Milliseconds(), MemoryBytes: i.MemoryUsage, Torn: i.torn}
	for _, server := range servers {
		if _, serves := server.Queues[i.Queue]; serves {
			v.Workers++
		}
	}
	return v
}

// A queueState is what is known of a queue.
type queueState struct {
	*asynq.QueueInfo
	torn string // see queueJSON.Torn
}

// readQueue reads a queue. Where asynq's script ends with an error, since a task
// has lost its record, the keys are counted instead.
func (s *session) readQueue(name string) (queueState, error) {
	info, err := s.stores.Tasks.GetQueueInfo(name)
	if err == nil || errors.Is(err, asynq.ErrQueueNotFound) || isUnauthorised(err) || isUnreachable(err) || s.stores.Server == nil {
		return queueState{QueueInfo: info}, err
	}
	q, rawErr := s.keysOf(name)
	if rawErr != nil {
		return queueState{}, rawErr
	}
	torn := q.Torn()
	if torn == "" {
		return queueState{}, fmt.Errorf("read queue %q: %w", name, err)
	}
	n := q.Counts
	info = &asynq.QueueInfo{Queue: name, Paused: q.Paused, Pending: n["pending"], Active: n["active"], Scheduled: n["scheduled"],
		Retry: n["retry"], Archived: n["archived"], Completed: n["completed"], Latency: q.Oldest}
	for _, one := range n {
		info.Size += one
	}
	return queueState{info, torn}, nil
}

// keysOf looks at the keys of a queue.
func (s *session) keysOf(name string) (q doctor.RawQueue, err error) {
	err = s.within(func(ctx context.Context) (err error) {
		q, err = s.stores.Server.Queue(ctx, name)
		return err
	})
	return q, err
}

// warnTorn says what to do about a torn queue.
func (s *session) warnTorn(name, torn string) {
	if torn != "" {
		s.warn("queue %q is torn: %s; admin doctor says what to do, and with --fix removes what nothing can run", name, torn)
	}
}

// tasks are asynq's tasks; commands that need them cannot do without.
func (s *session) tasks() (TaskStore, error) {
	stores, err := s.store()
	if err != nil {
		return nil, err
	}
	if stores.Tasks == nil {
		return nil, errors.New("admincli: this store has no queues")
	}
	return stores.Tasks, nil
}

// queueNames lists the queues in order.
func (s *session) queueNames() ([]string, error) {
	tasks, err := s.tasks()
	if err != nil {
		return nil, err
	}
	names, err := tasks.Queues()
	slices.Sort(names)
	return names, err
}

func (s *session) listQueues() error {
	names, err := s.queueNames()
	if err != nil {
		return err
	}
	servers, err := s.stores.Tasks.Servers()
	if err != nil {
		return err
	}
	queues := []queueJSON{}
	for _, name := range names {
		info, err := s.readQueue(name)
		if errors.Is(err, asynq.ErrQueueNotFound) {
			continue // deleted meanwhile
		}
		if err != nil {
			return err
		}
		queues = append(queues, newQueueJSON(info, servers))
	}
	err = s.emit(view{data: queues, names: names, table: func(w io.Writer) { s.showQueues(w, queues) }})
	if err != nil {
		return err
	}
	for _, q := range queues {
		s.warnTorn(q.Name, q.Torn)
	}
	if s.tabular() {
		s.footer(count(len(queues), "queue"))
	}
	return nil
}

func (s *session) showQueues(w io.Writer, queues []queueJSON) {
	if len(queues) == 0 {
		s.note("no queue yet; the first task makes one")
		return
	}
	t := newTable("QUEUE", "STATE", "WORKERS", "PENDING", "ACTIVE", "SCHEDULED", "RETRY", "ARCHIVED", "COMPLETED", "OLDEST", "FAILED TODAY")
	for _, q := range queues {
		state := cell{"running", green}
		switch {
		case q.Torn != "":
			state = cell{"torn", red}
		case q.Paused:
			state = cell{"paused", yellow}
		case q.Workers == 0 && q.Pending > 0:
			state = cell{"unserved", red}
		case q.Workers == 0:
			state = cell{"unserved", dim}
		}
		row := []cell{{text: q.Name}, state}
		for _, n := range []int{q.Workers, q.Pending, q.Active, q.Scheduled, q.Retry, q.Archived, q.Completed} {
			row = append(row, cell{text: fmt.Sprint(n)})
		}
		row = append(row, cell{text: waiting(q.LatencyMS)}, cell{text: fmt.Sprintf("%d of %d", q.Failed, q.Processed)})
		t.addCells(row...)
	}
	t.flush(w, s.painted(s.env.Terminal.Stdout))
}

func waiting(ms int64) string {
	if ms == 0 {
		return none
	}
	return fine(time.Duration(ms) * time.Millisecond)
}

// queueInfo returns a queue, or the nearest names that exist.
func (s *session) queueInfo(name string) (queueState, error) {
	names, err := s.queueNames()
	if err != nil {
		return queueState{}, err
	}
	if slices.Contains(names, name) {
		return s.readQueue(name)
	}
	near := didYouMean(name, names)
	if near == "" {
		near = "; see admin queue list"
	}
	return queueState{}, codedErrorf(exitNotFound, "queue %q does not exist%s", clip(name, 60), near)
}

// historyDays is how many days of a queue are shown.
const historyDays = 7

// A queueStatsJSON is what queue stats prints.
type queueStatsJSON struct {
	queueJSON
	Days []dayJSON `json:"days"`
}

// A dayJSON is a day of a queue, in UTC.
type dayJSON struct {
	Date      string `json:"date"`
	Processed int    `json:"processed"`
	Failed    int    `json:"failed"`
}

func (s *session) queueStats(name string) error {
	info, err := s.queueInfo(name)
	if err != nil {
		return err
	}
	days, err := s.stores.Tasks.History(name, historyDays)
	if err != nil {
		return err
	}
	servers, err := s.stores.Tasks.Servers()
	if err != nil {
		return err
	}
	v := queueStatsJSON{queueJSON: newQueueJSON(info, servers), Days: []dayJSON{}}
	for _, d := range days {
		v.Days = append(v.Days, dayJSON{d.Date.UTC().Format(time.DateOnly), d.Processed, d.Failed})
	}
	s.warnTorn(name, info.torn)
	return s.emit(view{data: v, names: []string{name}, table: func(w io.Writer) {
		s.showQueues(w, []queueJSON{v.queueJSON})
		t := newTable("DAY (UTC)", "PROCESSED", "FAILED")
		for _, d := range v.Days {
			t.add(d.Date, fmt.Sprint(d.Processed), fmt.Sprint(d.Failed))
		}
		t.flush(w, s.painted(s.env.Terminal.Stdout))
	}})
}

// A queueActionJSON is what pause and resume print.
type queueActionJSON struct {
	Name    string `json:"name"`
	Action  string `json:"action"` // paused, resumed or unchanged
	Pending int    `json:"pending"`
	Active  int    `json:"active"`
}

func (s *session) pauseQueue(name string, pause, yes bool) error {
	info, err := s.queueInfo(name)
	if err != nil {
		return err
	}
	act, action, verb := s.stores.Tasks.UnpauseQueue, "resumed", "resume"
	if pause {
		act, action, verb = s.stores.Tasks.PauseQueue, "paused", "pause"
	}
	if info.Paused == pause {
		action = "unchanged"
	} else {
		line := fmt.Sprintf("%s: %d pending, %d active; every program that uses the queue stops taking tasks", name, info.Pending, info.Active)
		if err := s.consent(yes, verb, "queue", []string{line}); err != nil {
			return err
		}
		if err := act(name); err != nil {
			return fmt.Errorf("%s queue %q: %w", verb, name, err)
		}
	}
	v := queueActionJSON{Name: name, Action: action, Pending: info.Pending, Active: info.Active}
	return s.emit(view{data: v, names: []string{name}, table: func(w io.Writer) {
		fmt.Fprintln(w, visible(fmt.Sprintf("%s queue %s: %d pending, %d active", action, name, info.Pending, info.Active)))
	}})
}

func (s *session) completeQueues(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return s.completeNames(cmd, args, prefix, s.queueNames)
}
