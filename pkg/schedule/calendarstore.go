package schedule

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// A CalendarReader gives the stored calendars.
type CalendarReader interface {
	// Calendars returns all of them in ascending order of name, and their
	// version: 0 when none was ever stored, larger after every change. A
	// completion states the version that it was planned with.
	Calendars(ctx context.Context) ([]Calendar, int64, error)
}

// A CalendarStore stores the calendars that schedules name. A change raises
// the version first, so that nothing is decided with an older calendar any
// more, and then moves the pending scheduled times of the schedules that use
// it, each in one step. A firing that is claimed already still happens.
//
// A method that returns an error other than those it lists may have taken
// effect in part. Call it again with the same arguments: it goes on from
// there.
type CalendarStore interface {
	CalendarReader
	// PutCalendars creates calendars, or replaces those of the same name, and
	// leaves all others alone, so that two writers of different calendars lose
	// nothing. It returns *FieldErrors, joined, for calendars that are
	// refused, and ErrConflict when options.IfVersion does not match; nothing
	// has changed then.
	PutCalendars(ctx context.Context, calendars []Calendar, options CalendarOptions) (CalendarResult, error)
	// DeleteCalendar returns ErrNotFound for an unknown name, an *InUseError
	// while a schedule names it, and ErrConflict as PutCalendars does.
	DeleteCalendar(ctx context.Context, name string, options CalendarOptions) (CalendarResult, error)
	// CalendarUsers returns the schedules that name the calendar, in ascending
	// order; none for an unknown one.
	CalendarUsers(ctx context.Context, name string) ([]ID, error)
	// FinishCalendars carries out changes whose writer stopped half-way. It
	// costs next to nothing when there are none. Workers call it now and then.
	FinishCalendars(ctx context.Context) error
}

// CalendarOptions refine a change of calendars. The zero value changes
// unconditionally.
type CalendarOptions struct {
	IfVersion *int64 // the version that all calendars together must have; nil: any
	DryRun    bool   // say what would happen, change nothing
}

// CalendarAction is what a change did to one calendar.
type CalendarAction string

// The actions.
const (
	CalendarCreated   CalendarAction = "created"
	CalendarUpdated   CalendarAction = "updated"
	CalendarUnchanged CalendarAction = "unchanged" // the stored one is equal
	CalendarDeleted   CalendarAction = "deleted"
)

// CalendarResult says what a change of calendars did.
type CalendarResult struct {
	Version int64            // of all calendars, after the change
	Actions []CalendarAction // one for each calendar, in order
	Users   int              // schedules that name one of the changed calendars
	Moved   int              // of those, whose pending scheduled time is another now
	Moves   []CalendarMove   // the first 100 of those, in ascending order of ID
}

// MaxCalendarMoves bounds CalendarResult.Moves and InUseError.Users.
const MaxCalendarMoves = 100

// A CalendarMove is a pending scheduled time that a calendar moved.
type CalendarMove struct {
	Schedule ID
	From     time.Time // zero: there was none
	To       time.Time // zero: nothing is left, the schedule is completed
}

// An InUseError reports that a calendar cannot be deleted. Change or delete
// its users first.
type InUseError struct {
	Calendar string
	Users    []ID // the first 100, in ascending order
	Count    int  // of all
}

// Error names the calendar and some of its users.
func (e *InUseError) Error() string {
	const shown = 5
	names := make([]string, 0, shown)
	for _, id := range e.Users[:min(shown, len(e.Users))] {
		names = append(names, string(id))
	}
	text := fmt.Sprintf("schedule: calendar %q is in use by %s", e.Calendar, strings.Join(names, ", "))
	if more := e.Count - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + ": take it out of their except and only first"
}

// CalendarNames returns the calendars that the definition names, each once, in
// the order in which it names them.
func (s *Schedule) CalendarNames() []string {
	var names []string
	seen := map[string]bool{}
	for _, list := range [][]Window{s.Except, s.Only} {
		for _, w := range list {
			if w.Calendar != "" && !seen[w.Calendar] {
				seen[w.Calendar] = true
				names = append(names, w.Calendar)
			}
		}
	}
	return names
}

// UsesCalendars reports whether a change of a calendar can change what the
// schedule does.
func (c *Compiled) UsesCalendars() bool { return c.windows.fromCalendars() }
