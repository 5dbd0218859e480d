package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// Errors of an Enqueuer.
var (
	// ErrForeignTask reports that a task with the ID of the firing exists and is
	// not of that firing. Nothing was enqueued and retrying cannot succeed; find
	// out who uses firing IDs as task IDs, and delete that task.
	ErrForeignTask = errors.New("queue: another task has the ID of this firing")
	// ErrClosed reports a push after Close. Nothing was enqueued.
	ErrClosed = errors.New("queue: enqueuer is closed")
)

// A Push asks for the task of a firing to be in its queue.
type Push struct {
	Firing     claim.FiringID
	Redrives   int               // of the firing; 0: first task
	Definition schedule.Schedule // of the firing's schedule
	Queue      string            // "" is Definition.Queue
	Token      claim.Token       // of the claim; 0: none, such as for a firing that the auditor enqueues
	Extra      *claim.Extra      // what a trigger gave the firing; nil: nothing
}

// EnqueuerOptions configure an Enqueuer.
type EnqueuerOptions struct {
	Redis       redis.UniversalClient // of the queues; stays the caller's to close
	Namespace   string                // of the schedules, for consumers of other namespaces; "": tasks do not say
	Concurrency int                   // pushes of PushAll that go to Redis together; 0 is 128
	Observer    Observer              // may be nil
}

// An Enqueuer pushes firings into asynq queues. It is safe for concurrent use.
type Enqueuer struct {
	redis       redis.UniversalClient
	namespace   string // "": tasks do not say
	client      *asynq.Client
	tasks       tasks
	concurrency int
	observer    Observer

	// open is read-locked by pushes and locked by Close, which thereby waits
	// for pushes that are under way.
	open   sync.RWMutex
	closed bool
}

// NewEnqueuer returns a *schedule.FieldError for options that are refused.
func NewEnqueuer(options EnqueuerOptions) (*Enqueuer, error) {
	if options.Redis == nil {
		return nil, &schedule.FieldError{Field: "redis", Value: "nil", Allowed: "a Redis client"}
	}
	if options.Concurrency < 0 {
		return nil, &schedule.FieldError{Field: "concurrency", Value: strconv.Itoa(options.Concurrency), Allowed: "0 or more"}
	}
	if options.Concurrency == 0 {
		options.Concurrency = 128
	}
	return &Enqueuer{
		redis:       options.Redis,
		namespace:   options.Namespace,
		client:      asynq.NewClientFromRedisClient(party{options.Redis}),
		tasks:       newTasks(options.Redis, options.Namespace),
		concurrency: options.Concurrency,
		observer:    observerOr(options.Observer),
	}, nil
}

// Push puts the task of the firing into its queue. Nil means that it is there
// or was there, by this call or an earlier one. ErrForeignTask and a
// *schedule.FieldError are final; any other error may come after the task was
// enqueued, and the same push may be repeated until it succeeds.
func (e *Enqueuer) Push(ctx context.Context, push Push) error {
	e.open.RLock()
	defer e.open.RUnlock()
	if e.closed {
		return ErrClosed
	}
	task, options, event, err := prepare(e.namespace, push)
	if err != nil {
		return fmt.Errorf("queue: push %s: %w", push.Firing, err)
	}
	_, err = e.client.EnqueueContext(ctx, task, options...)
	switch {
	case err == nil:
		e.observer.Enqueued(event)
		return nil
	case errors.Is(err, asynq.ErrTaskIDConflict):
		return e.conflict(ctx, push.Firing, event)
	default:
		return fmt.Errorf("queue: push %s to %s: %w", event.TaskID, event.Queue, err)
	}
}

// conflict tells an earlier push of the firing from a foreign task. A task that
// vanished meanwhile was there, and one whose data is lost is the auditor's
// business: both are earlier pushes, as far as anyone can tell.
func (e *Enqueuer) conflict(ctx context.Context, firing claim.FiringID, event EnqueuedEvent) error {
	seen, err := e.tasks.look(ctx, event.Queue, event.TaskID, firing)
	if err != nil {
		return fmt.Errorf("queue: push %s to %s: compare with the task of that ID: %w", event.TaskID, event.Queue, err)
	}
	if seen.foreign {
		return fmt.Errorf("queue: push %s to %s: %w (type %q)", event.TaskID, event.Queue, ErrForeignTask, seen.info.Type)
	}
	return nil
}

