package queue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// poisonAttempts is how many attempts beyond max_retry + 1 may end without a
// report, by a crash say, before the firing is given up.
const poisonAttempts = 4

// earlyWait is how long a task waits that the store does not know yet.
const earlyWait = 5 * time.Second

// maxNamespaceShown bounds what a log says of a header that anybody may write.
const maxNamespaceShown = 64

// MiddlewareOptions configure a Middleware.
type MiddlewareOptions struct {
	Ledger   claim.Ledger
	Enqueuer *Enqueuer        // for buffered firings that the end of a run releases
	Catalog  schedule.Catalog // their definitions

	// Namespace is that of the Ledger. Tasks of another one, which share the
	// queue, are handed back: this ledger knows nothing of them, and would call
	// their schedule deleted. "": all tasks are taken for its own.
	Namespace string

	Worker     string        // worker ID, for display
	Lease      time.Duration // of an execution; 0 is 30 s, at least 100 ms
	AuditAfter time.Duration // when the auditor first looks at a released firing; 0 is 15 s
	KeepRuns   int           // length of the run log; 0: none

	// Handles reports whether this process has a handler for the type. Tasks
	// of other types are handed back, before anything is recorded. Nil: all
	// types; a handler that answers asynq.ErrHandlerNotFound is then too late
	// to be free of charge, and is handed back all the same.
	Handles func(taskType string) bool

	IsFailure  func(error) bool     // as asynq.Config.IsFailure; nil: every error is a failure
	RetryDelay asynq.RetryDelayFunc // as asynq.Config.RetryDelayFunc; nil is asynq's default

	Observer Observer     // may be nil
	Logger   *slog.Logger // for what has no caller to return to; nil: dropped, the auditor repairs it
}

// A Middleware guards the handlers of one asynq server. Give the server its
// IsFailure and RetryDelay, and its mux its Wrap:
//
//	mux.Use(m.Wrap)
//	config := asynq.Config{IsFailure: m.IsFailure, RetryDelayFunc: m.RetryDelay}
//
// It is safe for concurrent use.
type Middleware struct {
	ledger     claim.Ledger
	releaser   releaser
	heart      *heart
	namespace  string
	strangers  sync.Once // tells of tasks of another namespace
	worker     string
	lease      time.Duration
	keepRuns   int
	handles    func(string) bool
	isFailure  func(error) bool
	retryDelay asynq.RetryDelayFunc
	observer   Observer
	logger     *slog.Logger
}

// NewMiddleware returns a *schedule.FieldError for options that are refused.
func NewMiddleware(options MiddlewareOptions) (*Middleware, error) {
	if err := checkCollaborators(options.Ledger, options.Catalog, options.Enqueuer); err != nil {
		return nil, err
	}
	lease, err := durationOr("lease", options.Lease, 30*time.Second, 100*time.Millisecond)
	if err != nil {
		return nil, err
	}
	auditAfter, err := durationOr("audit_after", options.AuditAfter, 15*time.Second, time.Millisecond)
	if err != nil {
		return nil, err
	}
	if err := notNegative("keep_runs", options.KeepRuns); err != nil {
		return nil, err
	}
	m := &Middleware{
		ledger:     options.Ledger,
		releaser:   releaser{options.Ledger, options.Catalog, options.Enqueuer, auditAfter},
		heart:      newHeart(options.Ledger, lease),
		namespace:  options.Namespace,
		worker:     options.Worker,
		lease:      lease,
		keepRuns:   options.KeepRuns,
		handles:    options.Handles,
		isFailure:  options.IsFailure,
		retryDelay: options.RetryDelay,
		observer:   observerOr(options.Observer),
		logger:     loggerOr(options.Logger),
	}
	if m.retryDelay == nil {
		m.retryDelay = asynq.DefaultRetryDelayFunc
	}
	return m, nil
}

// Wrap returns a handler that runs next for tasks that may run, and for tasks
// that are no firings as if it were not there. A task with the headers of a
// firing whose ID is not the firing's is none: a handler that hands its headers
// on to the tasks that it enqueues makes such.
func (m *Middleware) Wrap(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		meta, ok, err := readHeaders(task.Headers())
		if !ok || err == nil && !taskOf(ctx, meta.firing.ID) {
			return next.ProcessTask(ctx, task)
		}
		if err != nil {
			return &finalError{fmt.Errorf("queue: headers of the task: %w", err)}
		}
		d := newDelivery(ctx, task, meta)
		if !m.owns(d) {
			return d.handBack("it is of another namespace", unservedPause(d.firing.ScheduledAt, time.Now()), nil)
		}
		if m.handles != nil && !m.handles(task.Type()) {
			// The ledger has it as enqueued or waiting, with an audit time, so
			// that nothing need be recorded even when asynq drops the task.
			return d.handBack("no handler here for type "+task.Type(), unservedPause(d.firing.ScheduledAt, time.Now()), nil)
		}
		return m.process(ctx, next, d)
	})
}

