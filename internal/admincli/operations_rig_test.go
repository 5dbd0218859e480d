package admincli

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/internal/doctor"
	"github.com/belfryhq/belfry/internal/memstore"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A scene is the server and the queues of a rig, which are set by
// "$ setenv SCENE=NAME": "" is healthy, "bad" everything wrong, "denied" one
// that tells nothing, "embedded" that of a demo.
type scene struct{ r *rig }

func (s scene) Nodes(context.Context) ([]doctor.Node, error) {
	n := doctor.Node{Address: "test:6379",
		Info:   map[string]string{"redis_version": "7.4.6", "used_memory": "10485760", "role": "master", "connected_slaves": "1"},
		Config: map[string]string{"maxmemory-policy": "noeviction", "maxmemory": "0", "appendonly": "yes", "appendfsync": "everysec", "save": ""}}
	denied := errors.New("NOPERM this user has no permissions to run the command")
	switch s.r.environ["SCENE"] {
	case "bad":
		n.Info = map[string]string{"redis_version": "7.4.1", "used_memory": "96468992", "role": "slave"}
		n.Config = map[string]string{"maxmemory-policy": "allkeys-lru", "maxmemory": "104857600", "appendonly": "no", "save": ""}
		n.Ahead = -9 * time.Second
	case "fixable":
		n.Config["maxmemory-policy"] = "allkeys-lru"
	case "denied":
		n = doctor.Node{Address: "test:6379", InfoErr: denied, ConfigErr: denied, ClockErr: denied}
	case "embedded":
		n = doctor.Node{Address: "test:6379", Embedded: true}
	}
	return []doctor.Node{n}, nil
}

func (s scene) Script(context.Context) error { return nil }

func (s scene) Check(context.Context) ([]redisstore.Violation, error) {
	if s.r.environ["SCENE"] == "bad" {
		return []redisstore.Violation{{Kind: redisstore.ViolationIndex, Text: "meta counts 4 active, there are 3"}}, nil
	}
	return nil, nil
}

func (s scene) Tokens(context.Context) ([]doctor.TokenAhead, error) { return nil, nil }

func (s scene) Queue(_ context.Context, name string) (doctor.RawQueue, error) {
	info, err := s.r.stores.Tasks.GetQueueInfo(name)
	if err != nil {
		return doctor.RawQueue{}, err
	}
	return doctor.RawQueue{Paused: info.Paused, Counts: map[string]int{"pending": info.Pending, "active": info.Active}}, nil
}

func (s scene) Fix(context.Context, doctor.Fix, string) error { return nil }

// cannedTasks are queues and tasks that answer as asynq's inspector does.
type cannedTasks struct {
	paused map[string]bool
	stops  []string // IDs of tasks that were asked to stop
	tasks  []*asynq.TaskInfo
	r      *rig
}

func newCannedTasks(r *rig) *cannedTasks {
	firing := map[string]string{"Belfry-Firing": "cache-warm:1:mseed", "Belfry-Schedule": "cache-warm"}
	at := func(d time.Duration) time.Time { return epoch.Add(d) }
	return &cannedTasks{r: r, paused: map[string]bool{"low": true}, tasks: []*asynq.TaskInfo{
		{ID: "task-1", Queue: "default", Type: "cache:warm", State: asynq.TaskStateActive, MaxRetry: 3, Timeout: time.Minute},
		{ID: "task-2", Queue: "default", Type: "mail:launch", State: asynq.TaskStatePending, MaxRetry: 3, Payload: []byte("\xff\x00")},
		{ID: "task-3", Queue: "default", Type: "cache:warm", State: asynq.TaskStateArchived, MaxRetry: 3, Retried: 3, Headers: firing,
			LastErr: "connection refused\x1b[2J", LastFailedAt: at(-time.Hour), Payload: []byte(`{"n": 9007199254740993}`)},
		{ID: "task-4", Queue: "default", Type: "mail:launch", State: asynq.TaskStateRetry, MaxRetry: 3, Retried: 1, LastErr: "greylisted",
			NextProcessAt: at(time.Minute)},
		{ID: "task-5", Queue: "low", Type: "log", State: asynq.TaskStateCompleted, CompletedAt: at(-time.Minute)},
	}}
}

func (c *cannedTasks) Queues() ([]string, error) { return []string{"low", "default"}, nil }

func (c *cannedTasks) GetQueueInfo(queue string) (*asynq.QueueInfo, error) {
	info := &asynq.QueueInfo{Queue: queue, Paused: c.paused[queue], Processed: 7, Failed: 2, MemoryUsage: 4096}
	for _, t := range c.tasks {
		if t.Queue != queue {
			continue
		}
		info.Size++
		switch t.State {
		case asynq.TaskStateActive:
			info.Active++
		case asynq.TaskStatePending:
			info.Pending++
			info.Latency = 42 * time.Second
		case asynq.TaskStateRetry:
			info.Retry++
		case asynq.TaskStateArchived:
			info.Archived++
		case asynq.TaskStateCompleted:
			info.Completed++
		}
	}
	return info, nil
}

func (c *cannedTasks) History(queue string, days int) ([]*asynq.DailyStats, error) {
	return []*asynq.DailyStats{{Queue: queue, Processed: 7, Failed: 2, Date: epoch}, {Queue: queue, Processed: 9, Date: epoch.AddDate(0, 0, -1)}}, nil
}

func (c *cannedTasks) PauseQueue(queue string) error   { c.paused[queue] = true; return nil }
func (c *cannedTasks) UnpauseQueue(queue string) error { delete(c.paused, queue); return nil }