// PushAll pushes all, many with one round trip, and returns one error per push,
// in order; see Push for their meaning. Each push stands for itself: what one
// of them meets, or that its answer is lost, says nothing about the others.
func (e *Enqueuer) PushAll(ctx context.Context, pushes []Push) []error {
	errs := make([]error, len(pushes))
	for first := 0; first < len(pushes); first += e.concurrency {
		last := min(first+e.concurrency, len(pushes))
		e.pushTogether(ctx, pushes[first:last], errs[first:last])
	}
	return errs
}

// pushTogether is PushAll for as many as go at a time.
func (e *Enqueuer) pushTogether(ctx context.Context, pushes []Push, errs []error) {
	if len(pushes) == 1 {
		errs[0] = e.Push(ctx, pushes[0])
		return
	}
	shared := &together{pipeline: e.redis.Pipeline, awaited: len(pushes)}
	var group sync.WaitGroup
	for i := range pushes {
		group.Go(func() {
			own, seat := shared.sit(ctx)
			defer seat.leave(own)
			errs[i] = e.Push(own, pushes[i])
		})
	}
	group.Wait()
}

// Close waits for pushes that are under way and refuses later ones. It leaves
// the Redis client open. Closing twice is harmless.
func (e *Enqueuer) Close() error {
	e.open.Lock()
	defer e.open.Unlock()
	e.closed = true
	return nil
}

// prepare builds the asynq task of a push and the options that it needs: the
// firing's task ID, no Unique, no Group and no ProcessAt, which all break the
// rule that the ID alone decides.
func prepare(namespace string, push Push) (*asynq.Task, []asynq.Option, EnqueuedEvent, error) {
	fail := func(err error) (*asynq.Task, []asynq.Option, EnqueuedEvent, error) {
		return nil, nil, EnqueuedEvent{}, err
	}
	firing, err := claim.ParseFiringID(string(push.Firing))
	if err != nil {
		return fail(err)
	}
	definition := push.Definition
	if definition.ID != firing.Schedule {
		return fail(&schedule.FieldError{Field: "definition.id", Value: string(definition.ID), Allowed: string(firing.Schedule)})
	}
	if push.Redrives < 0 {
		return fail(&schedule.FieldError{Field: "redrives", Value: strconv.Itoa(push.Redrives), Allowed: "0 or more"})
	}
	queue := queueOf(push)
	if err := errors.Join(schedule.ValidateQueue(queue), schedule.ValidateType(definition.Type)); err != nil {
		return fail(err)
	}
	maxRetry := schedule.DefaultMaxRetry
	if definition.MaxRetry != nil {
		maxRetry = max(*definition.MaxRetry, 0)
	}
	headers, err := writeHeaders(namespace, push, firing, maxRetry)
	if err != nil {
		return fail(err)
	}
	event := EnqueuedEvent{Firing: push.Firing, TaskID: push.Firing.TaskID(push.Redrives), Type: definition.Type, Queue: queue, Token: push.Token}
	return asynq.NewTaskWithHeaders(definition.Type, payloadOf(push), headers), []asynq.Option{
		asynq.TaskID(event.TaskID),
		asynq.Queue(queue),
		// With 0 asynq would archive the task unrun after a crash or a lost
		// reply; the middleware keeps the bound of the definition.
		asynq.MaxRetry(max(maxRetry, 1)),
		asynq.Timeout(wholeSeconds(definition.Timeout, schedule.DefaultTimeout)),
		asynq.Retention(max(wholeSeconds(definition.Retention, schedule.DefaultRetention), schedule.MinRetention)),
	}, event, nil
}

// payloadOf returns what the handler gets.
func payloadOf(push Push) []byte {
	if push.Extra != nil && push.Extra.Payload != nil {
		return push.Extra.Payload
	}
	return push.Definition.Payload
}

// queueOf returns the queue that the push goes to.
func queueOf(push Push) string {
	switch {
	case push.Queue != "":
		return push.Queue
	case push.Definition.Queue != "":
		return push.Definition.Queue
	default:
		return schedule.DefaultQueue
	}
}

// wholeSeconds returns d, or otherwise when d is not set, rounded up to what
// asynq can store: it cuts durations to seconds, and 0 means none to it.
func wholeSeconds(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		d = otherwise
	}
	return (d + time.Second - 1).Truncate(time.Second)
}
