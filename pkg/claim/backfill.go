package claim

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// ErrNoBackfill reports that the schedule has no backfill of that ID: it was
// never started, or ended or was halted more than 7 days ago. Retrying cannot
// succeed.
var ErrNoBackfill = errors.New("claim: no such backfill")

// Bounds and defaults of a BackfillRequest.
const (
	DefaultBackfillEvery = time.Second
	MaxBackfillOpen      = 100
)

// Backfills fire scheduled times of the past once more, or for the first time.
// A backfill is a cursor in the store: any worker may make its next step. Its
// firings have IDs of their own ([KindBackfill]) and never move the regular
// scheduled times. While the schedule is paused or disabled it waits.
type Backfills interface {
	// StartBackfill begins one. The same ID again, within 7 days, answers with
	// the one that was started first. It returns schedule.ErrNotFound, and a
	// *schedule.FieldError for a request that is refused.
	StartBackfill(ctx context.Context, request BackfillRequest) (Backfill, error)
	// Backfill returns where one stands, or ErrNoBackfill.
	Backfill(ctx context.Context, id schedule.ID, backfill string) (Backfill, error)
	// HaltBackfill stops one where it is: what it opened runs on. It answers
	// with the state after that, or ErrNoBackfill.
	HaltBackfill(ctx context.Context, id schedule.ID, backfill string) (Backfill, error)
	// ResumeBackfill lets a halted one go on where it was.
	ResumeBackfill(ctx context.Context, id schedule.ID, backfill string) (Backfill, error)
	// DueBackfills names backfills of a shard whose next step may run, and
	// hides them for a while, so that few workers compute the same step.
	DueBackfills(ctx context.Context, request DueBackfillsRequest) (BackfillBatch, error)
	// StepBackfill opens firings and moves the cursor.
	StepBackfill(ctx context.Context, step BackfillStep) (BackfillResult, error)
}

// BackfillRequest starts a backfill.
type BackfillRequest struct {
	Schedule schedule.ID
	ID       string    // as a request ID; "" draws one
	From     time.Time // first instant, inclusive
	To       time.Time // last instant, inclusive; not after the store's clock
	Every    time.Duration
	// Overlap: OverlapAllow opens beside what is open, at most MaxOpen;
	// OverlapBufferAll, or "", waits until nothing of the schedule is open;
	// OverlapSkip passes over a scheduled time while something is.
	Overlap schedule.Overlap
	MaxOpen int   // firings of it open at a time; 0 is MaxBackfillOpen, which is also the most
	Limit   int64 // firings in all; 0: no limit
	Again   bool  // also scheduled times that have fired, or that are still pending
}

// A Backfill is where a backfill stands.
type Backfill struct {
	Schedule   schedule.ID
	ID         string
	Generation int64 // of the schedule when it was started
	From, To   time.Time
	Cursor     time.Time     // the last scheduled time that was looked at; zero: none is left
	Every      time.Duration // between two firings, at least
	Overlap    schedule.Overlap
	MaxOpen    int
	Limit      int64
	Again      bool
	StartedAt  time.Time
	HaltedAt   time.Time // zero: it goes on
	EndedAt    time.Time // zero: it has not ended
	Open       int       // firings that were opened and have not ended
	Opened     int64     // firings so far
	Passed     int64     // scheduled times that were not opened: they had fired, were pending, or overlapped
	Failed     int64     // firings that ended as failed or lost
	Existed    bool      // of StartBackfill: it had been started before
}

// DueBackfillsRequest asks for backfills of one shard.
type DueBackfillsRequest struct {
	Shard int
	Limit int           // at most this many
	Hide  time.Duration // when they are named again if nothing happens
}

// A BackfillBatch is the reply to DueBackfills.
type BackfillBatch struct {
	Now       time.Time // the store's clock
	NextDue   time.Time // earliest time at which another look pays; zero: there is none
	Backfills []Backfill
}

// A BackfillStep opens the next firings.
type BackfillStep struct {
	Schedule schedule.ID
	ID       string
	Expected time.Time   // the cursor that the step was computed from
	Cursor   time.Time   // from now on; zero: nothing is left
	Passed   int64       // scheduled times in between that are not opened
	Open     []time.Time // scheduled times to open, oldest first; at most MaxBackfillOpen
}

// StepAnswer is what StepBackfill says.
type StepAnswer string

// The answers.
const (
	StepOK    StepAnswer = "OK"
	StepStale StepAnswer = "STALE" // another step was made, or it was halted or ended
	StepWait  StepAnswer = "WAIT"  // for the rate, for open firings, or for a schedule that is stopped
	StepGone  StepAnswer = "GONE"  // no such backfill, or the schedule was deleted
)

