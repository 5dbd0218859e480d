package memstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/memstore"
	"github.com/belfryhq/belfry/internal/storetest"
)

// open makes a backend of the given number of shards.
func open(shards int) storetest.Backend {
	return func(t *testing.T, now func() time.Time) storetest.Stores {
		t.Helper()
		store, err := memstore.New(memstore.Options{Now: now, Shards: shards})
		if err != nil {
			t.Fatal(err)
		}
		stores := func(s *memstore.Store) storetest.Stores {
			return storetest.Stores{Catalog: s, Claims: s, Ledger: s, Leases: s.Leases(), Waker: s, Roster: s,
				Backfills: s, Skipper: s, Events: s, Firings: s, Cancels: s, Check: s.Check, Calendars: s, Periodic: s.Periodic()}
		}
		all := stores(store)
		all.Peer = func(wall func() time.Time) storetest.Stores { return stores(store.Peer(wall)) }
		return all
	}
}

func TestContract(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d shards", shards), func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, open(shards))
		})
	}
}

// TestModel compares the model with itself on other shards: the operations
// must be deterministic, and nothing may depend on where a schedule lives.
func TestModel(t *testing.T) {
	t.Parallel()
	storetest.Model(t, open(3))
}
