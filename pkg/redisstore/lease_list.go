package redisstore

import (
	"context"
	"slices"

	"github.com/belfryhq/belfry/pkg/claim"
)

var _ claim.LeaseLister = (*Leases)(nil)

// List returns every lease that was ever granted, by name: the free ones have
// no owner. It makes one call for each, so it is for people, not for loops.
func (l *Leases) List(ctx context.Context) ([]claim.LeaseInfo, error) {
	names, err := l.store.client.SMembers(ctx, l.store.keys.leases()).Result()
	if err != nil {
		return nil, wrap("list the leases", err)
	}
	slices.Sort(names)
	var all []claim.LeaseInfo
	for _, name := range names {
		info, _, err := l.Lookup(ctx, name)
		if err != nil {
			return nil, err
		}
		info.Name = name
		all = append(all, info)
	}
	return all, nil
}
