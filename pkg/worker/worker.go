package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A Worker is a member of the fleet. Build it with [New], register handlers,
// then Run it.
type Worker struct {
	options    Options
	store      *redisstore.Store
	enqueuer   *queue.Enqueuer
	middleware *queue.Middleware
	scheduler  *Scheduler // nil with Options.NoSchedules
	inProcess  *inProcess
	calm       *calm
	drain      *draining

	started   time.Time
	probe     *probe
	running   atomic.Bool
	draining  atomic.Bool
	attending sync.WaitGroup        // goroutine of attend
	unlisted  atomic.Pointer[error] // why the last announcement failed; nil before the first

	mu       sync.RWMutex
	handlers map[string]asynq.Handler
}

// New returns a *schedule.FieldError for options that are refused. It starts
// nothing and does not need Redis yet.
func New(options Options) (*Worker, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	store, err := redisstore.New(options.Redis, redisstore.Options{Namespace: options.Namespace,
		Shards: options.Shards, SkewAllowance: options.SkewAllowance, Wall: options.SimulationNow})
	if err != nil {
		return nil, err
	}
	enqueuer, err := queue.NewEnqueuer(queue.EnqueuerOptions{Redis: options.QueueRedis, Namespace: store.Namespace(),
		Concurrency: options.EnqueueConcurrency, Observer: options.Observer})
	if err != nil {
		return nil, err
	}
	w := &Worker{options: options, store: store, enqueuer: enqueuer, started: time.Now(), handlers: map[string]asynq.Handler{},
		calm: newCalm(options.QueueRedis), drain: newDraining(), probe: &probe{client: options.QueueRedis}}
	w.calm.gate = w.drain.gate
	if w.inProcess, err = newInProcess(&w.options, store, w.drain.gate); err != nil {
		return nil, err
	}
	w.middleware, err = queue.NewMiddleware(queue.MiddlewareOptions{Ledger: store, Enqueuer: enqueuer, Catalog: store,
		Namespace: store.Namespace(), Worker: options.ID, Lease: options.Lease, AuditAfter: options.AuditAfter, KeepRuns: options.KeepRuns, Handles: w.handles,
		IsFailure: options.IsFailure, RetryDelay: options.RetryDelay, Observer: options.Observer, Logger: options.Logger})
	if err != nil {
		return nil, err
	}
	if options.NoSchedules {
		return w, nil
	}
	auditor, err := queue.NewAuditor(queue.AuditorOptions{Ledger: store, Catalog: store, Enqueuer: enqueuer, Redis: options.QueueRedis, Reader: store,
		Hide: options.AuditAfter, AuditAfter: options.AuditAfter, KeepRuns: options.KeepRuns, Observer: options.Observer,
		// asynq itself would take one to two minutes; the ledger fences an attempt
		// that turns out to be alive after all.
		LostAfter: options.Lease})
	if err != nil {
		return nil, err
	}
	w.scheduler, err = NewScheduler(SchedulerOptions{Definitions: store, Calendars: store, Claims: store, Settler: store, Waker: store,
		Enqueuer: enqueuer, Auditor: auditor, Backfills: store, Looker: auditor, ID: options.ID, ClaimTTL: options.ClaimTTL, Batch: options.Batch,
		AuditAfter: options.AuditAfter, IdleSleep: options.IdleSleep, Grace: options.grace(), KeepRuns: options.KeepRuns,
		Logger: options.Logger, Observer: options.Observer, SimulationNow: options.SimulationNow, gate: w.drain.gate, back: func() { note(w.drain.back) }})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// newID names this process: readable, and unique even when two containers
// have the same host name and process ID.
func newID() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	return host[:min(len(host), 64)] + "." + strconv.Itoa(os.Getpid()) + "." + strings.ToLower(rand.Text()[:6])
}

// ID returns the name of this worker in the fleet.
func (w *Worker) ID() string { return w.options.ID }

// Store returns the catalog of the worker's namespace, to create schedules
// with.
func (w *Worker) Store() *redisstore.Store { return w.store }

