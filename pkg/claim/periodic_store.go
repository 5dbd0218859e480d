package claim

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// A PeriodicStore is the catalog of periodic tasks of one namespace: work that
// runs inside the process that claims it. [PeriodicRunner] drives it.
//
// A task has one next time. Whoever claims it when that has come runs it, and
// completes the claim with the next time. A claim that runs out may be taken
// by another owner, with a larger token; until then it stays with its owner,
// who may still renew and complete it.
type PeriodicStore interface {
	// Ensure makes the entry of a task, or keeps the one that exists exactly as
	// it is, its display name included. It returns what is stored, and whether
	// that was made now. A name or time that is refused is a
	// *schedule.FieldError.
	Ensure(ctx context.Context, task PeriodicTask) (PeriodicEntry, bool, error)
	// Claim asks for the task now. The same owner and nonce asking again gets
	// the live grant back; every other answer says how long to wait.
	Claim(ctx context.Context, request PeriodicRequest) (PeriodicResult, error)
	// Renew extends the claim by ttl from now. False means that it is lost:
	// another owner took it, or it was completed; it is never revived. An error
	// says nothing: try again at the next tick.
	Renew(ctx context.Context, held PeriodicClaim, ttl time.Duration) (PeriodicClaim, bool, error)
	// Complete ends the claim and places the task at its next time, for its
	// owner only. A call whose reply was lost may be repeated.
	Complete(ctx context.Context, completion PeriodicCompletion) (PeriodicCompleted, error)
	// Lookup returns an entry, and false when there is none of that name.
	Lookup(ctx context.Context, name string) (PeriodicEntry, bool, error)
	// List returns all entries by name.
	List(ctx context.Context) ([]PeriodicEntry, error)
	// Pause stops new claims of the task; a run under way goes on to its end.
	// A paused task that is paused again gets the new reason and end. An
	// unknown name is schedule.ErrNotFound, here and below.
	Pause(ctx context.Context, name string, options schedule.PauseOptions) (PeriodicEntry, error)
	// Resume ends a pause. A time that passed meanwhile is due at once, and
	// once.
	Resume(ctx context.Context, name string) (PeriodicEntry, error)
	// Trigger makes the task due now, also when it is paused or running: then
	// it runs again after this run. A trigger that waits absorbs another; the
	// second result is false then.
	Trigger(ctx context.Context, name string) (PeriodicEntry, bool, error)
}

// PeriodicTask is what Ensure makes an entry from. The namespace is the
// store's.
type PeriodicTask struct {
	Name     string    // as a schedule ID: 1 to 128 letters, digits, '.', '_' or '-'
	Display  string    // name for people, at most 256 bytes; "" is Name
	FirstRun time.Time // zero: at once
}

// PeriodicRequest asks for a task.
type PeriodicRequest struct {
	Name  string
	Owner string        // who asks; part of the ownership predicate
	Nonce string        // of this call; a repeat of the call carries the same
	TTL   time.Duration // of the claim, 1 ms or more
}

// PeriodicAnswer is what Claim says.
type PeriodicAnswer string

// The answers to Claim.
const (
	PeriodicGranted PeriodicAnswer = "GRANTED" // PeriodicResult.Claim is yours
	PeriodicNotDue  PeriodicAnswer = "NOTDUE"  // due after Wait; with Wait 0 there is no next time
	PeriodicHeld    PeriodicAnswer = "HELD"    // another claim lives for Wait at least
	PeriodicPaused  PeriodicAnswer = "PAUSED"  // for Wait; 0: until resumed
	PeriodicGone    PeriodicAnswer = "GONE"    // no such entry: Ensure it
)

// PeriodicResult answers Claim.
type PeriodicResult struct {
	Answer PeriodicAnswer
	Claim  PeriodicClaim // with PeriodicGranted
	Wait   time.Duration // with the other answers: when to ask again, on the store's clock
}

// A PeriodicClaim is the right to run a task until its lease ends. The zero
// PeriodicClaim is expired.
type PeriodicClaim struct {
	// Lease has the name of the task, the owner and the token, and whether they
	// may still be trusted.
	Lease   Lease
	Nonce   string    // of the call that got it
	Due     time.Time // when the task was due; a trigger leaves the regular time here
	Attempt int       // 1, and more when earlier claims of this time ran out uncompleted
	Manual  bool      // somebody triggered it
}

// Valid reports whether the owner may still trust the claim at now.
func (c PeriodicClaim) Valid(now time.Time) bool { return c.Lease.Valid(now) }

// PeriodicCompletion ends a claim.
type PeriodicCompletion struct {
	Claim    PeriodicClaim
	Next     time.Time // zero: no next time; the entry stays and can be triggered
	HandBack bool      // nothing ran: the task is due again at once and nothing is counted; Next is ignored
	Outcome  RunOutcome
	Error    string    // with OutcomeFailed; at most 1 KiB is kept
	Started  time.Time // on the owner's clock
	Duration time.Duration
}