// owns reports whether the firing is of this ledger's namespace, as far as the
// task tells.
func (m *Middleware) owns(d delivery) bool {
	if sameNamespace(m.namespace, d.namespace) {
		return true
	}
	m.strangers.Do(func() {
		m.logger.Warn("tasks of another namespace are in a queue that this worker consumes; they are handed back and run late: give each namespace queues of its own",
			"queue", d.queue, "theirs", clip(d.namespace, maxNamespaceShown), "ours", m.namespace)
	})
	return false
}

// taskOf reports whether asynq delivers a task of the firing with this context:
// its first one, or one of its re-drives.
func taskOf(ctx context.Context, firing claim.FiringID) bool {
	id, ok := asynq.GetTaskID(ctx)
	return !ok || claim.FiringID(id).WithoutRedrives() == firing
}

// A delivery is one delivery of a task by asynq.
type delivery struct {
	task *asynq.Task
	meta
	queue    string
	retried  int  // failures that asynq counted for this task
	maxRetry int  // what asynq allows
	allowed  int  // what the definition allows
	redriven bool // an earlier task of the firing was lost
}

func newDelivery(ctx context.Context, task *asynq.Task, meta meta) delivery {
	d := delivery{task: task, meta: meta}
	d.retried, _ = asynq.GetRetryCount(ctx)
	d.maxRetry, _ = asynq.GetMaxRetry(ctx)
	d.queue, _ = asynq.GetQueueName(ctx)
	id, _ := asynq.GetTaskID(ctx)
	d.redriven = id != string(meta.firing.ID)
	d.allowed = meta.maxRetry
	if d.allowed < 0 {
		d.allowed = d.maxRetry
	}
	return d
}

// handBack returns the error that gives the task back to asynq.
func (d delivery) handBack(reason string, after time.Duration, cause error) error {
	return &HandBackError{
		Firing: d.firing.ID, Reason: reason, After: max(after, minHandBack), Cause: cause,
		revoke: d.retried >= d.maxRetry,
	}
}

// last reports whether a failure of the attempt is the last one. A re-driven
// task starts asynq's count anew, so that the ledger's count of attempts, which
// includes crashes, must do there.
func (d delivery) last(attempt int) bool {
	failures := d.retried
	if d.redriven {
		failures = max(failures, attempt-1)
	}
	return failures >= d.allowed || d.retried >= d.maxRetry
}

// process begins an attempt and runs it, or says why it does not run.
func (m *Middleware) process(ctx context.Context, next asynq.Handler, d delivery) error {
	grant, sent, err := m.begin(ctx, d)
	if err != nil {
		return d.handBack("the ledger did not answer", minHandBack, err)
	}
	m.release(ctx, grant.Released)
	switch grant.Answer {
	case claim.BeginRun:
		return m.run(ctx, next, d, grant, sent)
	case claim.BeginSettled:
		return nil
	case claim.BeginUnknown:
		return &UnknownFateError{Firing: d.firing.ID}
	case claim.BeginCancelled:
		if d.effect == schedule.AtMostOnce && d.retried > 0 { // asynq heard of the end of its run first, and kept the task for a retry
			return &CancelledError{Firing: d.firing.ID}
		}
		return &DroppedError{Firing: d.firing.ID, Reason: "a newer firing or an operator cancelled it"}
	case claim.BeginGone:
		return &DroppedError{Firing: d.firing.ID, Reason: "its schedule was deleted"}
	case claim.BeginBusy:
		return d.handBack("another attempt is running", grant.Wait, nil)
	case claim.BeginEarly:
		return d.handBack("the store does not know this scheduled time yet", earlyWait, nil)
	default:
		return d.handBack("unknown answer of the ledger "+string(grant.Answer), earlyWait, nil)
	}
}

// begin asks until the ledger answers, for a third of the lease at most. The
// owner stays the same, so that a grant whose reply was lost comes back; the
// time returned is that of the first request, from which the grant counts.
func (m *Middleware) begin(ctx context.Context, d delivery) (claim.BeginResult, time.Time, error) {
	sent := time.Now()
	request := claim.BeginRequest{
		Firing: d.firing.ID, Owner: rand.Text(), Worker: m.worker, Lease: m.lease, Effect: d.effect, KeepRuns: m.keepRuns,
	}
	ctx, cancel := context.WithTimeout(ctx, m.lease/3)
	defer cancel()
	var grant claim.BeginResult
	err := retry(ctx, func() (err error) {
		grant, err = m.ledger.Begin(ctx, request)
		return err
	})
	return grant, sent, err
}

// release enqueues firings that became free. It has no caller to report to: the
// auditor does it when it fails.
func (m *Middleware) release(ctx context.Context, released []claim.Released) {
	if len(released) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.lease/3)
	defer cancel()
	if err := m.releaser.release(ctx, released); err != nil {
		m.logger.WarnContext(ctx, "released firings were not all enqueued; the auditor will", "err", err)
	}
}

// retry calls f until it succeeds, its error is final, or ctx ends.
func retry(ctx context.Context, f func() error) error {
	delay := 50 * time.Millisecond
	for {
		err := f()
		var field *schedule.FieldError
		if err == nil || errors.As(err, &field) || ctx.Err() != nil {
			return err
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
		delay = min(2*delay, 2*time.Second)
	}
}