// Handle registers the handler of a task type, which is matched whole. It
// panics, as http.ServeMux does, when the type is not one, when it has a
// handler already, or once the worker runs: those are faults of the program.
func (w *Worker) Handle(taskType string, handler asynq.Handler) {
	if err := schedule.ValidateType(taskType); err != nil {
		panic(err)
	}
	if handler == nil {
		panic("worker: nil handler for type " + taskType)
	}
	if w.running.Load() {
		panic("worker: handler for type " + taskType + " registered after Run")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.handlers[taskType] != nil {
		panic("worker: two handlers for type " + taskType)
	}
	w.handlers[taskType] = handler
}

// HandleFunc is Handle for a function.
func (w *Worker) HandleFunc(taskType string, handler func(context.Context, *asynq.Task) error) {
	if handler == nil {
		panic("worker: nil handler for type " + taskType)
	}
	w.Handle(taskType, asynq.HandlerFunc(handler))
}

func (w *Worker) handles(taskType string) bool { return w.handler(taskType) != nil }

func (w *Worker) handler(taskType string) asynq.Handler {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.handlers[taskType]
}

func (w *Worker) types() []string {
	w.mu.RLock()
	defer w.mu.RUnlock()
	types := make([]string, 0, len(w.handlers))
	for t := range w.handlers {
		types = append(types, t)
	}
	slices.Sort(types)
	return types
}

// dispatch runs the handler of the task's type.
func (w *Worker) dispatch(ctx context.Context, task *asynq.Task) error {
	handler := w.handler(task.Type())
	if handler == nil {
		return fmt.Errorf("worker: %w for type %q", asynq.ErrHandlerNotFound, task.Type())
	}
	return handler.ProcessTask(ctx, task)
}

// Ready returns nil when the worker does its work: it runs, is not stopping and
// not drained by an operator, reaches a Redis that it may write to, and its claim
// loop turns. It asks Redis, within ctx and for 700 ms at most: an answer that
// takes longer is none.
func (w *Worker) Ready(ctx context.Context) error {
	switch {
	case !w.running.Load():
		return errors.New("worker: not started")
	case w.draining.Load():
		return errors.New("worker: draining")
	}
	if wish := w.drain.wanted(); wish.Wanted() {
		return errors.New(strings.TrimSpace("worker: drained by an operator " + wish.String()))
	}
	if err := w.probe.ask(ctx); err != nil {
		return fmt.Errorf("worker: waiting for Redis: %w", err)
	}
	// A read-only replica answers all that reads, and a claim while nothing is due.
	if err := w.unlisted.Load(); err != nil && *err != nil {
		return fmt.Errorf("worker: waiting for Redis: %w", *err)
	}
	if err := w.calm.stuck(); err != nil {
		return err
	}
	if w.scheduler == nil {
		return nil
	}
	return w.scheduler.Ready()
}

// Live returns an error when only a restart helps. Redis being away is no
// reason.
func (w *Worker) Live() error {
	if w.scheduler == nil {
		return nil
	}
	return w.scheduler.Live()
}

// Counts returns the totals of the scheduling half.
func (w *Worker) Counts() Counts {
	if w.scheduler == nil {
		return Counts{}
	}
	return w.scheduler.Counts()
}

// member describes this worker to the others.
func (w *Worker) member() claim.Member {
	host, _ := os.Hostname() // display only
	w.drain.mu.Lock()
	state := w.drain.state()
	w.drain.mu.Unlock()
	if w.draining.Load() && state == claim.MemberWorking {
		state = claim.MemberDraining // it stops
	}
	return claim.Member{ID: w.options.ID, Host: host, PID: os.Getpid(), Version: w.options.Version, TimeZone: TimeZoneFingerprint(),
		Queues: w.options.Queues, Types: w.types(), Claims: w.scheduler != nil, Started: w.started,
		State: state, Running: int(w.drain.busy.Load()) + w.inProcess.count()}
}
