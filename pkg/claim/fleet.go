package claim

import (
	"context"
	"time"
)

// A Waker tells sleeping workers that an earlier due time or an audit
// appeared.
type Waker interface {
	// Wake returns a channel that receives after a put, resume or trigger by
	// any process. Wake-ups may be lost or doubled: they only shorten a sleep.
	// The channel is closed when ctx ends. Healthy tells whether the
	// subscription works now; while it does not, the caller sleeps shorter.
	Wake(ctx context.Context) (wake <-chan struct{}, healthy func() bool, err error)
}

// A Roster knows which workers are alive and what they serve.
type Roster interface {
	// Announce records the member as seen now.
	Announce(ctx context.Context, member Member) error
	// Withdraw removes it; a member that ended is not missed.
	Withdraw(ctx context.Context, id string) error
	// Members returns those seen within maxAge and forgets older ones.
	Members(ctx context.Context, maxAge time.Duration) ([]Member, error)
}

// A Member is a worker of the fleet.
type Member struct {
	ID       string         `json:"id"`
	Host     string         `json:"host"`
	PID      int            `json:"pid"`
	Version  string         `json:"version"`
	TimeZone string         `json:"timezone_data"` // fingerprint of the time zone data
	Queues   map[string]int `json:"queues"`        // with weights
	Types    []string       `json:"types"`         // task types it has handlers for
	Claims   bool           `json:"claims"`        // whether it claims due schedules
	Started  time.Time      `json:"started_at"`
	Seen     time.Time      `json:"seen_at"` // on the store's clock
}
