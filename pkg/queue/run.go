package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A PanicError is a panic of a handler, as the failure of the attempt.
type PanicError struct {
	Value string // what was passed to panic
	Stack string // where, from the panicking function on; cut
}

// Error returns the value and the stack on one line.
func (e *PanicError) Error() string { return "panic: " + e.Value + " [" + e.Stack + "]" }

// errGoexit is the failure of a handler that ended its goroutine.
var errGoexit = errors.New("queue: the handler ended its goroutine instead of returning")

// run runs the handler under the granted lease and reports the end.
func (m *Middleware) run(ctx context.Context, next asynq.Handler, d delivery, grant claim.BeginResult, sent time.Time) error {
	firing := d.firing
	firing.Attempt, firing.Token = grant.Attempt, grant.Token
	handlerCtx, cancel := context.WithCancelCause(context.WithValue(ctx, firingKey{}, firing))
	defer cancel(nil)
	life := m.heart.start(claim.Run{Firing: firing.ID, Token: grant.Token}, sent, cancel)
	defer m.heart.end(life)

	if allowed := d.allowed + 1 + poisonAttempts; grant.Attempt > allowed {
		err := fmt.Errorf("queue: given up: %d attempts were allowed, and too many of them ended without a report", allowed)
		return m.report(ctx, d, life, attempt{Firing: firing, started: time.Now(), err: &finalError{err}, outcome: claim.OutcomeFailed})
	}
	m.observer.RunStarted(RunEvent{Firing: firing, Type: d.task.Type(), Queue: d.queue})
	a := attempt{Firing: firing, started: time.Now(), ran: true}
	a.err = call(handlerCtx, next, d.task)
	a.duration = time.Since(a.started)
	if a.err != nil && errors.Is(ctx.Err(), context.Canceled) {
		m.heart.ask(life)
	}
	a.judge(d, life, ctx)
	return m.report(ctx, d, life, a)
}

// call runs the handler in a goroutine of its own, so that neither a panic nor
// runtime.Goexit in it can keep the end from being reported.
func call(ctx context.Context, next asynq.Handler, task *asynq.Task) error {
	done := make(chan error, 1)
	go func() {
		err := errGoexit
		defer func() {
			if value := recover(); value != nil {
				err = newPanicError(value, debug.Stack())
			}
			done <- err
		}()
		err = next.ProcessTask(ctx, task)
	}()
	return <-done
}

// newPanicError keeps the interesting part of the stack, which starts below the
// call of panic.
func newPanicError(value any, stack []byte) *PanicError {
	text := string(stack)
	if _, below, ok := strings.Cut(text, "\npanic("); ok {
		if _, rest, ok := strings.Cut(below, "\n\t"); ok {
			_, text, _ = strings.Cut(rest, "\n")
		}
	}
	return &PanicError{Value: clip(fmt.Sprint(value), maxErrorText/4), Stack: clip(text, maxErrorText/2)}
}

// An attempt is a run that ended.
type attempt struct {
	Firing
	started  time.Time
	duration time.Duration
	err      error            // what asynq gets
	outcome  claim.RunOutcome // what the ledger gets
	handBack bool             // nothing ran
	ran      bool             // the handler was called
	inTime   bool             // it succeeded before the lease was lost
}

// judge decides the outcome, and what asynq is told.
func (a *attempt) judge(d delivery, life *life, ctx context.Context) {
	switch {
	case a.err == nil:
		a.outcome, a.inTime = claim.OutcomeSucceeded, life.held(time.Now())
	case errors.Is(a.err, asynq.ErrHandlerNotFound):
		a.handBack, a.outcome = true, claim.OutcomeRetrying
		a.err = d.handBack("no handler here for type "+d.task.Type(), unservedPause(a.ScheduledAt, time.Now()), a.err)
	case life.asked():
		a.outcome = claim.OutcomeCancelled
	case errors.Is(a.err, asynq.SkipRetry), errors.Is(a.err, asynq.RevokeTask):
		a.outcome = claim.OutcomeFailed
		a.err = outward(a.err)
	case errors.Is(ctx.Err(), context.Canceled):
		// asynq ended the attempt, because the process stops or lost its lease
		// on the task: it was interrupted and did not fail. asynq has decided
		// already and does not read the result.
		a.outcome = claim.OutcomeRetrying
		a.err = outward(a.err)
	case d.last(a.Attempt):
		a.outcome = claim.OutcomeFailed
		a.err = &finalError{a.err}
	default:
		a.outcome = claim.OutcomeRetrying
		a.err = outward(a.err)
	}
}

// report tells the ledger how the attempt ended and returns what asynq is told.
// After the lease is lost nothing is reported: another attempt may own the
// firing.
func (m *Middleware) report(ctx context.Context, d delivery, life *life, a attempt) error {
	event := RunEvent{Firing: a.Firing, Type: d.task.Type(), Queue: d.queue, Err: a.err, Duration: a.duration, Started: a.ran}
	defer func() { m.observer.RunEnded(event) }()
	result, err := m.finish(ctx, life, m.finishRequest(d, life, a))
	switch {
	case a.inTime && (errors.Is(err, ErrLeaseLost) || err == nil && result.Answer == claim.FinishStale):
		// The work was done under the lease, and the ledger does not know: its
		// store was away for too long, or went back. The completed task says so
		// to the auditor; handed back it would run again.
		m.logger.WarnContext(ctx, "the ledger did not take the report of a success; its task is the record, if its queue takes that in time", "firing", a.ID, "err", err)
		return nil
	case errors.Is(err, ErrLeaseLost), err == nil && result.Answer == claim.FinishStale:
		return d.handBack("the execution lease was lost", minHandBack, errors.Join(ErrLeaseLost, a.err))
	case err != nil:
		// asynq records the end, and the auditor reads it there.
		m.logger.WarnContext(ctx, "end of a run was not recorded; the auditor will", "firing", a.ID, "outcome", a.outcome, "err", err)
	}
	if !a.handBack {
		event.Outcome = a.outcome
	}
	m.release(ctx, result.Released)
	switch {
	case a.outcome != claim.OutcomeCancelled:
		return a.err
	case d.effect == schedule.AtMostOnce:
		return &CancelledError{Firing: a.ID}
	default:
		return &DroppedError{Firing: a.ID, Reason: "it was cancelled while it ran"}
	}
}

func (m *Middleware) finishRequest(d delivery, life *life, a attempt) claim.FinishRequest {
	request := claim.FinishRequest{
		Run: life.run, Outcome: a.outcome, Started: a.started, Duration: a.duration,
		Attempt: a.Attempt, Worker: m.worker, KeepRuns: m.keepRuns, HandBack: a.handBack,
	}
	if a.err != nil {
		request.Error = clip(a.err.Error(), maxErrorText)
	}
	if a.outcome == claim.OutcomeRetrying {
		// asynq draws its own delay; before that the auditor has nothing to see.
		request.RetryAfter = m.RetryDelay(d.retried, a.err, d.task) + m.lease
	}
	return request
}

// finish repeats the report until the ledger answers, while the lease lives and
// for one lease at most.
func (m *Middleware) finish(ctx context.Context, life *life, request claim.FinishRequest) (claim.FinishResult, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.lease)
	defer cancel()
	var result claim.FinishResult
	err := retry(ctx, func() (err error) {
		if !life.held(time.Now()) {
			cancel()
			return ErrLeaseLost
		}
		once, stop := context.WithTimeout(ctx, m.lease/3)
		defer stop()
		result, err = m.ledger.Finish(once, request)
		return err
	})
	return result, err
}
