package worker

import (
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// An Observer is told what happens, for logs and metrics. Its methods are
// called from many goroutines at once and must return quickly. Embed
// [NopObserver] to implement some of them.
type Observer interface {
	queue.Observer
	// Decided tells what became of a claimed scheduled time.
	Decided(DecidedEvent)
	// Isolated tells that a schedule cannot be planned or enqueued and was put
	// aside for a while.
	Isolated(IsolatedEvent)
	// Waiting tells that the store does not answer. It is told once for each
	// outage.
	Waiting(err error)
	// Recovered tells that the store answers again, after that long.
	Recovered(after time.Duration)
}

// DecidedEvent describes a completed claim.
type DecidedEvent struct {
	Schedule    schedule.ID
	ScheduledAt time.Time
	Type        string
	Queue       string
	Decision    claim.Decision
	Verdict     schedule.Verdict // with claim.DecideVerdict
	Outcome     claim.Outcome    // what the store answered
	Lateness    time.Duration    // from the scheduled time to the claim, on the store's clock
	Next        time.Time        // zero: none
}

// IsolatedEvent describes a schedule that was put aside.
type IsolatedEvent struct {
	Schedule schedule.ID
	Err      error
	Until    time.Time // when it is claimed again, on the store's clock
	Failures int       // in a row, as seen by this worker
}

// NopObserver ignores everything.
type NopObserver struct{ queue.NopObserver }

// Decided does nothing.
func (NopObserver) Decided(DecidedEvent) {}

// Isolated does nothing.
func (NopObserver) Isolated(IsolatedEvent) {}

// Waiting does nothing.
func (NopObserver) Waiting(error) {}

// Recovered does nothing.
func (NopObserver) Recovered(time.Duration) {}
