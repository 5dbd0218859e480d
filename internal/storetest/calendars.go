package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var calendarCases = []testCase{
	{"a put creates or replaces by name, and leaves others alone", calendarPut},
	{"what is refused changes nothing", calendarRefused},
	{"an unknown calendar is refused with the field and the nearest name", calendarUnknown},
	{"a change moves the pending times of its users, and of nobody else", calendarMoves},
	{"a dry run says what would move and changes nothing", calendarDryRun},
	{"a schedule that was completed goes on when the calendar lets it", calendarRevives},
	{"a time that is due already stays pending", calendarDue},
	{"a claimed firing is a promise; older calendars get CAL, whose plan is told by the claim", calendarClaimed},
	{"a paused user is moved too, and resumes with the new calendar", calendarPaused},
	{"a calendar in use is not deleted, and its users are named", calendarDelete},
	{"writers of different calendars lose nothing", calendarWriters},
	{"puts, changes and deletions at once leave every pending time where the calendars say", calendarRaces},
	{"a change that makes something due earlier wakes the workers", calendarWakes},
}

func (e *env) calendars(options schedule.CalendarOptions, calendars ...schedule.Calendar) schedule.CalendarResult {
	e.Helper()
	result, err := e.Calendars.PutCalendars(e.Context(), calendars, options)
	e.must("PutCalendars", err)
	return result
}

// dates returns a calendar of days after the day of Epoch.
func dates(name string, days ...int) schedule.Calendar {
	c := schedule.Calendar{Name: name}
	for _, d := range days {
		c.Dates = append(c.Dates, Epoch.AddDate(0, 0, d).Format(time.DateOnly))
	}
	return c
}

// daily returns a schedule that fires at noon, except on the days of a
// calendar.
func daily(id schedule.ID, calendar string) schedule.Schedule {
	return schedule.Schedule{ID: id, Expression: "0 12 * * *", Type: "test:type", Except: []schedule.Window{{Calendar: calendar}}}
}

// noon is the noon of a day after that of Epoch.
func noon(day int) time.Time { return Epoch.AddDate(0, 0, day).Add(12 * time.Hour) }

// stored wants that exactly these calendars are stored, and returns their
// version.
func (e *env) stored(calendars ...schedule.Calendar) int64 {
	e.Helper()
	got, version, err := e.Calendars.Calendars(e.Context())
	e.must("Calendars", err)
	text := func(all []schedule.Calendar) string { return fmt.Sprintf("%+v", all) }
	if text(got) != text(calendars) {
		e.Errorf("Calendars = %s, want %s", text(got), text(calendars))
	}
	return version
}

func calendarPut(e *env) {
	want(e, "version of nothing", e.stored(), 0)
	first := e.calendars(schedule.CalendarOptions{}, dates("b", 1), dates("a", 2))
	want(e, "actions", fmt.Sprint(first.Actions), "[created created]")
	want(e, "version", e.stored(dates("a", 2), dates("b", 1)), first.Version)
	second := e.calendars(schedule.CalendarOptions{}, dates("b", 3))
	want(e, "actions", fmt.Sprint(second.Actions), "[updated]")
	want(e, "version", e.stored(dates("a", 2), dates("b", 3)), second.Version)
	third := e.calendars(schedule.CalendarOptions{}, dates("b", 3))
	want(e, "actions", fmt.Sprint(third.Actions), "[unchanged]")
	want(e, "version after no change", third.Version, second.Version)
	if first.Version < 1 || second.Version <= first.Version {
		e.Errorf("versions %d, %d: want them to grow", first.Version, second.Version)
	}
	e.must("FinishCalendars", e.Calendars.FinishCalendars(e.Context()))
	want(e, "version", e.stored(dates("a", 2), dates("b", 3)), second.Version)
}

