package worker

import (
	"sync/atomic"
	"time"
)

// Counts are totals of a Scheduler since it was built.
type Counts struct {
	Claimed   int64 // scheduled times claimed
	Enqueued  int64 // firings whose task was put into a queue, or was there
	Completed int64 // claims that were completed
	Released  int64 // claims handed back
	Stale     int64 // claims that ran out before they were acted upon, or were lost
	Isolated  int64 // schedules put aside, each time that they were
	Swept     int64 // audits

	// When the store last answered a claim and an audit, on this host's clock;
	// zero: not yet.
	ClaimedAt, SweptAt time.Time
}

type counters struct {
	claimed, enqueued, completed, released, stale, isolated, swept atomic.Int64

	sweptAt atomic.Int64 // Unix nanoseconds; 0: never
}

// Counts returns the totals now.
func (s *Scheduler) Counts() Counts {
	c := &s.counters
	return Counts{Claimed: c.claimed.Load(), Enqueued: c.enqueued.Load(), Completed: c.completed.Load(),
		Released: c.released.Load(), Stale: c.stale.Load(), Isolated: c.isolated.Load(), Swept: c.swept.Load(),
		ClaimedAt: instant(s.progress.Load()), SweptAt: instant(c.sweptAt.Load())}
}

// instant is the time of Unix nanoseconds; 0 is none.
func instant(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}
