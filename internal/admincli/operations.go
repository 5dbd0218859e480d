package admincli

import (
	"context"

	"github.com/hibiken/asynq"
	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/internal/doctor"
	"github.com/belfryhq/belfry/pkg/redisstore"
)

// operations are the commands that look after a fleet.
func operations(s *session) []*cobra.Command {
	return []*cobra.Command{newDoctor(s), newCheck(s), newWait(s),
		newWorker(s), newQueue(s), newTask(s), newRuns(s), newBackup(s), newContext(s), newConfig(s), newSchema(s), newTop(s)}
}

// A Server is the Redis under the store, as doctor asks it.
type Server interface {
	// Nodes asks every master; what one denies is an error inside its node.
	Nodes(ctx context.Context) ([]doctor.Node, error)
	// Script runs one script.
	Script(ctx context.Context) error
	// Check returns broken invariants of what is stored.
	Check(ctx context.Context) ([]redisstore.Violation, error)
	// Tokens names shards whose tokens are far ahead of the store's clock.
	Tokens(ctx context.Context) ([]doctor.TokenAhead, error)
	// Queue looks at the keys of one queue of asynq, without asynq's scripts.
	Queue(ctx context.Context, name string) (doctor.RawQueue, error)
	// Fix repairs one finding; about is its argument.
	Fix(ctx context.Context, fix doctor.Fix, about string) error
}

// A TaskStore is the part of [asynq.Inspector] that the commands use. Its
// calls take no context; the client's own timeouts bound them.
type TaskStore interface {
	Queues() ([]string, error)
	GetQueueInfo(queue string) (*asynq.QueueInfo, error)
	History(queue string, days int) ([]*asynq.DailyStats, error)
	PauseQueue(queue string) error
	UnpauseQueue(queue string) error
	Servers() ([]*asynq.ServerInfo, error)
	GetTaskInfo(queue, id string) (*asynq.TaskInfo, error)
	RunTask(queue, id string) error
	ArchiveTask(queue, id string) error
	DeleteTask(queue, id string) error
	CancelProcessing(id string) error
	ListPendingTasks(queue string, options ...asynq.ListOption) ([]*asynq.TaskInfo, error)
	ListActiveTasks(queue string, options ...asynq.ListOption) ([]*asynq.TaskInfo, error)
	ListScheduledTasks(queue string, options ...asynq.ListOption) ([]*asynq.TaskInfo, error)
	ListRetryTasks(queue string, options ...asynq.ListOption) ([]*asynq.TaskInfo, error)
	ListArchivedTasks(queue string, options ...asynq.ListOption) ([]*asynq.TaskInfo, error)
	ListCompletedTasks(queue string, options ...asynq.ListOption) ([]*asynq.TaskInfo, error)
}
