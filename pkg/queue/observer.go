package queue

import (
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
)

// An Observer is told what happens, for logs and metrics. Its methods are
// called from many goroutines at once and must return quickly. Embed
// [NopObserver] to implement some of them.
type Observer interface {
	// Enqueued tells that this process put a task into its queue. A push that
	// finds the task there already is not told.
	Enqueued(EnqueuedEvent)
	// RunStarted tells that an attempt starts.
	RunStarted(RunEvent)
	// RunEnded tells that an attempt ended, and how it was reported.
	RunEnded(RunEvent)
	// Redriven tells that the auditor enqueued a lost task again, under a new
	// ID. A task that nobody is known to have enqueued is told by Enqueued.
	Redriven(AuditEvent)
	// Settled tells that the auditor closed a firing.
	Settled(AuditEvent)
}

// EnqueuedEvent describes a task that was enqueued.
type EnqueuedEvent struct {
	Firing claim.FiringID
	TaskID string
	Type   string
	Queue  string
	Token  claim.Token // of the claim; 0: none
}

// RunEvent describes an attempt. What follows Queue belongs to RunEnded.
type RunEvent struct {
	Firing   Firing
	Type     string
	Queue    string
	Outcome  claim.RunOutcome // "" when it was not reported: the lease was lost, or it was handed back
	Err      error            // of the handler; nil when it succeeded
	Duration time.Duration
	Started  bool // RunStarted was told; false of an attempt that was given up
}

// AuditEvent describes what the auditor did to a firing.
type AuditEvent struct {
	Firing   claim.FiringID
	Queue    string
	Redrives int              // with Redriven: the new number
	Outcome  claim.RunOutcome // with Settled
	Reason   string           // what was found
}

// NopObserver ignores everything.
type NopObserver struct{}

// Enqueued does nothing.
func (NopObserver) Enqueued(EnqueuedEvent) {}

// RunStarted does nothing.
func (NopObserver) RunStarted(RunEvent) {}

// RunEnded does nothing.
func (NopObserver) RunEnded(RunEvent) {}

// Redriven does nothing.
func (NopObserver) Redriven(AuditEvent) {}

// Settled does nothing.
func (NopObserver) Settled(AuditEvent) {}

// observerOr returns o, or an observer that does nothing when o is nil.
func observerOr(o Observer) Observer {
	if o == nil {
		return NopObserver{}
	}
	return o
}
