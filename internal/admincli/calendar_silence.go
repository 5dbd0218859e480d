package admincli

import (
	"slices"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// maxSilenceLooks bounds how many users of a calendar are looked at for those
// that it silences: each costs a search through windows.
const maxSilenceLooks = 10_000

// A silencing is what a changed calendar leaves nothing to fire for.
type silencing struct {
	calendar string
	ids      []schedule.ID // in ascending order
	users    int
	partly   bool // more users than were looked at
	closed   bool // no minute is left outside of the calendar
}

// silenced finds the schedules that fire with the calendars as they were and
// not with c. A creation of such a schedule is refused; of those that exist the
// calendar may be meant so, and they fire again when another lets them: they
// are named, and kept.
func (s *session) silenced(store schedule.CalendarStore, before []schedule.Calendar, c schedule.Calendar, result schedule.CalendarResult) (silencing, error) {
	out := silencing{calendar: c.Name, users: result.Users}
	if result.Actions[0] == schedule.CalendarUnchanged {
		return out, nil
	}
	after := append(slices.DeleteFunc(slices.Clone(before), func(old schedule.Calendar) bool { return old.Name == c.Name }), c)
	out.closed = s.closesAll(after, c.Name)
	var ids []schedule.ID
	for _, m := range result.Moves { // what is silenced moves
		ids = append(ids, m.Schedule)
	}
	if result.Moved > len(result.Moves) {
		ctx, cancel := s.call()
		users, err := store.CalendarUsers(ctx, c.Name)
		cancel()
		if err != nil {
			return out, err
		}
		ids, out.partly = users[:min(len(users), maxSilenceLooks)], len(users) > maxSilenceLooks
	}
	for page := range slices.Chunk(ids, pageSize) {
		ctx, cancel := s.call()
		entries, err := s.stores.Catalog.GetMany(ctx, page)
		cancel()
		if err != nil {
			return out, err
		}
		for _, id := range page {
			if e, ok := entries[id]; ok && s.fires(e.Schedule, before) && !s.fires(e.Schedule, after) {
				out.ids = append(out.ids, id)
			}
		}
	}
	return out, nil
}

// fires reports whether a search finds a time that lies ahead. A definition that
// cannot be compiled is somebody else's problem, and fires neither before nor
// after.
func (s *session) fires(d schedule.Schedule, calendars []schedule.Calendar) bool {
	compiled, err := schedule.Compile(d, calendars)
	if err != nil {
		return false
	}
	_, found := compiled.First(s.env.Now())
	return found
}

// closesAll reports whether a schedule of every minute would find no time
// outside of the calendar.
func (s *session) closesAll(calendars []schedule.Calendar, name string) bool {
	minutely := schedule.Schedule{ID: "minutely", Type: "minutely", Expression: "1m"}
	open := s.fires(minutely, calendars)
	minutely.Except = []schedule.Window{{Calendar: name}}
	return open && !s.fires(minutely, calendars)
}

// holds reports whether the schedule is among them.
func (q silencing) holds(id schedule.ID) bool {
	_, found := slices.BinarySearch(q.ids, id)
	return found
}

// without leaves out schedules that get another definition as well.
func (q silencing) without(known func(schedule.ID) bool) silencing {
	q.ids = slices.DeleteFunc(slices.Clone(q.ids), known)
	return q
}

// warn tells what the change silences.
func (q silencing) warn(s *session) {
	switch {
	case len(q.ids) > 0:
		least := ""
		if q.partly {
			least = "at least "
		}
		s.warn("calendar %s leaves nothing to fire for %s%d of %s that name it: %s; they are kept, and fire again once it lets them",
			q.calendar, least, len(q.ids), count(q.users, "schedule"), summed(textsOf(q.ids), maxListed))
	case q.closed:
		s.warn("calendar %s covers every minute: a schedule that names it in except never fires", q.calendar)
	}
}

// warnSilent names the schedules that an apply leaves without a time to fire at.
func (a *applying) warnSilent() {
	for _, q := range a.silences {
		q.warn(a.s)
	}
	if len(a.silent) > 0 {
		a.s.warn("nothing is left to fire for %s of the files: %s; they are kept, and fire again once their definition or a calendar lets them",
			count(len(a.silent), "schedule"), summed(textsOf(a.silent), maxListed))
	}
}

func textsOf(ids []schedule.ID) []string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = string(id)
	}
	return texts
}
