package simtest

import (
	"context"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/redisstore"
)

// A consumer takes pending tasks out of asynq's queues and runs them through
// the real middleware. It does what an asynq server does when nothing goes
// wrong, without asking Redis for work several times a second for days.
type consumer struct {
	world     *world
	client    *redis.Client
	inspector *asynq.Inspector
	handler   asynq.Handler
	stop      context.CancelFunc
	done      chan struct{}

	rope chan struct{}

	mu   sync.Mutex
	rung map[string]bool // queues that got a task since the last look
}

func (w *world) consumer(id string, every time.Duration) *consumer {
	w.t.Helper()
	c := &consumer{world: w, client: w.client(), done: make(chan struct{}), rung: map[string]bool{},
		rope: make(chan struct{}, 1)}
	c.inspector = asynq.NewInspectorFromRedisClient(c.client)
	store, err := redisstore.New(c.client, redisstore.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	enqueuer, err := queue.NewEnqueuer(queue.EnqueuerOptions{Redis: c.client})
	if err != nil {
		w.t.Fatal(err)
	}
	m, err := queue.NewMiddleware(queue.MiddlewareOptions{Ledger: store, Enqueuer: enqueuer, Catalog: store, Worker: id,
		KeepRuns: keepRuns, Observer: w.log.observer(id, nil)})
	if err != nil {
		w.t.Fatal(err)
	}
	c.handler = m.Wrap(w.handler(id))
	ctx, cancel := context.WithCancel(w.t.Context())
	c.stop = cancel
	go c.run(ctx, every)
	return c
}

// handler notes what it runs, and compares the payload.
func (w *world) handler(id string) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		firing, ok := queue.FiringFrom(ctx)
		if !ok || string(task.Payload()) != `{"of":"`+string(firing.Schedule)+`"}` {
			w.t.Errorf("a handler got the payload %q for the firing %+v", task.Payload(), firing)
		}
		w.log.add(w.log.started, firing.ID, sight{who: id, kind: task.Type()})
		select {
		case <-time.After(w.work):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// ring tells that a queue got a task.
func (c *consumer) ring(queue string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rung[queue] = true
	select {
	case c.rope <- struct{}{}:
	default:
	}
}

// run takes what is pending, a while after it was rung for, until ctx ends; then
// it takes the rest.
func (c *consumer) run(ctx context.Context, every time.Duration) {
	defer close(c.done)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-c.rope:
		}
		pause, stop := context.WithTimeout(ctx, every)
		<-pause.Done()
		stop()
		c.mu.Lock()
		look := c.rung
		c.rung = map[string]bool{}
		c.mu.Unlock()
		for queue := range look {
			for c.take(queue) {
			}
		}
	}
}

// halt stops the consumer and waits for it.
func (c *consumer) halt() {
	c.stop()
	<-c.done
}

// page is how many tasks are taken at a time.
const page = 100

// take runs some pending tasks of a queue and acknowledges them; it reports
// whether there may be more.
func (c *consumer) take(queue string) bool {
	ctx := c.world.t.Context()
	tasks, err := c.inspector.ListPendingTasks(queue, asynq.PageSize(page))
	if err != nil {
		c.world.t.Errorf("ListPendingTasks(%s): %v", queue, err)
		return false
	}
	for _, info := range tasks {
		if err := c.handler.ProcessTask(ctx, asynq.NewTaskWithHeaders(info.Type, info.Payload, info.Headers)); err != nil {
			c.world.t.Errorf("task %s of %s: %v, want no error", info.ID, queue, err)
		}
	}
	if err := c.acknowledge(ctx, queue, tasks); err != nil {
		c.world.t.Errorf("acknowledge %d tasks of %s: %v", len(tasks), queue, err)
		return false
	}
	return len(tasks) == page
}

// acknowledge deletes tasks that were run, as asynq does without retention.
func (c *consumer) acknowledge(ctx context.Context, queue string, tasks []*asynq.TaskInfo) error {
	if len(tasks) == 0 {
		return nil
	}
	_, err := c.client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, info := range tasks {
			pipe.LRem(ctx, "asynq:{"+queue+"}:pending", 1, info.ID)
			pipe.Del(ctx, "asynq:{"+queue+"}:t:"+info.ID)
		}
		return nil
	})
	return err
}
