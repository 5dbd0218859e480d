package claim_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/memstore"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// faultyLeases notes the calls to leases and can be told to fail.
type faultyLeases struct {
	claim.Leases
	mu       sync.Mutex
	away     bool
	lose     int // replies of Acquire that are lost
	acquired []time.Time
	released []time.Time
}

func (f *faultyLeases) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *faultyLeases) isAway() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.away
}

func (f *faultyLeases) Acquire(ctx context.Context, request claim.LeaseRequest) (claim.Lease, bool, error) {
	if f.isAway() {
		return claim.Lease{}, false, errAway
	}
	lease, ok, err := f.Leases.Acquire(ctx, request)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.acquired = append(f.acquired, time.Now())
	if f.lose > 0 {
		f.lose--
		return claim.Lease{}, false, errAway
	}
	return lease, ok, err
}

func (f *faultyLeases) Renew(ctx context.Context, lease claim.Lease, ttl time.Duration) (claim.Lease, bool, error) {
	if f.isAway() {
		return lease, false, errAway
	}
	return f.Leases.Renew(ctx, lease, ttl)
}

func (f *faultyLeases) Release(ctx context.Context, lease claim.Lease) (bool, error) {
	f.set(func() { f.released = append(f.released, time.Now()) })
	if f.isAway() {
		return false, errAway
	}
	return f.Leases.Release(ctx, lease)
}

// A troupe is processes that compete for leases in a bubble, and what
// happened, in order.
type troupe struct {
	t      *testing.T
	store  *memstore.Store
	log    logbook
	begin  time.Time
	mu     sync.Mutex
	events []string
}

func inTroupe(t *testing.T, run func(tr *troupe)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { run(&troupe{t: t, store: newStore(t), begin: time.Now()}) })
}

func (tr *troupe) note(format string, args ...any) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.events = append(tr.events, fmt.Sprintf("%s ", time.Since(tr.begin).Round(time.Second))+fmt.Sprintf(format, args...))
}

func (tr *troupe) want(events ...string) {
	tr.t.Helper()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if !slices.Equal(tr.events, events) {
		tr.t.Errorf("events %q,\nwant %q\n%s", tr.events, events, tr.log.text.String())
	}
}

func (tr *troupe) leases() *faultyLeases { return &faultyLeases{Leases: tr.store.Leases()} }

