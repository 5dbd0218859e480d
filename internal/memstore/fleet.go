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
func (s *Store) Announce(ctx context.Context, member claim.Member) (claim.Drain, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return claim.Drain{}, err
	}
	defer s.mu.Unlock()
	member.Seen, member.Drain = now, claim.Drain{}
	if before, ok := s.members[member.ID]; ok && before.Process() == member.Process() {
		member.Drain = before.Drain
	}
	s.members[member.ID] = member
	return member.Drain, nil
}

// Drain asks a member to take no new work.
func (s *Store) Drain(ctx context.Context, member claim.Member, by, reason string) (claim.Drain, bool, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return claim.Drain{}, false, err
	}
	defer s.mu.Unlock()
	known, ok := s.members[member.ID]
	if !ok {
		return claim.Drain{}, false, nil
	}
	wish := claim.Drain{Since: now, By: by, Reason: reason}
	if known.Process() != member.Process() {
		return wish, true, nil // that process has ended
	}
	if known.Drain.Wanted() {
		wish.Since = known.Drain.Since
	}
	known.Drain = wish
	s.members[member.ID] = known
	s.wake()
	return wish, true, nil
}

// Undrain takes Drain back.
func (s *Store) Undrain(ctx context.Context, member claim.Member) (bool, error) {
	if _, err := s.enter(ctx); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	known, ok := s.members[member.ID]
	known.Drain = claim.Drain{}
	if ok {
		s.members[member.ID] = known
		s.wake()
	}
	return ok, nil
}

// Heed is Wake: in memory there is one bell.
func (s *Store) Heed(ctx context.Context) (<-chan struct{}, func() bool, error) { return s.Wake(ctx) }

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
