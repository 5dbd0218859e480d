package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/scripts/lua"
)

// Leases grants named leases of a namespace. Get it from [Store.Leases].
type Leases struct{ store *Store }

// Leases returns the leases of the namespace.
func (s *Store) Leases() *Leases { return &Leases{store: s} }

// key returns the keys of the scripts that act on one lease.
func (l *Leases) key(name string) []string { return []string{l.store.keys.lease(name)} }

// Acquire grants the lease unless another owner, or another call, holds it.
func (l *Leases) Acquire(ctx context.Context, request claim.LeaseRequest) (claim.Lease, bool, error) {
	if request.Margin == 0 {
		request.Margin = request.TTL / 10
	}
	if err := checkLease(request); err != nil {
		return claim.Lease{}, false, err
	}
	sent := l.store.options.Wall()
	doing := fmt.Sprintf("acquire lease %q", request.Name)
	answer, err := l.store.run(ctx, doing, lua.LeaseAcquire, append(l.key(request.Name), l.store.keys.leases()),
		l.store.clock(request.Owner, request.Nonce, request.TTL.Milliseconds(), request.Name)...)
	if err != nil {
		return claim.Lease{}, false, err
	}
	status, token, until, now := answer.text(0), answer.number(2), answer.time(3), answer.time(4)
	if answer.err != nil || status != "GRANTED" {
		return claim.Lease{}, false, answer.err
	}
	// A grant that a repeated call gets back is trusted for what is left of it.
	left := min(request.TTL, until.Sub(now))
	return claim.NewLease(request.Name, request.Owner, claim.Token(token), until, sent, left, request.Margin), true, nil
}

func checkLease(request claim.LeaseRequest) error {
	switch {
	case request.Name == "":
		return &schedule.FieldError{Field: "name", Allowed: "the name of the lease"}
	case request.Owner == "":
		return &schedule.FieldError{Field: "owner", Allowed: "who asks"}
	case request.Nonce == "":
		return &schedule.FieldError{Field: "nonce", Allowed: "a nonce for each call"}
	case request.TTL < time.Millisecond:
		return &schedule.FieldError{Field: "ttl", Value: request.TTL.String(), Allowed: "1ms or more"}
	case request.Margin < 0 || request.Margin >= request.TTL:
		return &schedule.FieldError{Field: "margin", Value: request.Margin.String(), Allowed: "0 (a tenth of the TTL) to less than the TTL"}
	}
	return nil
}

// Renew extends a lease that is still held; the new one is trusted for its TTL
// less a tenth.
func (l *Leases) Renew(ctx context.Context, lease claim.Lease, ttl time.Duration) (claim.Lease, bool, error) {
	if err := checkTerm("ttl", ttl); err != nil {
		return claim.Lease{}, false, err
	}
	sent := l.store.options.Wall()
	doing := fmt.Sprintf("renew lease %q", lease.Name)
	answer, err := l.store.run(ctx, doing, lua.LeaseRenew, l.key(lease.Name), l.store.clock(int64(lease.Token), ttl.Milliseconds())...)
	if err != nil {
		return claim.Lease{}, false, err
	}
	until, _ := answer.single.(int64)
	if until == 0 {
		return claim.Lease{}, false, nil
	}
	return claim.NewLease(lease.Name, lease.Owner, lease.Token, instant(until), sent, ttl, ttl/10), true, nil
}

// Release ends a lease that is still held.
func (l *Leases) Release(ctx context.Context, lease claim.Lease) (bool, error) {
	doing := fmt.Sprintf("release lease %q", lease.Name)
	answer, err := l.store.run(ctx, doing, lua.LeaseRelease, l.key(lease.Name), l.store.clock(int64(lease.Token))...)
	if err != nil {
		return false, err
	}
	released, _ := answer.single.(int64)
	return released == 1, nil
}

// Lookup returns who holds the lease.
func (l *Leases) Lookup(ctx context.Context, name string) (claim.LeaseInfo, bool, error) {
	doing := fmt.Sprintf("look up lease %q", name)
	answer, err := l.store.run(ctx, doing, lua.LeaseLookup, l.key(name), l.store.clock()...)
	if err != nil {
		return claim.LeaseInfo{}, false, err
	}
	info := claim.LeaseInfo{Name: name, Owner: answer.text(0), Token: claim.Token(answer.number(1)), Until: answer.time(2)}
	if answer.err != nil || info.Until.IsZero() {
		return claim.LeaseInfo{}, false, answer.err
	}
	return info, true, nil
}