func calendarRefused(e *env) {
	first := e.calendars(schedule.CalendarOptions{}, dates("a", 1))
	put := func(options schedule.CalendarOptions, calendars ...schedule.Calendar) error {
		_, err := e.Calendars.PutCalendars(e.Context(), calendars, options)
		return err
	}
	var field *schedule.FieldError
	for what, calendars := range map[string][]schedule.Calendar{
		"no windows":   {dates("b", 1), {Name: "c"}},
		"a bad name":   {{Name: "a b", Dates: []string{"2030-01-01"}}},
		"a bad date":   {{Name: "b", Dates: []string{"2030-02-30"}}},
		"a bad zone":   {{Name: "b", Timezone: "Mars/Base", Dates: []string{"2030-01-01"}}},
		"a name twice": {dates("b", 1), dates("b", 2)},
	} {
		if err := put(schedule.CalendarOptions{}, calendars...); !errors.As(err, &field) {
			e.Errorf("PutCalendars with %s = %v, want a FieldError", what, err)
		}
	}
	other := first.Version + 1
	if err := put(schedule.CalendarOptions{IfVersion: &other}, dates("b", 1)); !errors.Is(err, schedule.ErrConflict) {
		e.Errorf("PutCalendars with another version = %v, want ErrConflict", err)
	}
	if _, err := e.Calendars.DeleteCalendar(e.Context(), "a", schedule.CalendarOptions{IfVersion: &other}); !errors.Is(err, schedule.ErrConflict) {
		e.Errorf("DeleteCalendar with another version = %v, want ErrConflict", err)
	}
	want(e, "version", e.stored(dates("a", 1)), first.Version)
	e.must("PutCalendars with the version", put(schedule.CalendarOptions{IfVersion: &first.Version}, dates("b", 1)))
	e.stored(dates("a", 1), dates("b", 1))
}

func calendarUnknown(e *env) {
	e.calendars(schedule.CalendarOptions{}, dates("holidays", 1))
	_, err := e.Catalog.Put(e.Context(), daily("s", "hollidays"), schedule.PutOptions{})
	var field *schedule.FieldError
	if !errors.As(err, &field) || field.Field != "except[0].calendar" || !strings.Contains(field.Hint, `"holidays"`) {
		e.Errorf("Put = %v, want a FieldError of except[0].calendar that names holidays", err)
	}
	results, err := e.Catalog.PutMany(e.Context(), []schedule.Schedule{daily("s", "none"), daily("t", "holidays")}, schedule.PutOptions{})
	e.must("PutMany", err)
	if !errors.As(results[0].Err, &field) || results[1].Err != nil {
		e.Errorf("PutMany = %v, %v, want a FieldError and nil", results[0].Err, results[1].Err)
	}
}

func calendarMoves(e *env) {
	first := e.calendars(schedule.CalendarOptions{}, dates("used", 5), dates("other", 5))
	var ids []schedule.ID
	for i := range 12 {
		ids = append(ids, numbered(i))
		e.put(daily(numbered(i), "used"))
	}
	e.put(daily("x-other", "other"))
	e.put(every("x-none"))
	none := e.status("x-none")
	result := e.calendars(schedule.CalendarOptions{}, dates("used", 0, 1))
	want(e, "users", result.Users, len(ids))
	want(e, "moved", result.Moved, len(ids))
	for i, move := range result.Moves {
		want(e, "schedule of a move", move.Schedule, ids[i])
		wantTime(e, "From", move.From, noon(0))
		wantTime(e, "To", move.To, noon(2))
	}
	for _, id := range ids {
		status := e.status(id)
		wantTime(e, "NextAt of "+string(id), status.NextAt, noon(2))
		wantTime(e, "DueAt of "+string(id), status.DueAt, noon(2))
		want(e, "Version of "+string(id), status.Version, 2)
		want(e, "verdicts of "+string(id), len(status.Verdicts), 0)
	}
	wantTime(e, "NextAt of the user of another", e.status("x-other").NextAt, noon(0))
	want(e, "Version of the user of another", e.status("x-other").Version, 1)
	wantTime(e, "NextAt of a user of none", e.status("x-none").NextAt, none.NextAt)
	users, err := e.Calendars.CalendarUsers(e.Context(), "used")
	e.must("CalendarUsers", err)
	want(e, "users", fmt.Sprint(users), fmt.Sprint(ids))
	again := e.calendars(schedule.CalendarOptions{}, dates("used", 0, 1, 9))
	want(e, "users of a change that moves nothing", again.Users, len(ids))
	want(e, "moved by it", again.Moved, 0)
	want(e, "Version after it", e.status(ids[0]).Version, 2)
	if again.Version <= result.Version || result.Version <= first.Version {
		e.Errorf("versions %d, %d, %d, want them to grow", first.Version, result.Version, again.Version)
	}
	e.advance(12 * time.Hour)
	want(e, "claims at noon", len(e.claim()), 2) // x-other and x-none
}

