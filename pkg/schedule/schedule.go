package schedule

import (
	"encoding/json"
	"time"
)

// Limits on what a definition may hold. They bound the work that one stranger
// can cause, and are checked by [Schedule.Validate].
const (
	MaxPayload     = 256 << 10 // bytes of payload
	MaxHeaders     = 8 << 10   // bytes of headers, names and values together
	MaxMetadata    = 16 << 10  // bytes of metadata JSON
	MaxDescription = 1 << 10   // bytes of description
	MaxLabels      = 32        // labels per schedule
	MaxExpression  = 1 << 10   // bytes of one expression
	MinInterval    = 100 * time.Millisecond
)

// Defaults that [Schedule.Normalize] fills in for zero values.
const (
	DefaultQueue     = "default"
	DefaultMaxRetry  = 3
	DefaultTimeout   = 30 * time.Minute
	DefaultRetention = 10 * time.Minute
	MinRetention     = 2 * time.Minute
)

// A Schedule is a durable, named definition: when to fire, which task to push
// and under which policies. Its JSON form has the names of the schedule file
// (see docs/SCHEDULES.md); durations are strings such as "30s" there.
type Schedule struct {
	ID          ID
	Description string            // free text for people
	Labels      map[string]string // selectable
	Metadata    json.RawMessage   // any JSON, kept and shown, never interpreted

	// Expression is the one-string form (see [Parse]); exactly one of
	// Expression and Specs is set.
	Expression string
	Specs      []SpecDefinition
	Timezone   string // IANA name for Expression and for specs without one of their own; "" is UTC

	Except []Window // scheduled times inside any of these do not fire
	Only   []Window // when not empty, only scheduled times inside one of these fire

	Starts time.Time     // inclusive; zero: no bound
	Ends   time.Time     // exclusive; zero: no bound
	Limit  int64         // number of fired firings; 0: no limit
	Jitter time.Duration // each firing is delayed by a stable offset in [0, Jitter)

	Type      string            // task type
	Queue     string            // "" is DefaultQueue
	Payload   []byte            // handed to the handler untouched
	Headers   map[string]string // task headers; names starting with "Belfry-" are refused
	MaxRetry  *int              // retries after a failed attempt; nil is DefaultMaxRetry
	Timeout   time.Duration     // of one attempt; 0 is DefaultTimeout
	Retention time.Duration     // how long the finished task stays readable; 0 is DefaultRetention

	Missed      Missed        // "" is MissedLatest
	CatchUp     time.Duration // window for missed times; required by MissedAll; 0: no bound
	Overlap     Overlap       // "" is OverlapAllow
	BufferLimit int           // bound of OverlapBufferAll, 1 to 1000; 0 is 100
	Effect      Effect        // "" is AtLeastOnce
	Priority    int           // higher first within one claimed batch; -100 to 100
	MaxFailures int           // consecutive failures that disable the schedule; 0: never
	CoolDown    time.Duration // after a disable, when one probe run is allowed; 0: stays disabled until resumed

	Paused bool // created paused; a later Put with Paused false never un-pauses
}

// A SpecDefinition is one "when" of a schedule, as written. Exactly one of
// Cron, Every, At and After is set.
type SpecDefinition struct {
	Cron     string        // a cron expression or macro
	Timezone string        // IANA name; "" is the schedule's
	Every    time.Duration // fixed rate, at least MinInterval
	Anchor   time.Time     // phase of Every; zero is the Unix epoch
	At       []string      // one-shots: RFC 3339, or local time in the spec's zone
	After    time.Duration // fixed delay after the end of the last run
}

// A Window is a set of instants used by Except and Only. Exactly one of
// Calendar, Dates, Weekly and Cron is set.
type Window struct {
	Calendar string   // name of a stored calendar
	Dates    []string // "2026-12-25" or "2026-12-24..2026-12-26", civil dates in Timezone
	Weekly   string   // "Sat 00:00-Mon 06:00"
	Cron     string   // every instant whose wall time matches
	Timezone string   // IANA name; "" is the schedule's
}

// A Calendar is a named set of windows shared by many schedules.
type Calendar struct {
	Name     string // as an ID
	Timezone string // IANA name for windows without one of their own; "" is UTC
	Dates    []string
	Weekly   []string
	Cron     []string
}

// Missed says what becomes of scheduled times that are due while a later one
// of the same schedule is due as well.
type Missed string

// The missed policies.
const (
	MissedLatest Missed = "latest" // fire the most recent, record the rest as coalesced
	MissedAll    Missed = "all"    // fire each inside CatchUp, oldest first
	MissedSkip   Missed = "skip"   // fire none of them, record them as missed
)

// Overlap says what happens when a firing is due while an earlier one of the
// same schedule is still open.
type Overlap string

// The overlap policies.
const (
	OverlapAllow       Overlap = "allow"
	OverlapSkip        Overlap = "skip"
	OverlapBufferOne   Overlap = "buffer_one"
	OverlapBufferAll   Overlap = "buffer_all"
	OverlapCancelOther Overlap = "cancel_other"
)

// Effect says what happens to an attempt whose fate is unknown.
type Effect string

// The effects.
const (
	AtLeastOnce Effect = "at_least_once" // it is run again
	AtMostOnce  Effect = "at_most_once"  // it is settled as unknown and never run again
)

// State is where a schedule stands.
type State string

// The states.
const (
	StateActive    State = "active"
	StatePaused    State = "paused"
	StateDisabled  State = "disabled"  // by MaxFailures; Resume clears it
	StateCompleted State = "completed" // nothing left to fire; stays readable
)

// Verdict is what became of a scheduled time. Every scheduled time gets
// exactly one.
type Verdict int

// The verdicts. The numbers are stored; never renumber.
const (
	VerdictFired      Verdict = 1
	VerdictCoalesced  Verdict = 2 // folded into a later one
	VerdictMissed     Verdict = 3
	VerdictOverlap    Verdict = 4
	VerdictPaused     Verdict = 5
	VerdictSkipped    Verdict = 6 // skip-one, asked for by an operator
	VerdictExcluded   Verdict = 7
	VerdictSuperseded Verdict = 8 // an edit replaced the spec before it was claimed
	// VerdictUnreadable stands for verdicts that were given and that something
	// has damaged since: a repair puts it there.
	VerdictUnreadable Verdict = 9
)
