package claim

import (
	"context"
	"strconv"
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
	// Announce records the member as seen now and returns what is wanted of it.
	Announce(ctx context.Context, member Member) (Drain, error)
	// Withdraw removes it; a member that ended is not missed.
	Withdraw(ctx context.Context, id string) error
	// Members returns those seen within maxAge and forgets older ones.
	Members(ctx context.Context, maxAge time.Duration) ([]Member, error)
	// Drain asks a member to take no new work, and returns since when it was
	// asked. It hears of it when it announces itself next, or sooner, by Heed.
	// The wish ends with the process of the member. False: there is no such
	// member.
	Drain(ctx context.Context, member Member, by, reason string) (Drain, bool, error)
	// Undrain takes that back. False: there is no such member.
	Undrain(ctx context.Context, member Member) (bool, error)
	// Heed returns a channel that receives after Drain and Undrain of any
	// member; otherwise it is as Waker.Wake.
	Heed(ctx context.Context) (wake <-chan struct{}, healthy func() bool, err error)
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
	State    MemberState    `json:"state,omitempty"`   // "" is MemberWorking
	Running  int            `json:"running,omitempty"` // tasks, periodic tasks and groups that it runs
	Seen     time.Time      `json:"seen_at"`           // on the store's clock
	Drain    Drain          `json:"-"`                 // what is wanted of it; zero: nothing
}

// Process tells processes apart that announce themselves under one ID.
func (m Member) Process() string { return strconv.FormatInt(m.Started.UnixMilli(), 10) }

// Working reports whether nobody wants the member to drain.
func (m Member) Working() bool { return !m.Drain.Wanted() }

// Claiming reports whether the member claims due schedules now.
func (m Member) Claiming() bool { return m.Claims && m.Working() }

// Serves reports whether the member takes tasks from the queue now. Types says
// which it can run.
func (m Member) Serves(queue string) bool {
	_, ok := m.Queues[queue]
	return ok && m.Working()
}

// MemberState is what a member does.
type MemberState string

// The states of a member.
const (
	MemberWorking  MemberState = "working"
	MemberDraining MemberState = "draining" // it takes no new work and ends what it runs; without a wish it stops
	MemberDrained  MemberState = "drained"  // it runs nothing
)

// A Drain is an operator's wish that a worker takes no new work. The zero Drain
// is none.
type Drain struct {
	Since      time.Time // on the store's clock; zero: it is not wanted
	By, Reason string
}

// Wanted reports whether there is such a wish.
func (d Drain) Wanted() bool { return !d.Since.IsZero() }

// String says who and why, "" when neither is known.
func (d Drain) String() string {
	switch {
	case d.By == "":
		return d.Reason
	case d.Reason == "":
		return "by " + d.By
	}
	return "by " + d.By + ": " + d.Reason
}