func (c *cannedTasks) Servers() ([]*asynq.ServerInfo, error) {
	return []*asynq.ServerInfo{{Host: "", PID: 0, Queues: map[string]int{"default": 1}, ActiveWorkers: []*asynq.WorkerInfo{
		{TaskID: "task-1", TaskType: "cache:warm", Queue: "default", Started: epoch.Add(-5 * time.Second), Deadline: epoch.Add(time.Minute)}}}}, nil
}

func (c *cannedTasks) find(queue, id string) (*asynq.TaskInfo, error) {
	for _, t := range c.tasks {
		if t.Queue == queue && t.ID == id {
			return t, nil
		}
	}
	return nil, asynq.ErrTaskNotFound
}

func (c *cannedTasks) GetTaskInfo(queue, id string) (*asynq.TaskInfo, error) {
	t, err := c.find(queue, id)
	if err != nil {
		return nil, err
	}
	copied := *t
	return &copied, nil
}

func (c *cannedTasks) move(queue, id string, to asynq.TaskState) error {
	t, err := c.find(queue, id)
	if err == nil {
		t.State = to
	}
	return err
}

func (c *cannedTasks) RunTask(queue, id string) error {
	return c.move(queue, id, asynq.TaskStatePending)
}
func (c *cannedTasks) ArchiveTask(queue, id string) error {
	return c.move(queue, id, asynq.TaskStateArchived)
}

func (c *cannedTasks) DeleteTask(queue, id string) error {
	_, err := c.find(queue, id)
	c.tasks = slices.DeleteFunc(c.tasks, func(t *asynq.TaskInfo) bool { return t.Queue == queue && t.ID == id })
	return err
}

func (c *cannedTasks) CancelProcessing(id string) error {
	c.stops = append(c.stops, id)
	return nil
}

// left keeps the finished task of a firing with a result, in place of the one
// before.
func (r *rig) left(t *testing.T, id, output string) {
	t.Helper()
	tasks, ok := r.stores.Tasks.(*cannedTasks)
	if !ok {
		t.Fatalf("the rig's tasks are %T", r.stores.Tasks)
	}
	_ = tasks.DeleteTask("default", id) // it may be the first
	tasks.tasks = append(tasks.tasks, &asynq.TaskInfo{ID: id, Queue: "default", Type: "cache:warm", State: asynq.TaskStateCompleted,
		CompletedAt: r.clock(), Retention: 10 * time.Minute, Result: []byte(output)})
}

// in lists copies, since an inspector's answers do not change later.
func (c *cannedTasks) in(queue string, state asynq.TaskState, options []asynq.ListOption) ([]*asynq.TaskInfo, error) {
	var found []*asynq.TaskInfo
	for _, option := range options {
		if value := reflect.ValueOf(option); value.Type().Name() == "pageNumOpt" && value.Int() > 1 {
			return nil, nil // all fit on the first page
		}
	}
	for _, t := range c.tasks {
		if t.Queue == queue && t.State == state {
			copied := *t
			found = append(found, &copied)
		}
	}
	return found, nil
}

func (c *cannedTasks) ListPendingTasks(queue string, options ...asynq.ListOption) ([]*asynq.TaskInfo, error) {
	return c.in(queue, asynq.TaskStatePending, options)
}

func (c *cannedTasks) ListActiveTasks(queue string, options ...asynq.ListOption) ([]*asynq.TaskInfo, error) {
	return c.in(queue, asynq.TaskStateActive, options)
}

func (c *cannedTasks) ListScheduledTasks(queue string, options ...asynq.ListOption) ([]*asynq.TaskInfo, error) {
	return c.in(queue, asynq.TaskStateScheduled, options)
}

func (c *cannedTasks) ListRetryTasks(queue string, options ...asynq.ListOption) ([]*asynq.TaskInfo, error) {
	return c.in(queue, asynq.TaskStateRetry, options)
}

func (c *cannedTasks) ListArchivedTasks(queue string, options ...asynq.ListOption) ([]*asynq.TaskInfo, error) {
	return c.in(queue, asynq.TaskStateArchived, options)
}

func (c *cannedTasks) ListCompletedTasks(queue string, options ...asynq.ListOption) ([]*asynq.TaskInfo, error) {
	return c.in(queue, asynq.TaskStateCompleted, options)
}

// seedRun triggers a schedule with the request "seed" and ends the run, so that
// there is a run log.
func (r *rig) seedRun(t *testing.T, id schedule.ID, outcome claim.RunOutcome) {
	t.Helper()
	r.runOnce(t, id, "seed", outcome)
}

// runOnce triggers a schedule and ends the run.
func (r *rig) runOnce(t *testing.T, id schedule.ID, request string, outcome claim.RunOutcome) {
	t.Helper()
	ctx := context.Background()
	triggered, err := r.stores.Catalog.Trigger(ctx, id, schedule.TriggerOptions{RequestID: request})
	if err != nil {
		t.Fatal(err)
	}
	ledger, ok := r.stores.Catalog.(*memstore.Store)
	if !ok {
		t.Fatalf("the rig's store is %T", r.stores.Catalog)
	}
	firing := claim.FiringID(triggered.FiringID)
	begun, err := ledger.Begin(ctx, claim.BeginRequest{Firing: firing, Owner: "o", Worker: "w1", Lease: time.Minute})
	if err != nil || begun.Answer != claim.BeginRun {
		t.Fatalf("begin: %+v, %v", begun, err)
	}
	text := ""
	if outcome != claim.OutcomeSucceeded {
		text = "exit status 1"
	}
	_, err = ledger.Finish(ctx, claim.FinishRequest{Run: claim.Run{Firing: firing, Token: begun.Token}, Outcome: outcome, Error: text,
		Started: r.clock(), Duration: 1500 * time.Millisecond, Attempt: begun.Attempt, Worker: "w1", KeepRuns: 20})
	if err != nil {
		t.Fatal(err)
	}
}
