package schedule

import (
	"context"
	"errors"
	"time"
)

// Errors of a Catalog.
var (
	// ErrNotFound reports that no schedule or calendar has that name. Check the
	// spelling and the namespace; retrying cannot succeed.
	ErrNotFound = errors.New("schedule: not found")
	// ErrLate reports that a scheduled time has its verdict already, or is
	// claimed and may be in its queue: it is too late to skip it. Retrying
	// cannot succeed.
	ErrLate = errors.New("schedule: too late to skip")
	// ErrConflict reports that the stored version is not the expected one:
	// somebody changed the schedule meanwhile. Read it again, then decide.
	ErrConflict = errors.New("schedule: version conflict")
)

// A Catalog stores schedules. Every method takes effect atomically for one
// schedule. A method that returns an error other than those it lists may or
// may not have taken effect; every one may be called again with the same
// arguments.
type Catalog interface {
	// Put creates the schedule or replaces its definition. Counters, history
	// and generation of an existing one are kept; a changed spec replaces the
	// pending scheduled time at once, an unchanged one leaves it. A firing
	// that is already claimed still happens. Put never resumes a paused
	// schedule. It returns a *FieldError for a definition that is refused and
	// ErrConflict when options.IfVersion does not match.
	Put(ctx context.Context, definition Schedule, options PutOptions) (PutResult, error)
	// PutMany is Put for many, in batches; each takes effect on its own. It
	// returns one result a definition, in order; PutResult.Err tells what was
	// refused. The error is for the call as a whole.
	PutMany(ctx context.Context, definitions []Schedule, options PutOptions) ([]PutResult, error)
	// Get returns ErrNotFound for an unknown ID.
	Get(ctx context.Context, id ID) (Entry, error)
	// GetMany leaves out what it does not find.
	GetMany(ctx context.Context, ids []ID) (map[ID]Entry, error)
	// List returns one page in ascending order of ID. A page may hold fewer than
	// the limit, or none, before the last one, when few of many match; go on
	// until Page.Next is "".
	List(ctx context.Context, options ListOptions) (Page, error)
	// Pause stops new claims; see PauseResult for what still runs. Pausing a
	// paused schedule replaces who, why and until. ErrNotFound as Get.
	Pause(ctx context.Context, id ID, options PauseOptions) (PauseResult, error)
	// Resume clears a pause, a disable and the count of consecutive failures.
	// Scheduled times that passed meanwhile are treated by Missed, unless the
	// options say otherwise.
	Resume(ctx context.Context, id ID, options ResumeOptions) (ResumeResult, error)
	// Trigger opens one extra firing now. It moves no scheduled time. The
	// same request ID within 24 h answers with the first firing. A worker
	// enqueues the task; Trigger wakes one.
	Trigger(ctx context.Context, id ID, options TriggerOptions) (TriggerResult, error)
	// Remove deletes the schedule and says whether it existed. No execution
	// starts after it returns. With options.Generation set, only that
	// generation is deleted.
	Remove(ctx context.Context, id ID, options RemoveOptions) (bool, error)
	// Stats sums up the namespace; its cost does not depend on how many
	// schedules there are.
	Stats(ctx context.Context) (Stats, error)
}

// PutOptions refine Put. The zero value puts unconditionally.
type PutOptions struct {
	IfVersion *int64 // the version that must be stored; 0: must not exist; nil: any
	RequestID string // the same request within 24 h takes effect once; "" draws one
	DryRun    bool   // say what would happen, change nothing
}

// PutResult says what Put did.
type PutResult struct {
	Err        error // only from PutMany: why this one was refused
	Created    bool
	Unchanged  bool // the stored definition was equal; nothing was written
	Version    int64
	Generation int64
	NextAt     time.Time // zero: none
}

// ListOptions select a page. The zero value is the first page of all.
type ListOptions struct {
	After  ID                // exclusive; the last ID of the page before
	Limit  int               // at most this many; 0 is 100, at most 1000
	Labels map[string]string // all must match
	State  State             // "" is any
	Queue  string            // "" is any
}

// A Page is a part of a list.
type Page struct {
	Entries []Entry
	Next    ID // pass as ListOptions.After; "" when this was the last page
}

// PauseOptions say who pauses and why. The zero value pauses until resumed.
type PauseOptions struct {
	By     string
	Reason string
	Until  time.Time // zero: until resumed; otherwise it resumes by itself then
}

// PauseResult says what still happens after the pause: one firing that was
// already claimed and those already queued or running.
type PauseResult struct {
	Open []string // firing IDs, at most 100
}

