package storetest_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/belfryhq/belfry/internal/memstore"
	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/internal/storetest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/redisstore"
)

// leaseLister is what both stores' leases are.
type leaseLister interface {
	claim.Leases
	claim.LeaseLister
}

func TestLeasesAreListed(t *testing.T) {
	now := func() time.Time { return storetest.Epoch }
	store, err := memstore.New(memstore.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("memory", func(t *testing.T) { listLeases(t, store.Leases()) })
	for _, backend := range redistest.Backends() {
		t.Run(backend.Name, func(t *testing.T) {
			t.Parallel()
			store, err := redisstore.New(backend.Dial(t), redisstore.Options{Namespace: redistest.Namespace(), Now: now})
			if err != nil {
				t.Fatal(err)
			}
			listLeases(t, store.Leases())
		})
	}
}

func listLeases(t *testing.T, leases leaseLister) {
	if all, err := leases.List(context.Background()); err != nil || len(all) != 0 {
		t.Errorf("List of nothing = %+v, %v", all, err)
	}
	granted := map[string]claim.Lease{}
	for _, name := range []string{"b", "a", "c: d"} {
		lease, ok, err := leases.Acquire(context.Background(), claim.LeaseRequest{Name: name, Owner: "w-" + name, Nonce: "1", TTL: time.Minute})
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		granted[name] = lease
	}
	if ok, err := leases.Release(context.Background(), granted["b"]); !ok || err != nil {
		t.Fatal(ok, err)
	}
	got, err := leases.List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	end := storetest.Epoch.Add(time.Minute)
	want := []claim.LeaseInfo{{Name: "a", Owner: "w-a", Token: granted["a"].Token, Until: end}, {Name: "b"},
		{Name: "c: d", Owner: "w-c: d", Token: granted["c: d"].Token, Until: end}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("List: %s", diff)
	}
}
