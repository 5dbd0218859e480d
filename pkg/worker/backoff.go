package worker

import (
	"context"
	"time"
)

// Pauses between attempts to reach the store. The longest is short, because
// schedules wait behind it.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
)

// fullJitter returns a random pause below a bound that doubles with each
// attempt (0 is the first), so that a fleet does not come back in step.
func fullJitter(attempt int, draw func(time.Duration) time.Duration) time.Duration {
	bound := longestPause
	if attempt < 6 {
		bound = min(bound, firstPause<<attempt)
	}
	return 1 + draw(bound)
}

// How long a schedule that failed is put aside.
const (
	firstAside   = time.Second
	longestAside = time.Minute
)

// aside returns how long a schedule that failed so many times in a row (1 is
// the first) is put aside.
func aside(failures int) time.Duration {
	if failures > 6 {
		return longestAside
	}
	return min(longestAside, firstAside<<(failures-1))
}

// pause waits for d and reports false when ctx ended before. Package claim has
// the same lines: a sleep is nothing that either should export.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
