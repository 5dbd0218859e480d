package claim

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// A Store grants claims on due schedules.
type Store interface {
	// Shards returns the number of shards of the namespace, fixed when the
	// namespace was created. Every shard must be served.
	Shards(ctx context.Context) (int, error)
	// ClaimDue grants up to request.Limit due schedules of one shard, oldest
	// first, each to one caller only. A schedule whose claim ran out counts as
	// due. A reply that is lost delays its schedules by the claim TTL.
	ClaimDue(ctx context.Context, request ClaimRequest) (Batch, error)
	// Renew extends claims and reports for each whether it is still held. It
	// never revives a claim that another took or that was completed. An error
	// says nothing about the claims: try again before they run out.
	Renew(ctx context.Context, ttl time.Duration, holds []Hold) ([]bool, error)
	// Complete settles claims with what was decided, and places each schedule
	// at its next due time. One outcome a completion, in order.
	Complete(ctx context.Context, request CompleteRequest) (CompleteResult, error)
	// Release hands a claim back so that another worker takes it at once, or
	// not before the given time. False means that it was not held any more.
	Release(ctx context.Context, release Release) (bool, error)
}

// ClaimRequest asks for due schedules.
type ClaimRequest struct {
	Shard        int
	Owner        string        // worker ID; for display and logs
	Limit        int           // at most this many
	TTL          time.Duration // of each claim
	AuditAfter   time.Duration // when the auditor first looks at the firing
	AuditOverlap time.Duration // the same for schedules with an overlap policy; 0 is AuditAfter
}

// A Batch is the reply to ClaimDue.
type Batch struct {
	Now      time.Time // the store's clock, capped by the caller's
	NextDue  time.Time // earliest due time or claim deadline left in the shard; zero: none
	Claims   []Claim
	Released []Released // buffered firings that became free; the caller enqueues each
	// Damaged are due schedules whose record cannot be read. They were put aside
	// for a minute and do not fire until they are put again.
	Damaged []schedule.ID
	// Calendars is the version of the calendars that claims on schedules that
	// use one must be planned with at least, 0 when there are none; see
	// CompleteRequest.
	Calendars int64
}

// ClaimKind tells what a claim is for.
type ClaimKind string

// The claim kinds.
const (
	ClaimFire    ClaimKind = "F" // an intent is recorded: enqueue, or decide a verdict
	ClaimOverlap ClaimKind = "O" // open firings forbid or delay it; nothing recorded
	ClaimSkip    ClaimKind = "K" // an operator asked to skip this scheduled time
	ClaimAdvance ClaimKind = "A" // already settled; only the next time is wanted
)

// A Claim is the right to act on one scheduled time until its deadline.
type Claim struct {
	Schedule    schedule.ID
	Generation  int64
	Version     int64 // of the definition that the store holds
	ScheduledAt time.Time
	Token       Token
	Kind        ClaimKind
	Again       bool       // an earlier claimer may have enqueued it: it must fire
	Redrives    int        // of the firing, when Again
	Fired       int64      // scheduled times fired so far, for Limit
	OpenOthers  int        // open firings of the schedule beside this one
	Open        []FiringID // those, when the schedule has an overlap policy; at most 100
	Queue       string     // of the firing since its first claim, whatever was edited since; "" unless it is to be enqueued
}

// Firing returns the ID of the claimed firing.
func (c Claim) Firing() FiringID { return ScheduledFiring(c.Schedule, c.Generation, c.ScheduledAt) }

// A Hold names a claim.
type Hold struct {
	Schedule schedule.ID
	Token    Token
}

// Decision is what a worker made of a claim.
type Decision string

// The decisions.
const (
	DecideEnqueued Decision = "E" // the task is in its queue
	DecideOverlap  Decision = "O" // let the store apply the overlap policy
	DecideAdvance  Decision = "A" // nothing fires here, only move on
	DecideVerdict  Decision = "V" // Completion.Verdict says why it does not fire
)

// CompleteRequest completes claims.
type CompleteRequest struct {
	AuditBuffered time.Duration // when the auditor first looks at a firing that is buffered
	Calendars     int64         // version of the calendars that the plans were made with; 0 when none uses one
	Completions   []Completion
}

// A Completion settles one claim.
type Completion struct {
	Schedule    schedule.ID
	Token       Token
	ScheduledAt time.Time
	Decision    Decision
	Verdict     schedule.Verdict // with DecideVerdict
	Why         int
	// Next is the next scheduled time; zero: none, the schedule is completed. With
	// DecideOverlap it is dropped when this one is buffered and reaches the limit.
	Next      time.Time
	NotBefore time.Time              // Next with its jitter; zero: due at Next
	Range     *schedule.VerdictRange // further scheduled times after ScheduledAt that get a verdict with it; may be nil
}

// Outcome answers one completion.
type Outcome string

// The outcomes.
const (
	CompleteOK       Outcome = "OK"
	CompleteAlready  Outcome = "ALREADY"  // done before, by this call or by another worker
	CompleteStale    Outcome = "STALE"    // the claim is not held any more; drop it
	CompleteGone     Outcome = "GONE"     // the schedule was deleted
	CompleteBadNext  Outcome = "BADNEXT"  // Next is not after ScheduledAt or the range: a bug of the caller
	CompleteMustFire Outcome = "MUSTFIRE" // an earlier claimer may have enqueued it: enqueue, then complete with DecideEnqueued
	CompleteCalendar Outcome = "CAL"      // the calendars used are older than the store's: reload and plan again
)

// CompleteResult answers CompleteRequest.
type CompleteResult struct {
	Outcomes []Outcome
	Released []Released
}

// A Released firing was buffered and is free now. Whoever is told enqueues it
// under its firing ID and marks it; the auditor does so when nobody did.
type Released struct {
	Firing FiringID
	Queue  string
	Extra  *Extra // nil: none
}

// An Extra is what a trigger gave its firing beside the definition. The ledger
// keeps it as long as the firing is open, and whoever enqueues a task of the
// firing puts it in.
type Extra struct {
	Payload     []byte    // instead of the definition's; nil: the definition's
	ScheduledAt time.Time // the scheduled time that the firing stands for; zero: none
}

// Release hands back one claim.
type Release struct {
	Schedule      schedule.ID
	Token         Token
	NotBefore     time.Time // zero: at once
	EnqueueFailed bool      // counts as a failure of the schedule
	Error         string    // with EnqueueFailed: why; at most 1 KiB is kept
}
