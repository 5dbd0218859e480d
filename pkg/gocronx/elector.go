package gocronx

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// ErrNotLeader reports that another process leads, or that this one cannot
// trust its lease. gocron skips the run and asks again for the next.
var ErrNotLeader = errors.New("gocronx: this process does not lead")

// DefaultElectorTTL is how soon another process leads when the leader died.
const DefaultElectorTTL = 30 * time.Second

// ElectorOptions configure an Elector. Leases and Name are needed.
type ElectorOptions struct {
	Leases claim.Leases  // such as redisstore's Store.Leases
	Name   string        // of the lease; all processes of one set of jobs use the same
	Owner  string        // for display; "" is a random one
	TTL    time.Duration // 0 is 30 s
	Renew  time.Duration // 0 is 10 s, or TTL/3 when that is less
	Retry  time.Duration // how soon another process leads when the leader stopped; 0 is 5 s, or TTL when that is less
	Logger *slog.Logger  // nil: dropped
}

// An Elector lets exactly one of many gocron schedulers run its jobs. Hand it
// over with gocron.WithDistributedElector, and call Run beside the scheduler:
// nobody leads while no Run runs. All methods are safe for concurrent use.
type Elector struct{ keeper *claim.Keeper }

var _ gocron.Elector = (*Elector)(nil)

// NewElector returns a *schedule.FieldError for options that are refused. It
// starts nothing.
func NewElector(options ElectorOptions) (*Elector, error) {
	if options.TTL == 0 {
		options.TTL = DefaultElectorTTL
	}
	if options.Name == "" {
		return nil, &schedule.FieldError{Field: "name", Allowed: "the name of the election"}
	}
	keeper, err := claim.NewKeeper(claim.KeeperOptions{Leases: options.Leases, Name: leasePrefix + options.Name, Owner: options.Owner,
		TTL: options.TTL, Renew: options.Renew, Retry: options.Retry, Logger: options.Logger})
	if err != nil {
		return nil, err
	}
	return &Elector{keeper: keeper}, nil
}

// leasePrefix keeps the names of jobs apart from those of groups.
const leasePrefix = "gocron:"

// Run competes for leadership, holds it, and gives it back when ctx ends, so
// that another process leads within Retry. Shut the scheduler down first: a
// job that runs on is not stopped. It returns nil.
func (e *Elector) Run(ctx context.Context) error {
	return e.keeper.Run(ctx, func(ctx context.Context, _ *claim.Tenure) { <-ctx.Done() })
}

// IsLeader returns nil while this process leads: while its lease can be
// trusted, which ends a tenth of the TTL before the lease does. Otherwise it
// returns ErrNotLeader. It asks nobody, so it may be called on every run.
func (e *Elector) IsLeader(context.Context) error {
	if _, ok := e.keeper.Lease(); !ok {
		return ErrNotLeader
	}
	return nil
}

// Token returns the fencing token of the leadership, which is larger than that
// of every earlier leader, and 0 while this process does not lead. A job that
// writes passes it along, so that what it writes to can refuse smaller ones.
func (e *Elector) Token() claim.Token {
	lease, ok := e.keeper.Lease()
	if !ok {
		return 0
	}
	return lease.Token
}
