package queue

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// complete runs a script by which asynq ends a task until Redis answers it, and
// until the context ends at most, which is when the lease on the task does.
//
// asynq itself does not: its second try comes with a context that has ended. A
// task whose completion is lost is delivered again a minute later, and then the
// ledger alone knows that it ran. A store that went back meanwhile does not.
func complete(ctx context.Context, call func() error) error {
	var err error
	again := false
	_ = retry(ctx, func() error { // its error is the last one of call, or none
		err = call()
		if again && redis.HasErrorPrefix(err, "NOT FOUND") {
			err = nil // an earlier try took effect, or Redis lost the task: nothing is left to do
		}
		if again = true; answered(err) {
			return nil
		}
		return err
	})
	return err
}

// answered reports whether another try would tell nothing new.
func answered(err error) bool {
	switch {
	case err == nil, errors.Is(err, redis.Nil), errors.Is(err, redis.ErrClosed):
		return true
	default: // asynq's scripts say the latter two; for the first one their source follows at once
		return redis.HasErrorPrefix(err, "NOSCRIPT") || redis.HasErrorPrefix(err, "NOT FOUND") || redis.HasErrorPrefix(err, "INTERNAL")
	}
}

// completes reports whether the command is a script by which asynq's server
// takes a task that ended out of its hands for good: it succeeded, or is
// archived. What is retried or handed back is not among them. When its reply
// was lost it may be with another worker already, from whom a second call would
// take it. Nor are the calls of asynq's recoverer, which have no deadline and
// come again.
func completes(ctx context.Context, cmd redis.Cmder) bool {
	args := cmd.Args()
	if _, ok := ctx.Deadline(); !ok || len(args) < 7 {
		return false
	}
	var keys [4]string
	for i := range keys {
		keys[i], _ = args[3+i].(string)
	}
	isActive := func(i int) bool {
		return strings.HasPrefix(keys[i], "asynq:{") && strings.HasSuffix(keys[i], "}:active") && strings.HasSuffix(keys[i+1], "}:lease")
	}
	switch {
	case isActive(0): // done, or done and retained
		return strings.Contains(keys[2], "}:t:") || strings.HasSuffix(keys[2], "}:completed")
	case isActive(1):
		return strings.Contains(keys[0], "}:t:") && strings.HasSuffix(keys[3], "}:archived")
	default:
		return false
	}
}
