package top

import (
	"context"
	"time"
)

// A Source is where the view gets its data, and where its acts go. Texts that
// it returns are shown as they are: they must hold no control characters.
type Source interface {
	Read(ctx context.Context) (Snapshot, error)
	// Act does one thing to a schedule and says in a sentence what it did.
	Act(ctx context.Context, act Act, schedule string) (string, error)
}

// An Act is something that can be done to a schedule.
type Act string

// The acts.
const (
	ActPause   Act = "pause"
	ActResume  Act = "resume"
	ActTrigger Act = "trigger"
)

// A Snapshot is the fleet at one moment.
type Snapshot struct {
	Where     string        // address and namespace
	Now       time.Time     // the store's clock
	Ahead     time.Duration // how far this machine's clock is ahead of it
	Active    int64
	Paused    int64
	Disabled  int64
	Due       int64
	Claimed   int64
	Open      int64
	Buffered  int64
	Lateness  time.Duration // of the oldest unclaimed due time
	Fired     int64         // by the schedules that are listed, since some time; for the rate
	Total     int64         // schedules that there are
	Partial   bool          // only those that fire next are listed
	Schedules []Schedule
	Workers   []Worker
	Leases    []Lease
	Runs      []Run
}

// A Schedule is a row of the first view.
type Schedule struct {
	ID, State, When, Last, Error string
	Bad                          bool      // it needs attention
	Paused                       bool      // p resumes it
	Next                         time.Time // zero: none
	Fails                        int64     // in a row
}

// fires is when it fires next; zero: not while nothing is done about it. What is
// paused may keep the time that it was to fire at.
func (s Schedule) fires() time.Time {
	if s.Paused {
		return time.Time{}
	}
	return s.Next
}

// A Worker is a row of the second view.
type Worker struct {
	ID, Host, Queues, Version string
	State                     string // "" and "working" are the same
	Claims                    bool
	Types                     int
	Seen                      time.Time
}

// A Lease is a row of the third view.
type Lease struct {
	Name, Owner, Token string // Owner "" is free
	Until              time.Time
}

// A Run is a row of the fourth view.
type Run struct {
	Schedule, Outcome, Worker, Error string
	Bad                              bool
	Ended                            time.Time
	Took                             time.Duration
}
