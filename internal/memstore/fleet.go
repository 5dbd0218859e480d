package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
)

var _ claim.Roster = (*Store)(nil)

// Wake subscribes to wake-ups until ctx ends. In memory the subscription is
// always healthy.
func (s *Store) Wake(ctx context.Context) (<-chan struct{}, func() bool, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, nil, err
	}
	defer s.mu.Unlock()
	waker := make(chan struct{}, 1)
	s.wakers[waker] = struct{}{}
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.wakers, waker)
		close(waker)
	})
	return waker, func() bool { return ctx.Err() == nil }, nil
}

// wake tells every subscriber that did not hear of the last wake-up yet.
func (d *data) wake() {
	for waker := range d.wakers {
		select {
		case waker <- struct{}{}:
		default:
		}
	}
}

// Announce records the member as seen now.
func (s *Store) Announce(ctx context.Context, member claim.Member) error {
	now, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	member.Seen = now
	s.members[member.ID] = member
	return nil
}

// Withdraw removes a member.
func (s *Store) Withdraw(ctx context.Context, id string) error {
	if _, err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	delete(s.members, id)
	return nil
}

// Members returns those seen within maxAge, by ID, and forgets older ones.
func (s *Store) Members(ctx context.Context, maxAge time.Duration) ([]claim.Member, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var members []claim.Member
	for id, member := range s.members {
		if now.Sub(member.Seen) > maxAge {
			delete(s.members, id)
			continue
		}
		members = append(members, member)
	}
	slices.SortFunc(members, func(a, b claim.Member) int { return cmp.Compare(a.ID, b.ID) })
	return members, nil
}
