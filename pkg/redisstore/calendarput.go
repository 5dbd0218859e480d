package redisstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/scripts/lua"
)

// unfinishedAfter is when others take over a change of calendars whose writer
// may have died. A writer that lives is not hurt by that.
const unfinishedAfter = 10 * time.Second

var _ schedule.CalendarStore = (*Store)(nil)

// PutCalendars creates or replaces calendars by name.
//
// The change is noted beside the calendars first and struck out last, so that
// whoever finds the note can go on. In between, each shard is told the new
// version and refuses from then on what was planned with an older one; after
// that the users of the calendars are planned again.
func (s *Store) PutCalendars(ctx context.Context, calendars []schedule.Calendar, options schedule.CalendarOptions) (schedule.CalendarResult, error) {
	var refused []error
	texts := make([]string, len(calendars))
	for i, calendar := range calendars {
		refused = append(refused, calendar.Validate())
		if slices.ContainsFunc(calendars[:i], func(c schedule.Calendar) bool { return c.Name == calendar.Name }) {
			refused = append(refused, &schedule.FieldError{Field: "name", Value: calendar.Name, Allowed: "each calendar once"})
		}
		text, err := json.Marshal(calendar)
		if err != nil {
			return schedule.CalendarResult{}, wrap("encode a calendar", err)
		}
		texts[i] = string(text)
	}
	if err := errors.Join(refused...); err != nil {
		return schedule.CalendarResult{}, err
	}
	if options.DryRun {
		return s.foreseeCalendars(ctx, calendars, options)
	}
	names := make([]string, len(calendars))
	for i := range calendars {
		names[i] = calendars[i].Name
	}
	changes, open, version, err := s.noteCalendars(ctx, names, texts, options)
	if err != nil {
		return schedule.CalendarResult{}, err
	}
	result := schedule.CalendarResult{Version: version}
	for _, c := range changes {
		result.Actions = append(result.Actions, c.action())
	}
	_, err = s.carryOut(ctx, open, &result)
	return result, err
}

// noteCalendars stores definitions, "" for a deletion, with the note that the
// shards do not know of them yet. It returns the change of each, and all that are
// to be carried out: those of other calendars too, when the store went back.
func (s *Store) noteCalendars(ctx context.Context, names, texts []string, options schedule.CalendarOptions) ([]change, map[string]change, int64, error) {
	const doing = "change calendars"
	open, options, err := s.raiseForChange(ctx, options)
	if err != nil {
		return nil, nil, 0, err
	}
	expected := ""
	if options.IfVersion != nil {
		expected = strconv.FormatInt(*options.IfVersion, 10)
	}
	args := []any{s.options.Wall().UnixMilli(), expected}
	for i := range names {
		args = append(args, names[i], texts[i])
	}
	keys := []string{s.keys.configuration(), s.keys.calendars(), s.keys.calendarChanges()}
	answer, err := s.run(ctx, doing, lua.Calendars, keys, args...)
	if err != nil {
		return nil, nil, 0, err
	}
	status, version := answer.text(0), answer.number(1)
	if status == "CONFLICT" {
		return nil, nil, 0, calendarConflict(version, options)
	}
	if open == nil {
		open = map[string]change{}
	}
	changes := make([]change, len(names))
	for i := range names {
		changes[i] = change(answer.text(2 + i))
		if changes[i] != "" {
			open[names[i]] = changes[i]
		}
	}
	return changes, open, version, answer.err
}

func calendarConflict(version int64, options schedule.CalendarOptions) error {
	return fmt.Errorf("redisstore: change calendars: version %d is stored, %d expected: %w", version, *options.IfVersion, schedule.ErrConflict)
}

// carryOut tells the shards of changes, plans the users again, and strikes the
// notes out. It returns by name why a calendar that was marked for deletion
// stays: somebody named it after the first look at its users.
func (s *Store) carryOut(ctx context.Context, open map[string]change, result *schedule.CalendarResult) (map[string]*schedule.InUseError, error) {
	if len(open) == 0 {
		return nil, nil
	}
	l, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	all, open, err := s.informShards(ctx, l, open, result)
	if err != nil {
		return nil, err
	}
	var done []any
	kept := map[string]*schedule.InUseError{}
	walk := newWalk(s, l, all, result)
	for _, name := range slices.Sorted(maps.Keys(open)) {
		remove := "0"
		if open[name].deletes() {
			var inUse *schedule.InUseError
			switch err := s.checkUnused(ctx, name); {
			case err == nil:
				remove = "1"
			case !errors.As(err, &inUse):
				return nil, err
			}
			kept[name] = inUse
		}
		if remove == "0" {
			if err := walk.users(ctx, name); err != nil {
				return nil, err
			}
		}
		done = append(done, name, string(open[name]), remove)
	}
	walk.finish()
	_, err = s.run(ctx, "finish a change of calendars", lua.CalendarsDone, []string{s.keys.calendars(), s.keys.calendarChanges()}, done...)
	return kept, err
}

