package app

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A calm is a go-redis hook that slows a client down while the server refuses
// everything. asynq repeats a refused dequeue without a pause, hundreds of
// thousands of times a second, when memory is full or a permission is missing.
type calm struct {
	refused atomic.Int64 // in a row
}

const (
	calmFirst   = 10 * time.Millisecond
	calmLongest = time.Second
	calmFree    = 3 // refusals in a row that cost nothing
)

// refusals are the codes of errors that the next call will meet again.
var refusals = []string{"OOM", "NOAUTH", "NOPERM", "WRONGPASS", "MISCONF", "READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "BUSY ", "NOREPLICAS"}

// DialHook leaves dialling alone.
func (c *calm) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook slows single commands down.
func (c *calm) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		c.pause(ctx, err)
		return err
	}
}

// ProcessPipelineHook slows pipelines down.
func (c *calm) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		c.pause(ctx, err)
		return err
	}
}

func (c *calm) pause(ctx context.Context, err error) {
	if !refusal(err) {
		c.refused.Store(0)
		return
	}
	n := c.refused.Add(1) - calmFree
	if n <= 0 {
		return
	}
	timer := time.NewTimer(min(calmLongest, calmFirst<<min(n-1, 7)))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func refusal(err error) bool {
	var reply redis.Error
	if err == nil || !errors.As(err, &reply) {
		return false
	}
	for _, code := range refusals {
		if strings.HasPrefix(reply.Error(), code) {
			return true
		}
	}
	return false
}
