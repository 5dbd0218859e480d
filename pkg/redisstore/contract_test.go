package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/internal/storetest"
	"github.com/belfryhq/belfry/pkg/redisstore"
)

// open returns a backend of the contract suite.
func open(backend redistest.Backend) storetest.Backend {
	return func(t *testing.T, now func() time.Time) storetest.Stores {
		client, namespace := backend.Dial(t), redistest.Namespace()
		var stores func(wall func() time.Time) storetest.Stores
		stores = func(wall func() time.Time) storetest.Stores {
			s, err := redisstore.New(client, redisstore.Options{Namespace: namespace, Now: now, Wall: wall})
			if err != nil {
				t.Fatal(err)
			}
			return storetest.Stores{Catalog: s, Claims: s, Ledger: s, Leases: s.Leases(), Waker: s, Roster: s,
				Backfills: s, Skipper: s, Events: s, Firings: s, Cancels: s, Check: invariants(s), Calendars: s,
				Periodic: s.Periodic(), Repair: whole(s), Litter: litter(client, namespace), Peer: stores}
		}
		return stores(nil)
	}
}

// invariants joins what Check reports.
func invariants(s *redisstore.Store) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		violations, err := s.Check(ctx)
		for _, v := range violations {
			err = errors.Join(err, fmt.Errorf("%s", v))
		}
		return err
	}
}

// whole returns an error when something needed a repair.
func whole(s *redisstore.Store) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		found, err := s.RepairAll(ctx)
		if len(found) > 0 {
			err = errors.Join(err, fmt.Errorf("%v were repaired", found))
		}
		return err
	}
}

// litter writes into the ledger of a shard behind the store's back.
func litter(client redis.UniversalClient, namespace string) func(ctx context.Context, shard int, name, record string) error {
	return func(ctx context.Context, shard int, name, record string) error {
		key := fmt.Sprintf("belfry:{%s:%02d}:", namespace, shard)
		return errors.Join(client.HSet(ctx, key+"fir", name, record).Err(),
			client.ZAdd(ctx, key+"aud", redis.Z{Score: 1, Member: name}).Err())
	}
}

// B046: every script on every backend, a Cluster among them.
func TestContract(t *testing.T) {
	for _, backend := range redistest.Backends() {
		t.Run(backend.Name, func(t *testing.T) { storetest.Run(t, open(backend)) })
	}
}

// seeds are how many random sequences each backend gets, by what they cost:
// miniredis compiles a script whenever it runs.
var seeds = map[string]string{"miniredis": "3", "redis": "10", "cluster": "4"}

func TestModel(t *testing.T) {
	for _, backend := range redistest.Backends() {
		t.Run(backend.Name, func(t *testing.T) {
			fewerSeeds(t, seeds[backend.Name])
			storetest.Model(t, open(backend))
		})
	}
}

// fewerSeeds sets the number of sequences unless the environment says it.
func fewerSeeds(t *testing.T, count string) {
	for _, name := range []string{"BELFRY_TEST_MODEL_SEEDS", "BELFRY_TEST_MODEL_SEED"} {
		if os.Getenv(name) != "" {
			return
		}
	}
	t.Setenv("BELFRY_TEST_MODEL_SEEDS", count)
}
