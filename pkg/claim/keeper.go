package claim

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// Why a context that stands for a lease or a claim was cancelled; see
// context.Cause.
var (
	// ErrLost reports that another owner has it now. Stop, and write nothing
	// that is not fenced; retrying cannot succeed.
	ErrLost = errors.New("claim: lost to another owner: stop")
	// ErrUntrusted reports that it could not be renewed in time: another owner
	// may have it. Stop likewise; the store was unreachable, or this process
	// stood still.
	ErrUntrusted = errors.New("claim: not renewed in time, another owner may have it: stop")
)

// Defaults of a Keeper.
const (
	DefaultLeaseTTL   = 120 * time.Second
	DefaultLeaseRenew = 10 * time.Second
	DefaultLeaseRetry = 5 * time.Second
)

const (
	leastLeaseTTL = 100 * time.Millisecond
	leastRetry    = 10 * time.Millisecond
	// leaseCall bounds one call to the store, farewell the last one.
	leaseCall = 5 * time.Second
	farewell  = 2 * time.Second
)

// KeeperOptions configure a Keeper. Leases and Name are needed.
type KeeperOptions struct {
	Leases Leases
	Name   string        // of the lease
	Owner  string        // for display; "" is a random one
	TTL    time.Duration // how soon others take over from a process that died; 0 is 120 s, at least 100 ms
	Renew  time.Duration // between renewals; 0 is 10 s, or TTL/3 when that is less; at most TTL/2
	Retry  time.Duration // longest pause between attempts to get the lease; 0 is 5 s, or TTL when that is less
	Logger *slog.Logger  // nil: dropped
}

// A Keeper holds a lease for as long as it can: it competes for it, renews it,
// says when it is lost, and gives it back. All methods are safe for concurrent
// use.
type Keeper struct {
	options KeeperOptions
	mu      sync.Mutex
	tenure  *Tenure // nil when it does not hold the lease
}

// NewKeeper returns a *schedule.FieldError for options that are refused. It
// starts nothing.
func NewKeeper(options KeeperOptions) (*Keeper, error) {
	if options.Leases == nil {
		return nil, &schedule.FieldError{Field: "leases", Value: "nil", Allowed: "where leases are kept"}
	}
	if options.Name == "" {
		return nil, &schedule.FieldError{Field: "name", Allowed: "the name of the lease"}
	}
	if options.TTL == 0 {
		options.TTL = DefaultLeaseTTL
	}
	if options.TTL < leastLeaseTTL {
		return nil, &schedule.FieldError{Field: "ttl", Value: options.TTL.String(), Allowed: "0 (120s), or at least 100ms"}
	}
	if options.Renew == 0 {
		options.Renew = min(DefaultLeaseRenew, options.TTL/3)
	}
	if options.Renew < time.Millisecond || options.Renew > options.TTL/2 {
		return nil, &schedule.FieldError{Field: "renew", Value: options.Renew.String(), Allowed: "0 (10s), or 1ms to half of the TTL"}
	}
	if options.Retry == 0 {
		options.Retry = min(DefaultLeaseRetry, options.TTL)
	}
	if options.Retry < leastRetry {
		return nil, &schedule.FieldError{Field: "retry", Value: options.Retry.String(), Allowed: "0 (5s), or at least 10ms"}
	}
	if options.Owner == "" {
		options.Owner = rand.Text()
	}
	options.Logger = orSilent(options.Logger)
	return &Keeper{options: options}, nil
}

func orSilent(logger *slog.Logger) *slog.Logger {
	if logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return logger
}

// A Tenure is one time of holding a lease, from its grant to its loss or
// release.
type Tenure struct {
	mu    sync.Mutex
	lease Lease
	lost  chan struct{}
	err   error // why, once lost is closed
}

// Lease returns the lease as it was renewed last. Its token is the same during
// the whole tenure.
func (t *Tenure) Lease() Lease {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lease
}

// Lost is closed when the lease is lost, or cannot be trusted any more.
func (t *Tenure) Lost() <-chan struct{} { return t.lost }

func (t *Tenure) set(lease Lease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lease = lease
}

// Lease returns the lease that is held now, and false when none is held or it
// cannot be trusted any more.
func (k *Keeper) Lease() (Lease, bool) {
	k.mu.Lock()
	tenure := k.tenure
	k.mu.Unlock()
	if tenure == nil {
		return Lease{}, false
	}
	lease := tenure.Lease()
	return lease, lease.Valid(time.Now())
}

