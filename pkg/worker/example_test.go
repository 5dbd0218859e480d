package worker_test

import (
	"context"
	"fmt"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/pkg/worker"
)

func Example() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer client.Close()
	w, err := worker.New(worker.Options{Redis: client, Queues: map[string]int{"default": 3, "low": 1}})
	if err != nil {
		panic(err)
	}
	w.HandleFunc("report:build", func(ctx context.Context, task *asynq.Task) error {
		firing, _ := queue.FiringFrom(ctx) // firing.ID is the idempotency key
		fmt.Printf("report %s, firing %s\n", task.Payload(), firing.ID)
		return nil
	})
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		nightly := schedule.Schedule{ID: "nightly", Expression: "0 2 * * *", Timezone: "Europe/Berlin", Type: "report:build"}
		if _, err := w.Store().Put(ctx, nightly, schedule.PutOptions{}); err != nil {
			fmt.Println(err)
		}
	}()
	defer stop()
	if err := w.Run(ctx); err != nil { // until ctx ends
		panic(err)
	}
}