// BackfillResult answers BackfillStep.
type BackfillResult struct {
	Answer   StepAnswer
	Backfill Backfill   // after it; zero with StepGone
	Released []Released // firings that were opened; the caller enqueues each. With StepStale those that nobody enqueued yet
}

// BackfillFiring returns the ID of a scheduled time inside a backfill.
func BackfillFiring(id schedule.ID, generation int64, backfill string, at time.Time) FiringID {
	return FiringID(string(id) + ":" + strconv.FormatInt(generation, 10) + ":b" + backfill + "." + strconv.FormatInt(at.UnixMilli(), 10))
}

// Complete checks the request against the store's clock and fills in the
// defaults. It returns a *schedule.FieldError for what is refused.
func (r *BackfillRequest) Complete(now time.Time) error {
	if err := r.Schedule.Validate(); err != nil {
		return err
	}
	if err := schedule.ValidateRequestID(r.ID); err != nil {
		return &schedule.FieldError{Field: "backfill", Value: r.ID, Allowed: "1 to 36 letters, digits, '-' or '_'"}
	}
	if r.Overlap == "" {
		r.Overlap = schedule.OverlapBufferAll
	}
	if r.Every == 0 {
		r.Every = DefaultBackfillEvery
	}
	if r.MaxOpen == 0 {
		r.MaxOpen = MaxBackfillOpen
	}
	refuse := func(field, value, allowed string) error {
		return &schedule.FieldError{Field: field, Value: value, Allowed: allowed}
	}
	switch {
	case r.From.UnixMilli() < 2:
		return refuse("from", r.From.UTC().Format(time.RFC3339Nano), "a time after 1970")
	case r.To.Before(r.From):
		return refuse("to", r.To.UTC().Format(time.RFC3339Nano), "a time that is not before from")
	case r.To.After(now):
		return refuse("to", r.To.UTC().Format(time.RFC3339Nano), "a time in the past: what lies ahead fires by itself")
	case r.Overlap != schedule.OverlapAllow && r.Overlap != schedule.OverlapSkip && r.Overlap != schedule.OverlapBufferAll:
		return refuse("overlap", string(r.Overlap), "allow, skip or buffer_all")
	case r.Every < time.Millisecond:
		return refuse("every", r.Every.String(), "1ms or more, or 0 for "+DefaultBackfillEvery.String())
	case r.MaxOpen < 1 || r.MaxOpen > MaxBackfillOpen:
		return refuse("max_open", strconv.Itoa(r.MaxOpen), "1 to "+strconv.Itoa(MaxBackfillOpen)+", or 0 for that")
	case r.Limit < 0:
		return refuse("limit", strconv.FormatInt(r.Limit, 10), "0 (none) or more")
	}
	return nil
}

// Room is how many firings one more step may open.
func (b *Backfill) Room() int {
	room := b.MaxOpen - b.Open
	if b.Limit > 0 {
		room = int(min(int64(room), b.Limit-b.Opened))
	}
	if b.Overlap != schedule.OverlapAllow {
		return min(room, 1)
	}
	return min(room, max(1, int(time.Second/b.Every)))
}

// maxPassed bounds the scheduled times that one step passes over.
const maxPassed = 1000

// Wants reports whether the backfill opens a scheduled time. Unless Again, it
// leaves out those that have fired, as far as the history of the schedule goes
// back, and those that are still pending: they get their verdict yet.
func (b *Backfill) Wants(status *schedule.Status, at time.Time) bool {
	if b.Again {
		return true
	}
	if !status.NextAt.IsZero() && !at.Before(status.NextAt) {
		return false
	}
	r, known := status.VerdictAt(at)
	return !known || r.Verdict != schedule.VerdictFired
}

// Plan computes the next step. It is pure, and its work is bounded. False:
// there is nothing to do before an open firing has ended.
func (b *Backfill) Plan(c *schedule.Compiled, status *schedule.Status) (BackfillStep, bool) {
	step := BackfillStep{Schedule: b.Schedule, ID: b.ID, Expected: b.Cursor, Cursor: b.Cursor}
	for step.Passed < maxPassed {
		next, ok := c.Next(step.Cursor)
		if !ok || next.After(b.To) {
			step.Cursor = time.Time{}
			break
		}
		if !b.Wants(status, next) {
			step.Passed++
		} else if len(step.Open) < b.Room() {
			step.Open = append(step.Open, next.UTC())
		} else {
			break
		}
		step.Cursor = next.UTC()
	}
	return step, !step.Cursor.Equal(step.Expected)
}
