package claim

import (
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// A Token is a fencing number. Every later grant of the same shard carries a
// larger one. The zero Token was never granted.
type Token int64

// String returns the decimal form, which is also what headers carry.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// ParseToken reads what String wrote.
func ParseToken(s string) (Token, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, &schedule.FieldError{Field: "token", Value: s, Allowed: "a decimal number from 0"}
	}
	return Token(n), nil
}

// Kind tells the three spaces of firing IDs apart.
type Kind int

// The kinds.
const (
	KindScheduled Kind = iota // a scheduled time
	KindManual                // a trigger
	KindBackfill              // a scheduled time inside a backfill
)

// A FiringID identifies a firing: "schedule:generation:key", where key is the
// scheduled time in Unix milliseconds, "m" and a request ID, or "b", a
// backfill ID, "." and the scheduled time. It is the asynq task ID of the
// firing's first task.
type FiringID string

// A Firing is a parsed FiringID.
type Firing struct {
	Schedule    schedule.ID
	Generation  int64
	Kind        Kind
	ScheduledAt time.Time // zero for KindManual
	Request     string    // request ID or backfill ID
}

// Bounds of firing IDs. Scripts draw the same line, see
// scripts/lua/lib/firingid.lua: what one side takes for a firing the other must
// not take for garbage, and above maxGeneration their numbers have gaps.
const (
	maxFiringID   = 200             // bytes, with the re-drive suffix
	maxGeneration = 1<<53 - 1       // which is a token
	maxMillis     = 253402300799999 // the end of the year 9999
)

// ScheduledFiring returns the ID of a scheduled time.
func ScheduledFiring(id schedule.ID, generation int64, at time.Time) FiringID {
	return FiringID(string(id) + ":" + strconv.FormatInt(generation, 10) + ":" + strconv.FormatInt(at.UnixMilli(), 10))
}

// ManualFiring returns the ID of a trigger.
func ManualFiring(id schedule.ID, generation int64, request string) FiringID {
	return FiringID(string(id) + ":" + strconv.FormatInt(generation, 10) + ":m" + request)
}

// TaskID returns the asynq task ID of the firing after the given number of
// re-drives; 0 is the first task.
func (f FiringID) TaskID(redrives int) string {
	if redrives == 0 {
		return string(f)
	}
	return string(f) + "~" + strconv.Itoa(redrives)
}

// WithoutRedrives returns the firing of a task ID: what TaskID was called on.
func (f FiringID) WithoutRedrives() FiringID {
	id, _, _ := strings.Cut(string(f), "~")
	return FiringID(id)
}

// ID returns the ID that parses to f.
func (f Firing) ID() FiringID {
	switch f.Kind {
	case KindManual:
		return ManualFiring(f.Schedule, f.Generation, f.Request)
	case KindBackfill:
		return BackfillFiring(f.Schedule, f.Generation, f.Request, f.ScheduledAt)
	}
	return ScheduledFiring(f.Schedule, f.Generation, f.ScheduledAt)
}

// ParseFiringID reads a firing ID, or a task ID with its re-drive suffix. It
// accepts only what this package writes, so that one firing has one ID.
func ParseFiringID(s string) (Firing, error) {
	fail := func() (Firing, error) {
		return Firing{}, &schedule.FieldError{Field: "firing", Value: s,
			Allowed: "schedule:generation:key, where key is a Unix time in milliseconds, m<request> or b<backfill>.<milliseconds>, and ~<re-drives> may follow"}
	}
	if len(s) > maxFiringID {
		return fail()
	}
	id, redrives, redriven := strings.Cut(s, "~")
	if n, err := strconv.Atoi(redrives); redriven && (err != nil || n < 1 || strconv.Itoa(n) != redrives) {
		return fail()
	}
	f, ok := parseFiring(id)
	if !ok || string(f.ID()) != id {
		return fail()
	}
	return f, nil
}

// parseFiring reads an ID without suffix; numbers may be written in any way.
func parseFiring(s string) (Firing, bool) {
	fail := func() (Firing, bool) { return Firing{}, false }
	parts := strings.SplitN(s, ":", 3)
	if len(parts) != 3 || parts[2] == "" || schedule.ID(parts[0]).Validate() != nil {
		return fail()
	}
	generation, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || generation < 0 || generation > maxGeneration {
		return fail()
	}
	f := Firing{Schedule: schedule.ID(parts[0]), Generation: generation}
	key, millis := parts[2], ""
	switch key[0] {
	case 'm':
		f.Kind, f.Request = KindManual, key[1:]
		if schedule.ValidateRequestID(f.Request) != nil {
			return fail()
		}
		return f, true
	case 'b':
		var found bool
		f.Kind = KindBackfill
		f.Request, millis, found = strings.Cut(key[1:], ".")
		if !found || schedule.ValidateRequestID(f.Request) != nil {
			return fail()
		}
	default:
		millis = key
	}
	ms, err := strconv.ParseInt(millis, 10, 64)
	if err != nil || ms <= 0 || ms > maxMillis {
		return fail()
	}
	f.ScheduledAt = time.UnixMilli(ms).UTC()
	return f, true
}
