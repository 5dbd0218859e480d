// Command tenlines is a worker with a handler of its own. It needs a Redis at
// 127.0.0.1:6379; start as many as you like.
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os/signal"
	"syscall"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true})
	w, err := worker.New(worker.Options{Redis: client, Logger: slog.Default()})
	if err != nil {
		log.Fatal(err)
	}
	w.HandleFunc("report:build", func(ctx context.Context, task *asynq.Task) error {
		firing, _ := queue.FiringFrom(ctx) // firing.ID is the idempotency key
		fmt.Printf("building report %s, firing %s\n", task.Payload(), firing.ID)
		return nil
	})
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
