package queue_test

import (
	"context"
	"fmt"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/belfryhq/belfry/pkg/queue"
)

// A plain asynq server that consumes the tasks of firings, without the
// middleware: the hook repeats what ends a task.
func ExampleNewBackoffHook() {
	client := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	defer func() { _ = client.Close() }()
	client.AddHook(queue.NewBackoffHook())
	server := asynq.NewServerFromRedisClient(client, asynq.Config{Queues: map[string]int{"reports": 1}})
	handler := asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		firing, _ := queue.FiringOf(task)
		fmt.Println("runs", firing.ID, "of", firing.ScheduledAt) // use firing.ID as idempotency key
		return nil
	})
	if err := server.Run(handler); err != nil {
		fmt.Println(err)
	}
}