func calendarDryRun(e *env) {
	first := e.calendars(schedule.CalendarOptions{}, dates("c", 5))
	e.put(daily("a", "c"))
	result := e.calendars(schedule.CalendarOptions{DryRun: true}, dates("c", 0), dates("new", 1))
	want(e, "actions", fmt.Sprint(result.Actions), "[updated created]")
	want(e, "users", result.Users, 1)
	if len(result.Moves) != 1 || !result.Moves[0].From.Equal(noon(0)) || !result.Moves[0].To.Equal(noon(1)) {
		e.Errorf("Moves = %+v, want one of a from the first noon to the second", result.Moves)
	}
	want(e, "version", e.stored(dates("c", 5)), first.Version)
	wantTime(e, "NextAt", e.status("a").NextAt, noon(0))
	e.remove("a")
	_, err := e.Calendars.DeleteCalendar(e.Context(), "c", schedule.CalendarOptions{DryRun: true})
	e.must("DeleteCalendar", err)
	e.stored(dates("c", 5))
}

func calendarRevives(e *env) {
	e.calendars(schedule.CalendarOptions{}, dates("launches", 0))
	s := daily("a", "")
	s.Except, s.Only = nil, []schedule.Window{{Calendar: "launches"}}
	e.put(s)
	e.advance(12 * time.Hour)
	c := e.claimOne(claim.ClaimFire)
	last := enqueued(c)
	last.Next = time.Time{}
	want(e, "outcome", e.completeWith(e.stored(dates("launches", 0)), last), claim.CompleteOK)
	want(e, "State", e.status("a").State, schedule.StateCompleted)
	result := e.calendars(schedule.CalendarOptions{}, dates("launches", 0, 3))
	want(e, "moved", result.Moved, 1)
	status := e.status("a")
	want(e, "State", status.State, schedule.StateActive)
	wantTime(e, "NextAt", status.NextAt, noon(3))
	want(e, "Fired", status.Fired, 1)
}

// completeWith completes one claim with calendars of a version.
func (e *env) completeWith(version int64, completion claim.Completion) claim.Outcome {
	e.Helper()
	result, err := e.Claims.Complete(e.Context(), claim.CompleteRequest{AuditBuffered: auditTime, Calendars: version,
		Completions: []claim.Completion{completion}})
	e.must("Complete", err)
	return result.Outcomes[0]
}

func calendarDue(e *env) {
	e.calendars(schedule.CalendarOptions{}, dates("c", 5))
	e.put(daily("a", "c"))
	e.advance(13 * time.Hour)
	result := e.calendars(schedule.CalendarOptions{}, dates("c", 0, 1))
	want(e, "moved", result.Moved, 0)
	c := e.claimOne(claim.ClaimFire)
	wantTime(e, "ScheduledAt", c.ScheduledAt, noon(0))
	excluded := judged(c, schedule.VerdictExcluded)
	excluded.Next = noon(2)
	want(e, "outcome", e.completeWith(result.Version, excluded), claim.CompleteOK)
	wantTime(e, "NextAt", e.status("a").NextAt, noon(2))
}

