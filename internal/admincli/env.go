package admincli

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// An Env is what the commands take from outside. Every field but Local and
// User is needed.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Terminal tells which of the streams are terminals. Without one on
	// standard input and standard error no question is asked.
	Terminal Terminal
	Now      func() time.Time
	// Local is the zone of --tz local; nil is UTC.
	Local *time.Location
	// User is who pauses; "" is "unknown".
	User string
	// Environ holds the environment variables. Those of Redis and the
	// namespace go to Open.
	Environ map[string]string
	// Open connects to the store. It is called once, and only by commands
	// that need the store.
	Open func(ctx context.Context, target Target) (*Stores, error)
	// Version and TimeZoneData are what "version" prints; the latter tells
	// time zone databases apart.
	Version      string
	TimeZoneData func() string
	// ConfigDir is where the file of contexts is; "" is nowhere.
	ConfigDir string

	// printed is told what a command renders for machines, from which tests
	// make its schema; nil: nobody is.
	printed func(command string, value any)
}

// A Terminal tells which streams are terminals.
type Terminal struct {
	Stdin, Stdout, Stderr bool
	// Input is standard input itself, for programs that switch the terminal to
	// single keys; nil is Env.Stdin.
	Input io.Reader
	// Size tells how large the terminal of standard output is at present, 0 where
	// it does not say; nil: nobody knows.
	Size func() (columns, rows int)
}

// A Target says which store is wanted.
type Target struct {
	// Environ has the BELFRY_REDIS_ variables and BELFRY_NAMESPACE, with what
	// the flags say in place of it.
	Environ map[string]string
	Timeout time.Duration                    // of one call
	Trace   func(format string, args ...any) // told of each call, for people; nil: nobody is
}

// Stores are the parts of a namespace that the commands use.
type Stores struct {
	Catalog schedule.Catalog
	Roster  claim.Roster
	Runs    RunLog
	// Calendars is nil when the store keeps none.
	Calendars schedule.CalendarStore
	// Leases and Periodic may be nil when no command needs them.
	Leases   LeaseStore
	Periodic claim.PeriodicStore
	// Events, Skipper, Backfills and Firings may be nil when no command needs
	// them.
	Events    schedule.EventLog
	Skipper   schedule.Skipper
	Backfills claim.Backfills
	Firings   claim.FiringReader
	// Cancels and Looker may be nil; without a Looker the workers see to it that
	// what is cancelled ends.
	Cancels claim.Canceller
	Looker  FiringLooker
	// Due may be nil; top then lists the first schedules by name where there are
	// more than it can list.
	Due DueReader
	// Server, Tasks and Archive may be nil when no command needs them.
	Server    Server
	Tasks     TaskStore
	Archive   Archive
	Address   string // for messages; holds no password
	Namespace string // for messages
	Close     func() error
}

// A DueReader finds the schedules that fire next, whatever else there is.
type DueReader interface {
	Soonest(ctx context.Context, limit int) ([]schedule.Entry, error)
}

// A RunLog is the part of [claim.Ledger] that history reads.
type RunLog interface {
	Runs(ctx context.Context, id schedule.ID, limit int) ([]claim.RunRecord, error)
}

// errNoRedis reports that nothing says where the store is.
var errNoRedis = usageErrorf("no Redis given: set BELFRY_REDIS_URL or use --redis redis://HOST:PORT (to try it out, run the worker with --demo and paste the export line that it prints)")

// errInterrupted reports that the operator stopped the command.
var errInterrupted = errors.New("interrupted")
