package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// An outage knows whether the store answers, for all loops together, and says
// once when it stops and once when it comes back. A store that refuses the
// writes of one loop and serves the reads of another, as a read-only replica
// does, is back when it serves those that it refused.
type outage struct {
	logger   *slog.Logger
	observer Observer
	now      func() time.Time
	draw     func(time.Duration) time.Duration
	back     func() // called when the store answers again; may be nil

	mu      sync.Mutex
	since   time.Time // zero: it answers
	last    error
	refused map[any]bool // loops whose last call was answered with an error
}

// failed notes that a call of a loop failed and pauses. It reports false when ctx
// ended.
func (o *outage) failed(ctx context.Context, loop any, err error, attempt int) bool {
	if ctx.Err() != nil {
		return false
	}
	o.mu.Lock()
	first := o.since.IsZero()
	if first {
		o.since = o.now()
	}
	o.last = err
	if isReply(err) {
		if o.refused == nil {
			o.refused = map[any]bool{}
		}
		o.refused[loop] = true
	}
	o.mu.Unlock()
	if first {
		o.logger.Warn("waiting for Redis", "error", err)
		o.observer.Waiting(err)
	}
	return pause(ctx, fullJitter(attempt, o.draw))
}

// recovered notes that a call of a loop succeeded.
func (o *outage) recovered(loop any) {
	o.mu.Lock()
	delete(o.refused, loop)
	since := o.since
	if len(o.refused) > 0 {
		since = time.Time{} // others are refused still
	} else {
		o.since, o.last = time.Time{}, nil
	}
	o.mu.Unlock()
	if since.IsZero() {
		return
	}
	after := o.now().Sub(since)
	o.logger.Info("Redis is back", "after", after.Round(time.Millisecond).String())
	o.observer.Recovered(after)
	if o.back != nil {
		o.back()
	}
}

// err returns why the store does not answer; nil when it does.
func (o *outage) err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

// retry calls until call succeeds; it returns false when ctx ended before.
func (o *outage) retry(ctx context.Context, call func(context.Context) error) bool {
	for attempt := 0; ; attempt++ {
		err := call(ctx)
		if err == nil {
			o.recovered(o)
			return true
		}
		if !o.failed(ctx, o, err, attempt) {
			return false
		}
	}
}
