package memstore

import (
	"cmp"
	"slices"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// maxRanges bounds a schedule's verdict history: the current range and 32
// older ones.
const maxRanges = 33

// maxError bounds stored error texts, in bytes.
const maxError = 1024

// maxOpen bounds the lists of open firings in replies.
const maxOpen = 100

// A flag is what operators and the breaker made of a schedule.
type flag int

const (
	enabled flag = iota
	paused
	disabled
	halfOpen // after a cool-down: one probe may run
)

// A record is a schedule with everything that is known of it.
type record struct {
	id         schedule.ID
	compiled   *schedule.Compiled
	created    time.Time
	updated    time.Time
	version    int64
	generation int64

	flag        flag
	until       time.Time // end of a timed pause or of a cool-down; zero: none
	pausedAt    time.Time
	pausedBy    string
	pauseReason string

	next      time.Time // the pending scheduled time; zero: none
	notBefore time.Time // when it may be claimed, if later than next
	waiting   bool      // an "after" schedule whose run is open: next comes when it ends
	hwm       time.Time // high-water mark: every scheduled time up to it has its verdict

	token    claim.Token // of the claim; 0: not claimed
	deadline time.Time   // of the claim

	open   []*firing // in order of opening, without buffered ones
	buffer []*firing // oldest first

	skips  []time.Time             // scheduled times to skip, in order
	told   phase                   // the state that events know of
	ranges []schedule.VerdictRange // oldest first; the last one ends at hwm
	fired  int64                   // scheduled times with VerdictFired

	consecutive    int64 // failures
	runs, failures int64
	last           claim.RunRecord   // the last run that ended; Outcome "": none
	note           note              // what happened since
	enqueueError   string            // of a claim that was released since
	log            []claim.RunRecord // newest first
}

// A note says what happened to a schedule since its last run ended: another
// began, or the breaker disabled it.
type note struct {
	status  schedule.LastStatus // LastNone, LastRunning or LastDisabled
	run     claim.Run           // the one running
	started time.Time
}

// A firing is a ledger record.
type firing struct {
	id         claim.FiringID
	key        claim.Firing // id, parsed
	state      claim.FiringState
	attempt    int
	token      claim.Token // of the last attempt; 0: never run
	owner      string
	worker     string
	started    time.Time // of the last attempt, on the store's clock
	leaseUntil time.Time
	redrives   int
	queue      string // where the task went, whatever was edited since
	openedAt   time.Time
	audit      time.Time        // when the auditor looks at it
	released   bool             // it was buffered; whoever closed the one before was told
	reclaimed  bool             // claimed more than once: it may be in its queue already
	cancel     bool             // a newer firing wants it to end, or an operator
	byHand     bool             // with cancel: an operator
	owed       bool             // the task of its re-drive may not have been enqueued
	extra      *claim.Extra     // of a trigger; nil: none
	waits      []claim.FiringID // of a trigger: what it asked to end and waits for
}

func (r *record) definition() schedule.Schedule { return r.compiled.Definition() }

func (r *record) overlap() schedule.Overlap { return r.definition().Overlap }

// obeysOverlap reports whether open firings can forbid or delay the next one.
func (r *record) obeysOverlap() bool {
	return obeyed(r.overlap())
}

// obeyed is the same for a policy.
func obeyed(policy schedule.Overlap) bool {
	switch policy {
	case schedule.OverlapSkip, schedule.OverlapBufferOne, schedule.OverlapBufferAll:
		return true
	}
	return false
}

// state derives the state that users see.
func (r *record) state() schedule.State {
	switch {
	case r.flag == paused:
		return schedule.StatePaused
	case r.flag == disabled:
		return schedule.StateDisabled
	case r.next.IsZero() && !r.waiting:
		return schedule.StateCompleted
	}
	return schedule.StateActive
}

// pending returns the firing of the pending scheduled time.
func (r *record) pending() claim.FiringID {
	return claim.ScheduledFiring(r.id, r.generation, r.next)
}

// others returns the open firings beside the given one.
func (r *record) others(id claim.FiringID) []claim.FiringID {
	var others []claim.FiringID
	for _, f := range r.open {
		if f.id != id {
			others = append(others, f.id)
		}
	}
	return others
}

// claimable reports whether the pending scheduled time may be claimed at now,
// a live claim aside. In half-open, a probe whose claim ran out may be claimed
// again, but no second one.
func (r *record) claimable(now time.Time) bool {
	if r.next.IsZero() || later(r.next, r.notBefore).After(now) {
		return false
	}
	return r.flag == enabled || r.flag == halfOpen && len(r.others(r.pending())) == 0
}

// due returns the time at which a worker must look at the schedule next: the
// end of its claim, of its pause or cool-down, or its pending scheduled time.
// False: never, until something else happens to it.
func (r *record) due() (time.Time, bool) {
	switch {
	case r.token != 0:
		return r.deadline.Add(time.Millisecond), true // strictly after the deadline
	case r.flag == paused || r.flag == disabled:
		return r.until, !r.until.IsZero()
	case r.next.IsZero() || r.flag == halfOpen && len(r.others(r.pending())) > 0:
		return time.Time{}, false
	}
	return later(r.next, r.notBefore), true
}

// advance gives one scheduled time its verdict and raises the high-water mark
// to it. Below the mark it does nothing: a verdict is final.
func (r *record) advance(at time.Time, verdict schedule.Verdict, why int) {
	r.cover(schedule.VerdictRange{Verdict: verdict, Why: why, Count: 1, First: at, Last: at})
}

// cover gives all scheduled times of the range its verdict. Nothing else
// raises the high-water mark, so the ranges partition everything up to it.
func (r *record) cover(v schedule.VerdictRange) {
	v.First, v.Last = millis(v.First), millis(v.Last)
	if !v.Last.After(r.hwm) {
		return
	}
	r.hwm = v.Last
	if v.Verdict == schedule.VerdictFired {
		r.fired += v.Count
	}
	if n := len(r.ranges); n > 0 && r.ranges[n-1].Verdict == v.Verdict && r.ranges[n-1].Why == v.Why {
		current := &r.ranges[n-1]
		if current.Count == 0 || v.Count == 0 {
			current.Count = 0 // not counted
		} else {
			current.Count += v.Count
		}
		current.Last = v.Last
		return
	}
	r.ranges = append(r.ranges, v)
	if len(r.ranges) > maxRanges {
		r.ranges = slices.Delete(r.ranges, 0, 1)
	}
}

// unclaim ends the claim without settling it.
func (r *record) unclaim() { r.token, r.deadline = 0, time.Time{} }

// promise is what an operator's act does to a claim that it meets. With an
// intent the firing still happens: the claimer or the auditor enqueues it.
// Without one the claim is dropped and the scheduled time stays pending.
func (d *data) promise(r *record) {
	if r.token == 0 {
		return
	}
	d.keepIntent(r)
	r.unclaim()
}

// keepIntent lets the pending scheduled time stand as fired when it has an
// intent: that may be in its queue already, and the auditor sees to it.
func (d *data) keepIntent(r *record) {
	if d.firings[r.pending()] != nil {
		r.advance(r.next, schedule.VerdictFired, 0)
	}
}

// openFiring enters a firing into the ledger.
func (d *data) openFiring(r *record, f *firing) *firing {
	f.key, _ = claim.ParseFiringID(string(f.id)) // built by this package or parsed before
	f.queue = r.definition().Queue
	d.firings[f.id] = f
	r.open = append(r.open, f)
	return f
}

// defaultBuffer is the bound of buffer_all where the schedule has none.
const defaultBuffer = 100

// bufferFiring makes a firing wait for the open ones. False: the buffer is
// full, or the policy has none.
func (d *data) bufferFiring(r *record, f *firing, policy schedule.Overlap) bool {
	bound := 0
	switch policy {
	case schedule.OverlapBufferOne:
		bound = 1
	case schedule.OverlapBufferAll:
		bound = cmp.Or(r.definition().BufferLimit, defaultBuffer)
	}
	if len(r.buffer) >= bound {
		return false
	}
	f.key, _ = claim.ParseFiringID(string(f.id))
	f.state, f.queue = claim.FiringBuffered, r.definition().Queue
	for _, open := range r.open {
		// What others wait for is audited soon, where it is listed.
		if len(r.buffer) == 0 && r.overlap() != schedule.OverlapAllow {
			open.audit = f.openedAt.Add(releaseAudit)
		}
	}
	d.firings[f.id] = f
	r.buffer = append(r.buffer, f)
	return true
}

// drain turns the oldest buffered firing into an intent once nothing is open.
// Somebody who is told enqueues it; the auditor does at audit.
func (d *data) drain(r *record, audit time.Time) []claim.Released {
	if r.flag != enabled || len(r.open) > 0 || len(r.buffer) == 0 {
		return nil
	}
	f := r.buffer[0]
	r.buffer = r.buffer[1:]
	r.open = append(r.open, f)
	f.state, f.released, f.audit = claim.FiringIntent, true, audit
	return []claim.Released{f.free()}
}

// free is what whoever enqueues the firing is told.
func (f *firing) free() claim.Released {
	return claim.Released{Firing: f.id, Queue: f.queue, Extra: f.extra}
}

// closeFiring removes a firing from the ledger. Nothing else does, but
// removing the schedule.
func (d *data) closeFiring(r *record, f *firing) {
	delete(d.firings, f.id)
	is := func(other *firing) bool { return other == f }
	r.open = slices.DeleteFunc(r.open, is)
	r.buffer = slices.DeleteFunc(r.buffer, is)
}

// follow does what is due when a firing was closed: a schedule that waited for
// the end of its run gets its next time, and a buffered firing is released.
func (d *data) follow(r *record, now time.Time) []claim.Released {
	released := d.drain(r, now.Add(releaseAudit))
	if !r.waiting || len(r.open) > 0 {
		return released
	}
	r.waiting = false
	if next, ok := r.compiled.Next(now); ok {
		r.next, r.notBefore = later(millis(next), r.hwm.Add(time.Millisecond)), time.Time{}
	}
	return released
}

// failed counts a failure and reports whether it disabled the schedule.
func (d *data) failed(r *record, now time.Time) bool {
	r.consecutive++
	limit := int64(r.definition().MaxFailures)
	reached := r.flag == enabled && limit > 0 && r.consecutive >= limit && r.state() == schedule.StateActive
	if r.flag != halfOpen && !reached {
		return false
	}
	d.promise(r)
	r.flag, r.until = disabled, time.Time{}
	if coolDown := r.definition().CoolDown; coolDown > 0 {
		r.until = millis(now.Add(coolDown))
	}
	r.note = note{status: schedule.LastDisabled, started: r.note.started}
	return true
}

// succeeded clears the count of failures and ends a half-open state.
func (r *record) succeeded() {
	r.consecutive = 0
	if r.flag == halfOpen {
		r.flag = enabled
	}
}

// endProbing ends a half-open state when nothing is left to fire: a completed
// schedule has nothing to probe.
func (r *record) endProbing() {
	if r.flag == halfOpen && r.state() == schedule.StateCompleted {
		r.flag = enabled
	}
}
