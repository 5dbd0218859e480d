package claim

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// Pauses before a singleton starts again. One that ran for longer than the
// longest starts over with the first.
const (
	DefaultFirstPause   = time.Second
	DefaultLongestPause = time.Minute
)

// SupervisorOptions configure a Supervisor. Name, Build and Leases are needed,
// and Periodic when a group has periodic tasks.
type SupervisorOptions struct {
	Name string // of the lease, and of the group
	// Build fills the group with singletons and periodic tasks. It is called
	// anew each time the lease is acquired, so what it makes is never shared
	// between two times. When it fails, the lease is given back and tried for
	// again after Retry.
	Build    func(group *Group) error
	Leases   Leases
	Periodic PeriodicStore

	Owner        string        // of the lease and of claims; "" is a random one
	TTL          time.Duration // as KeeperOptions.TTL: 0 is 120 s
	Renew        time.Duration // as KeeperOptions.Renew: 0 is 10 s
	Retry        time.Duration // as KeeperOptions.Retry: 0 is 5 s
	FirstPause   time.Duration // before a singleton starts again; doubles each time; 0 is 1 s
	LongestPause time.Duration // 0 is 1 min, or FirstPause when that is longer
	Poll         time.Duration // as PeriodicOptions.Poll
	Grace        time.Duration // as PeriodicOptions.Grace, at a shutdown
	Logger       *slog.Logger  // nil: dropped
}

// A Supervisor runs a group in exactly one process of a fleet: the one that
// holds the lease. When the lease is lost, the context of everything in the
// group is cancelled, and all of it has ended before the supervisor tries to
// acquire the lease again. A process may have several.
type Supervisor struct {
	options SupervisorOptions
	keeper  *Keeper
}

// NewSupervisor returns a *schedule.FieldError for options that are refused.
// It starts nothing.
func NewSupervisor(options SupervisorOptions) (*Supervisor, error) {
	if options.Build == nil {
		return nil, &schedule.FieldError{Field: "build", Value: "nil", Allowed: "a function that fills the group"}
	}
	keeper, err := NewKeeper(KeeperOptions{Leases: options.Leases, Name: options.Name, Owner: options.Owner,
		TTL: options.TTL, Renew: options.Renew, Retry: options.Retry, Logger: options.Logger})
	if err != nil {
		return nil, err
	}
	options.Owner, options.Retry, options.Logger = keeper.options.Owner, keeper.options.Retry, keeper.options.Logger.With("group", options.Name)
	if options.FirstPause == 0 {
		options.FirstPause = DefaultFirstPause
	}
	if options.LongestPause == 0 {
		options.LongestPause = max(DefaultLongestPause, options.FirstPause)
	}
	if options.FirstPause < time.Millisecond || options.LongestPause < options.FirstPause {
		return nil, &schedule.FieldError{Field: "first_pause", Value: options.FirstPause.String(),
			Allowed: "0 (1s), or 1ms to the longest pause, which is " + options.LongestPause.String()}
	}
	if options.Grace < 0 {
		return nil, &schedule.FieldError{Field: "grace", Value: options.Grace.String(), Allowed: "0 (for ever) or more"}
	}
	return &Supervisor{options: options, keeper: keeper}, nil
}

// Lease returns the lease that is held now, and false when this process does
// not run the group or cannot trust the lease any more.
func (s *Supervisor) Lease() (Lease, bool) { return s.keeper.Lease() }

// Run competes for the lease, and runs the group while it has it, until ctx
// ends. Then the contexts of the singletons end, bodies of periodic tasks come
// to their end, and when all have, the lease is released and Run returns nil.
func (s *Supervisor) Run(ctx context.Context) error {
	return s.keeper.Run(ctx, s.hold)
}

// A Group is what runs under one tenure of the lease. It is filled by
// SupervisorOptions.Build and of no use after it.
type Group struct {
	tenure  *Tenure
	workers []groupWorker
	tasks   []Periodic
}

type groupWorker struct {
	name string
	run  func(ctx context.Context) error
}

