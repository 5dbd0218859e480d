package worker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A calm client slows asynq's server down while Redis refuses everything, such
// as when its memory is full or a permission is missing: asynq repeats a
// refused dequeue without a pause, hundreds of thousands of times a second.
type calm struct {
	redis.UniversalClient
	refused atomic.Int64 // scripts in a row
}

const (
	calmFree    = 3 // refusals in a row that cost nothing
	calmFirst   = 10 * time.Millisecond
	calmLongest = time.Second
)

// EvalSha runs a script that the server knows.
func (c *calm) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	cmd := c.UniversalClient.EvalSha(ctx, sha, keys, args...)
	c.pause(ctx, cmd.Err())
	return cmd
}

// Eval runs a script.
func (c *calm) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	cmd := c.UniversalClient.Eval(ctx, script, keys, args...)
	c.pause(ctx, cmd.Err())
	return cmd
}

func (c *calm) pause(ctx context.Context, err error) {
	if err == nil || errors.Is(err, redis.Nil) {
		c.refused.Store(0)
		return
	}
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		return // asynq sends the script itself next
	}
	if n := c.refused.Add(1) - calmFree; n > 0 {
		pause(ctx, min(calmLongest, calmFirst<<min(n-1, 7)))
	}
}

// A quiet handler takes asynq's messages about failed connections, and all
// warnings while Redis is away, for debugging: the scheduler tells of an
// outage, once, and other loops each for themselves, for as long as it lasts.
type quiet struct {
	slog.Handler
	away func() bool // whether the scheduler waits for Redis
}

// connectionFaults are parts of such messages.
var connectionFaults = []string{"dial tcp", "connection re", "i/o timeout", "EOF", "broken pipe", "use of closed", "LOADING ", "context deadline exceeded"}

// Handle writes the record.
func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	fault := r.Level >= slog.LevelWarn && q.away()
	r.Attrs(func(a slog.Attr) bool {
		for _, text := range connectionFaults {
			fault = fault || a.Key == "text" && strings.Contains(a.Value.String(), text)
		}
		return !fault
	})
	if fault {
		r.Level = slog.LevelDebug
		if !q.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return q.Handler.Handle(ctx, r)
}
