package memstore

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// Leases grants named leases.
type Leases struct{ store *Store }

var _ claim.Leases = (*Leases)(nil)

// A lease is the record of one name. It stays when the lease ends, so that
// tokens keep growing.
type lease struct {
	owner, nonce string
	token        claim.Token
	until        time.Time
}

// Acquire grants the lease unless it is held.
func (l *Leases) Acquire(ctx context.Context, request claim.LeaseRequest) (claim.Lease, bool, error) {
	if request.Margin == 0 {
		request.Margin = request.TTL / 10
	}
	if err := checkLease(request); err != nil {
		return claim.Lease{}, false, err
	}
	sent := l.store.wall()
	now, err := l.store.enter(ctx)
	if err != nil {
		return claim.Lease{}, false, err
	}
	defer l.store.mu.Unlock()
	held := l.store.leases[request.Name]
	if held == nil {
		held = &lease{}
		l.store.leases[request.Name] = held
	}
	again := held.owner == request.Owner && held.nonce == request.Nonce
	if held.until.After(now) && !again {
		return claim.Lease{}, false, nil
	}
	if !held.until.After(now) {
		*held = lease{owner: request.Owner, nonce: request.Nonce, until: millis(now.Add(request.TTL)),
			token: max(held.token+1, claim.Token(now.UnixMilli()*1000))}
	}
	// A repeat trusts what is left, which is less than the TTL.
	left := min(request.TTL, held.until.Sub(now))
	return claim.NewLease(request.Name, request.Owner, held.token, held.until, sent, left, request.Margin), true, nil
}

func checkLease(request claim.LeaseRequest) error {
	switch {
	case request.Name == "":
		return &schedule.FieldError{Field: "name", Allowed: "the name of the lease"}
	case request.Owner == "" || request.Nonce == "":
		return &schedule.FieldError{Field: "owner", Value: request.Owner, Allowed: "an owner, and a nonce for each call"}
	case request.TTL < time.Millisecond:
		return &schedule.FieldError{Field: "ttl", Value: request.TTL.String(), Allowed: "1ms or more"}
	case request.Margin < 0 || request.Margin >= request.TTL:
		return &schedule.FieldError{Field: "margin", Value: request.Margin.String(), Allowed: "0 (a tenth of the TTL) to less than the TTL"}
	}
	return nil
}

// Renew extends a lease that is still held.
func (l *Leases) Renew(ctx context.Context, current claim.Lease, ttl time.Duration) (claim.Lease, bool, error) {
	sent := l.store.wall()
	now, err := l.store.enter(ctx)
	if err != nil {
		return claim.Lease{}, false, err
	}
	defer l.store.mu.Unlock()
	held := l.store.leases[current.Name]
	if held == nil || held.token != current.Token || !held.until.After(now) {
		return claim.Lease{}, false, nil
	}
	held.until = millis(now.Add(ttl))
	return claim.NewLease(current.Name, current.Owner, held.token, held.until, sent, ttl, ttl/10), true, nil
}

// Release ends a lease that is still held.
func (l *Leases) Release(ctx context.Context, current claim.Lease) (bool, error) {
	now, err := l.store.enter(ctx)
	if err != nil {
		return false, err
	}
	defer l.store.mu.Unlock()
	held := l.store.leases[current.Name]
	if held == nil || held.token != current.Token || !held.until.After(now) {
		return false, nil
	}
	held.until = time.Time{}
	return true, nil
}

// Lookup returns who holds the lease.
func (l *Leases) Lookup(ctx context.Context, name string) (claim.LeaseInfo, bool, error) {
	now, err := l.store.enter(ctx)
	if err != nil {
		return claim.LeaseInfo{}, false, err
	}
	defer l.store.mu.Unlock()
	held := l.store.leases[name]
	if held == nil || !held.until.After(now) {
		return claim.LeaseInfo{}, false, nil
	}
	return claim.LeaseInfo{Name: name, Owner: held.owner, Token: held.token, Until: held.until}, true, nil
}