// start runs a supervisor of a group "main" until stop is called.
func (tr *troupe) start(options claim.SupervisorOptions) (stop func(), supervisor *claim.Supervisor) {
	tr.t.Helper()
	options.Name, options.Periodic, options.Logger = "main", tr.store.Periodic(), tr.log.logger()
	if options.Leases == nil {
		options.Leases = tr.store.Leases()
	}
	supervisor, err := claim.NewSupervisor(options)
	if err != nil {
		tr.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(tr.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := supervisor.Run(ctx); err != nil {
			tr.t.Errorf("Run: %v", err)
		}
	}()
	return func() { cancel(); <-done }, supervisor
}

// single builds a group of one singleton that takes a while to end.
func (tr *troupe) single(process string, ending time.Duration) func(*claim.Group) error {
	return func(group *claim.Group) error {
		group.Worker("singleton", func(ctx context.Context) error {
			tr.note("%s starts", process)
			<-ctx.Done()
			tr.note("%s is told %v", process, context.Cause(ctx))
			time.Sleep(ending)
			tr.note("%s ends", process)
			return nil
		})
		return nil
	}
}

func TestAStandbyTakesOverWhenTheHolderStops(t *testing.T) {
	inTroupe(t, func(tr *troupe) {
		stopA, a := tr.start(claim.SupervisorOptions{Build: tr.single("a", 32*time.Second)})
		synctest.Wait()
		stopB, b := tr.start(claim.SupervisorOptions{Build: tr.single("b", 0)})
		time.Sleep(10 * time.Minute) // many TTLs: it is renewed
		first, ok := a.Lease()
		if _, standby := b.Lease(); !ok || standby {
			t.Errorf("a holds it: %t, b: %t", ok, standby)
		}
		stopA() // releases when it has ended, at once
		time.Sleep(5 * time.Second)
		second, ok := b.Lease()
		if !ok || second.Token <= first.Token {
			t.Errorf("b has %+v after %+v", second, first)
		}
		stopB()
		tr.want("0s a starts", "10m0s a is told context canceled", "10m32s a ends",
			"10m35s b starts", "10m37s b is told context canceled", "10m37s b ends")
		if _, held, err := tr.store.Leases().Lookup(t.Context(), "main"); held || err != nil {
			t.Errorf("the lease is held after all have stopped: %t, %v", held, err)
		}
	})
}

func TestAStandbyTakesOverFromAHolderThatDied(t *testing.T) {
	inTroupe(t, func(tr *troupe) {
		_, ok, err := tr.store.Leases().Acquire(t.Context(), claim.LeaseRequest{Name: "main", Owner: "dead", Nonce: "1", TTL: 117 * time.Second})
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		stop, _ := tr.start(claim.SupervisorOptions{Build: tr.single("b", 0)})
		time.Sleep(120 * time.Second)
		stop()
		tr.want("1m57s b starts", "2m0s b is told context canceled", "2m0s b ends") // at its very end
	})
}

func TestOnLossAllHasEndedBeforeItTriesAgain(t *testing.T) {
	inTroupe(t, func(tr *troupe) {
		leases := tr.leases()
		builds := 0
		stop, supervisor := tr.start(claim.SupervisorOptions{Leases: leases, Build: func(group *claim.Group) error {
			builds++
			return tr.single("a", time.Minute)(group)
		}})
		time.Sleep(time.Second)
		lease, _ := supervisor.Lease()
		if ok, err := tr.store.Leases().Release(t.Context(), lease); !ok || err != nil { // by an operator
			t.Fatal(ok, err)
		}
		time.Sleep(20 * time.Second)
		if _, holds := supervisor.Lease(); holds {
			t.Error("the supervisor claims a lease that it lost")
		}
		time.Sleep(2 * time.Minute)
		stop()
		tr.want("0s a starts", "10s a is told "+claim.ErrLost.Error(), "1m10s a ends",
			"1m10s a starts", "2m21s a is told context canceled", "3m21s a ends")
		if builds != 2 {
			t.Errorf("the group was built %d times, want anew for each of two tenures", builds)
		}
		for _, at := range leases.acquired {
			if since := at.Sub(tr.begin); since > time.Second && since < 70*time.Second {
				t.Errorf("it tried to acquire after %s, before all had ended", since)
			}
		}
	})
}

func TestAStoreThatIsAwayEndsTheGroupBeforeTheLeaseEnds(t *testing.T) {
	inTroupe(t, func(tr *troupe) {
		leases := tr.leases()
		stopA, a := tr.start(claim.SupervisorOptions{Leases: leases, Build: tr.single("a", 0)})
		time.Sleep(time.Minute + time.Second)
		leases.set(func() { leases.away = true })
		stopB, _ := tr.start(claim.SupervisorOptions{Build: tr.single("b", 0)})
		time.Sleep(107 * time.Second) // renewed at 60 s, trusted for 108 s from then
		if _, holds := a.Lease(); holds {
			t.Error("the lease is trusted into its margin")
		}
		time.Sleep(20 * time.Second)
		stopB()
		stopA()
		tr.want("0s a starts", "2m48s a is told "+claim.ErrUntrusted.Error(), "2m48s a ends",
			"3m0s b starts", "3m8s b is told context canceled", "3m8s b ends")
	})
}

func TestTheLeaseIsRenewedWhileTheGroupEnds(t *testing.T) {
	inTroupe(t, func(tr *troupe) {
		stopA, _ := tr.start(claim.SupervisorOptions{Build: tr.single("a", 602*time.Second)})
		time.Sleep(time.Second)
		stopB, _ := tr.start(claim.SupervisorOptions{Build: tr.single("b", 0)})
		stopA()
		time.Sleep(5 * time.Second)
		stopB()
		tr.want("0s a starts", "1s a is told context canceled", "10m3s a ends", "10m6s b starts",
			"10m8s b is told context canceled", "10m8s b ends")
	})
}

func TestALostReplyOfAcquireIsNoLostLease(t *testing.T) {
	inTroupe(t, func(tr *troupe) {
		leases := tr.leases()
		leases.lose = 1
		stop, _ := tr.start(claim.SupervisorOptions{Leases: leases, Build: tr.single("a", 0)})
		time.Sleep(10 * time.Second)
		stop()
		tr.want("5s a starts", "10s a is told context canceled", "10s a ends")
	})
}

func TestASingletonThatEndsIsRestartedWithBackOff(t *testing.T) {
	inTroupe(t, func(tr *troupe) {
		calls := 0
		stop, _ := tr.start(claim.SupervisorOptions{LongestPause: 5 * time.Second, Build: func(group *claim.Group) error {
			group.Worker("flaky", func(ctx context.Context) error {
				calls++
				tr.note("call %d", calls)
				switch calls {
				case 1:
					return errors.New("no broom")
				case 2:
					panic("wet floor")
				case 3:
					runtime.Goexit()
				case 5:
					time.Sleep(time.Minute) // it works for long: the pause starts over
				case 7:
					<-ctx.Done()
				}
				return nil
			})
			return nil
		}})
		time.Sleep(2 * time.Minute)
		stop()
		tr.want("0s call 1", "1s call 2", "3s call 3", "7s call 4", "12s call 5", "1m13s call 6", "1m15s call 7")
		for _, words := range []string{"no broom", "panic: wet floor", "ended its goroutine"} {
			if tr.log.count(words) != 1 {
				t.Errorf("the log does not say %q once:\n%s", words, tr.log.text.String())
			}
		}
	})
}

// sweeping builds a group of one periodic task with a long body.
func (tr *troupe) sweeping(body time.Duration) func(*claim.Group) error {
	return func(group *claim.Group) error {
		token := group.Lease().Token
		group.Periodic(claim.Periodic{Name: "sweep", Every: every(time.Hour), Run: func(ctx context.Context, _ func() claim.PeriodicClaim) error {
			if group.Lease().Token != token || !group.Lease().Valid(time.Now()) {
				tr.t.Errorf("the group's lease is %+v, want token %d", group.Lease(), token)
			}
			tr.note("sweep starts")
			select {
			case <-ctx.Done():
				tr.note("sweep is told %v", context.Cause(ctx))
			case <-time.After(body):
				tr.note("sweep ends")
			}
			return ctx.Err()
		}})
		return nil
	}
}

func TestPeriodicTasksOfAGroup(t *testing.T) {
	t.Run("a shutdown lets the body end", func(t *testing.T) {
		inTroupe(t, func(tr *troupe) {
			stop, _ := tr.start(claim.SupervisorOptions{Build: tr.sweeping(5 * time.Minute)})
			time.Sleep(time.Minute)
			stop()
			tr.want("0s sweep starts", "5m0s sweep ends")
		})
	})
	t.Run("for as long as the grace", func(t *testing.T) {
		inTroupe(t, func(tr *troupe) {
			stop, _ := tr.start(claim.SupervisorOptions{Grace: 10 * time.Second, Build: tr.sweeping(5 * time.Minute)})
			time.Sleep(time.Minute)
			stop()
			tr.want("0s sweep starts", "1m10s sweep is told context canceled")
		})
	})
	t.Run("a lost lease cancels it", func(t *testing.T) {
		inTroupe(t, func(tr *troupe) {
			stop, supervisor := tr.start(claim.SupervisorOptions{Build: tr.sweeping(5 * time.Minute)})
			time.Sleep(time.Second)
			lease, _ := supervisor.Lease()
			if ok, err := tr.store.Leases().Release(t.Context(), lease); !ok || err != nil {
				t.Fatal(ok, err)
			}
			time.Sleep(time.Minute)
			stop()
			tr.want("0s sweep starts", "10s sweep is told "+claim.ErrLost.Error())
		})
	})
}

func TestAGroupThatCannotBeBuiltGivesTheLeaseBack(t *testing.T) {
	for name, build := range map[string]func(*claim.Group) error{
		"error":    func(*claim.Group) error { return errors.New("no plan") },
		"panic":    func(*claim.Group) error { panic("no plan") },
		"nil work": func(group *claim.Group) error { group.Worker("no plan", nil); return nil },
		"bad task": func(group *claim.Group) error { group.Periodic(claim.Periodic{Name: "no plan"}); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			inTroupe(t, func(tr *troupe) {
				leases := tr.leases()
				stop, _ := tr.start(claim.SupervisorOptions{Leases: leases, Build: build})
				time.Sleep(12 * time.Second)
				stop()
				if n := len(leases.acquired); n != 3 {
					t.Errorf("the lease was acquired %d times in 12 s, want every 5 s", n)
				}
				if tr.log.count("no plan") == 0 {
					t.Error("the log does not say why")
				}
				if _, held, err := tr.store.Leases().Lookup(t.Context(), "main"); held || err != nil {
					t.Errorf("held %t, %v", held, err)
				}
			})
		})
	}
}

