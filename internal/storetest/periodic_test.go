package storetest_test

import (
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/memstore"
	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/internal/storetest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/redisstore"
)

func TestPeriodicInMemory(t *testing.T) {
	storetest.Periodic(t, func(t *testing.T, now func() time.Time) claim.PeriodicStore {
		store, err := memstore.New(memstore.Options{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		return store.Periodic()
	})
}

func TestPeriodicOnRedis(t *testing.T) {
	for _, backend := range redistest.Backends() {
		t.Run(backend.Name, func(t *testing.T) {
			storetest.Periodic(t, func(t *testing.T, now func() time.Time) claim.PeriodicStore {
				store, err := redisstore.New(backend.Dial(t), redisstore.Options{Namespace: redistest.Namespace(), Now: now})
				if err != nil {
					t.Fatal(err)
				}
				return store.Periodic()
			})
		})
	}
}