// PeriodicCompleted is what Complete says.
type PeriodicCompleted string

// The answers to Complete.
const (
	PeriodicCompleteOK      PeriodicCompleted = "OK"
	PeriodicCompleteAlready PeriodicCompleted = "ALREADY" // this claim was completed before; nothing was changed
	PeriodicCompleteStale   PeriodicCompleted = "STALE"   // another owner took it: this run may have been repeated
	PeriodicCompleteGone    PeriodicCompleted = "GONE"    // no such entry
)

// A PeriodicEntry is the stored state of a task.
type PeriodicEntry struct {
	Name    string
	Display string
	Created time.Time // on the store's clock, like all times here but LastStarted
	Next    time.Time // regular next time, also while it runs; zero: none
	Trigger bool      // an extra run is asked for

	Paused      bool
	PausedBy    string
	PauseReason string
	PausedUntil time.Time // zero: until resumed

	Owner   string // of the claim; "" when it is not claimed
	Token   Token  // of the last claim; 0: never claimed
	Until   time.Time
	Attempt int // of the claim, or of the last one

	Runs         int64 // completed
	Fails        int64 // of these
	LastStarted  time.Time
	LastDuration time.Duration
	LastOutcome  RunOutcome // "": never completed
	LastError    string
}

// MaxPeriodicError is how many bytes of an error the catalog keeps.
const MaxPeriodicError = 1 << 10

const (
	maxPeriodicDisplay = 256
	maxPeriodicOwner   = 256
	maxPeriodicReason  = 1 << 10
)

// ValidatePeriodicName returns a *schedule.FieldError when name is none for a
// task.
func ValidatePeriodicName(name string) error {
	if err := schedule.ID(name).Validate(); err != nil {
		return &schedule.FieldError{Field: "name", Value: name,
			Allowed: "1 to 128 letters, digits, '.', '_' or '-', starting with a letter or digit"}
	}
	return nil
}

// Validate returns a *schedule.FieldError for a task that no store accepts.
func (t PeriodicTask) Validate() error {
	if err := ValidatePeriodicName(t.Name); err != nil {
		return err
	}
	if len(t.Display) > maxPeriodicDisplay {
		return &schedule.FieldError{Field: "display", Value: t.Display, Allowed: "at most 256 bytes"}
	}
	return checkPeriodicTime("first_run", t.FirstRun)
}

// Validate returns a *schedule.FieldError for a request that no store accepts.
func (r PeriodicRequest) Validate() error {
	if err := ValidatePeriodicName(r.Name); err != nil {
		return err
	}
	switch {
	case r.Owner == "" || len(r.Owner) > maxPeriodicOwner:
		return &schedule.FieldError{Field: "owner", Value: r.Owner, Allowed: "who asks, 1 to 256 bytes"}
	case r.Nonce == "" || len(r.Nonce) > maxPeriodicOwner:
		return &schedule.FieldError{Field: "nonce", Value: r.Nonce, Allowed: "a nonce for each call, 1 to 256 bytes"}
	}
	return ValidatePeriodicTTL(r.TTL)
}

// ValidatePeriodicTTL returns a *schedule.FieldError when a claim cannot last
// that long.
func ValidatePeriodicTTL(ttl time.Duration) error {
	if ttl < time.Millisecond {
		return &schedule.FieldError{Field: "ttl", Value: ttl.String(), Allowed: "1ms or more"}
	}
	return nil
}

// Validate returns a *schedule.FieldError for a completion that no store
// accepts.
func (c PeriodicCompletion) Validate() error {
	if err := ValidatePeriodicName(c.Claim.Lease.Name); err != nil {
		return err
	}
	if c.HandBack {
		return nil
	}
	if c.Outcome != OutcomeSucceeded && c.Outcome != OutcomeFailed {
		return &schedule.FieldError{Field: "outcome", Value: string(c.Outcome), Allowed: "succeeded, failed"}
	}
	return checkPeriodicTime("next", c.Next)
}

// ValidatePeriodicPause returns a *schedule.FieldError for a pause that no
// store accepts.
func ValidatePeriodicPause(name string, options schedule.PauseOptions) error {
	if err := ValidatePeriodicName(name); err != nil {
		return err
	}
	for _, text := range []struct{ field, value string }{{"by", options.By}, {"reason", options.Reason}} {
		if len(text.value) > maxPeriodicReason {
			return &schedule.FieldError{Field: text.field, Value: text.value, Allowed: "at most 1024 bytes"}
		}
	}
	return checkPeriodicTime("until", options.Until)
}

// lastPeriodic is the first instant that RFC 3339 cannot write any more.
var lastPeriodic = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)

// checkPeriodicTime refuses instants that cannot be stored or shown.
func checkPeriodicTime(field string, at time.Time) error {
	if at.IsZero() || at.UnixMilli() > 0 && at.Before(lastPeriodic) {
		return nil
	}
	return &schedule.FieldError{Field: field, Value: at.UTC().String(), Allowed: "a time from 1970 to 9999, or none"}
}
