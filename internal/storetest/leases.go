package storetest

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

const leaseTTL = 120 * time.Second

var leaseCases = []testCase{
	{"a free lease is granted, a held one is not", leaseAcquire},
	{"the same call sent again gets the same grant", leaseResend},
	{"a lease that ran out goes to another owner, with a larger token", leaseExpires},
	{"renewing extends, and never revives", leaseRenew},
	{"a released lease is free at once, and released once", leaseRelease},
	{"an owner that slept changes nothing", leaseZombie},
	{"leases of other names are others", leaseNames},
	{"a request that lacks something is refused", leaseBadRequest},
}

var fleetCases = []testCase{
	{"members are those seen lately", rosterMembers},
	{"a worker hears that it is to drain, until its process ends", rosterDrain},
	{"drain and undrain are heeded", rosterHeed},
	{"put, resume and trigger wake who sleeps", wakes},
}

func (e *env) acquire(name, owner, nonce string) (claim.Lease, bool) {
	e.Helper()
	lease, ok, err := e.Leases.Acquire(e.Context(), claim.LeaseRequest{Name: name, Owner: owner, Nonce: nonce, TTL: leaseTTL})
	e.must("Acquire", err)
	return lease, ok
}

// acquires wants to be granted the lease.
func (e *env) acquires(name, owner, nonce string) claim.Lease {
	e.Helper()
	lease, ok := e.acquire(name, owner, nonce)
	if !ok {
		e.Fatalf("Acquire(%s, %s, %s) was refused", name, owner, nonce)
	}
	return lease
}

func (e *env) refused(name, owner, nonce string) {
	e.Helper()
	if lease, ok := e.acquire(name, owner, nonce); ok {
		e.Fatalf("Acquire(%s, %s, %s) = %+v, want a refusal", name, owner, nonce, lease)
	}
}

func (e *env) renewLease(lease claim.Lease) (claim.Lease, bool) {
	e.Helper()
	renewed, ok, err := e.Leases.Renew(e.Context(), lease, leaseTTL)
	e.must("Renew", err)
	return renewed, ok
}

func (e *env) releaseLease(lease claim.Lease) bool {
	e.Helper()
	ok, err := e.Leases.Release(e.Context(), lease)
	e.must("Release", err)
	return ok
}

// holder returns who holds the lease, "" for nobody.
func (e *env) holder(name string) string {
	e.Helper()
	info, ok, err := e.Leases.Lookup(e.Context(), name)
	e.must("Lookup", err)
	if !ok {
		return ""
	}
	want(e, "Name", info.Name, name)
	return info.Owner
}

func leaseAcquire(e *env) {
	want(e, "holder of a lease that never was", e.holder("main"), "")
	lease := e.acquires("main", "w1", "n1")
	want(e, "Name", lease.Name, "main")
	want(e, "Owner", lease.Owner, "w1")
	wantTime(e, "Until", lease.Until, Epoch.Add(leaseTTL))
	want(e, "Token is positive", lease.Token > 0, true)
	want(e, "holder", e.holder("main"), "w1")
	e.refused("main", "w2", "n1")
	e.refused("main", "w1", "n2") // another call of the same owner
	info, _, err := e.Leases.Lookup(e.Context(), "main")
	e.must("Lookup", err)
	want(e, "Token of Lookup", info.Token, lease.Token)
	wantTime(e, "Until of Lookup", info.Until, lease.Until)
}

func leaseResend(e *env) {
	first := e.acquires("main", "w1", "n1")
	e.advance(time.Minute)
	again := e.acquires("main", "w1", "n1")
	want(e, "Token", again.Token, first.Token)
	wantTime(e, "Until", again.Until, first.Until)
}

func leaseExpires(e *env) {
	first := e.acquires("main", "w1", "n1")
	e.advance(leaseTTL - time.Millisecond)
	e.refused("main", "w2", "n2")
	e.advance(time.Millisecond)
	want(e, "holder after the end", e.holder("main"), "")
	second := e.acquires("main", "w2", "n2")
	third := e.takeOver(second, "w3")
	if second.Token <= first.Token || third.Token <= second.Token {
		e.Errorf("tokens %d, %d, %d, want them to grow", first.Token, second.Token, third.Token)
	}
	e.advance(leaseTTL)
	if same := e.acquires("main", "w3", "nw3"); same.Token <= third.Token {
		e.Errorf("token %d after %d, want a larger one for the same owner and nonce after the end", same.Token, third.Token)
	}
}

// takeOver releases the lease and lets another owner take it at once.
func (e *env) takeOver(lease claim.Lease, owner string) claim.Lease {
	e.Helper()
	want(e, "Release", e.releaseLease(lease), true)
	return e.acquires(lease.Name, owner, "n"+owner)
}

func leaseRenew(e *env) {
	lease := e.acquires("main", "w1", "n1")
	for range 3 {
		e.advance(leaseTTL - time.Second)
		renewed, ok := e.renewLease(lease)
		want(e, "Renew", ok, true)
		want(e, "Token", renewed.Token, lease.Token)
		want(e, "Owner", renewed.Owner, "w1")
		wantTime(e, "Until", renewed.Until, e.Now().Add(leaseTTL))
		lease = renewed
	}
	e.advance(leaseTTL)
	_, ok := e.renewLease(lease)
	want(e, "Renew of a lease that ran out", ok, false)
	want(e, "holder after it", e.holder("main"), "")
	_, ok = e.renewLease(claim.Lease{Name: "never", Token: 5})
	want(e, "Renew of a lease that never was", ok, false)
}

