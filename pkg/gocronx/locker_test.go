package gocronx_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/belfryhq/belfry/internal/memstore"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/gocronx"
	"github.com/belfryhq/belfry/pkg/schedule"
)

func newLeases(t testing.TB) claim.Leases {
	t.Helper()
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return store.Leases()
}

func newLocker(t testing.TB, options gocronx.LockerOptions) *gocronx.Locker {
	t.Helper()
	locker, err := gocronx.NewLocker(options)
	if err != nil {
		t.Fatal(err)
	}
	return locker
}

// skewed lets three gocron schedulers run a job of the given length every ten
// seconds for a minute, the later ones with clocks that are late, and returns
// how often it ran.
func skewed(t *testing.T, hold, job time.Duration) (runs int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		leases := newLeases(t)
		var mu sync.Mutex
		var schedulers []gocron.Scheduler
		for i := range 3 {
			scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(
				newLocker(t, gocronx.LockerOptions{Leases: leases, Hold: hold, TTL: 3 * time.Second})))
			if err != nil {
				t.Fatal(err)
			}
			_, err = scheduler.NewJob(gocron.DurationJob(10*time.Second), gocron.NewTask(func() {
				mu.Lock()
				runs++
				mu.Unlock()
				time.Sleep(job)
			}), gocron.WithName("report"), gocron.WithStartAt(gocron.WithStartDateTime(time.Now().Add(time.Second+time.Duration(i)*200*time.Millisecond))))
			if err != nil {
				t.Fatal(err)
			}
			scheduler.Start()
			schedulers = append(schedulers, scheduler)
		}
		time.Sleep(time.Minute)
		for _, scheduler := range schedulers {
			if err := scheduler.Shutdown(); err != nil {
				t.Error(err)
			}
		}
	})
	return runs
}

func TestAHeldKeyCuresSkewedClocks(t *testing.T) {
	tests := []struct {
		name      string
		hold, job time.Duration
		want      int
	}{
		{"a short job runs once a time", time.Second, time.Millisecond, 6},
		{"the default is enough for clocks that differ by less", 0, time.Millisecond, 6},
		{"without a hold each runs it again", time.Millisecond, 2 * time.Millisecond, 18},
		{"a job longer than the TTL keeps its key", time.Millisecond, 8 * time.Second, 6},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := skewed(t, tt.hold, tt.job); got != tt.want {
				t.Errorf("%d runs of six times in three processes, want %d", got, tt.want)
			}
		})
	}
}

func TestLockerTellsTheTokenOfTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := newLeases(t)
		a := newLocker(t, gocronx.LockerOptions{Leases: leases, TTL: 3 * time.Second})
		b := newLocker(t, gocronx.LockerOptions{Leases: leases, TTL: 3 * time.Second})
		ctx, cancel := context.WithCancel(context.Background())
		lock, err := a.Lock(ctx, "job")
		if err != nil {
			t.Fatal(err)
		}
		first := a.Token("job")
		time.Sleep(time.Minute) // many TTLs
		if first == 0 || a.Token("job") != first || b.Token("job") != 0 {
			t.Errorf("tokens %d, then %d; of the other %d", first, a.Token("job"), b.Token("job"))
		}
		for _, locker := range []*gocronx.Locker{a, b} {
			if _, err := locker.Lock(ctx, "job"); !errors.Is(err, gocronx.ErrLocked) {
				t.Errorf("Lock of a locked key: %v, want ErrLocked", err)
			}
		}
		cancel() // gocron unlocks after the context of the job has ended
		for range 2 {
			if err := lock.Unlock(ctx); err != nil {
				t.Errorf("Unlock: %v", err)
			}
		}
		if a.Token("job") != 0 {
			t.Error("a token after Unlock")
		}
		other, err := b.Lock(context.Background(), "job")
		if err != nil {
			t.Fatal(err)
		}
		if second := b.Token("job"); second <= first {
			t.Errorf("token %d after %d, want a larger one", second, first)
		}
		if err := lock.Unlock(context.Background()); err != nil { // of the earlier holder: changes nothing
			t.Error(err)
		}
		if _, err := a.Lock(context.Background(), "job"); !errors.Is(err, gocronx.ErrLocked) {
			t.Errorf("Lock after a stale Unlock: %v, want ErrLocked", err)
		}
		if err := other.Unlock(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// away are leases that cannot be renewed.
type away struct{ claim.Leases }

func (away) Renew(context.Context, claim.Lease, time.Duration) (claim.Lease, bool, error) {
	return claim.Lease{}, false, errors.New("the store is away")
}

func TestALockThatCannotBeRenewedHasNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker := newLocker(t, gocronx.LockerOptions{Leases: away{newLeases(t)}, TTL: 10 * time.Second, Hold: time.Millisecond})
		lock, err := locker.Lock(context.Background(), "job")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(8999 * time.Millisecond)
		if locker.Token("job") == 0 {
			t.Error("no token inside the trusted time")
		}
		time.Sleep(time.Millisecond)
		if locker.Token("job") != 0 {
			t.Error("a token past the trusted time")
		}
		if err := lock.Unlock(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func TestElector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := newLeases(t)
		elect := func() (e *gocronx.Elector, stop func()) {
			e, err := gocronx.NewElector(gocronx.ElectorOptions{Leases: leases, Name: "jobs", TTL: 10 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			if err := e.IsLeader(context.Background()); !errors.Is(err, gocronx.ErrNotLeader) || e.Token() != 0 {
				t.Errorf("before Run: %v, token %d", err, e.Token())
			}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			go func() { defer close(done); _ = e.Run(ctx) }() // returns nil
			synctest.Wait()
			return e, func() { cancel(); <-done }
		}
		a, stopA := elect()
		b, stopB := elect()
		time.Sleep(time.Minute)
		first := a.Token()
		if a.IsLeader(context.Background()) != nil || first == 0 || !errors.Is(b.IsLeader(context.Background()), gocronx.ErrNotLeader) || b.Token() != 0 {
			t.Error("a does not lead alone")
		}
		time.Sleep(time.Second) // b asks again every five seconds, not at this instant
		stopA()
		if !errors.Is(a.IsLeader(context.Background()), gocronx.ErrNotLeader) || a.Token() != 0 {
			t.Error("a leads after it was stopped")
		}
		time.Sleep(5 * time.Second)
		if b.IsLeader(context.Background()) != nil || b.Token() <= first {
			t.Errorf("b has token %d after %d", b.Token(), first)
		}
		stopB()
	})
}

func TestOptionsAreRefused(t *testing.T) {
	leases := newLeases(t)
	for name, options := range map[string]gocronx.LockerOptions{
		"no leases": {}, "short TTL": {Leases: leases, TTL: time.Millisecond},
		"negative TTL": {Leases: leases, TTL: -1}, "negative hold": {Leases: leases, Hold: -1},
	} {
		var field *schedule.FieldError
		if _, err := gocronx.NewLocker(options); !errors.As(err, &field) {
			t.Errorf("NewLocker, %s: %v, want a *schedule.FieldError", name, err)
		}
	}
	for name, options := range map[string]gocronx.ElectorOptions{
		"no leases": {Name: "a"}, "no name": {Leases: leases}, "short TTL": {Leases: leases, Name: "a", TTL: time.Millisecond},
	} {
		var field *schedule.FieldError
		if _, err := gocronx.NewElector(options); !errors.As(err, &field) {
			t.Errorf("NewElector, %s: %v, want a *schedule.FieldError", name, err)
		}
	}
	if _, err := newLocker(t, gocronx.LockerOptions{Leases: leases}).Lock(t.Context(), ""); err == nil {
		t.Error("Lock without a key: nil")
	}
}

func ExampleElector() {
	store, err := memstore.New(memstore.Options{}) // in production: redisstore
	if err != nil {
		panic(err)
	}
	elector, err := gocronx.NewElector(gocronx.ElectorOptions{Leases: store.Leases(), Name: "reports"})
	if err != nil {
		panic(err)
	}
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	leading := make(chan error)
	go func() { leading <- elector.Run(ctx) }()
	scheduler.Start()
	err = scheduler.Shutdown() // the jobs first
	stop()                     // then the leadership
	fmt.Println(err, <-leading)
	// Output: <nil> <nil>
}

func ExampleLocker() {
	store, err := memstore.New(memstore.Options{}) // in production: redisstore
	if err != nil {
		panic(err)
	}
	locker, err := gocronx.NewLocker(gocronx.LockerOptions{Leases: store.Leases()})
	if err != nil {
		panic(err)
	}
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		panic(err)
	}
	_, err = scheduler.NewJob(gocron.DailyJob(1, gocron.NewAtTimes(gocron.NewAtTime(2, 30, 0))), gocron.NewTask(func() {
		_ = locker.Token("report") // pass it to what the job writes to
	}), gocron.WithName("report"))
	fmt.Println(err, scheduler.Shutdown())
	// Output: <nil> <nil>
}
