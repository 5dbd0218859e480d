package queue

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// A together lets the pushes of one PushAll share round trips. asynq's client
// sends one script a task and waits for it; here each push waits until all
// others of its part have come as far or have ended, and the last to come
// sends what all of them want as one pipeline. Nobody waits for time, there is
// no goroutine of its own, and each push gets its own answer.
type together struct {
	pipeline func() redis.Pipeliner

	mu      sync.Mutex
	awaited int           // pushes that have neither come nor ended
	calls   []*scriptCall // of those that have come
}

// A scriptCall is a script that waits to be sent.
type scriptCall struct {
	sha  string
	keys []string
	args []any
	cmd  *redis.Cmd
	done chan struct{}
}

// A seat is one push among those that go together.
type seat struct {
	party *together
	taken bool // it has come or ended; what it sends now goes alone
}

type seatKey struct{}

// sit returns a context under which one push takes part. Call leave when the
// push has ended.
func (t *together) sit(ctx context.Context) (context.Context, *seat) {
	s := &seat{party: t}
	return context.WithValue(ctx, seatKey{}, s), s
}

// leave ends the push of the seat. One that never came must not be waited for.
func (s *seat) leave(ctx context.Context) {
	if !s.taken {
		s.taken = true
		s.party.arrive(ctx, nil)
	}
}

// arrive notes that a push has come with a call, or ended without one, and
// sends all calls when it is the last.
func (t *together) arrive(ctx context.Context, c *scriptCall) {
	t.mu.Lock()
	if c != nil {
		t.calls = append(t.calls, c)
	}
	t.awaited--
	last := t.awaited == 0
	t.mu.Unlock()
	if last && len(t.calls) > 0 {
		t.send(ctx)
	}
}

// send runs the calls. The context is that of PushAll, as each push has it.
func (t *together) send(ctx context.Context) {
	pipeline := t.pipeline()
	for _, c := range t.calls {
		c.cmd = pipeline.EvalSha(ctx, c.sha, c.keys, c.args...)
	}
	_, err := pipeline.Exec(ctx)
	for _, c := range t.calls {
		if err != nil && c.cmd.Err() == nil && c.cmd.Val() == nil {
			c.cmd.SetErr(err) // never sent
		}
		close(c.done)
	}
}

// A party client is what asynq's client talks through: scripts of pushes that
// go together share a pipeline, everything else passes.
type party struct{ redis.UniversalClient }

// EvalSha runs a script that the server knows.
func (p party) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	s, ok := ctx.Value(seatKey{}).(*seat)
	if !ok || s.taken {
		return p.UniversalClient.EvalSha(ctx, sha, keys, args...)
	}
	s.taken = true
	c := &scriptCall{sha: sha, keys: keys, args: args, done: make(chan struct{})}
	s.party.arrive(ctx, c)
	<-c.done
	return c.cmd
}
