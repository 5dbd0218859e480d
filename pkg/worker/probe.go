package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	probeAnswer = 700 * time.Millisecond // whoever asks is answered within that: orchestrators give up after a second
	probeTime   = 2 * time.Second        // bounds one question to Redis: those who ask meanwhile share its answer
)

// A probe asks whether Redis answers. Of a Redis that hangs it says so in time,
// and puts one question to it, however many ask.
type probe struct {
	client redis.UniversalClient

	mu  sync.Mutex
	now *question
}

// A question is answered once done is closed.
type question struct {
	done chan struct{}
	err  error
}

// ask returns nil when Redis answers.
func (p *probe) ask(ctx context.Context) error {
	q := p.question(context.WithoutCancel(ctx))
	timer := time.NewTimer(probeAnswer)
	defer timer.Stop()
	select {
	case <-q.done:
		return q.err
	case <-timer.C:
		return fmt.Errorf("no answer within %s", probeAnswer)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// question returns the one that is open, or a new one. It serves all who ask
// meanwhile and outlives the context of each.
func (p *probe) question(ctx context.Context) *question {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now != nil {
		select {
		case <-p.now.done:
		default:
			return p.now
		}
	}
	q := &question{done: make(chan struct{})}
	p.now = q
	go func() {
		ctx, cancel := context.WithTimeout(ctx, probeTime)
		defer cancel()
		q.err = p.client.Ping(ctx).Err()
		close(q.done)
	}()
	return q
}
