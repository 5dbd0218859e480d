package simtest

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/pkg/worker"
)

// A member is a complete worker with an asynq server, on connections of its
// own.
type member struct {
	*worker.Worker
	world *world
	stop  context.CancelFunc
	done  chan error
}

// member starts a worker that serves the given queues and has a handler for
// every type of the rows.
func (w *world) member(id string, queues map[string]int) *member {
	w.t.Helper()
	m := &member{world: w, done: make(chan error, 1)}
	var err error
	m.Worker, err = worker.New(worker.Options{Redis: w.client(), ID: id, Queues: queues, KeepRuns: keepRuns,
		IdleSleep: time.Minute, PollInterval: time.Second, Observer: w.log.observer(id, nil)})
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

// halt stops the member and waits for it.
func (m *member) halt() {
	m.world.t.Helper()
	m.stop()
	if err := <-m.done; err != nil {
		m.world.t.Errorf("Run of %s = %v, want nil", m.ID(), err)
	}
}