// DeleteCalendar deletes a calendar that no schedule names. While it is
// marked for deletion no definition may name it; the shards are told before
// the second look at its users, so that none can be missed.
func (s *Store) DeleteCalendar(ctx context.Context, name string, options schedule.CalendarOptions) (schedule.CalendarResult, error) {
	doing := fmt.Sprintf("delete calendar %q", name)
	all, err := s.readCalendars(ctx)
	if err != nil {
		return schedule.CalendarResult{}, err
	}
	if !slices.ContainsFunc(all.calendars, func(c schedule.Calendar) bool { return c.Name == name }) {
		return schedule.CalendarResult{}, notFound(doing)
	}
	if err := s.checkUnused(ctx, name); err != nil {
		return schedule.CalendarResult{}, err
	}
	result := schedule.CalendarResult{Version: all.version, Actions: []schedule.CalendarAction{schedule.CalendarDeleted}}
	if options.IfVersion != nil && *options.IfVersion != all.version {
		return schedule.CalendarResult{}, calendarConflict(all.version, options)
	}
	if options.DryRun {
		return result, nil
	}
	changes, open, version, err := s.noteCalendars(ctx, []string{name}, []string{""}, options)
	if err != nil {
		return schedule.CalendarResult{}, err
	}
	if changes[0] == "" {
		return schedule.CalendarResult{}, notFound(doing)
	}
	result.Version = version
	kept, err := s.carryOut(ctx, open, &result)
	if err == nil && kept[name] != nil {
		return schedule.CalendarResult{}, kept[name]
	}
	return result, err
}

// checkUnused returns a *schedule.InUseError when a schedule names the
// calendar.
func (s *Store) checkUnused(ctx context.Context, name string) error {
	users, err := s.CalendarUsers(ctx, name)
	if err != nil || len(users) == 0 {
		return err
	}
	return &schedule.InUseError{Calendar: name, Users: users[:min(len(users), schedule.MaxCalendarMoves)], Count: len(users)}
}

// FinishCalendars carries out changes that are noted and old: their writer
// stopped half-way.
func (s *Store) FinishCalendars(ctx context.Context) error {
	notes, err := s.client.HGetAll(ctx, s.keys.calendarChanges()).Result()
	if err != nil {
		return wrap("look for unfinished changes of calendars", err)
	}
	open, oldest := map[string]change{}, s.options.Wall().Add(-unfinishedAfter).UnixMilli()
	for name, text := range notes {
		if c := change(text); c.started() <= oldest {
			open[name] = c
		}
	}
	_, err = s.carryOut(ctx, open, &schedule.CalendarResult{})
	return err
}

// foreseeCalendars says what PutCalendars would do.
func (s *Store) foreseeCalendars(ctx context.Context, calendars []schedule.Calendar, options schedule.CalendarOptions) (schedule.CalendarResult, error) {
	l, err := s.peek(ctx)
	if err != nil {
		return schedule.CalendarResult{}, err
	}
	all, err := s.readCalendars(ctx)
	if err != nil {
		return schedule.CalendarResult{}, err
	}
	if options.IfVersion != nil && *options.IfVersion != all.version {
		return schedule.CalendarResult{}, calendarConflict(all.version, options)
	}
	result := schedule.CalendarResult{Version: all.version}
	var changed []string
	for _, calendar := range calendars {
		action := replaceCalendar(&all, calendar)
		result.Actions = append(result.Actions, action)
		if action != schedule.CalendarUnchanged {
			changed = append(changed, calendar.Name)
		}
	}
	if len(changed) > 0 {
		result.Version++
	}
	walk := newWalk(s, l, all, &result)
	walk.dryRun = true
	for _, name := range changed {
		if err := walk.users(ctx, name); err != nil {
			return schedule.CalendarResult{}, err
		}
	}
	walk.finish()
	return result, nil
}

// replaceCalendar puts a calendar in its place and says what that changes.
func replaceCalendar(all *almanac, calendar schedule.Calendar) schedule.CalendarAction {
	i, found := slices.BinarySearchFunc(all.calendars, calendar.Name, func(c schedule.Calendar, name string) int {
		return strings.Compare(c.Name, name)
	})
	if !found {
		all.calendars = slices.Insert(all.calendars, i, calendar)
		return schedule.CalendarCreated
	}
	before, err1 := json.Marshal(all.calendars[i])
	after, err2 := json.Marshal(calendar)
	all.calendars[i] = calendar
	if err1 == nil && err2 == nil && string(before) == string(after) && !all.leaving[calendar.Name] {
		return schedule.CalendarUnchanged
	}
	return schedule.CalendarUpdated
}