func calendarClaimed(e *env) {
	first := e.calendars(schedule.CalendarOptions{}, dates("c", 5))
	e.put(daily("a", "c"))
	e.put(every("b", func(s *schedule.Schedule) { s.Specs[0].Every = 12 * time.Hour }))
	e.advance(12 * time.Hour)
	completions := map[schedule.ID]claim.Completion{}
	for shard := range e.shards {
		batch := e.batch(shard, 10)
		uses := false
		for _, c := range batch.Claims {
			completions[c.Schedule] = enqueued(c)
			uses = uses || c.Schedule == "a"
		}
		if uses {
			want(e, "version in the claim", batch.Calendars, first.Version)
		} else {
			want(e, "version without a user", batch.Calendars, 0)
		}
	}
	second := e.calendars(schedule.CalendarOptions{}, dates("c", 0, 1))
	want(e, "moved", second.Moved, 0)
	wantTime(e, "NextAt while claimed", e.status("a").NextAt, noon(0))
	want(e, "outcome of a user of none", e.completeWith(0, completions["b"]), claim.CompleteOK)
	stale := completions["a"]
	stale.Next = noon(1)
	want(e, "outcome with older calendars", e.completeWith(first.Version, stale), claim.CompleteCalendar)
	want(e, "claimed after CAL", e.status("a").Claimed, true)
	stale.Next = noon(2)
	want(e, "outcome with the newer", e.completeWith(second.Version, stale), claim.CompleteOK)
	status := e.status("a")
	wantTime(e, "NextAt", status.NextAt, noon(2))
	want(e, "Fired", status.Fired, 1)
	want(e, "outcome of the same again", e.completeWith(first.Version, stale), claim.CompleteAlready)
}

func calendarPaused(e *env) {
	e.calendars(schedule.CalendarOptions{}, dates("c", 5))
	s := daily("a", "c")
	s.Missed = schedule.MissedSkip
	e.put(s)
	e.pause("a", schedule.PauseOptions{})
	want(e, "moved", e.calendars(schedule.CalendarOptions{}, dates("c", 0)).Moved, 1)
	wantTime(e, "NextAt", e.status("a").NextAt, noon(1))
	e.advance(37 * time.Hour)
	e.calendars(schedule.CalendarOptions{}, dates("c", 2, 3))
	wantTime(e, "NextAt after resume", e.resume("a").NextAt, noon(4))
	e.verdicts("a", schedule.VerdictRange{Verdict: schedule.VerdictPaused, Count: 1, First: noon(1), Last: noon(1)})
}

func calendarDelete(e *env) {
	remove := func(name string) (schedule.CalendarResult, error) {
		return e.Calendars.DeleteCalendar(e.Context(), name, schedule.CalendarOptions{})
	}
	first := e.calendars(schedule.CalendarOptions{}, dates("used", 5), dates("free", 5))
	var ids []schedule.ID
	for i := range 3 {
		ids = append(ids, numbered(i))
		e.put(daily(numbered(i), "used"))
	}
	_, err := remove("used")
	var inUse *schedule.InUseError
	if !errors.As(err, &inUse) || inUse.Calendar != "used" || inUse.Count != 3 || !slices.Equal(inUse.Users, ids) {
		e.Errorf("DeleteCalendar = %v, want an InUseError that names %v", err, ids)
	}
	want(e, "version", e.stored(dates("free", 5), dates("used", 5)), first.Version)
	result, err := remove("free")
	e.must("DeleteCalendar", err)
	want(e, "version", e.stored(dates("used", 5)), result.Version)
	if result.Version <= first.Version {
		e.Errorf("version %d after %d, want a larger one", result.Version, first.Version)
	}
	if _, err := remove("free"); !errors.Is(err, schedule.ErrNotFound) {
		e.Errorf("DeleteCalendar again = %v, want ErrNotFound", err)
	}
	for _, id := range ids {
		e.remove(id)
	}
	_, err = remove("used")
	e.must("DeleteCalendar", err)
	e.stored()
	users, err := e.Calendars.CalendarUsers(e.Context(), "used")
	e.must("CalendarUsers", err)
	want(e, "users", len(users), 0)
	e.calendars(schedule.CalendarOptions{}, dates("used", 1))
	e.stored(dates("used", 1))
}

