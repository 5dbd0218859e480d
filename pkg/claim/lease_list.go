package claim

import "context"

// A LeaseLister lists leases, for people.
type LeaseLister interface {
	// List returns every lease that was ever granted, by name. A free one has
	// no owner.
	List(ctx context.Context) ([]LeaseInfo, error)
}