// Worker adds a singleton: run is called in a goroutine of its own, with a
// context that ends when the lease is lost or the process stops, and must
// return then. When it returns or panics before, it is called again after a
// pause that grows.
func (g *Group) Worker(name string, run func(ctx context.Context) error) {
	g.workers = append(g.workers, groupWorker{name, run})
}

// Periodic adds a periodic task. It has a claim of its own beside the lease of
// the group.
func (g *Group) Periodic(task Periodic) { g.tasks = append(g.tasks, task) }

// Lease returns the lease of the group as it was renewed last, also long after
// Build: what is written under its token is fenced.
func (g *Group) Lease() Lease { return g.tenure.Lease() }

// hold runs the group until all of it has ended.
func (s *Supervisor) hold(ctx context.Context, tenure *Tenure) {
	group, runner, err := s.build(tenure)
	if err != nil {
		s.options.Logger.Error("building the group failed; the lease is given back", "error", err, "stack", stackOf(err))
		return
	}
	var running sync.WaitGroup
	for _, worker := range group.workers {
		running.Go(func() { s.keepRunning(ctx, worker) })
	}
	running.Go(func() { s.runPeriodic(ctx, tenure, runner) })
	running.Wait()
	if len(group.workers)+len(group.tasks) == 0 {
		<-ctx.Done() // an empty group holds its lease too
	}
}

// build makes the group of one tenure.
func (s *Supervisor) build(tenure *Tenure) (*Group, *PeriodicRunner, error) {
	group := &Group{tenure: tenure}
	if err := protect(func() error { return s.options.Build(group) }); err != nil {
		return nil, nil, err
	}
	for _, worker := range group.workers {
		if worker.run == nil {
			return nil, nil, &schedule.FieldError{Field: "worker", Value: worker.name, Allowed: "a function to run"}
		}
	}
	if len(group.tasks) == 0 {
		return group, nil, nil
	}
	runner, err := NewPeriodicRunner(PeriodicOptions{Store: s.options.Periodic, Tasks: group.tasks, Owner: s.options.Owner,
		Poll: s.options.Poll, Logger: s.options.Logger})
	return group, runner, err
}

// runPeriodic runs the periodic tasks. A shutdown lets their bodies end; a
// lost lease cancels them.
func (s *Supervisor) runPeriodic(ctx context.Context, tenure *Tenure, runner *PeriodicRunner) {
	if runner == nil {
		return
	}
	abort, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	var watcher sync.WaitGroup
	watcher.Go(func() { s.watch(ctx, abort, tenure, cancel) })
	runner.run(ctx, abort)
	cancel(nil)
	watcher.Wait()
}

// watch cancels abort when the lease is lost, or Grace after ctx has ended.
func (s *Supervisor) watch(ctx, abort context.Context, tenure *Tenure, cancel context.CancelCauseFunc) {
	stop, over := ctx.Done(), (<-chan time.Time)(nil)
	for {
		select {
		case <-abort.Done():
			return
		case <-tenure.Lost():
			cancel(tenure.err)
		case <-over:
			cancel(context.Cause(ctx))
		case <-stop:
			stop = nil
			if s.options.Grace > 0 {
				over = time.After(s.options.Grace)
			}
		}
	}
}

// keepRunning calls a singleton again and again until ctx ends.
func (s *Supervisor) keepRunning(ctx context.Context, worker groupWorker) {
	pause := s.options.FirstPause
	for {
		began := time.Now()
		err := callSingleton(ctx, worker.run)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > s.options.LongestPause {
			pause = s.options.FirstPause
		}
		s.options.Logger.Warn("a singleton ended; it starts again", "worker", worker.name, "after", pause,
			"error", err, "stack", stackOf(err))
		if !wait(ctx, pause) {
			return
		}
		pause = min(2*pause, s.options.LongestPause)
	}
}

// callSingleton calls run in a goroutine of its own, so that even one that
// ends its goroutine is started again.
func callSingleton(ctx context.Context, run func(context.Context) error) error {
	ended := make(chan error, 1)
	go func() {
		err := fmt.Errorf("claim: singleton: %w", errGoexit)
		defer func() { ended <- err }()
		err = protect(func() error { return run(ctx) })
	}()
	return <-ended
}
