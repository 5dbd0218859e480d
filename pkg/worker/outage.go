package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// An outage knows whether the store answers, for all loops together, and says
// once when it stops and once when it comes back.
type outage struct {
	logger   *slog.Logger
	observer Observer
	now      func() time.Time
	draw     func(time.Duration) time.Duration

	mu    sync.Mutex
	since time.Time // zero: it answers
	last  error
}

// failed notes that a call failed and pauses. It reports false when ctx ended.
func (o *outage) failed(ctx context.Context, err error, attempt int) bool {
	if ctx.Err() != nil {
		return false
	}
	o.mu.Lock()
	first := o.since.IsZero()
	if first {
		o.since = o.now()
	}
	o.last = err
	o.mu.Unlock()
	if first {
		o.logger.Warn("waiting for Redis", "error", err)
		o.observer.Waiting(err)
	}
	return pause(ctx, fullJitter(attempt, o.draw))
}

// recovered notes that a call succeeded.
func (o *outage) recovered() {
	o.mu.Lock()
	since := o.since
	o.since, o.last = time.Time{}, nil
	o.mu.Unlock()
	if since.IsZero() {
		return
	}
	after := o.now().Sub(since)
	o.logger.Info("Redis is back", "after", after.Round(time.Millisecond).String())
	o.observer.Recovered(after)
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
			o.recovered()
			return true
		}
		if !o.failed(ctx, err, attempt) {
			return false
		}
	}
}
