package app

import (
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/worker"
)

// known returns the value when it is one of the list, and "other" otherwise: the
// number of series stays bounded whatever a store of tomorrow answers.
func known(value string, list []string) string {
	if slices.Contains(list, value) {
		return value
	}
	return "other"
}

func lower[T ~string](value T) string { return strings.ToLower(string(value)) }

// observers are told in turn.
type observers []worker.Observer

// Enqueued tells all.
func (all observers) Enqueued(e queue.EnqueuedEvent) {
	for _, o := range all {
		o.Enqueued(e)
	}
}

// RunStarted tells all.
func (all observers) RunStarted(e queue.RunEvent) {
	for _, o := range all {
		o.RunStarted(e)
	}
}

// RunEnded tells all.
func (all observers) RunEnded(e queue.RunEvent) {
	for _, o := range all {
		o.RunEnded(e)
	}
}

// Redriven tells all.
func (all observers) Redriven(e queue.AuditEvent) {
	for _, o := range all {
		o.Redriven(e)
	}
}

// Settled tells all.
func (all observers) Settled(e queue.AuditEvent) {
	for _, o := range all {
		o.Settled(e)
	}
}

// Decided tells all.
func (all observers) Decided(e worker.DecidedEvent) {
	for _, o := range all {
		o.Decided(e)
	}
}

// Isolated tells all.
func (all observers) Isolated(e worker.IsolatedEvent) {
	for _, o := range all {
		o.Isolated(e)
	}
}

// Waiting tells all.
func (all observers) Waiting(err error) {
	for _, o := range all {
		o.Waiting(err)
	}
}

// Recovered tells all.
func (all observers) Recovered(after time.Duration) {
	for _, o := range all {
		o.Recovered(after)
	}
}
