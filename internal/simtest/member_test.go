package simtest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/worker"
)

// A member is a complete worker with an asynq server, on connections of its
// own.
type member struct {
	*worker.Worker
	world *world
	cable *cable
	redis redis.UniversalClient
	stop  context.CancelFunc
	done  chan error

	onEnqueue atomic.Pointer[func()] // called after each enqueue, if set
}

// member starts a worker that serves the given queues and has a handler for
// every type of the rows.
func (w *world) member(id string, queues map[string]int, c *cable) *member {
	w.t.Helper()
	m := &member{world: w, cable: c, redis: &sound{UniversalClient: w.clientOn(c), ears: w.client()}, done: make(chan error, 1)}
	var err error
	m.Worker, err = worker.New(worker.Options{Redis: m.redis, ID: id, Queues: queues, KeepRuns: keepRuns,
		IdleSleep: time.Minute, PollInterval: time.Second, Observer: w.log.observer(id, m.enqueued)})
	if err != nil {
		w.t.Fatal(err)
	}
	handled := map[string]bool{}
	for _, r := range w.rows {
		if !handled[r.taskType] {
			m.Handle(r.taskType, w.handler(id))
		}
		handled[r.taskType] = true
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	m.stop = cancel
	go func() { m.done <- m.Run(ctx) }()
	return m
}

func (m *member) enqueued(string) {
	if f := m.onEnqueue.Load(); f != nil {
		(*f)()
	}
}

// dialPause is how long a client that cannot connect sleeps before it sees
// that it was closed.
const dialPause = 2 * time.Second

// halt stops the member and waits for it and its connections.
func (m *member) halt() {
	m.world.t.Helper()
	m.stop()
	if err := <-m.done; err != nil {
		m.world.t.Errorf("Run of %s = %v, want nil", m.ID(), err)
	}
	m.world.hangUp(m.redis)
	time.Sleep(dialPause)
}

// A sound client subscribes on healthy connections whatever happens to the
// others. A go-redis subscription holds its mutex while it connects again, with
// pauses; whoever waits for that mutex, its own reader among them, does not
// block durably, and the time of the bubble would stand still.
type sound struct {
	redis.UniversalClient
	ears *redis.Client
}

// Subscribe subscribes on a healthy connection.
func (s *sound) Subscribe(ctx context.Context, channels ...string) *redis.PubSub {
	return s.ears.Subscribe(ctx, channels...)
}
