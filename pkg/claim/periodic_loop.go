package claim

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"strconv"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// A periodicLoop takes one task through its rounds.
type periodicLoop struct {
	Periodic
	options PeriodicOptions
	logger  *slog.Logger
	nonce   string        // of the next claim, kept while no reply has come
	ensured bool          // the entry was there
	failing bool          // the store did not answer; logged
	refused bool          // the interval was refused; logged
	last    time.Duration // interval that was accepted last
	bell    *Bell
	rope    <-chan struct{}
	idle    bool // only a trigger or a resume makes the task due before its time
}

// run does the first round at once, then one whenever the task may be due.
func (l *periodicLoop) run(stop, abort context.Context) {
	for stop.Err() == nil {
		due, err := l.round(stop, abort)
		if err != nil && stop.Err() == nil && !l.failing {
			l.logger.Warn("the store of periodic tasks failed; trying again", "error", err)
		}
		l.failing = err != nil
		if !l.pause(stop, l.sleep(due)) {
			return
		}
	}
}

// pause sleeps until it is woken, and reports false when ctx has ended.
func (l *periodicLoop) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-l.rope:
	case <-timer.C:
	}
	return ctx.Err() == nil
}

// sleep is how long to sleep when the task may be due after that time; 0:
// nobody knows.
func (l *periodicLoop) sleep(due time.Duration) time.Duration {
	longest := l.options.Poll
	if l.idle && l.bell.Healthy() {
		longest = max(longest, wokenPoll)
	}
	if due <= 0 || due > longest {
		return longest
	}
	jitter := l.Jitter
	if jitter == 0 {
		jitter = min(due/10, mostDefaultJitter)
	}
	if jitter > 0 {
		due += mathrand.N(jitter)
	}
	return due + 1
}

// round asks for the task and runs it when it gets it. It returns when the
// task may be due next; 0: nobody knows.
func (l *periodicLoop) round(stop, abort context.Context) (time.Duration, error) {
	l.idle = false
	if l.Spec == nil && !l.readInterval() {
		return 0, nil
	}
	call, cancel := context.WithTimeout(stop, max(l.TTL, leaseCall))
	defer cancel()
	if !l.ensured {
		if err := l.ensure(call); err != nil {
			return 0, err
		}
	}
	result, err := l.options.Store.Claim(call, PeriodicRequest{Name: l.Name, Owner: l.options.Owner, Nonce: l.nonce, TTL: l.TTL})
	if err != nil {
		return 0, err // the nonce stays: when the reply was lost, the next call gets the grant
	}
	l.nonce = rand.Text()
	switch result.Answer {
	case PeriodicGranted:
		return time.Nanosecond, l.execute(stop, abort, result.Claim)
	case PeriodicGone:
		l.ensured = false
		return time.Millisecond, nil
	case PeriodicNotDue, PeriodicPaused:
		l.idle = true
	case PeriodicHeld:
	}
	return result.Wait, nil
}

// ensure makes the entry of the task.
func (l *periodicLoop) ensure(ctx context.Context) error {
	first := l.FirstRun
	if first.IsZero() && l.Spec != nil {
		next, ok := l.Spec.Next(time.Now())
		if !ok {
			return errors.New("claim: the spec of periodic task " + strconv.Quote(l.Name) + " has no time left: correct it")
		}
		first = next
	}
	_, _, err := l.options.Store.Ensure(ctx, PeriodicTask{Name: l.Name, Display: l.Display, FirstRun: first})
	l.ensured = err == nil
	return err
}

// readInterval asks for the interval. One that is refused is logged when it is
// news, and nothing runs until it is corrected.
func (l *periodicLoop) readInterval() bool {
	interval, err := callEvery(l.Every)
	if err == nil {
		_, err = afterInterval(time.Now(), interval)
	}
	if err != nil {
		if !l.refused {
			l.logger.Error("the interval is refused; the task does not run until it is corrected", "error", err)
		}
		l.refused = true
		return false
	}
	l.refused, l.last = false, interval
	return true
}

// callEvery turns a panic into an error.
func callEvery(every func() time.Duration) (interval time.Duration, err error) {
	err = protect(func() error { interval = every(); return nil })
	return interval, err
}

// afterInterval adds an interval to the end of a run.
func afterInterval(end time.Time, interval time.Duration) (time.Time, error) {
	if interval < leastPeriodicInterval {
		return time.Time{}, &schedule.FieldError{Field: "every", Value: interval.String(), Allowed: "1ms or more"}
	}
	next := end.Round(0).Add(interval)
	if checkPeriodicTime("next", next) != nil || next.Before(end) {
		return time.Time{}, &schedule.FieldError{Field: "every", Value: interval.String(), Allowed: "an interval that ends before the year 10000"}
	}
	return next, nil
}

// next is when the task runs next, after a run. An interval that is refused
// after it was accepted for the run is logged, and the accepted one is used.
func (l *periodicLoop) next(claim PeriodicClaim, end time.Time) time.Time {
	if l.Spec != nil {
		if !claim.Manual && claim.Due.After(end) {
			end = claim.Due // this host's clock is behind the store's
		}
		next, _ := l.Spec.Next(end)
		return next
	}
	interval, err := callEvery(l.Every)
	if err == nil {
		var next time.Time
		if next, err = afterInterval(end, interval); err == nil {
			return next
		}
	}
	l.logger.Error("the interval is refused; the last one is used", "error", err, "last", l.last)
	next, err := afterInterval(end, l.last)
	if err != nil { // a run of thousands of years
		l.logger.Error("there is no next time", "error", err)
	}
	return next
}
