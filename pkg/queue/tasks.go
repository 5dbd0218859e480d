package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/claim"
)

// queuesKey is asynq's set of known queues. Its inspector refuses to look into
// a queue that is not in there.
const queuesKey = "asynq:queues"

// tasks looks at asynq tasks.
type tasks struct {
	redis     redis.UniversalClient
	namespace string // of the firings; "": unknown
	inspector *asynq.Inspector
}

func newTasks(client redis.UniversalClient, namespace string) tasks {
	return tasks{redis: client, namespace: namespace, inspector: asynq.NewInspectorFromRedisClient(client)}
}

// seen is what a look at a task found. The zero seen is: no task.
type seen struct {
	exists  bool
	stub    bool // its data is gone; asynq never recovers it
	foreign bool // it is not of the firing
	info    asynq.TaskInfo
}

// look finds the task of a firing.
func (t tasks) look(ctx context.Context, queue, taskID string, firing claim.FiringID) (seen, error) {
	if err := ctx.Err(); err != nil { // the inspector takes no context
		return seen{}, err
	}
	info, err := t.inspector.GetTaskInfo(queue, taskID)
	if errors.Is(err, asynq.ErrQueueNotFound) {
		// The set of queues lives in another slot than the queue and can be
		// lost alone; asynq's clients add to it once in their life.
		if err := t.redis.SAdd(ctx, queuesKey, queue).Err(); err != nil {
			return seen{}, fmt.Errorf("publish queue %s: %w", queue, err)
		}
		info, err = t.inspector.GetTaskInfo(queue, taskID)
	}
	switch {
	case errors.Is(err, asynq.ErrTaskNotFound):
		return seen{}, nil
	case err != nil && damaged(err):
		return seen{exists: true, stub: true}, nil
	case err != nil:
		return seen{}, err
	case info.ID == "" && info.Type == "":
		return seen{exists: true, stub: true, info: *info}, nil
	}
	foreign := info.Headers[HeaderFiring] != string(firing) || !sameNamespace(t.namespace, info.Headers[HeaderNamespace])
	return seen{exists: true, foreign: foreign, info: *info}, nil
}

// damaged reports whether the inspector read the task and could not make sense
// of it. asynq has no exported error for that.
func damaged(err error) bool {
	text := err.Error()
	return strings.Contains(text, "could not decode task message") || strings.Contains(text, "is not supported task state")
}

// remove deletes or archives a task that is not being run, by the inspector's
// call. It reports false when the task is being run, and true when it is gone.
func (t tasks) remove(ctx context.Context, queue, taskID string, call func(queue, id string) error) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	err := call(queue, taskID)
	switch {
	case err == nil, errors.Is(err, asynq.ErrTaskNotFound), errors.Is(err, asynq.ErrQueueNotFound):
		return true, nil
	case strings.Contains(err.Error(), "already archived"):
		return true, nil
	case strings.Contains(err.Error(), "active state"):
		return false, nil
	default:
		return false, err
	}
}

// workingOnce asks for working when its answer is first needed, and once. Those
// that want it meanwhile wait at a channel, not at the lock of a sync.Once: a
// clock in a synctest bubble stands still while a goroutine waits for a lock,
// and so would the simulated network whose reply the holder of the lock waits for.
func (t tasks) workingOnce(ctx context.Context) func() (map[string]bool, error) {
	turn := make(chan struct{}, 1)
	var asked bool
	var ids map[string]bool
	var err error
	return func() (map[string]bool, error) {
		turn <- struct{}{}
		defer func() { <-turn }()
		if !asked {
			asked = true
			ids, err = t.working(ctx)
		}
		return ids, err
	}
}

// working returns the IDs of the tasks that live asynq servers say they run.
func (t tasks) working(ctx context.Context) (map[string]bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	servers, err := t.inspector.Servers()
	if err != nil {
		return nil, err
	}
	ids := make(map[string]bool)
	for _, server := range servers {
		for _, worker := range server.ActiveWorkers {
			ids[worker.TaskID] = true
		}
	}
	return ids, nil
}
