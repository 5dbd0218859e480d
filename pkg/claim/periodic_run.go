package claim

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// protect calls f and turns a panic into a *PanicError.
func protect(f func() error) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = &PanicError{Value: fmt.Sprint(fault), Stack: string(debug.Stack())}
		}
	}()
	return f()
}

// A renewal keeps one claim while its body runs and its recorder is told.
type renewal struct {
	loop   *periodicLoop
	cancel context.CancelCauseFunc // of the body's context
	mu     sync.Mutex
	claim  PeriodicClaim
	lost   bool
}

func (r *renewal) current() PeriodicClaim {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.claim
}

// execute runs the body under the claim, tells the recorder and completes the
// claim. It returns nil when the outcome of the run is settled or given up.
func (l *periodicLoop) execute(stop, abort context.Context, granted PeriodicClaim) error {
	if stop.Err() != nil || !granted.Valid(time.Now()) {
		return l.complete(stop, PeriodicCompletion{Claim: granted, HandBack: true})
	}
	body, cancel := context.WithCancelCause(context.WithoutCancel(stop))
	defer cancel(nil)
	aborted := context.AfterFunc(abort, func() { cancel(context.Cause(abort)) })
	defer aborted()
	hold := &renewal{loop: l, claim: granted, cancel: cancel}
	renewing, stopRenewing := context.WithCancel(context.WithoutCancel(stop))
	var renewer sync.WaitGroup
	renewer.Go(func() { hold.keep(renewing) })
	run := PeriodicRun{Started: time.Now(), Outcome: OutcomeSucceeded}
	run.Err = l.call(body, hold)
	run.Ended = time.Now()
	if run.Err != nil {
		run.Outcome = OutcomeFailed
	}
	run.Claim, run.Lost = hold.state()
	recorded := l.record(context.WithoutCancel(stop), run)
	stopRenewing()
	renewer.Wait()
	claim, lost := hold.state()
	switch {
	case lost:
		return nil // the other owner's run decides
	case recorded != nil:
		l.logger.Error("recording the run failed; the claim is left to run out, and the task runs again",
			"token", claim.Lease.Token.String(), "error", recorded, "stack", stackOf(recorded))
		return nil
	}
	completion := PeriodicCompletion{Claim: claim, Next: l.next(claim, run.Ended), Outcome: run.Outcome,
		Started: run.Started, Duration: run.Ended.Sub(run.Started)}
	if run.Err != nil {
		completion.Error = run.Err.Error()
	}
	return l.complete(stop, completion)
}

func (r *renewal) state() (PeriodicClaim, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.claim, r.lost
}

// call runs the body in a goroutine of its own, so that even one that ends its
// goroutine is noticed.
func (l *periodicLoop) call(ctx context.Context, hold *renewal) error {
	ended := make(chan error, 1)
	go func() {
		err := errGoexit
		defer func() { ended <- err }()
		err = protect(func() error { return l.Run(ctx, hold.current) })
	}()
	err := <-ended
	if err != nil {
		l.logger.Warn("the run failed", "token", hold.current().Lease.Token.String(), "error", err, "stack", stackOf(err))
	}
	return err
}

func stackOf(err error) string {
	var fault *PanicError
	if errors.As(err, &fault) {
		return fault.Stack
	}
	return ""
}

// record tells the recorder.
func (l *periodicLoop) record(ctx context.Context, run PeriodicRun) error {
	if l.Record == nil {
		return nil
	}
	return protect(func() error { return l.Record(ctx, run) })
}

// keep renews the claim every third of its TTL until ctx ends or the claim is
// lost. A tick that is missed is late; it is not made up for. When renewals
// fail for too long the body is told to stop; the claim is this owner's as
// long as nobody else took it, so renewing goes on.
func (r *renewal) keep(ctx context.Context) {
	period := max(r.loop.TTL/3, leastRenewal)
	due, doubted, failing := time.Now().Add(period), false, false
	for {
		claim := r.current()
		until := due
		if !doubted && claim.Lease.trustedUntil.Before(due) {
			until = claim.Lease.trustedUntil
		}
		if !wait(ctx, time.Until(until)) {
			return
		}
		if !doubted && !claim.Valid(time.Now()) {
			doubted = true
			r.stopBody(ErrUntrusted)
		}
		if time.Now().Before(due) {
			continue
		}
		lost, err := r.renew(ctx, claim, period)
		due = time.Now().Add(period)
		switch {
		case ctx.Err() != nil || lost:
			return
		case err == nil:
			doubted = false
		case !failing:
			r.loop.logger.Warn("renewing the claim failed; trying again", "error", err)
		}
		failing = err != nil
	}
}

// renew makes one call, which leaves time for another before the claim ends.
func (r *renewal) renew(ctx context.Context, claim PeriodicClaim, period time.Duration) (lost bool, err error) {
	timeout := max(period, 5*leastRenewal)
	if left := time.Until(claim.Lease.trustedUntil); left > 0 {
		timeout = min(timeout, left)
	}
	call, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	renewed, ok, err := r.loop.options.Store.Renew(call, claim, r.loop.TTL)
	if err != nil {
		return false, err
	}
	r.mu.Lock()
	r.claim, r.lost = renewed, !ok
	r.mu.Unlock()
	if !ok {
		r.stopBody(ErrLost)
	}
	return !ok, nil
}

// stopBody ends the context of the body, unless the caller chose not to.
func (r *renewal) stopBody(why error) {
	r.loop.logger.Warn("the claim is lost while the body runs", "token", r.current().Lease.Token.String(), "error", why,
		"body_told", !r.loop.IgnoreLoss)
	if !r.loop.IgnoreLoss {
		r.cancel(why)
	}
}

// Pauses between attempts to complete a claim.
const (
	firstCompletePause   = 20 * time.Millisecond
	longestCompletePause = time.Second
)

// complete ends the claim. It tries again for as long as the claim lasts, or a
// moment when a shutdown waits: a run that could not be completed runs again.
func (l *periodicLoop) complete(stop context.Context, completion PeriodicCompletion) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(stop), max(l.TTL, farewell))
	defer cancel()
	hurry := context.AfterFunc(stop, func() {
		wait(ctx, farewell)
		cancel()
	})
	defer hurry()
	for pause := firstCompletePause; ; pause = min(2*pause, longestCompletePause) {
		answer, err := l.options.Store.Complete(ctx, completion)
		if err == nil {
			if answer == PeriodicCompleteStale || answer == PeriodicCompleteGone {
				l.logger.Warn("the run was not completed; the claim was lost", "answer", string(answer),
					"token", completion.Claim.Lease.Token.String())
			}
			return nil
		}
		if !wait(ctx, pause) {
			return fmt.Errorf("claim: complete periodic task %q, which runs again: %w", l.Name, err)
		}
	}
}