func leaseRelease(e *env) {
	lease := e.acquires("main", "w1", "n1")
	want(e, "Release", e.releaseLease(lease), true)
	want(e, "holder", e.holder("main"), "")
	want(e, "Release again", e.releaseLease(lease), false)
	_, ok := e.renewLease(lease)
	want(e, "Renew after Release", ok, false)
	next := e.acquires("main", "w2", "n2")
	want(e, "Release by the earlier owner", e.releaseLease(lease), false)
	want(e, "holder", e.holder("main"), "w2")
	want(e, "Token grows", next.Token > lease.Token, true)
}

func leaseZombie(e *env) {
	old := e.acquires("main", "w1", "n1")
	e.advance(asleep)
	e.acquires("main", "w2", "n2")
	_, ok := e.renewLease(old)
	want(e, "Renew", ok, false)
	want(e, "Release", e.releaseLease(old), false)
	e.refused("main", "w1", "n1")
	want(e, "holder", e.holder("main"), "w2")
}

func leaseNames(e *env) {
	e.acquires("main", "w1", "n1")
	other := e.acquires("other", "w2", "n1")
	want(e, "Release", e.releaseLease(other), true)
	want(e, "holder of main", e.holder("main"), "w1")
}

func leaseBadRequest(e *env) {
	good := claim.LeaseRequest{Name: "main", Owner: "w1", Nonce: "n1", TTL: leaseTTL}
	bad := map[string]func(*claim.LeaseRequest){
		"no name":    func(r *claim.LeaseRequest) { r.Name = "" },
		"no TTL":     func(r *claim.LeaseRequest) { r.TTL = 0 },
		"wide":       func(r *claim.LeaseRequest) { r.Margin = leaseTTL },
		"negative":   func(r *claim.LeaseRequest) { r.Margin = -1 },
		"no owner":   func(r *claim.LeaseRequest) { r.Owner = "" },
		"less TTL":   func(r *claim.LeaseRequest) { r.TTL = -leaseTTL },
		"tiny TTL":   func(r *claim.LeaseRequest) { r.TTL = time.Microsecond },
		"no nonce":   func(r *claim.LeaseRequest) { r.Nonce = "" },
		"wide again": func(r *claim.LeaseRequest) { r.Margin = 2 * leaseTTL },
	}
	for name, spoil := range bad {
		request := good
		spoil(&request)
		if _, ok, err := e.Leases.Acquire(e.Context(), request); err == nil || ok {
			e.Errorf("Acquire, %s: granted %t, error %v, want a refusal", name, ok, err)
		}
	}
	want(e, "holder", e.holder("main"), "")
}

func rosterMembers(e *env) {
	if e.Roster == nil {
		e.Skip("the backend has no roster here")
	}
	ctx := e.Context()
	member := claim.Member{ID: "w1", Host: "h", PID: 7, Version: "v1", TimeZone: "tz", Queues: map[string]int{"default": 3},
		Types: []string{"a", "b"}, Started: Epoch}
	e.announce(member)
	e.advance(time.Minute)
	e.announce(claim.Member{ID: "w2"})
	members := func(maxAge time.Duration) []claim.Member {
		e.Helper()
		all, err := e.Roster.Members(ctx, maxAge)
		e.must("Members", err)
		return all
	}
	all := members(time.Hour)
	if len(all) != 2 {
		e.Fatalf("Members = %+v, want two", all)
	}
	for _, got := range all {
		if got.ID == "w1" && (got.Host != "h" || got.PID != 7 || got.Queues["default"] != 3 || len(got.Types) != 2 || !got.Seen.Equal(Epoch)) {
			e.Errorf("member = %+v, want what was announced, seen at %s", got, Epoch)
		}
	}
	recent := members(30 * time.Second)
	if len(recent) != 1 || recent[0].ID != "w2" {
		e.Errorf("Members seen lately = %+v, want w2", recent)
	}
	for range 2 {
		e.must("Withdraw", e.Roster.Withdraw(ctx, "w2"))
	}
	want(e, "members after Withdraw", len(members(30*time.Second)), 0)
}

func wakes(e *env) {
	if e.Waker == nil {
		e.Skip("the backend has no wake-ups here")
	}
	ctx, cancel := context.WithTimeout(e.Context(), 20*time.Second)
	defer cancel()
	sleeping, stop := context.WithCancel(ctx)
	wake, healthy, err := e.Waker.Wake(sleeping)
	e.must("Wake", err)
	awaitHealthy(ctx, e, healthy)
	// Each is due before all others: only then sleepers need to know.
	e.put(every("a", hourly(4)))
	awaitWake(ctx, e, wake, "the first Put")
	e.put(every("b", hourly(3)))
	awaitWake(ctx, e, wake, "a Put with an earlier time")
	e.pause("b", schedule.PauseOptions{})
	e.resume("b")
	awaitWake(ctx, e, wake, "Resume")
	e.trigger("a", schedule.TriggerOptions{})
	awaitWake(ctx, e, wake, "Trigger")
	e.put(every("a", hourly(2)))
	awaitWake(ctx, e, wake, "an edit to an earlier time")
	stop()
	for open := true; open; {
		select {
		case _, open = <-wake:
		case <-ctx.Done():
			e.Fatal("the channel is open after its context ended")
		}
	}
}

func hourly(n int) func(*schedule.Schedule) {
	return func(s *schedule.Schedule) { s.Specs[0].Every = time.Duration(n) * time.Hour }
}

// awaitWake waits for one wake-up.
func awaitWake(ctx context.Context, e *env, wake <-chan struct{}, act string) {
	e.Helper()
	select {
	case <-wake:
	case <-ctx.Done():
		e.Fatalf("no wake-up after %s", act)
	}
}

// awaitHealthy waits until the subscription works.
func awaitHealthy(ctx context.Context, e *env, healthy func() bool) {
	e.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !healthy() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			e.Fatal("the subscription never became healthy")
		}
	}
}
