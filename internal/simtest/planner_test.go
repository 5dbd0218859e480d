package simtest

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/worker"
)

// A planner is the scheduling half of a worker with an auditor, on connections
// of its own. It runs no tasks.
type planner struct {
	*worker.Scheduler
	id    string
	world *world
	stop  context.CancelFunc
	done  chan error
}

func (w *world) planner(id string, bell func(queue string)) *planner {
	w.t.Helper()
	client := w.client()
	store, err := redisstore.New(client, redisstore.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	observer := w.log.observer(id, bell)
	enqueuer, err := queue.NewEnqueuer(queue.EnqueuerOptions{Redis: client, Observer: observer})
	if err != nil {
		w.t.Fatal(err)
	}
	auditor, err := queue.NewAuditor(queue.AuditorOptions{Ledger: store, Catalog: store, Enqueuer: enqueuer, Redis: client,
		KeepRuns: keepRuns, Observer: observer})
	if err != nil {
		w.t.Fatal(err)
	}
	p := &planner{id: id, world: w, done: make(chan error, 1)}
	p.Scheduler, err = worker.NewScheduler(worker.SchedulerOptions{Definitions: store, Claims: store, Settler: store, Waker: silence{},
		Enqueuer: enqueuer, Auditor: auditor, ID: id, IdleSleep: time.Minute, KeepRuns: keepRuns, Observer: observer,
		ClaimTTL: time.Minute, AuditAfter: 10 * time.Minute})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	p.stop = cancel
	go func() { p.done <- p.Run(ctx) }()
	return p
}

// halt stops the planner and waits for it.
func (p *planner) halt() {
	p.world.t.Helper()
	p.stop()
	if err := <-p.done; err != nil {
		p.world.t.Errorf("Run of a planner = %v, want nil", err)
	}
}

// keepRuns is the length of the run logs.
const keepRuns = 100

// silence is a wake-up channel that works and on which nobody speaks. The
// subscriptions of a store are asked every 5 s whether they live, which is
// most of what would happen in a week.
type silence struct{}

// Wake returns a channel that is closed when ctx ends.
func (silence) Wake(ctx context.Context) (<-chan struct{}, func() bool, error) {
	wake := make(chan struct{})
	context.AfterFunc(ctx, func() { close(wake) })
	return wake, func() bool { return true }, nil
}