// ResumeOptions refine Resume. The zero value leaves what became due meanwhile
// to the schedule's Missed policy.
type ResumeOptions struct {
	// SkipMissed fires nothing of what became due meanwhile, whatever Missed
	// says: it gets VerdictPaused. A fixed delay keeps its pending time all the
	// same, since it has no later one.
	SkipMissed bool
}

// ResumeResult says what happens next.
type ResumeResult struct {
	NextAt time.Time // may lie in the past: Missed decides; zero: none
}

// RemoveOptions refine Remove.
type RemoveOptions struct {
	Generation int64 // 0: any
}

// An Entry is a definition and its status.
type Entry struct {
	Schedule Schedule
	Status   Status
	// Invalid is set when the stored definition cannot be used, such as a time
	// zone that this binary does not know. Others are not affected.
	Invalid error
}

// Probing reports whether the cool-down of a disabled schedule is over and one
// run, which is under way, decides whether it goes on. Until then nothing else
// of it is due, however old NextAt is.
func (e Entry) Probing() bool {
	return e.Status.State == StateActive && e.Status.Open > 0 &&
		e.Schedule.MaxFailures > 0 && e.Status.ConsecutiveFails >= int64(e.Schedule.MaxFailures)
}

// LastStatus is the state of the last run.
type LastStatus string

// The last statuses.
const (
	LastNone      LastStatus = ""
	LastRunning   LastStatus = "running"
	LastCompleted LastStatus = "completed"
	LastFailed    LastStatus = "failed"
	LastDisabled  LastStatus = "disabled"
)

// Status is what the store knows of a schedule beside its definition. Zero
// times mean never or none.
type Status struct {
	Generation int64 // creation token; a schedule deleted and created again has another
	Version    int64 // raised by every Put that changes something
	State      State
	NextAt     time.Time // next scheduled time, nominal, without jitter
	DueAt      time.Time // when it is due to be claimed: NextAt with jitter and not-before
	CreatedAt  time.Time
	UpdatedAt  time.Time

	PausedBy    string
	PauseReason string
	PausedAt    time.Time
	PausedUntil time.Time

	ProbeAt time.Time // of one that failures disabled: the end of its cool-down, when one probe may run

	LastRunAt        time.Time // start of the last run that ended, or of the one running
	LastStatus       LastStatus
	LastError        string
	LastDuration     time.Duration
	RunCount         int64 // runs that ended, whatever the outcome
	FailCount        int64
	ConsecutiveFails int64

	Claimed  bool  // a worker acts on NextAt now
	Open     int   // firings not settled
	Buffered int   // firings waiting for an open one
	Fired    int64 // scheduled times with the verdict fired

	Skips []time.Time // scheduled times that an operator asked to skip, in order

	Verdicts []VerdictRange // oldest first, at most 33; together they cover everything up to now
}

// A VerdictRange gives one verdict to consecutive scheduled times.
type VerdictRange struct {
	Verdict Verdict
	Why     int   // detail of the verdict: 1 with VerdictFired: through the buffer; 1 with VerdictOverlap: buffer full
	Count   int64 // scheduled times in it; 0: not counted
	First   time.Time
	Last    time.Time
}

// Stats sum up a namespace.
type Stats struct {
	Total     int64
	Active    int64
	Paused    int64
	Disabled  int64
	Completed int64
	Claimed   int64 // claimed now
	Due       int64 // due now and not claimed
	// Open counts open firings. Those of a deleted schedule count until its runs
	// hear of the deletion, which is with their next heartbeat, or until an
	// auditor looks: when their audit is due, and within a round of the index
	// repair and a minute when that is further away, as that of a retry may be. An
	// overlap policy other than allow lists what is open, and a deletion closes
	// that at once.
	Open     int64
	Buffered int64
	NextID   ID            // the schedule that fires next
	NextAt   time.Time     // when; zero: none
	Lateness time.Duration // how long the oldest unclaimed due time has been waiting
	Now      time.Time     // the store's clock
}

// VerdictAt returns the range that holds an instant. The ranges cover the
// scheduled times of the definition that was in force then; whether the
// instant was one of those, they do not say. False: no range that is kept
// holds it.
func (s *Status) VerdictAt(at time.Time) (VerdictRange, bool) {
	for i := len(s.Verdicts) - 1; i >= 0; i-- {
		if r := s.Verdicts[i]; !at.Before(r.First) && !at.After(r.Last) {
			return r, true
		}
	}
	return VerdictRange{}, false
}
