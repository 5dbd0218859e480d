package claim

import (
	"errors"
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

// errFiringID is wrapped by ParseFiringID.
var errFiringID = errors.New("claim: not a firing ID")

// maxFiringID bounds a firing ID with its re-drive suffix, in bytes.
const maxFiringID = 200

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

// ParseFiringID reads a firing ID, or a task ID with its re-drive suffix.
func ParseFiringID(s string) (Firing, error) {
	fail := func() (Firing, error) {
		return Firing{}, &schedule.FieldError{Field: "firing", Value: s,
			Allowed: "schedule:generation:key as in " + errFiringID.Error()}
	}
	if len(s) > maxFiringID {
		return fail()
	}
	s, _, _ = strings.Cut(s, "~")
	parts := strings.SplitN(s, ":", 3)
	if len(parts) != 3 || parts[2] == "" || schedule.ID(parts[0]).Validate() != nil {
		return fail()
	}
	generation, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
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
		return f, nil
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
	if err != nil || ms <= 0 {
		return fail()
	}
	f.ScheduledAt = time.UnixMilli(ms).UTC()
	return f, nil
}
