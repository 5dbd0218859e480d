package redisstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/scripts/lua"
)

const (
	// wakePing is how long a subscription may be silent before it is asked
	// whether it lives.
	wakePing = 5 * time.Second
	// wakeRetry is how long a lost subscription waits before it tries again.
	wakeRetry = 250 * time.Millisecond
)

// Wake subscribes to wake-ups until ctx ends.
func (s *Store) Wake(ctx context.Context) (<-chan struct{}, func() bool, error) {
	return s.listen(ctx, s.keys.wakeChannel(), wakePing)
}

// listen subscribes to a channel. A receive that lasts for wakePing is broken off
// when ctx ends; a shorter one ends by itself then.
func (s *Store) listen(ctx context.Context, channel string, receive time.Duration) (<-chan struct{}, func() bool, error) {
	w := &waker{subscription: s.client.Subscribe(ctx, channel), wake: make(chan struct{}, 1), receive: receive}
	if err := ctx.Err(); err != nil {
		return nil, nil, errors.Join(wrap("subscribe to wake-ups", err), w.subscription.Close())
	}
	go w.listen(ctx)
	return w.wake, w.healthy.Load, nil
}

// A waker turns messages into wake-ups.
type waker struct {
	subscription *redis.PubSub
	wake         chan struct{}
	healthy      atomic.Bool
	receive      time.Duration // how long one receive lasts, at most
}

// listen receives until ctx ends. The client reconnects and subscribes again
// by itself; meanwhile the subscription counts as unhealthy.
func (w *waker) listen(ctx context.Context) {
	stop := func() bool { return true }
	if w.receive >= wakePing {
		stop = context.AfterFunc(ctx, func() { _ = w.subscription.Close() }) // ends a blocked receive
	}
	defer func() {
		stop()
		_ = w.subscription.Close() // closed before, or gone with its connection
		w.healthy.Store(false)
		close(w.wake)
	}()
	asked, silent := false, time.Duration(0)
	for ctx.Err() == nil {
		message, err := w.subscription.ReceiveTimeout(ctx, w.receive)
		var network net.Error
		switch {
		case err == nil:
			asked, silent = false, 0
			w.healthy.Store(true)
			if _, isPong := message.(*redis.Pong); !isPong {
				w.notify() // what was missed before a new subscription counts as a message
			}
		case errors.As(err, &network) && network.Timeout() && silent+w.receive < wakePing:
			silent += w.receive
		case errors.As(err, &network) && network.Timeout() && !asked:
			asked, silent = w.subscription.Ping(ctx) == nil, 0
		default:
			asked, silent = false, 0
			w.healthy.Store(false)
			select {
			case <-ctx.Done():
			case <-time.After(wakeRetry):
			}
		}
	}
}

func (w *waker) notify() {
	select {
	case w.wake <- struct{}{}:
	default: // one is waiting to be heard
	}
}

// Announce records the member as seen now.
func (s *Store) Announce(ctx context.Context, m claim.Member) (claim.Drain, error) {
	const doing = "announce the worker"
	if m.ID == "" {
		return claim.Drain{}, &schedule.FieldError{Field: "id", Allowed: "the ID of the worker"}
	}
	m.Seen = time.Time{}
	text, err := json.Marshal(m)
	if err != nil {
		return claim.Drain{}, wrap(doing, err)
	}
	answer, err := s.run(ctx, doing, lua.Announce, s.keys.roster(), s.clock(m.ID, string(text), m.Process())...)
	if err != nil {
		return claim.Drain{}, err
	}
	return drainOf(m, answer.text(1)), answer.err
}

// Withdraw removes a member.
func (s *Store) Withdraw(ctx context.Context, id string) error {
	pipe := s.client.TxPipeline()
	pipe.ZRem(ctx, s.keys.workers(), id)
	pipe.HDel(ctx, s.keys.members(), id)
	pipe.HDel(ctx, s.keys.drains(), id)
	if commands, err := pipe.Exec(ctx); err != nil {
		return wrap("withdraw the worker", cause(commands, err))
	}
	return nil
}

// Members returns those seen within maxAge, by ID, and forgets older ones.
func (s *Store) Members(ctx context.Context, maxAge time.Duration) ([]claim.Member, error) {
	const doing = "list the workers"
	answer, err := s.run(ctx, doing, lua.Members, s.keys.roster(), s.clock(maxAge.Milliseconds())...)
	if err != nil {
		return nil, err
	}
	var members []claim.Member
	for i := 0; i+2 < len(answer.values); i += 3 {
		var m claim.Member
		if json.Unmarshal([]byte(answer.text(i)), &m) != nil || m.ID == "" {
			continue // announced by a version that says it otherwise
		}
		m.Seen, m.Drain = answer.time(i+1), drainOf(m, answer.text(i+2))
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b claim.Member) int { return cmp.Compare(a.ID, b.ID) })
	return members, answer.err
}
