package claim

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// Defaults and bounds of periodic tasks.
const (
	DefaultPeriodicTTL  = 30 * time.Second
	DefaultPeriodicPoll = time.Second

	leastPeriodicTTL      = 10 * time.Millisecond
	leastPeriodicInterval = time.Millisecond
	leastRenewal          = 10 * time.Millisecond
	mostDefaultJitter     = time.Second

	// wokenPoll is the longest sleep of a task while wake-ups are heard; one of
	// them can be lost.
	wokenPoll = 10 * time.Second
	// earRetry is how long a subscription that failed waits.
	earRetry = time.Second
)

// A Periodic is a task that runs inside the process that claims it. Name, Run
// and one of Every and Spec are needed.
type Periodic struct {
	Name    string // of the catalog entry, as a schedule ID
	Display string // name for people, kept when the entry is made; "" is Name

	// Every returns the interval from the end of a run to the next; at least
	// 1 ms. It is asked anew each round, so that it may follow live settings.
	Every func() time.Duration
	// Spec gives the times instead: a cron spec or a fixed rate, see
	// schedule.Parse. Times that pass during a run are left out.
	Spec schedule.Spec
	// FirstRun is when a new entry is due first; zero is at once, or the first
	// time of Spec.
	FirstRun time.Time

	// Run is the body. Its context ends when the claim is lost, or long after a
	// shutdown, but nothing ever kills it. held returns the claim as it was
	// renewed last: check held().Valid and write through held().Lease.Token
	// where two runs at the same time would hurt. A panic is an outcome.
	Run func(ctx context.Context, held func() PeriodicClaim) error
	// Record is told of every run before its claim is completed. When it fails
	// or panics the claim is left to run out, and the task runs again. nil:
	// nobody is told.
	Record func(ctx context.Context, run PeriodicRun) error

	TTL time.Duration // of a claim, renewed every third of it; 0 is 30 s, at least 10 ms
	// Jitter is the most that a wake-up comes late at random, so that a fleet
	// does not ask at once; 0 is a tenth of the wait, at most 1 s.
	Jitter time.Duration
	// IgnoreLoss lets the context of Run live on when the claim is lost.
	IgnoreLoss bool
}

// A PeriodicRun is a run that ended.
type PeriodicRun struct {
	Claim   PeriodicClaim // as it was renewed last
	Started time.Time
	Ended   time.Time
	Outcome RunOutcome // succeeded or failed
	Err     error      // of a failed run; a *PanicError for a panic
	Lost    bool       // another owner has the task by now, and runs it again
}

// A PanicError is a panic of code that was called.
type PanicError struct {
	Value string // what was panicked with
	Stack string // of the goroutine
}

// Error returns the value; the stack is in Stack.
func (e *PanicError) Error() string { return "panic: " + e.Value }

// errGoexit reports a body that called runtime.Goexit.
var errGoexit = errors.New("claim: the body ended its goroutine without returning")

// PeriodicOptions configure a PeriodicRunner. Store and Tasks are needed.
type PeriodicOptions struct {
	Store PeriodicStore
	Tasks []Periodic
	Owner string // of the claims; must differ between processes; "" is a random one
	// Poll is the longest sleep: how soon a trigger, a resume or a change by
	// others is noticed; 0 is 1 s, at least 1 ms. While a Store that is a Waker
	// tells of triggers and resumes, a task that is not due sleeps up to 10 s
	// and is woken.
	Poll time.Duration
	// Grace is how long bodies may go on after Run's context has ended before
	// their own ends; 0: for ever.
	Grace  time.Duration
	Logger *slog.Logger // nil: dropped
}

// A PeriodicRunner claims and runs periodic tasks.
type PeriodicRunner struct{ options PeriodicOptions }

// NewPeriodicRunner returns a *schedule.FieldError for options that are
// refused. It starts nothing.
func NewPeriodicRunner(options PeriodicOptions) (*PeriodicRunner, error) {
	if options.Store == nil {
		return nil, &schedule.FieldError{Field: "store", Value: "nil", Allowed: "where periodic tasks are kept"}
	}
	if options.Owner == "" {
		options.Owner = rand.Text()
	}
	if len(options.Owner) > maxPeriodicOwner {
		return nil, &schedule.FieldError{Field: "owner", Value: options.Owner, Allowed: "at most 256 bytes"}
	}
	if options.Poll == 0 {
		options.Poll = DefaultPeriodicPoll
	}
	if options.Poll < time.Millisecond {
		return nil, &schedule.FieldError{Field: "poll", Value: options.Poll.String(), Allowed: "0 (1s), or at least 1ms"}
	}
	if options.Grace < 0 {
		return nil, &schedule.FieldError{Field: "grace", Value: options.Grace.String(), Allowed: "0 (for ever) or more"}
	}
	options.Logger = orSilent(options.Logger)
	tasks, names := make([]Periodic, len(options.Tasks)), map[string]bool{}
	for i, task := range options.Tasks {
		if err := task.complete(); err != nil {
			return nil, fmt.Errorf("claim: periodic task %q: %w", task.Name, err)
		}
		if names[task.Name] {
			return nil, &schedule.FieldError{Field: "name", Value: task.Name, Allowed: "each task once"}
		}
		names[task.Name], tasks[i] = true, task
	}
	options.Tasks = tasks
	return &PeriodicRunner{options: options}, nil
}

// complete checks a task and fills in the defaults.
func (p *Periodic) complete() error {
	if err := (PeriodicTask{Name: p.Name, Display: p.Display, FirstRun: p.FirstRun}).Validate(); err != nil {
		return err
	}
	if p.TTL == 0 {
		p.TTL = DefaultPeriodicTTL
	}
	switch {
	case p.Run == nil:
		return &schedule.FieldError{Field: "run", Value: "nil", Allowed: "the body of the task"}
	case (p.Every == nil) == (p.Spec == nil):
		return &schedule.FieldError{Field: "every", Value: "", Allowed: "Every or Spec, and not both"}
	case p.TTL < leastPeriodicTTL:
		return &schedule.FieldError{Field: "ttl", Value: p.TTL.String(), Allowed: "0 (30s), or at least 10ms"}
	case p.Jitter < 0:
		return &schedule.FieldError{Field: "jitter", Value: p.Jitter.String(), Allowed: "0 (a tenth of the wait) or more"}
	}
	return nil
}

// Run claims and runs the tasks until ctx ends, then lets the bodies that run
// come to their end, completes their claims, and returns nil. The store being
// away is no error: it is logged and waited for.
func (r *PeriodicRunner) Run(ctx context.Context) error {
	abort, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	if r.options.Grace > 0 {
		over := context.AfterFunc(ctx, func() {
			if wait(abort, r.options.Grace) {
				cancel(context.Cause(ctx))
			}
		})
		defer over()
	}
	r.run(ctx, abort)
	return nil
}

// run starts nothing new after stop, and ends the contexts of bodies with
// abort.
func (r *PeriodicRunner) run(stop, abort context.Context) {
	var group sync.WaitGroup
	bell := NewBell(len(r.options.Tasks))
	if waker, ok := r.options.Store.(Waker); ok {
		group.Go(func() { bell.Listen(stop, waker, func(int) time.Duration { return earRetry }) })
	}
	for i, task := range r.options.Tasks {
		loop := &periodicLoop{Periodic: task, options: r.options, nonce: rand.Text(), bell: bell, rope: bell.Rope(i),
			logger: r.options.Logger.With("task", task.Name)}
		group.Go(func() { loop.run(stop, abort) })
	}
	group.Wait()
}
