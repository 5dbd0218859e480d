package redisstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// gatherMost bounds how many calls one script answers: it stops everybody else
// while it runs.
const gatherMost = 64

// A gathered script answers many calls at once, each as if it came alone.
// Calls of this process for the same shard go together when they meet: the
// first goes at once, those that come while it is under way go with the next
// one, when it is answered. Nobody waits for time. A call that fails with
// others is repeated alone, so that one that the script cannot serve, such as
// with a run log of another type, stops itself only.
type gathered struct {
	script *redis.Script

	mu     sync.Mutex
	shards map[int]*gathering
}

// A gathering is the calls for one shard.
type gathering struct {
	waiting []*gatheredCall
	serving bool
}

// A gatheredCall is one call and its answer, which is there once done is closed.
type gatheredCall struct {
	ctx      context.Context
	schedule schedule.ID
	runLog   string
	args     []any
	done     chan struct{}
	answer   reply
	err      error
}

// call makes one call and returns its own answer. When ctx ends before that,
// the call may or may not have taken effect.
func (g *gathered) call(ctx context.Context, s *Store, l *layout, id schedule.ID, doing string, args ...any) (reply, error) {
	if err := ctx.Err(); err != nil {
		return reply{}, wrap(doing, err)
	}
	shard := l.shardOf(id)
	c := &gatheredCall{ctx: ctx, schedule: id, runLog: s.keys.runLog(shard, id), args: args, done: make(chan struct{})}
	g.join(s, l, shard, c)
	select {
	case <-c.done:
	case <-ctx.Done():
		return reply{}, wrap(doing, context.Cause(ctx))
	}
	if c.err != nil {
		return reply{}, wrap(doing, c.err)
	}
	return c.answer, nil
}

// join adds a call and sees that somebody serves it.
func (g *gathered) join(s *Store, l *layout, shard int, c *gatheredCall) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shards == nil {
		g.shards = map[int]*gathering{}
	}
	line := g.shards[shard]
	if line == nil {
		line = &gathering{}
		g.shards[shard] = line
	}
	line.waiting = append(line.waiting, c)
	if !line.serving {
		line.serving = true
		go g.serve(s, l.keys[shard], line)
	}
}

// serve makes the calls of a shard until there are none left.
func (g *gathered) serve(s *Store, keys []string, line *gathering) {
	for {
		batch := g.next(line)
		if len(batch) == 0 {
			return
		}
		g.send(s, keys, batch)
		for _, c := range batch {
			close(c.done)
		}
	}
}

// next takes the calls that go together: those that are still wanted, one of
// each schedule. Without any it ends the service.
func (g *gathered) next(line *gathering) []*gatheredCall {
	g.mu.Lock()
	defer g.mu.Unlock()
	var batch, later []*gatheredCall
	taken := map[schedule.ID]bool{}
	for _, c := range line.waiting {
		switch {
		case c.ctx.Err() != nil:
		case len(batch) == gatherMost || taken[c.schedule]:
			later = append(later, c)
		default:
			taken[c.schedule] = true
			batch = append(batch, c)
		}
	}
	line.waiting = later
	line.serving = len(batch) > 0
	return batch
}

// send makes the calls with one script, and each alone when that is refused.
func (g *gathered) send(s *Store, keys []string, batch []*gatheredCall) {
	ctx, cancel := together(batch)
	defer cancel()
	err := g.run(ctx, s, keys, batch)
	var refused redis.Error
	if err == nil || len(batch) == 1 || !errors.As(err, &refused) || IsUnavailable(err) {
		for _, c := range batch {
			c.err = err
		}
		return
	}
	for _, c := range batch {
		c.err = g.run(c.ctx, s, keys, []*gatheredCall{c})
	}
}

// together returns a context that lasts as long as any of the calls may.
func together(batch []*gatheredCall) (context.Context, context.CancelFunc) {
	if len(batch) == 1 {
		return batch[0].ctx, func() {}
	}
	var last time.Time
	for _, c := range batch {
		deadline, ok := c.ctx.Deadline()
		if !ok {
			return context.WithoutCancel(c.ctx), func() {}
		}
		if deadline.After(last) {
			last = deadline
		}
	}
	return context.WithDeadline(context.WithoutCancel(batch[0].ctx), last)
}

// run makes the calls with one script and hands out the answers.
func (g *gathered) run(ctx context.Context, s *Store, keys []string, batch []*gatheredCall) error {
	all := make([]string, len(keys), len(keys)+len(batch))
	copy(all, keys)
	args := s.clock()
	for _, c := range batch {
		all = append(all, c.runLog)
		args = append(args, c.args...)
	}
	result, err := g.script.Run(ctx, s.client, all, args...).Result()
	if err != nil {
		return err
	}
	answers := newReply(result)
	for i, c := range batch {
		c.answer = answers.list(i)
	}
	return answers.err
}
