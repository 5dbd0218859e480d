package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// backoffFirst and backoffMost bound the delay after failing commands.
const (
	backoffFirst = 10 * time.Millisecond
	backoffMost  = time.Second
)

// maxBackoffKeys bounds the commands that are remembered as failing.
const maxBackoffKeys = 64

// NewBackoffHook returns a go-redis hook for the client of an asynq server.
// asynq asks for the next task again at once when Redis refuses to hand one
// out, such as without memory, permission or a password: hundreds of thousands
// of times a second. The hook holds back the answer of a script that keeps
// failing, from 10 ms doubling up to 1 s; a success ends that. Each script
// counts by itself, and other commands pass.
//
// The scripts by which asynq ends a task for good it repeats until Redis
// answers, with a delay from 50 ms doubling up to 2 s, as long as the lease on
// the task lives: asynq gives up after the first try. A server that is shut
// down meanwhile waits for that, 30 s at most. A task ID that its caller chose,
// without retention, and enqueues again at once may be removed by a repetition
// whose first try took effect; go-redis, which repeats what got no reply, does
// that too.
func NewBackoffHook() redis.Hook {
	return &backoffHook{fails: make(map[string]int)}
}

type backoffHook struct {
	mu    sync.Mutex
	fails map[string]int // consecutive failures, by script
}

// DialHook changes nothing.
func (h *backoffHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessPipelineHook changes nothing.
func (h *backoffHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return next(ctx, cmds) }
}

// ProcessHook holds back failures.
func (h *backoffHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		key, ok := scriptOf(cmd)
		if ok && completes(ctx, cmd) {
			return complete(ctx, func() error { return next(ctx, cmd) })
		}
		err := next(ctx, cmd)
		if !ok {
			return err
		}
		delay := h.note(key, refused(ctx, err))
		if delay == 0 {
			return err
		}
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		return err
	}
}

// scriptOf returns what tells one script from another.
func scriptOf(cmd redis.Cmder) (string, bool) {
	args := cmd.Args()
	if name := cmd.Name(); name != "evalsha" && name != "eval" || len(args) < 2 {
		return "", false
	}
	script, ok := args[1].(string)
	return script, ok
}

// refused reports whether the error is one that the next call would meet again.
func refused(ctx context.Context, err error) bool {
	switch {
	case err == nil, errors.Is(err, redis.Nil), ctx.Err() != nil:
		return false
	default: // the script is missing: its source follows at once
		return !strings.HasPrefix(err.Error(), "NOSCRIPT")
	}
}

// note counts and returns how long to hold back the answer.
func (h *backoffHook) note(key string, failed bool) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !failed {
		delete(h.fails, key)
		return 0
	}
	if len(h.fails) >= maxBackoffKeys {
		clear(h.fails)
	}
	n := h.fails[key]
	h.fails[key] = n + 1
	delay := min(backoffFirst<<min(n, 10), backoffMost)
	return delay/2 + rand.N(delay/2)
}
