package admincli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/doctor"
	"github.com/belfryhq/belfry/pkg/redisstore"
)

// A redisServer is the Server of a real store.
type redisServer struct {
	client redis.UniversalClient
	store  *redisstore.Store
}

// Nodes asks every master.
func (r *redisServer) Nodes(ctx context.Context) ([]doctor.Node, error) {
	return doctor.Probe(ctx, r.client, time.Now)
}

// Script runs one script.
func (r *redisServer) Script(ctx context.Context) error {
	err := redis.NewScript("return 1").Run(ctx, r.client, nil).Err()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}

// Check returns broken invariants.
func (r *redisServer) Check(ctx context.Context) ([]redisstore.Violation, error) {
	return r.store.Check(ctx)
}

// Tokens names shards whose tokens are far ahead of the store's clock.
func (r *redisServer) Tokens(ctx context.Context) ([]doctor.TokenAhead, error) {
	found, err := r.store.TokensAhead(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]doctor.TokenAhead, len(found))
	for i, t := range found {
		all[i] = doctor.TokenAhead{Shard: t.Shard, Token: int64(t.Token), At: t.At, Ahead: t.Ahead, Left: t.Left}
	}
	return all, nil
}

// Queue looks at the keys of a queue.
func (r *redisServer) Queue(ctx context.Context, name string) (doctor.RawQueue, error) {
	return doctor.ReadQueue(ctx, r.client, name, time.Now())
}

// asynqQueues is asynq's set of known queues.
const asynqQueues = "asynq:queues"

// Fix repairs one finding.
func (r *redisServer) Fix(ctx context.Context, fix doctor.Fix, about string) error {
	switch fix {
	case doctor.FixEviction:
		return doctor.SetNoEviction(ctx, r.client)
	case doctor.FixQueue:
		return r.client.SAdd(ctx, asynqQueues, about).Err()
	case doctor.FixTorn:
		return doctor.DropOrphans(ctx, r.client, about, time.Now())
	case doctor.FixIndexes:
		_, err := r.store.RepairAll(ctx)
		return err
	}
	return fmt.Errorf("admincli: there is no fix %q", fix)
}