// Run competes for the lease until ctx ends, and returns nil then. Each time
// it has it, it calls held. The context of held ends with ctx, or when the
// lease is lost, with ErrLost or ErrUntrusted as its cause. The lease is
// renewed until held returns, also after ctx has ended; only then it is given
// back, and only then Run tries to get it again.
func (k *Keeper) Run(ctx context.Context, held func(ctx context.Context, tenure *Tenure)) error {
	nonce, failing := rand.Text(), false
	for ctx.Err() == nil {
		call, cancel := context.WithTimeout(ctx, min(leaseCall, k.options.TTL))
		lease, granted, err := k.options.Leases.Acquire(call, LeaseRequest{
			Name: k.options.Name, Owner: k.options.Owner, Nonce: nonce, TTL: k.options.TTL})
		cancel()
		if err != nil {
			// The nonce stays: when the reply was lost, the next call gets the grant.
			if !failing && ctx.Err() == nil {
				k.options.Logger.Warn("acquiring the lease failed; trying again", "lease", k.options.Name, "error", err)
			}
			failing = true
			wait(ctx, k.options.Retry)
			continue
		}
		nonce, failing = rand.Text(), false
		pause := k.options.Retry
		switch {
		case !granted:
			pause = k.pause(ctx)
		case !lease.Valid(time.Now()): // the reply came too late
			k.release(ctx, lease)
		case k.hold(ctx, lease, held):
			pause = leastRetry
		}
		wait(ctx, pause)
	}
	return nil
}

// pause is how long to wait before the next attempt: until the lease of the
// other owner ends, but no longer than Retry.
func (k *Keeper) pause(ctx context.Context) time.Duration {
	call, cancel := context.WithTimeout(ctx, min(leaseCall, k.options.Retry))
	defer cancel()
	info, isHeld, err := k.options.Leases.Lookup(call, k.options.Name)
	switch {
	case err != nil:
		return k.options.Retry
	case !isHeld:
		return leastRetry
	}
	return max(leastRetry, min(k.options.Retry, time.Until(info.Until)+time.Millisecond))
}

// hold calls held and keeps the lease until it has returned. It reports
// whether the lease was lost.
func (k *Keeper) hold(ctx context.Context, lease Lease, held func(context.Context, *Tenure)) bool {
	tenure := &Tenure{lease: lease, lost: make(chan struct{})}
	k.begin(tenure)
	k.options.Logger.Info("lease acquired", "lease", lease.Name, "owner", lease.Owner, "token", lease.Token.String())
	active, cancel := context.WithCancelCause(ctx)
	alive, ended := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer ended()
		held(active, tenure)
	}()
	err := k.renew(alive, tenure)
	if err != nil {
		k.options.Logger.Warn("lease lost; ending what runs under it", "lease", lease.Name, "token", lease.Token.String(), "error", err)
		k.begin(nil)
		tenure.err = err
		close(tenure.lost)
		cancel(err)
		<-alive.Done()
	}
	cancel(nil)
	k.begin(nil)
	k.release(ctx, tenure.Lease())
	return err != nil
}

// release gives the lease back, when it is still this keeper's.
func (k *Keeper) release(ctx context.Context, lease Lease) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	released, err := k.options.Leases.Release(call, lease)
	if err != nil {
		k.options.Logger.Warn("releasing the lease failed; it runs out", "lease", lease.Name, "error", err)
		return
	}
	k.options.Logger.Info("lease ended", "lease", lease.Name, "token", lease.Token.String(), "released", released)
}

func (k *Keeper) begin(tenure *Tenure) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tenure = tenure
}

// renew extends the lease until alive ends; an error says how it was lost.
func (k *Keeper) renew(alive context.Context, tenure *Tenure) error {
	failing := false
	for {
		lease := tenure.Lease()
		if !wait(alive, min(k.options.Renew, time.Until(lease.trustedUntil))) {
			return nil
		}
		if !lease.Valid(time.Now()) {
			return ErrUntrusted
		}
		call, cancel := context.WithTimeout(alive, min(k.options.Renew, leaseCall, time.Until(lease.trustedUntil)))
		renewed, ok, err := k.options.Leases.Renew(call, lease, k.options.TTL)
		cancel()
		switch {
		case alive.Err() != nil:
			return nil
		case err != nil:
			if !failing {
				k.options.Logger.Warn("renewing the lease failed; trying again", "lease", lease.Name, "error", err)
			}
			failing = true
		case !ok:
			return ErrLost
		default:
			failing = false
			tenure.set(renewed)
		}
	}
}

// wait sleeps and reports false when ctx ended before.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
