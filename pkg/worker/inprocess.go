package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// An inProcess is what runs in this process without a queue: periodic tasks
// and leased groups.
type inProcess struct {
	runner  *claim.PeriodicRunner // nil without periodic tasks
	groups  []*claim.Supervisor
	running sync.WaitGroup
}

// newInProcess fills in what the options of tasks and groups leave out.
func newInProcess(options *Options, store *redisstore.Store) (*inProcess, error) {
	p := &inProcess{}
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

func (p *inProcess) empty() bool { return p.runner == nil && len(p.groups) == 0 }

// start runs everything until ctx ends; then it comes to its end by itself.
func (p *inProcess) start(ctx context.Context) {
	if p.runner != nil {
		p.running.Go(func() { _ = p.runner.Run(ctx) }) // returns nil
	}
	for _, group := range p.groups {
		p.running.Go(func() { _ = group.Run(ctx) }) // returns nil
	}
}

// wait reports whether everything ended within the limit. What did not is left
// behind: nothing can kill a goroutine.
func (p *inProcess) wait(limit time.Duration) bool {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.running.Wait()
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
		return false
	}
}
