package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/worker"
)

// TestAClockThatIsTenMinutesOffHarmsNobody runs a worker whose clock is right
// beside one that is ten minutes ahead or behind, on a Redis with the right
// time: each scheduled time runs once, and none before its time.
func TestAClockThatIsTenMinutesOffHarmsNobody(t *testing.T) {
	for name, offset := range map[string]time.Duration{"ahead": 10 * time.Minute, "behind": -10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			client := redis.NewClient(redistest.Options(redistest.Start(t, redistest.ServerOptions{}).Addr()))
			t.Cleanup(func() { _ = client.Close() })
			right := startReal(t, client, 5)
			namespace := right.Store().Namespace()
			var early atomic.Int64
			wrong, err := worker.New(worker.Options{Redis: client, Namespace: namespace, ID: name, ClaimTTL: 2 * time.Second, AuditAfter: 2 * time.Second,
				Lease: 2 * time.Second, SimulationNow: func() time.Time { return time.Now().Add(offset) }})
			if err != nil {
				t.Fatal(err)
			}
			wrong.HandleFunc("test", func(ctx context.Context, _ *asynq.Task) error {
				if f, _ := queue.FiringFrom(ctx); time.Now().Before(f.ScheduledAt) {
					early.Add(1)
				}
				right.rig.ran(ctx, name)
				return nil
			})
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- wrong.Run(ctx) }()
			began := time.Now()
			for _, id := range names(5) {
				if !right.awaitNewer(id, began.Add(6*time.Second), 20*time.Second) {
					t.Errorf("%s does not go on", id)
				}
			}
			stop()
			if err := <-done; err != nil {
				t.Errorf("Run = %v", err)
			}
			right.halt()
			for _, id := range names(5) {
				right.wantAllOnce(id)
			}
			if right.rig.by(name) == 0 {
				t.Error("the worker whose clock is wrong ran nothing, so the test says nothing of it")
			}
			if n := early.Load(); n != 0 {
				t.Errorf("%d runs came before their time", n)
			}
		})
	}
}
