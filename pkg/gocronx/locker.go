package gocronx

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// ErrLocked reports that another process has the key: it runs the job, or ran
// it a moment ago. gocron skips the run.
var ErrLocked = errors.New("gocronx: another process has the lock")

// Defaults of a Locker.
const (
	DefaultLockTTL = 30 * time.Second
	DefaultHold    = 500 * time.Millisecond
)

const (
	leastLockTTL = 30 * time.Millisecond
	unlockTime   = 2 * time.Second // bounds the last call for a lock
)

// LockerOptions configure a Locker. Leases is needed.
type LockerOptions struct {
	Leases claim.Leases  // such as redisstore's Store.Leases
	Owner  string        // for display; "" is a random one
	TTL    time.Duration // how soon a key is free when its process died; renewed while the job runs; 0 is 30 s, at least 30 ms
	// Hold is how long a key is kept from the start of a run, also when the job
	// has ended before: a process whose clock is late by less cannot run the
	// job again. 0 is 500 ms. Keep it below the shortest interval of a job.
	Hold   time.Duration
	Logger *slog.Logger // nil: dropped
}

// A Locker lets one of many gocron schedulers run each job. Hand it over with
// gocron.WithDistributedLocker, and give every job a name: that is the key. An
// Elector is the stronger choice, since it needs no bound on the skew of
// clocks. All methods are safe for concurrent use.
type Locker struct {
	options LockerOptions
	mu      sync.Mutex
	held    map[string]claim.Lease
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker returns a *schedule.FieldError for options that are refused. It
// starts nothing.
func NewLocker(options LockerOptions) (*Locker, error) {
	if options.Leases == nil {
		return nil, &schedule.FieldError{Field: "leases", Value: "nil", Allowed: "where leases are kept"}
	}
	if options.TTL == 0 {
		options.TTL = DefaultLockTTL
	}
	if options.TTL < leastLockTTL {
		return nil, &schedule.FieldError{Field: "ttl", Value: options.TTL.String(), Allowed: "0 (30s), or at least 30ms"}
	}
	if options.Hold == 0 {
		options.Hold = DefaultHold
	}
	if options.Hold < 0 {
		return nil, &schedule.FieldError{Field: "hold", Value: options.Hold.String(), Allowed: "0 (500ms) or more"}
	}
	if options.Owner == "" {
		options.Owner = rand.Text()
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	return &Locker{options: options, held: map[string]claim.Lease{}}, nil
}

// Lock takes the key, or returns ErrLocked when another process, or another
// run in this one, has it. It renews the key until Unlock.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	if key == "" {
		return nil, &schedule.FieldError{Field: "key", Allowed: "the name of the job"}
	}
	lease, ok, err := l.options.Leases.Acquire(ctx, claim.LeaseRequest{Name: leasePrefix + "lock:" + key,
		Owner: l.options.Owner, Nonce: rand.Text(), TTL: l.options.TTL})
	if err != nil {
		return nil, fmt.Errorf("gocronx: lock job %q: %w", key, err)
	}
	if !ok {
		return nil, fmt.Errorf("gocronx: lock job %q: %w", key, ErrLocked)
	}
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	lock := &heldLock{locker: l, key: key, lease: lease, taken: time.Now(), stop: stop, renewed: make(chan struct{})}
	l.note(key, lease)
	go lock.renew(renewing)
	return lock, nil
}

// Token returns the fencing token under which this process runs the job of
// that name now, and 0 when it does not or cannot trust its lock any more. A
// job that writes passes it along.
func (l *Locker) Token(key string) claim.Token {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lease := l.held[key]; lease.Valid(time.Now()) {
		return lease.Token
	}
	return 0
}

func (l *Locker) note(key string, lease claim.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[key] = lease
}

// forget drops the lease of a run, but not that of a later one.
func (l *Locker) forget(key string, token claim.Token) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[key].Token == token {
		delete(l.held, key)
	}
}

// A heldLock is one run of a job.
type heldLock struct {
	locker  *Locker
	key     string
	taken   time.Time
	stop    context.CancelFunc
	renewed chan struct{} // closed when renewing has ended
	lease   claim.Lease   // of the renewing goroutine until then
}

// renew keeps the key while the job runs.
func (h *heldLock) renew(ctx context.Context) {
	defer close(h.renewed)
	ttl := h.locker.options.TTL
	timer, failing := time.NewTimer(ttl/3), false
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		call, cancel := context.WithTimeout(ctx, ttl/3)
		lease, ok, err := h.locker.options.Leases.Renew(call, h.lease, ttl)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if !failing {
				h.locker.options.Logger.Warn("renewing the lock of a job failed; trying again", "job", h.key, "error", err)
			}
			failing = true
		case !ok:
			h.locker.options.Logger.Warn("the lock of a job was lost while it ran", "job", h.key, "token", h.lease.Token.String())
			h.locker.forget(h.key, h.lease.Token)
			return
		default:
			failing, h.lease = false, lease
			h.locker.note(h.key, lease)
		}
		timer.Reset(ttl / 3)
	}
}

// Unlock gives the key back, or lets it run out at the end of Hold when that
// is later. It works after the context of the job has ended.
func (h *heldLock) Unlock(ctx context.Context) error {
	h.stop()
	<-h.renewed
	h.locker.forget(h.key, h.lease.Token)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTime)
	defer cancel()
	var err error
	if left := h.locker.options.Hold - time.Since(h.taken); left >= time.Millisecond {
		_, _, err = h.locker.options.Leases.Renew(ctx, h.lease, left)
	} else {
		_, err = h.locker.options.Leases.Release(ctx, h.lease)
	}
	if err != nil {
		return fmt.Errorf("gocronx: unlock job %q, which is free after the TTL: %w", h.key, err)
	}
	return nil
}
