package claim

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// A Ledger records open firings from intent to settlement. Wherever it takes a
// firing ID it also takes a task ID of that firing, whose number of re-drives
// it ignores; it answers with firing IDs.
type Ledger interface {
	// Begin asks for the right to run an attempt of the firing. The same owner
	// asking again gets its live grant back.
	Begin(ctx context.Context, request BeginRequest) (BeginResult, error)
	// Heartbeat extends the leases of running attempts, one answer each. An
	// error says nothing about them: try again before they run out.
	Heartbeat(ctx context.Context, lease time.Duration, runs []Run) ([]Pulse, error)
	// Finish reports the end of an attempt. The success of an attempt that the
	// store forgot, because it went back to before its Begin, settles the firing
	// too, as long as no other attempt has begun since.
	Finish(ctx context.Context, request FinishRequest) (FinishResult, error)
	// Mark records that the tasks of these firings are in their queues, of
	// intents and of re-drives. Firings past that state are left alone.
	Mark(ctx context.Context, auditAfter time.Duration, firings []FiringID) error
	// Audit returns firings of a shard whose audit time has come and hides
	// them for request.Hide, so that few workers look at the same one.
	Audit(ctx context.Context, request AuditRequest) (AuditBatch, error)
	// Redrive raises the number of re-drives of a firing whose task is lost.
	// The caller then enqueues the task ID with the new number.
	Redrive(ctx context.Context, request RedriveRequest) (RedriveResult, error)
	// Settle closes a firing with an outcome that was found, not reported.
	Settle(ctx context.Context, request SettleRequest) (RedriveResult, error)
	// Runs returns the run log of a schedule, newest first.
	Runs(ctx context.Context, id schedule.ID, limit int) ([]RunRecord, error)
}

// BeginRequest asks to run an attempt.
type BeginRequest struct {
	Firing FiringID
	Owner  string        // a nonce per middleware call; never reused
	Worker string        // worker ID, for display
	Lease  time.Duration // of the execution
	Effect schedule.Effect
	// KeepRuns is the length of the run log, for a firing that Begin closes; 0:
	// it is not logged.
	KeepRuns int
}

// Answer is what Begin says.
type Answer string

// The answers.
const (
	BeginRun       Answer = "RUN"       // run it; BeginResult has token and attempt
	BeginSettled   Answer = "SETTLED"   // it ended before: acknowledge the task, do not run
	BeginCancelled Answer = "CANCELLED" // cancel_other or an operator ended it: delete its task, do not run
	BeginGone      Answer = "GONE"      // the schedule was deleted: delete its task, do not run
	BeginBusy      Answer = "BUSY"      // another attempt has a live lease: come back after Wait
	BeginEarly     Answer = "EARLY"     // the store does not know this scheduled time yet, or it is not due: come back later
	BeginUnknown   Answer = "UNKNOWN"   // at_most_once and the fate of the last attempt is unknown; it is settled so: archive its task
)

// BeginResult answers BeginRequest.
type BeginResult struct {
	Answer   Answer
	Token    Token         // with BeginRun
	Attempt  int           // with BeginRun; 1 is the first, crashes count
	Wait     time.Duration // with BeginBusy
	Released []Released
}

// A Run names a running attempt.
type Run struct {
	Firing FiringID
	Token  Token
}

// Pulse answers one heartbeat.
type Pulse string

// The pulses.
const (
	PulseOK     Pulse = "OK"
	PulseCancel Pulse = "CANCEL" // extended, but the run should end: cancel_other, or an operator
	PulseLost   Pulse = "LOST"   // another owner, or settled: stop and do not report
)

// RunOutcome is how an attempt ended.
type RunOutcome string

// The outcomes of an attempt.
const (
	OutcomeSucceeded RunOutcome = "succeeded"
	OutcomeFailed    RunOutcome = "failed"
	OutcomeRetrying  RunOutcome = "retrying" // failed, another attempt follows
	OutcomeCancelled RunOutcome = "cancelled"
	OutcomeLost      RunOutcome = "lost"    // no task and no report after the last re-drive
	OutcomeUnknown   RunOutcome = "unknown" // at_most_once, fate of the attempt unknown
)

