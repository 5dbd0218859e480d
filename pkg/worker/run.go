package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/redisstore"
)

// errNoHandlers reports a worker that could run nothing.
var errNoHandlers = errors.New("worker: no handlers: register one with Handle before Run, or give it periodic tasks or groups")

// Run works until ctx ends, then stops in order within Options.Drain and
// returns nil. Redis being away is not an error: Run waits for it, from the
// start on. A worker runs once.
func (w *Worker) Run(ctx context.Context) error {
	if len(w.types()) == 0 && w.inProcess.empty() {
		return errNoHandlers
	}
	if w.running.Swap(true) {
		return errRunTwice
	}
	w.options.Logger.Info("worker starts", "worker", w.options.ID, "namespace", w.options.Namespace,
		"queues", w.options.Queues, "types", w.types(), "timezone_data", TimeZoneFingerprint(), "timezone_source", TimeZoneSource())
	server, err := w.startServer()
	if err != nil {
		return err
	}
	housekeeping, err := w.startHousekeeping(ctx)
	if err != nil {
		server.Shutdown()
		return err
	}
	elected, err := w.startElected(ctx)
	if err != nil {
		server.Shutdown()
		housekeeping.stop()
		return err
	}
	working, end := context.WithCancel(ctx)
	defer end()
	w.inProcess.start(working)
	w.attending.Go(func() { w.attend(working) })
	err = w.schedule(ctx)
	end() // a fault of the scheduling half ends the other one too
	w.stop(server, housekeeping, elected)
	return err
}

// A taskServer is an asynq server, or none.
type taskServer interface{ Shutdown() }

// noServer stands for the server of a worker without handlers, which leaves
// the queues to others.
type noServer struct{}

// Shutdown does nothing.
func (noServer) Shutdown() {}

func (w *Worker) startServer() (taskServer, error) {
	if len(w.types()) == 0 {
		return noServer{}, nil
	}
	server := w.newServer()
	if err := server.Start(w.drain.counted(w.middleware.Wrap(asynq.HandlerFunc(w.dispatch)))); err != nil {
		return nil, fmt.Errorf("worker: start the asynq server: %w", err)
	}
	return server, nil
}

// schedule runs the scheduling half until ctx ends. A fault of it alone, such
// as a store of another format, ends the worker.
func (w *Worker) schedule(ctx context.Context) error {
	if w.scheduler == nil {
		<-ctx.Done()
		return nil
	}
	ended := make(chan error, 1)
	go func() { ended <- w.scheduler.Run(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(w.options.grace() + overtime):
		w.options.Logger.Warn("claims could not be handed back, since Redis does not answer; they run out")
		return nil
	}
}

// overtime is how much longer than planned each part of a stop may take. Calls
// to a Redis that takes connections and does not answer cannot be interrupted.
const overtime = time.Second

// grace is the part of Drain that enqueues in progress may take; the rest is
// for handlers.
func (o *Options) grace() time.Duration { return min(o.ClaimTTL/2, o.Drain/5) }

// stop ends what Run started. When it begins, the claims are settled or handed
// back already.
func (w *Worker) stop(server taskServer, housekeeping *chores, elected *elected) {
	w.draining.Store(true)
	began := time.Now()
	w.options.Logger.Info("draining", "worker", w.options.ID, "at_most", w.options.Drain.String())
	limit := w.options.Drain - w.options.grace() + overtime
	w.calm.endAfter(limit - overtime/2)
	var group sync.WaitGroup
	group.Go(server.Shutdown)
	group.Go(housekeeping.stop)
	group.Go(w.attending.Wait)
	group.Go(elected.stop)
	group.Go(func() {
		if !w.inProcess.wait(w.options.Drain - w.options.grace()) {
			w.options.Logger.Warn("a periodic task or a group did not end in time; it is left behind, and its lease runs out with the process")
		}
	})
	stopped := make(chan struct{})
	go func() { group.Wait(); close(stopped) }()
	if !w.lingers(stopped, limit) {
		w.options.Logger.Warn("not everything stopped in time, since Redis does not answer; it ends with the process")
	} else if err := w.calm.deafen(); err != nil {
		w.options.Logger.Warn("closing a connection failed", "error", err)
	}
	w.withdraw()
	if err := w.enqueuer.Close(); err != nil {
		w.options.Logger.Warn("closing the enqueuer failed", "error", err)
	}
	w.options.Logger.Info("worker stopped", "worker", w.options.ID, "after", time.Since(began).Round(time.Millisecond).String())
}

// lingers stays in the roster until everything stopped, and reports whether it
// did within the limit: a worker that ends what it runs is no lost one.
func (w *Worker) lingers(stopped <-chan struct{}, limit time.Duration) bool {
	late := time.NewTimer(limit)
	defer late.Stop()
	sign := time.NewTicker(lingerEvery)
	defer sign.Stop()
	for {
		select {
		case <-stopped:
			return true
		case <-late.C:
			return false
		case <-sign.C:
			go w.announce(context.Background()) // bounded; not waited for, since Redis may hang
		}
	}
}

// lingerEvery is how often a worker that stops announces itself. Before the
// first time an announcement interval and the grace of claims may have passed:
// together they stay below memberAge, with one that fails.
const lingerEvery = 3 * time.Second

// withdraw takes the worker out of the roster, after an announcement that is
// under way.
func (w *Worker) withdraw() {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	select {
	case w.drain.turn <- struct{}{}: // and keeps it: nothing is announced from now on
	case <-ctx.Done():
	}
	if err := w.store.Withdraw(ctx, w.options.ID); err != nil {
		w.options.Logger.Warn("leaving the roster failed; the entry expires", "error", err)
	}
}

// away reports whether the scheduling half waits for Redis, and has said so.
func (w *Worker) away() bool {
	return w.scheduler != nil && w.scheduler.away()
}

// told reports whether the loop that claims tells of this failure, or soon
// will: of an outage one line is enough.
func (w *Worker) told(err error) bool {
	return w.away() || w.scheduler != nil && redisstore.IsUnavailable(err)
}

// farewell bounds the last call to Redis.
const farewell = time.Second

func (w *Worker) newServer() *asynq.Server {
	return asynq.NewServerFromRedisClient(w.calm, asynq.Config{
		Concurrency:       w.options.Concurrency,
		Queues:            w.options.Queues,
		TaskCheckInterval: w.options.PollInterval,
		// When retries and handed-back tasks are moved to their queue.
		DelayedTaskCheckInterval: time.Second,
		RetryDelayFunc:           w.middleware.RetryDelay,
		IsFailure:                w.middleware.IsFailure,
		ShutdownTimeout:          w.options.Drain - w.options.grace(),
		Logger:                   queue.NewAsynqLogger(slog.New(quiet{w.options.Logger.Handler(), w.away})),
		LogLevel:                 asynq.WarnLevel,
	})
}