func TestOneProcessRunsSeveralGroups(t *testing.T) {
	inTroupe(t, func(tr *troupe) {
		ctx, cancel := context.WithCancel(tr.t.Context())
		var running sync.WaitGroup
		for _, name := range []string{"one", "two"} {
			supervisor, err := claim.NewSupervisor(claim.SupervisorOptions{Name: name, Leases: tr.store.Leases(), Owner: "p", Build: tr.single(name, 0)})
			if err != nil {
				t.Fatal(err)
			}
			running.Go(func() { _ = supervisor.Run(ctx) })
			synctest.Wait()
		}
		for _, name := range []string{"one", "two"} {
			if info, ok, err := tr.store.Leases().Lookup(t.Context(), name); !ok || err != nil || info.Owner != "p" {
				t.Errorf("lease %s: %+v, %t, %v", name, info, ok, err)
			}
		}
		cancel()
		running.Wait()
	})
}

func TestSupervisorsRefuse(t *testing.T) {
	build := func(*claim.Group) error { return nil }
	leases := newStore(t).Leases()
	for name, options := range map[string]claim.SupervisorOptions{
		"no build":        {Name: "a", Leases: leases},
		"no leases":       {Name: "a", Build: build},
		"no name":         {Leases: leases, Build: build},
		"short TTL":       {Name: "a", Leases: leases, Build: build, TTL: time.Millisecond},
		"negative TTL":    {Name: "a", Leases: leases, Build: build, TTL: -1},
		"slow renewal":    {Name: "a", Leases: leases, Build: build, TTL: time.Second, Renew: 600 * time.Millisecond},
		"negative renew":  {Name: "a", Leases: leases, Build: build, Renew: -1},
		"negative retry":  {Name: "a", Leases: leases, Build: build, Retry: -1},
		"negative pause":  {Name: "a", Leases: leases, Build: build, FirstPause: -1},
		"pauses swapped":  {Name: "a", Leases: leases, Build: build, FirstPause: time.Minute, LongestPause: time.Second},
		"negative grace":  {Name: "a", Leases: leases, Build: build, Grace: -1},
		"negative length": {Name: "a", Leases: leases, Build: build, LongestPause: -1},
	} {
		var field *schedule.FieldError
		if _, err := claim.NewSupervisor(options); !errors.As(err, &field) {
			t.Errorf("%s: %v, want a *schedule.FieldError", name, err)
		}
	}
}
