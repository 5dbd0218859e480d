package schedule

import (
	"context"
	"time"
)

// EventKind says what happened to a schedule.
type EventKind string

// The kinds of events.
const (
	EventCreated         EventKind = "created"
	EventUpdated         EventKind = "updated"
	EventRemoved         EventKind = "removed"
	EventPaused          EventKind = "paused"
	EventResumed         EventKind = "resumed"
	EventDisabled        EventKind = "disabled"  // by MaxFailures
	EventProbing         EventKind = "probing"   // its cool-down is over: one run decides
	EventCompleted       EventKind = "completed" // nothing is left to fire
	EventTriggered       EventKind = "triggered"
	EventLost            EventKind = "lost"         // a firing was given up after the last re-drive
	EventCancelAsked     EventKind = "cancel_asked" // of a firing
	EventSkipAsked       EventKind = "skip_asked"
	EventSkipWithdrawn   EventKind = "skip_withdrawn"
	EventBackfillStarted EventKind = "backfill_started"
	EventBackfillHalted  EventKind = "backfill_halted"
	EventBackfillEnded   EventKind = "backfill_ended"
)

// EventKinds are all kinds.
var EventKinds = []EventKind{EventCreated, EventUpdated, EventRemoved, EventPaused, EventResumed, EventDisabled, EventProbing,
	EventCompleted, EventTriggered, EventLost, EventCancelAsked, EventSkipAsked, EventSkipWithdrawn, EventBackfillStarted, EventBackfillHalted,
	EventBackfillEnded}

// An Event is something that happened to a schedule. Single firings are told
// by verdicts and the run log instead.
type Event struct {
	At         time.Time // on the store's clock
	Kind       EventKind
	Schedule   ID
	Generation int64
	Detail     string // for people: who and why, a firing, an instant
}

// An EventLog keeps the last events of a namespace, some 10,000 a shard.
type EventLog interface {
	// Events returns events and a cursor. With the cursor "" they are the
	// newest limit ones; with the cursor of an earlier call, the next ones after
	// those, oldest first, at most about limit a shard. A *FieldError tells that
	// the cursor is none.
	Events(ctx context.Context, cursor string, limit int) (events []Event, next string, err error)
}

// A Skipper lets single scheduled times not fire.
type Skipper interface {
	// Skip has one scheduled time not fire: it gets VerdictSkipped. At most 100
	// that have no verdict yet can be asked for. It returns ErrNotFound,
	// ErrLate, and a *FieldError for an instant at which the schedule does not
	// fire.
	Skip(ctx context.Context, id ID, at time.Time) error
	// Unskip takes a Skip back, with the same errors.
	Unskip(ctx context.Context, id ID, at time.Time) error
}
