package queue

import (
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/claim"
)

// A HandBackError is what asynq gets for a task that cannot run here and now:
// another attempt holds the lease, this process has no handler for its type, or
// the ledger cannot be asked. It is no failure: [Middleware.IsFailure] says so,
// and asynq delivers the task again after the given time.
type HandBackError struct {
	Firing claim.FiringID
	Reason string
	After  time.Duration // at least a second
	Cause  error         // may be nil

	// revoke is set on the last attempt that asynq grants. asynq archives a
	// task then, whatever IsFailure says, and an archived task looks like one
	// that failed. A revoked task vanishes, and the auditor enqueues the firing
	// again.
	revoke bool
}

// minHandBack keeps a task that nobody can run from spinning.
const minHandBack = time.Second

// A task of a type that this process has no handler for comes back later the
// longer it has waited. Where nobody has one such tasks pile up, and each of
// them is taken and handed back again and again: with a second between, five
// thousand of them kept a queue so busy that its other tasks were late.
const (
	unservedShare = 10 // of the time waited
	maxUnserved   = 15 * time.Second
)

// unservedPause is the time until such a task is delivered again. The
// scheduled time of a manual run is zero.
func unservedPause(scheduledAt, now time.Time) time.Duration {
	if scheduledAt.IsZero() {
		return minHandBack
	}
	return min(max(now.Sub(scheduledAt)/unservedShare, minHandBack), maxUnserved)
}

// Error says why the task was handed back.
func (e *HandBackError) Error() string {
	text := fmt.Sprintf("queue: firing %s handed back for %s: %s", e.Firing, e.After, e.Reason)
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return clip(text, maxErrorText)
}

// Unwrap returns the cause, and asynq.RevokeTask when asynq must drop the task.
func (e *HandBackError) Unwrap() []error {
	var errs []error
	if e.Cause != nil {
		errs = append(errs, e.Cause)
	}
	if e.revoke {
		errs = append(errs, asynq.RevokeTask)
	}
	return errs
}

// A DroppedError is what asynq gets for a task that has nothing to do any more:
// a newer firing or an operator cancelled it, or its schedule was deleted. It is no failure,
// and asynq deletes the task. Acknowledged, it would be retained as completed,
// which tells the auditor that it ran: of a store that has gone back to before
// the cancellation, or the deletion, the firing would become one that succeeded.
type DroppedError struct {
	Firing claim.FiringID
	Reason string
}

// Error says why the task was dropped.
func (e *DroppedError) Error() string {
	return clip(fmt.Sprintf("queue: firing %s dropped: %s", e.Firing, e.Reason), maxErrorText)
}

// Unwrap returns asynq.RevokeTask.
func (e *DroppedError) Unwrap() error { return asynq.RevokeTask }

// An UnknownFateError is what asynq gets for a task under at_most_once whose last
// attempt was cut off: nobody knows what it did, and it is not repeated. It
// counts as a failure, and asynq archives the task. Acknowledged, it would tell
// the auditor that it ran, and deleted, that it never began: a store that has gone
// back to before the settlement would call it succeeded, or run it again.
type UnknownFateError struct {
	Firing claim.FiringID
}

// Error says what is not known. What the auditor finds as the last error of an
// archived task ends so.
func (e *UnknownFateError) Error() string {
	return fmt.Sprintf("queue: firing %s: %s", e.Firing, unknownFate)
}

const unknownFate = "its last attempt was cut off, and under at_most_once it is not repeated"

// Unwrap returns asynq.SkipRetry.
func (e *UnknownFateError) Unwrap() error { return asynq.SkipRetry }

// A CancelledError is what asynq gets for a task under at_most_once that was
// cancelled while it ran. As with an UnknownFateError, asynq archives the task:
// that it began must not be forgotten, and that it succeeded must not be told.
type CancelledError struct {
	Firing claim.FiringID
}

// Error says what happened. What the auditor finds as the last error of an
// archived task ends so.
func (e *CancelledError) Error() string {
	return fmt.Sprintf("queue: firing %s: %s", e.Firing, cancelledRun)
}

const cancelledRun = "it was cancelled while it ran, and under at_most_once it is not repeated"

// Unwrap returns asynq.SkipRetry.
func (e *CancelledError) Unwrap() error { return asynq.SkipRetry }

// finalError tells asynq to archive the task although it would retry it.
type finalError struct{ err error }

func (e *finalError) Error() string   { return clip(e.err.Error(), maxErrorText) }
func (e *finalError) Unwrap() []error { return []error{e.err, asynq.SkipRetry} }

// longError is an error whose text is too long to be stored.
type longError struct{ err error }

func (e *longError) Error() string { return clip(e.err.Error(), maxErrorText) }
func (e *longError) Unwrap() error { return e.err }

// outward returns err with a text that is fit to be stored.
func outward(err error) error {
	if err == nil || len(err.Error()) <= maxErrorText {
		return err
	}
	return &longError{err}
}

// IsFailure is for asynq.Config.IsFailure: a task that was handed back or dropped
// did not fail, so asynq does not count a retry. Other errors are judged by
// MiddlewareOptions.IsFailure.
func (m *Middleware) IsFailure(err error) bool {
	var handBack *HandBackError
	var dropped *DroppedError
	if errors.As(err, &handBack) || errors.As(err, &dropped) {
		return false
	}
	if m.isFailure != nil {
		return m.isFailure(err)
	}
	return err != nil
}

// RetryDelay is for asynq.Config.RetryDelayFunc: a task that was handed back
// returns when it may run, a firing whose worker died returns at once, and
// everything else follows MiddlewareOptions.RetryDelay.
func (m *Middleware) RetryDelay(n int, err error, task *asynq.Task) time.Duration {
	var handBack *HandBackError
	if errors.As(err, &handBack) {
		return max(handBack.After, minHandBack)
	}
	if errors.Is(err, asynq.ErrLeaseExpired) && task != nil {
		if _, ok := task.Headers()[HeaderFiring]; ok {
			return minHandBack
		}
	}
	return m.retryDelay(n, err, task)
}
