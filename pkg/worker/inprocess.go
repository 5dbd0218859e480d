package worker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// An inProcess is what runs in this process without a queue: periodic tasks
// and leased groups. While the gate is shut none of it runs; a group is given to
// another process then, and built anew afterwards.
type inProcess struct {
	gate  *gate
	build func() (*crew, error)
	first *crew // that was built to check the options
	ended sync.WaitGroup

	logger *slog.Logger

	mu      sync.Mutex
	running int
}

// A crew is what runs between two drains.
type crew struct {
	runner *claim.PeriodicRunner // nil without periodic tasks
	groups []*claim.Supervisor
}

// newInProcess fills in what the options of tasks and groups leave out.
func newInProcess(options *Options, store *redisstore.Store, g *gate) (*inProcess, error) {
	p := &inProcess{gate: g, logger: options.Logger, build: func() (*crew, error) { return newCrew(options, store) }}
	var err error
	p.first, err = p.build()
	return p, err
}

func newCrew(options *Options, store *redisstore.Store) (*crew, error) {
	p := &crew{}
	grace := options.Drain - options.grace()
	if len(options.Periodic) > 0 {
		runner, err := claim.NewPeriodicRunner(claim.PeriodicOptions{Store: store.Periodic(), Tasks: options.Periodic,
			Owner: options.ID, Grace: grace, Logger: options.Logger})
		if err != nil {
			return nil, fmt.Errorf("worker: %w", err)
		}
		p.runner = runner
	}
	names := map[string]bool{}
	for _, group := range options.Groups {
		if names[group.Name] {
			return nil, &schedule.FieldError{Field: "groups", Value: group.Name, Allowed: "each name once"}
		}
		names[group.Name] = true
		supervisor, err := claim.NewSupervisor(completeGroup(group, options, store, grace))
		if err != nil {
			return nil, fmt.Errorf("worker: group %q: %w", group.Name, err)
		}
		p.groups = append(p.groups, supervisor)
	}
	return p, nil
}

func completeGroup(group claim.SupervisorOptions, options *Options, store *redisstore.Store, grace time.Duration) claim.SupervisorOptions {
	if group.Leases == nil {
		group.Leases = store.Leases()
	}
	if group.Periodic == nil {
		group.Periodic = store.Periodic()
	}
	if group.Owner == "" {
		group.Owner = options.ID
	}
	if group.Grace == 0 {
		group.Grace = grace
	}
	if group.Logger == nil {
		group.Logger = options.Logger
	}
	return group
}

func (p *inProcess) empty() bool { return p.first.runner == nil && len(p.first.groups) == 0 }

// start runs everything until ctx ends; then it comes to its end by itself.
func (p *inProcess) start(ctx context.Context) {
	if !p.empty() {
		p.ended.Go(func() { p.run(ctx) })
	}
}

// run runs one crew after the other, with a drain between them.
func (p *inProcess) run(ctx context.Context) {
	for next := p.first; p.gate.pass(ctx, nil); next = nil {
		if next == nil {
			next = p.rebuild()
		}
		_, shut := p.gate.doors()
		working, end := context.WithCancel(ctx)
		stop := context.AfterFunc(ctx, end)
		go func() {
			select {
			case <-shut:
				end()
			case <-working.Done():
			}
		}()
		p.work(working, next)
		stop()
		end()
		p.gate.leave()
	}
}

// rebuild builds what was built before, from the same options; that it fails
// then is a fault of this package.
func (p *inProcess) rebuild() *crew {
	next, err := p.build()
	if err != nil {
		p.logger.Error("periodic tasks and groups are not taken up again: restart", "error", err)
		return &crew{}
	}
	return next
}

// work runs a crew until ctx ends and it has come to its end.
func (p *inProcess) work(ctx context.Context, c *crew) {
	var running sync.WaitGroup
	run := func(f func(context.Context) error) {
		p.add(1)
		running.Go(func() {
			defer p.add(-1)
			_ = f(ctx) // returns nil
		})
	}
	if c.runner != nil {
		run(c.runner.Run)
	}
	for _, group := range c.groups {
		run(group.Run)
	}
	running.Wait()
	<-ctx.Done()
}

func (p *inProcess) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running += n
}

// count returns how many of the periodic tasks, which count as one, and the
// groups have not ended.
func (p *inProcess) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running
}

// wait reports whether everything ended within the limit.
func (p *inProcess) wait(limit time.Duration) bool { return waitFor(&p.ended, limit) }
