package claim

import (
	"context"
	"time"
)

// A FiringReader reads the ledger without changing it.
type FiringReader interface {
	// Firings returns the records of those that are open, and the store's
	// clock. It leaves out what is settled or was never known.
	Firings(ctx context.Context, ids []FiringID) (map[FiringID]OpenFiring, time.Time, error)
}