// FinishRequest reports the end of an attempt.
type FinishRequest struct {
	Run        Run
	Outcome    RunOutcome    // succeeded, failed, retrying or cancelled
	RetryAfter time.Duration // with OutcomeRetrying: when the auditor may look, at the earliest
	Error      string        // at most 1 KiB is kept
	Started    time.Time     // on the worker's clock
	Duration   time.Duration
	Attempt    int
	Worker     string
	KeepRuns   int  // length of the run log; 0: none
	HandBack   bool // nothing ran: back to enqueued, due for the auditor at once and uncounted
}

// FinishAnswer is what Finish says.
type FinishAnswer string

// The finish answers.
const (
	FinishOK       FinishAnswer = "OK"
	FinishDisabled FinishAnswer = "DISABLED" // as OK, and max_failures was reached
	FinishAlready  FinishAnswer = "ALREADY"  // settled before
	FinishStale    FinishAnswer = "STALE"    // another attempt owns it; this report changed nothing
)

// FinishResult answers FinishRequest.
type FinishResult struct {
	Answer   FinishAnswer
	Released []Released
}

// FiringState is where an open firing stands.
type FiringState string

// The states of an open firing.
const (
	FiringIntent   FiringState = "I" // claimed or triggered; the task may or may not be queued
	FiringEnqueued FiringState = "E" // its task was seen in the queue
	FiringRunning  FiringState = "R"
	FiringWaiting  FiringState = "W" // for a retry
	FiringBuffered FiringState = "B" // for an open firing to end
)

// SchedulePosition relates a firing to its schedule's high-water mark.
type SchedulePosition string

// The positions.
const (
	PositionPending SchedulePosition = "PENDING" // not yet passed: whoever claims it again enqueues it
	PositionPassed  SchedulePosition = "PASSED"
	PositionGone    SchedulePosition = "GONE" // the schedule was deleted
)

// AuditRequest asks for overdue firings of one shard.
type AuditRequest struct {
	Shard int
	Limit int
	Hide  time.Duration // when they are looked at again if nothing happens; at most 5 s for what a buffered firing waits for
}

// An AuditBatch is the reply to Audit.
type AuditBatch struct {
	Now       time.Time
	NextAudit time.Time // earliest audit time left; zero: none
	Firings   []OpenFiring
	Released  []Released
}

// An OpenFiring is a ledger record.
type OpenFiring struct {
	Firing       FiringID
	State        FiringState
	Position     SchedulePosition
	Attempt      int
	Redrives     int
	Token        Token     // of the last attempt; 0: never run
	LeaseUntil   time.Time // of the running attempt, on the store's clock
	OpenedAt     time.Time
	Queue        string // where the task went, whatever was edited since
	CancelWanted bool
	CancelByHand bool // with CancelWanted: an operator wants it, not a newer firing
	TaskOwed     bool // Redrive raised the number, and neither Mark nor Begin has shown since that its task was enqueued
	Worker       string
	Extra        *Extra // nil: none
}

// RedriveRequest raises the number of re-drives from Expected by one.
type RedriveRequest struct {
	Firing     FiringID
	Expected   int   // re-drives seen by Audit
	Token      Token // seen by Audit
	AuditAfter time.Duration
}

// SettleRequest closes a firing.
type SettleRequest struct {
	Firing   FiringID
	Token    Token // seen by Audit
	Outcome  RunOutcome
	Error    string
	KeepRuns int // length of the run log; 0: none
}

// RedriveAnswer is what Redrive and Settle say.
type RedriveAnswer string

// The redrive answers.
const (
	RedriveOK      RedriveAnswer = "OK"
	RedriveAlready RedriveAnswer = "ALREADY" // settled before
	RedriveStale   RedriveAnswer = "STALE"   // it moved on since the audit; leave it
)

// RedriveResult answers RedriveRequest and SettleRequest.
type RedriveResult struct {
	Answer   RedriveAnswer
	Redrives int
	Released []Released
}

// A RunRecord is one entry of a schedule's run log.
type RunRecord struct {
	Firing   FiringID
	Outcome  RunOutcome
	Attempt  int
	Token    Token
	Started  time.Time // zero: never started
	Duration time.Duration
	Ended    time.Time // on the store's clock
	Worker   string
	Error    string
}