func calendarWriters(e *env) {
	const writers = 10
	name := func(i int) string { return fmt.Sprintf("c%d", i) }
	together(writers, func(i int) {
		for round := range 3 {
			if _, err := e.Calendars.PutCalendars(e.Context(), []schedule.Calendar{dates(name(i), round)}, schedule.CalendarOptions{}); err != nil {
				e.Errorf("PutCalendars: %v", err)
			}
		}
	})
	var all []schedule.Calendar
	for i := range writers {
		all = append(all, dates(name(i), 2))
	}
	e.stored(all...)
}

// calendarRaces lets schedules be put and removed while their calendars change
// and go. At the end every schedule is where its calendar puts it, and no
// calendar is missing that somebody names.
func calendarRaces(e *env) {
	const schedules, rounds = 8, 6
	names := []string{"x", "y"}
	e.calendars(schedule.CalendarOptions{}, dates("x", 0), dates("y", 0))
	var mu sync.Mutex
	unexpected := func(doing string, err error) {
		var field *schedule.FieldError
		var inUse *schedule.InUseError
		if err == nil || errors.As(err, &field) && strings.HasSuffix(field.Field, ".calendar") ||
			errors.As(err, &inUse) || errors.Is(err, schedule.ErrNotFound) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		e.Errorf("%s: %v", doing, err)
	}
	together(schedules+len(names), func(i int) {
		for round := range rounds {
			if i >= schedules {
				name := names[i-schedules]
				_, err := e.Calendars.DeleteCalendar(e.Context(), name, schedule.CalendarOptions{})
				unexpected("DeleteCalendar", err)
				_, err = e.Calendars.PutCalendars(e.Context(), []schedule.Calendar{dates(name, round, round+1)}, schedule.CalendarOptions{})
				unexpected("PutCalendars", err)
				continue
			}
			if (i+round)%4 == 0 {
				_, err := e.Catalog.Remove(e.Context(), numbered(i), schedule.RemoveOptions{})
				unexpected("Remove", err)
			}
			_, err := e.Catalog.Put(e.Context(), daily(numbered(i), names[(i+round/2)%2]), schedule.PutOptions{})
			unexpected("Put", err)
		}
	})
	calendars, _, err := e.Calendars.Calendars(e.Context())
	e.must("Calendars", err)
	page, err := e.Catalog.List(e.Context(), schedule.ListOptions{})
	e.must("List", err)
	for _, entry := range page.Entries {
		compiled, err := schedule.Compile(entry.Schedule, calendars)
		if err != nil || entry.Invalid != nil {
			e.Errorf("%s names a calendar that is not there: %v, %v", entry.Schedule.ID, err, entry.Invalid)
			continue
		}
		next, _ := compiled.Next(e.Now())
		wantTime(e, "NextAt of "+string(entry.Schedule.ID), entry.Status.NextAt, next)
	}
}

func calendarWakes(e *env) {
	if e.Waker == nil {
		e.Skip("the backend wakes nobody")
	}
	ctx, cancel := context.WithTimeout(e.Context(), 20*time.Second)
	defer cancel()
	wake, healthy, err := e.Waker.Wake(ctx)
	e.must("Wake", err)
	awaitHealthy(ctx, e, healthy)
	e.calendars(schedule.CalendarOptions{}, dates("c", 0, 1))
	e.put(daily("a", "c"))
	awaitWake(ctx, e, wake, "the first Put")
	e.calendars(schedule.CalendarOptions{}, dates("c", 1))
	awaitWake(ctx, e, wake, "a change of a calendar")
	wantTime(e, "NextAt", e.status("a").NextAt, noon(0))
}
