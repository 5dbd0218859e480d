package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/queue"
)

// A calm client is what asynq's server talks through. A script that Redis
// refuses again and again, such as when its memory is full or a permission is
// missing, is answered with growing delay: asynq repeats a refused dequeue
// without a pause, hundreds of thousands of times a second. The scripts that
// end a task are repeated as long as its lease lives, which asynq does not. No
// script waits for an answer longer than calmCall, since asynq sets no
// deadlines. And it knows which scripts are refused, for readiness.
type calm struct {
	redis.UniversalClient
	hook redis.Hook
	now  func() time.Time
	gate *gate // while it is shut no task is taken; nil: always open

	mu      sync.Mutex
	failing map[string]failing    // by script
	ears    redis.UniversalClient // of Subscribe; nil before the first

	ended context.Context // with it ends what ends tasks
	end   context.CancelFunc
	endAt atomic.Pointer[time.Time] // when that will be; nil: not known yet
}

// A failing script has been refused from first to last, and never answered in
// between. Some of asynq's come once a minute: one refusal of them says nothing.
type failing struct {
	first, last time.Time
	err         error
}

const (
	calmCall  = 5 * time.Second  // bounds one script
	calmStuck = 20 * time.Second // a script that is refused for longer makes no progress
)

func newCalm(client redis.UniversalClient) *calm {
	ended, end := context.WithCancel(context.Background())
	return &calm{UniversalClient: client, hook: queue.NewBackoffHook(), now: time.Now, failing: map[string]failing{}, ended: ended, end: end}
}

// EvalSha runs a script that the server knows.
func (c *calm) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	return c.call(ctx, sha, keys, func(ctx context.Context) *redis.Cmd { return c.UniversalClient.EvalSha(ctx, sha, keys, args...) })
}

// Eval runs a script.
func (c *calm) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return c.call(ctx, redis.NewScript(script).Hash(), keys, func(ctx context.Context) *redis.Cmd {
		return c.UniversalClient.Eval(ctx, script, keys, args...)
	})
}

func (c *calm) call(ctx context.Context, sha string, keys []string, call func(context.Context) *redis.Cmd) *redis.Cmd {
	if takesTask(keys) && c.gate != nil {
		if !c.gate.enter() {
			nothing := redis.NewCmd(ctx, "evalsha", sha)
			nothing.SetErr(redis.Nil) // as when the queue is empty
			return nothing
		}
		defer c.gate.leave()
	}
	ctx, release := c.bounded(ctx)
	defer release()
	var cmd *redis.Cmd
	run := c.hook.ProcessHook(func(ctx context.Context, _ redis.Cmder) error {
		ctx, cancel := context.WithTimeout(ctx, c.callTime())
		defer cancel()
		cmd = call(ctx)
		c.note(sha, cmd.Err())
		return cmd.Err()
	})
	cmd.SetErr(run(ctx, redis.NewCmd(ctx, scriptArgs(sha, keys)...)))
	return cmd
}

// scriptArgs are the words of a call of a script, as far as hooks read them.
func scriptArgs(sha string, keys []string) []any {
	args := []any{"evalsha", sha, len(keys)}
	for _, key := range keys {
		args = append(args, key)
	}
	return args
}

// takesTask reports whether the keys are those of the script by which asynq
// takes a task from a queue.
func takesTask(keys []string) bool {
	return len(keys) == 4 && strings.HasSuffix(keys[0], ":pending") && strings.HasSuffix(keys[1], ":paused") && strings.HasSuffix(keys[2], ":active")
}

// note remembers since when a script is not answered.
func (c *calm) note(sha string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, known := c.failing[sha]
	switch {
	case !refuses(err):
		delete(c.failing, sha)
		return
	case redis.HasErrorPrefix(err, "NOSCRIPT"): // asynq sends the script itself next
		return
	case !known:
		f.first = c.now()
	}
	f.last, f.err = c.now(), err
	c.failing[sha] = f
}

// refuses reports whether Redis answered that it will not run the script. A
// server that is away is seen by a ping, and two of the errors are what asynq's
// scripts say of the task.
func refuses(err error) bool {
	return isReply(err) && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "NOT FOUND") && !redis.HasErrorPrefix(err, "INTERNAL")
}

// isReply reports whether Redis answered, with an error.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// stuck returns an error while Redis refuses a script of asynq's; nil: it
// refuses none.
func (c *calm) stuck() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.failing {
		if idle := f.last.Sub(f.first); idle > calmStuck {
			return fmt.Errorf("worker: Redis has refused asynq for %s: %w", idle.Round(time.Second), f.err)
		}
	}
	return nil
}

// A quiet handler takes asynq's messages about failed connections, and all
// warnings while Redis is away, for debugging: the scheduler tells of an
// outage, once, and other loops each for themselves, for as long as it lasts.
type quiet struct {
	slog.Handler
	away func() bool // whether the scheduler waits for Redis
}

// connectionFaults are parts of such messages.
var connectionFaults = []string{"dial tcp", "connection re", "i/o timeout", "EOF", "broken pipe", "use of closed", "LOADING ", "context deadline exceeded", "context canceled"}

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
