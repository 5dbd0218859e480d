package memstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/belfryhq/belfry/pkg/claim"
)

var _ claim.LeaseLister = (*Leases)(nil)

// List returns every lease that was ever granted, by name.
func (l *Leases) List(ctx context.Context) ([]claim.LeaseInfo, error) {
	now, err := l.store.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer l.store.mu.Unlock()
	var all []claim.LeaseInfo
	for name, held := range l.store.leases {
		info := claim.LeaseInfo{Name: name}
		if held.until.After(now) {
			info.Owner, info.Token, info.Until = held.owner, held.token, held.until
		}
		all = append(all, info)
	}
	slices.SortFunc(all, func(a, b claim.LeaseInfo) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}
