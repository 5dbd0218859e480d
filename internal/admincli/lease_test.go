package admincli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/memstore"
	"github.com/belfryhq/belfry/pkg/claim"
)

// seedLeases lets a store hold what the examples and scripts about leases and
// periodic tasks name: a lease that is held and one that is free; a task that
// ran and failed, one that runs, and one that has no next time.
func seedLeases(t *testing.T, store *memstore.Store) {
	t.Helper()
	ctx := context.Background()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	acquire := func(name string) claim.Lease {
		lease, _, err := store.Leases().Acquire(ctx, claim.LeaseRequest{Name: name, Owner: "worker-1", Nonce: name, TTL: 2 * time.Minute})
		must(err)
		return lease
	}
	acquire("main")
	_, err := store.Leases().Release(ctx, acquire("gocron:housekeeping"))
	must(err)
	tasks := store.Periodic()
	claims := func(task claim.PeriodicTask) claim.PeriodicClaim {
		_, _, err := tasks.Ensure(ctx, task)
		must(err)
		result, err := tasks.Claim(ctx, claim.PeriodicRequest{Name: task.Name, Owner: "worker-1", Nonce: "1", TTL: 30 * time.Second})
		must(err)
		return result.Claim
	}
	complete := func(c claim.PeriodicCompletion) {
		_, err := tasks.Complete(ctx, c)
		must(err)
	}
	complete(claim.PeriodicCompletion{Claim: claims(claim.PeriodicTask{Name: "cache-sweep", Display: "Sweep the cache"}),
		Next: epoch.Add(10 * time.Minute), Outcome: claim.OutcomeFailed, Error: "disk is full", Started: epoch.Add(-90 * time.Second), Duration: 1500 * time.Millisecond})
	complete(claim.PeriodicCompletion{Claim: claims(claim.PeriodicTask{Name: "import-once"}), Outcome: claim.OutcomeSucceeded,
		Started: epoch.Add(-time.Hour), Duration: time.Minute})
	claims(claim.PeriodicTask{Name: "long-digest"})
}

// changing hands over the lease between the look and the release.
type changing struct{ LeaseStore }

func (changing) Release(context.Context, claim.Lease) (bool, error) { return false, nil }

func TestALeaseThatChangedHandsIsNotReleased(t *testing.T) {
	r := newRig(t)
	r.stores.Leases = changing{r.stores.Leases}
	got := r.run("lease", "release", "main", "--yes")
	if got.code != exitConflict || got.stdout != "" || !strings.Contains(got.stderr, "changed hands meanwhile") {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}

func TestLeasesAndTasksAreCompleted(t *testing.T) {
	r := newRig(t)
	for line, want := range map[string]string{
		"lease get m":                          "main\tworker-1",
		"periodic get c":                       "cache-sweep\tSweep the cache",
		"periodic pause cache-sweep l":         "long-digest\tlong-digest",
		"periodic trigger cache-sweep nothing": "",
	} {
		got := r.must(append([]string{"__complete"}, strings.Split(line, " ")...)...)
		if first, _, _ := strings.Cut(got.stdout, "\n"); want != "" && first != want || want == "" && !strings.HasPrefix(first, ":") {
			t.Errorf("completing %q gave %q, want %q", line, got.stdout, want)
		}
	}
}
