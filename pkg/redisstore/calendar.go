package redisstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// calendarVersionField is the field of the configuration that holds the
// version of the calendars.
const calendarVersionField = "calendars"

// An almanac is all calendars of one version.
type almanac struct {
	calendars []schedule.Calendar // ascending order of name
	version   int64
	leaving   map[string]bool // those that are marked for deletion
	known     bool            // they were read; otherwise nobody needed them
}

// usable returns the calendars that a definition may name from now on: those
// that are about to be deleted are not among them.
func (a almanac) usable() []schedule.Calendar {
	if len(a.leaving) == 0 {
		return a.calendars
	}
	return slices.DeleteFunc(slices.Clone(a.calendars), func(c schedule.Calendar) bool { return a.leaving[c.Name] })
}

// Calendars returns all stored calendars and their version.
func (s *Store) Calendars(ctx context.Context) ([]schedule.Calendar, int64, error) {
	a, err := s.readCalendars(ctx)
	return a.calendars, a.version, err
}

func (s *Store) readCalendars(ctx context.Context) (almanac, error) {
	const doing = "read the calendars"
	texts, changes, version, err := s.storedCalendars(ctx)
	if err != nil {
		return almanac{}, wrap(doing, err)
	}
	a := almanac{leaving: map[string]bool{}, known: true}
	for name, text := range texts {
		var calendar schedule.Calendar
		if err := json.Unmarshal([]byte(text), &calendar); err != nil {
			return almanac{}, fmt.Errorf("redisstore: %s: %q: %w", doing, name, err)
		}
		a.calendars = append(a.calendars, calendar)
	}
	for name, text := range changes {
		if change(text).deletes() {
			a.leaving[name] = true
		}
	}
	slices.SortFunc(a.calendars, func(a, b schedule.Calendar) int { return strings.Compare(a.Name, b.Name) })
	a.version, _ = strconv.ParseInt(version, 10, 64) // absent: 0
	return a, nil
}

// storedCalendars reads calendars, unfinished changes and the version that
// holds for both. No transaction does it: a server that is full refuses even
// reads inside one, and an operator must see what is stored then.
func (s *Store) storedCalendars(ctx context.Context) (texts, changes map[string]string, version string, err error) {
	for {
		pipe := s.client.Pipeline()
		before := pipe.HMGet(ctx, s.keys.configuration(), calendarVersionField)
		all := pipe.HGetAll(ctx, s.keys.calendars())
		marks := pipe.HGetAll(ctx, s.keys.calendarChanges())
		after := pipe.HMGet(ctx, s.keys.configuration(), calendarVersionField)
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, nil, "", err
		}
		if before.Val()[0] == after.Val()[0] {
			version, _ := after.Val()[0].(string)
			return all.Val(), marks.Val(), version, nil
		}
	}
}

// calendarsFor returns the stored calendars, nothing when no definition names
// one.
func (s *Store) calendarsFor(ctx context.Context, definitions ...schedule.Schedule) (almanac, error) {
	for i := range definitions {
		if len(definitions[i].CalendarNames()) > 0 {
			return s.readCalendars(ctx)
		}
	}
	return almanac{}, nil
}

// A change is what scripts/lua/calendars.lua notes of a change that the shards
// may not know of yet: version|started_ms|kind.
type change string

func (c change) kind() string { return string(c[strings.LastIndexByte(string(c), '|')+1:]) }

func (c change) deletes() bool { return c.kind() == "delete" }

// started is when the change began on its writer's clock, in milliseconds.
func (c change) started() int64 {
	parts := strings.Split(string(c), "|")
	if len(parts) != 3 {
		return 0
	}
	ms, _ := strconv.ParseInt(parts[1], 10, 64) // what cannot be read is old
	return ms
}

// action says in a word what the change does to the calendar.
func (c change) action() schedule.CalendarAction {
	switch c.kind() {
	case "create":
		return schedule.CalendarCreated
	case "delete":
		return schedule.CalendarDeleted
	case "replace":
		return schedule.CalendarUpdated
	}
	return schedule.CalendarUnchanged
}

// CalendarUsers returns the schedules that name a calendar.
func (s *Store) CalendarUsers(ctx context.Context, name string) ([]schedule.ID, error) {
	l, err := s.peek(ctx)
	if err != nil {
		return nil, err
	}
	var all []schedule.ID
	for shard := range l.keys {
		err := s.calendarUsers(ctx, l, shard, name, func(ids []schedule.ID) error {
			all = append(all, ids...)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(all)
	return all, nil
}

// calendarUsers visits the schedules of a shard that name a calendar, page by
// page in order.
func (s *Store) calendarUsers(ctx context.Context, l *layout, shard int, name string, visit func([]schedule.ID) error) error {
	prefix := calendarPrefix(name)
	for from := "[" + prefix; ; {
		texts, err := s.client.ZRangeByLex(ctx, l.keys[shard][keyLabel],
			&redis.ZRangeBy{Min: from, Max: beyond(prefix), Count: putAtOnce}).Result()
		if err != nil {
			return wrap("list the users of calendars", err)
		}
		if len(texts) == 0 {
			return nil
		}
		ids := make([]schedule.ID, len(texts))
		for i, text := range texts {
			ids[i] = idOfMember(prefix, text)
		}
		if err := visit(ids); err != nil || len(texts) < putAtOnce {
			return err
		}
		from = "(" + texts[len(texts)-1]
	}
}
