package claim

import (
	"context"
	"time"
)

// A Lease is the right of one process to run what must run once. The zero
// Lease is expired.
type Lease struct {
	Name  string
	Owner string
	Token Token     // larger than that of every earlier grant
	Until time.Time // end on the store's clock, to the millisecond; for display

	// trustedUntil is when this process stops believing in the lease. It is
	// fixed before the grant is requested, so a slow reply can only shorten it.
	// It carries a monotonic reading; wallUntil does not, because the monotonic
	// clock stands still while a host is suspended.
	trustedUntil time.Time
	wallUntil    time.Time
}

// NewLease returns a lease that was requested at sent and is trusted for ttl
// less margin from then.
func NewLease(name, owner string, token Token, until, sent time.Time, ttl, margin time.Duration) Lease {
	trusted := sent.Add(ttl - margin)
	return Lease{Name: name, Owner: owner, Token: token, Until: until, trustedUntil: trusted, wallUntil: trusted.Round(0)}
}

// Valid reports whether the holder may still trust the lease at now: before
// its deadline on the monotonic clock and on the wall clock.
func (l Lease) Valid(now time.Time) bool {
	return now.Before(l.trustedUntil) && now.Round(0).Before(l.wallUntil)
}

// Leases grant named leases.
type Leases interface {
	// Acquire returns the lease and true, or false when another owner holds
	// it. The same owner and nonce asking again while it is live gets the same
	// grant back.
	Acquire(ctx context.Context, request LeaseRequest) (Lease, bool, error)
	// Renew extends the lease. False means that it was lost; it is never
	// revived. An error says nothing: the lease stays valid until its deadline.
	Renew(ctx context.Context, lease Lease, ttl time.Duration) (Lease, bool, error)
	// Release ends the lease at once. False means that it was lost before.
	Release(ctx context.Context, lease Lease) (bool, error)
	// Lookup returns who holds the lease, and false when nobody does.
	Lookup(ctx context.Context, name string) (LeaseInfo, bool, error)
}

// LeaseRequest asks for a lease.
type LeaseRequest struct {
	Name   string
	Owner  string
	Nonce  string // of this call; a repeat of the call carries the same
	TTL    time.Duration
	Margin time.Duration // how long before its end the holder stops trusting it; 0 is TTL/10
}

// LeaseInfo describes a held lease.
type LeaseInfo struct {
	Name  string
	Owner string
	Token Token
	Until time.Time // on the store's clock
}
