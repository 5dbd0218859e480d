package worker

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// endAfter lets no script go on for longer than that: a server that is told to
// stop waits for the tasks whose end Redis does not take, and could otherwise
// not stop in time.
func (c *calm) endAfter(limit time.Duration) {
	at := time.Now().Add(limit)
	c.endAt.Store(&at)
	time.AfterFunc(limit, c.end)
}

// bounded returns ctx, to end when the scripts do: that of a script which ends a
// task, and has a deadline. The others are bounded by callTime, and asynq would
// repeat them without a pause if their context had ended.
func (c *calm) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); !ok {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.ended, cancel)
	return ctx, func() { stop(); cancel() }
}

// callTime is how long one script may take now. go-redis heeds a deadline while
// it waits for an answer, and no context that is cancelled.
func (c *calm) callTime() time.Duration {
	if at := c.endAt.Load(); at != nil {
		return min(calmCall, time.Until(*at))
	}
	return calmCall
}

// Subscribe subscribes with a client that nobody closes as long as the server
// listens. The goroutine in which asynq listens panics when its client is closed,
// and a server that Redis keeps from stopping in time listens still when Run has
// returned and the owner of the client closes it.
func (c *calm) Subscribe(ctx context.Context, channels ...string) *redis.PubSub {
	c.mu.Lock()
	if c.ears == nil {
		c.ears = twin(c.UniversalClient)
	}
	ears := c.ears
	c.mu.Unlock()
	return ears.Subscribe(ctx, channels...)
}

// deafen closes the client of Subscribe, once the server has stopped.
func (c *calm) deafen() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ears == nil || c.ears == c.UniversalClient {
		return nil
	}
	return c.ears.Close()
}

// noMaintenance keeps a client from registering with what it shares with its
// twin.
func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// twin returns a client of the same server, without connections yet. One that
// is none of go-redis's two is its own twin.
func twin(client redis.UniversalClient) redis.UniversalClient {
	switch client := client.(type) {
	case *redis.Client:
		options := *client.Options()
		options.MinIdleConns, options.MaintNotificationsConfig = 0, noMaintenance()
		return redis.NewClient(&options)
	case *redis.ClusterClient:
		options := *client.Options()
		options.MinIdleConns, options.MaintNotificationsConfig = 0, noMaintenance()
		return redis.NewClusterClient(&options)
	default:
		return client
	}
}
