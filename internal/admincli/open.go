package admincli

import (
	"context"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/config"
	"github.com/belfryhq/belfry/internal/connect"
	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/redisstore"
)

// OpenRedis is the Env.Open of the program: it connects to the Redis that the
// environment of the target names. It returns *schedule.FieldErrors for values
// that are refused, and otherwise what the client said.
func OpenRedis(ctx context.Context, target Target) (*Stores, error) {
	// The client logs what it returns as errors as well.
	redis.SetLogger(silentLogger{})
	loaded, err := config.Load(target.Environ)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, target.Timeout)
	defer cancel()
	began := time.Now()
	store, client, err := connect.Open(ctx, loaded.Redis)
	if err != nil {
		return nil, &unreachableError{address: loaded.Redis.URL.String(), err: err}
	}
	if target.Trace != nil {
		target.Trace("store %s, namespace %s", loaded.Redis.URL, loaded.Redis.Namespace)
		t := newTracer(target.Trace)
		t.tell(began, "connect and ping", nil)
		client.AddHook(t)
	}
	looker, err := newLooker(store, client)
	if err != nil {
		return nil, err
	}
	return &Stores{Cancels: store, Looker: looker, Catalog: store, Roster: store, Runs: store, Calendars: store, Leases: store.Leases(), Periodic: store.Periodic(),
		Server: &redisServer{client: client, store: store}, Tasks: asynq.NewInspectorFromRedisClient(client), Archive: store,
		Events: store, Skipper: store, Backfills: store, Firings: store, Due: store,
		Address: loaded.Redis.URL.String(), Namespace: loaded.Redis.Namespace, Close: client.Close}, nil
}

// newLooker returns what looks at firings that are cancelled; it enqueues
// nothing.
func newLooker(store *redisstore.Store, client redis.UniversalClient) (*queue.Auditor, error) {
	enqueuer, err := queue.NewEnqueuer(queue.EnqueuerOptions{Redis: client})
	if err != nil {
		return nil, err
	}
	return queue.NewAuditor(queue.AuditorOptions{Ledger: store, Catalog: store, Enqueuer: enqueuer, Redis: client, Reader: store, KeepRuns: maxRuns})
}

// An unreachableError keeps where the store should be beside why it is not
// there, which for most errors says where as well.
type unreachableError struct {
	address string // without user and password
	err     error
}

func (e *unreachableError) Error() string { return e.err.Error() }

func (e *unreachableError) Unwrap() error { return e.err }

type silentLogger struct{}

// Printf drops the line.
func (silentLogger) Printf(context.Context, string, ...any) {}

// storeVariable reports whether a variable says where the store is.
func storeVariable(name string) bool {
	return strings.HasPrefix(name, "BELFRY_REDIS_") || name == "BELFRY_NAMESPACE" || name == "BELFRY_SHARDS"
}
