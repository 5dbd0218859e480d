// Package doctor judges whether a namespace and the Redis under it are fit to
// run schedules.
//
// [Probe] asks the server; everything else here is pure: [Examine] turns facts
// into findings, each of which says what was seen and what to do. Servers that
// deny CONFIG or INFO make findings of level [Unknown], never errors.
package doctor

import (
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A Level is how bad a finding is.
type Level string

// The levels, best first.
const (
	OK      Level = "ok"
	Unknown Level = "unknown" // the server does not tell
	Warning Level = "warning"
	Error   Level = "error"
)

// A Finding is one thing that was looked at.
type Finding struct {
	Check string `json:"check"` // what was looked at, such as "eviction"
	Level Level  `json:"level"`
	Seen  string `json:"seen"`  // what was found
	Do    string `json:"do"`    // what to do; "" with OK
	Fix   Fix    `json:"fix"`   // what can be repaired by itself; "" is nothing
	About string `json:"about"` // the argument of Fix, or the node; "" is none
	Fixed bool   `json:"fixed"` // set by the caller that repaired it
	// Summary says that the finding stands for several that are not told.
	Summary bool `json:"-"`
}

// Tells reports whether the finding is the one of a violation.
func (f *Finding) Tells(v redisstore.Violation) bool { return f.Seen == v.String() }

// A Fix names a repair that harms nobody.
type Fix string

// The fixes.
const (
	// FixEviction sets maxmemory-policy to noeviction. It is offered only while
	// there is no memory limit, when no key could be evicted anyway.
	FixEviction Fix = "eviction"
	// FixQueue adds a queue to asynq's list of queues, without which its tools
	// do not see it.
	FixQueue Fix = "queue"
	// FixTorn removes entries of a queue whose task has no record.
	FixTorn Fix = "torn"
	// FixIndexes makes indexes, lists and counters say what the records say.
	FixIndexes Fix = "indexes"
)

// Facts are what [Examine] judges. The zero value of a field is a fact too: no
// node, no worker, no schedule.
type Facts struct {
	Now        time.Time // this machine's clock
	Production bool      // stricter: what loses schedules for good is an error
	Nodes      []Node
	ScriptErr  error // why a script could not be run; nil when it ran
	Stats      schedule.Stats
	TimeZone   string // fingerprint of this program's time zone data
	Members    []claim.Member
	// Queues are asynq's queues by name. Nil means that they are not known.
	Queues     map[string]Queue
	Violations []redisstore.Violation // broken invariants
	CheckErr   error                  // why they could not be looked for
	// Unread says why something that is stored could not be read: the facts that
	// come from it are missing.
	Unread []error
	Tokens []TokenAhead // shards whose tokens the clock does not explain
	// AuditAfter is how long a firing stays unlooked at, as this environment
	// says; 0 is the default of 15 s.
	AuditAfter time.Duration
	Schedules  Schedules
}

// A TokenAhead is a shard whose tokens are far ahead of the store's clock.
type TokenAhead struct {
	Shard int
	Token int64
	At    time.Time     // when a right clock would have granted it
	Ahead time.Duration // how far that is ahead
	Left  int64         // how many more can be granted
}

// A Queue is what is known of one of asynq's queues.
type Queue struct {
	Listed  bool // in asynq's list of queues
	Paused  bool
	Pending int
	Served  bool   // by any live asynq server, ours or another
	Err     error  // why it could not be read; nil when it was
	Torn    string // what its keys lack, as [RawQueue.Torn] says it; "" is nothing
	Fixable bool   // and [FixTorn] mends it
}

// Examine judges facts. The findings are in a fixed order: the server first,
// then the fleet, then the schedules.
func Examine(f Facts) []Finding {
	var all []Finding
	all = append(all, nodes(f)...)
	all = append(all, scripts(f))
	all = append(all, fleet(f)...)
	all = append(all, queues(f)...)
	all = append(all, schedules(f)...)
	all = append(all, tokens(f)...)
	all = append(all, unread(f)...)
	return append(all, invariants(f)...)
}

// Worst is the worst level among findings that were not repaired.
func Worst(all []Finding) Level {
	worst := OK
	rank := map[Level]int{OK: 0, Unknown: 1, Warning: 2, Error: 3}
	for _, f := range all {
		if !f.Fixed && rank[f.Level] > rank[worst] {
			worst = f.Level
		}
	}
	return worst
}

// severe is what a finding is that production cannot live with.
func severe(f Facts) Level {
	if f.Production {
		return Error
	}
	return Warning
}
