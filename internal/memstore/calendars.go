package memstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

var _ schedule.CalendarStore = (*Store)(nil)

// Calendars returns all calendars and their version.
func (s *Store) Calendars(ctx context.Context) ([]schedule.Calendar, int64, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, 0, err
	}
	defer s.mu.Unlock()
	return slices.Clone(s.calendars), s.calendarV, nil
}

// PutCalendars creates or replaces calendars and plans their users again, in
// one step.
func (s *Store) PutCalendars(ctx context.Context, calendars []schedule.Calendar, options schedule.CalendarOptions) (schedule.CalendarResult, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return schedule.CalendarResult{}, err
	}
	defer s.mu.Unlock()
	if err := checkCalendars(calendars); err != nil {
		return schedule.CalendarResult{}, err
	}
	if err := s.checkCalendarVersion(options); err != nil {
		return schedule.CalendarResult{}, err
	}
	var result schedule.CalendarResult
	all, changed := slices.Clone(s.calendars), map[string]bool{}
	for _, calendar := range calendars {
		var action schedule.CalendarAction
		all, action = withCalendar(all, calendar)
		result.Actions = append(result.Actions, action)
		if action != schedule.CalendarUnchanged {
			changed[calendar.Name] = true
		}
	}
	result.Version = s.calendarV
	if len(changed) == 0 {
		return result, nil
	}
	result.Version++
	if !options.DryRun {
		s.calendars, s.calendarV = all, result.Version
	}
	for _, r := range s.calendarUsers(changed) {
		result.Users++
		s.replan(r, all, now, options.DryRun, &result)
	}
	result.Moves = result.Moves[:min(len(result.Moves), schedule.MaxCalendarMoves)]
	return result, nil
}

// checkCalendars refuses calendars that are not valid, or given twice.
func checkCalendars(calendars []schedule.Calendar) error {
	var refused []error
	for i, calendar := range calendars {
		refused = append(refused, calendar.Validate())
		if slices.ContainsFunc(calendars[:i], func(c schedule.Calendar) bool { return c.Name == calendar.Name }) {
			refused = append(refused, &schedule.FieldError{Field: "name", Value: calendar.Name, Allowed: "each calendar once"})
		}
	}
	return errors.Join(refused...)
}

func (d *data) checkCalendarVersion(options schedule.CalendarOptions) error {
	if want := options.IfVersion; want != nil && *want != d.calendarV {
		return fmt.Errorf("memstore: changing calendars: version %d is stored, %d expected: %w", d.calendarV, *want, schedule.ErrConflict)
	}
	return nil
}

// withCalendar puts a calendar in its place.
func withCalendar(all []schedule.Calendar, calendar schedule.Calendar) ([]schedule.Calendar, schedule.CalendarAction) {
	i, found := findCalendar(all, calendar.Name)
	if !found {
		return slices.Insert(all, i, calendar), schedule.CalendarCreated
	}
	before, err1 := json.Marshal(all[i])
	after, err2 := json.Marshal(calendar)
	if err1 == nil && err2 == nil && string(before) == string(after) {
		return all, schedule.CalendarUnchanged
	}
	all[i] = calendar
	return all, schedule.CalendarUpdated
}

func findCalendar(all []schedule.Calendar, name string) (int, bool) {
	return slices.BinarySearchFunc(all, name, func(c schedule.Calendar, name string) int { return strings.Compare(c.Name, name) })
}

// calendarUsers returns the schedules that name one of the calendars, in order
// of ID.
func (d *data) calendarUsers(names map[string]bool) []*record {
	var users []*record
	for _, r := range d.schedules {
		definition := r.definition()
		if slices.ContainsFunc(definition.CalendarNames(), func(name string) bool { return names[name] }) {
			users = append(users, r)
		}
	}
	slices.SortFunc(users, func(a, b *record) int { return cmp.Compare(a.id, b.id) })
	return users
}

// replan moves the pending scheduled time of a user to where the calendars put
// it. A claimed one is a promise and stays.
func (d *data) replan(r *record, calendars []schedule.Calendar, now time.Time, dryRun bool, result *schedule.CalendarResult) {
	updated, err := schedule.Compile(r.definition(), calendars)
	if err != nil {
		return
	}
	plan := schedule.PlanPut(r.compiled, r.next, updated, r.planFrom(now))
	if plan.SpecChanged {
		result.Moved++
		result.Moves = append(result.Moves, schedule.CalendarMove{Schedule: r.id, From: r.next, To: millis(plan.Next)})
	}
	switch {
	case dryRun:
	case plan.SpecChanged:
		d.write(r, updated, now)
		d.wake()
	default:
		r.compiled = updated
	}
}

// DeleteCalendar deletes a calendar that no schedule names.
func (s *Store) DeleteCalendar(ctx context.Context, name string, options schedule.CalendarOptions) (schedule.CalendarResult, error) {
	if _, err := s.enter(ctx); err != nil {
		return schedule.CalendarResult{}, err
	}
	defer s.mu.Unlock()
	i, found := findCalendar(s.calendars, name)
	if !found {
		return schedule.CalendarResult{}, fmt.Errorf("memstore: deleting calendar %q: %w", name, schedule.ErrNotFound)
	}
	if users := recordIDs(s.calendarUsers(map[string]bool{name: true})); len(users) > 0 {
		return schedule.CalendarResult{}, &schedule.InUseError{Calendar: name,
			Users: users[:min(len(users), schedule.MaxCalendarMoves)], Count: len(users)}
	}
	if err := s.checkCalendarVersion(options); err != nil {
		return schedule.CalendarResult{}, err
	}
	result := schedule.CalendarResult{Version: s.calendarV, Actions: []schedule.CalendarAction{schedule.CalendarDeleted}}
	if !options.DryRun {
		s.calendars = slices.Delete(slices.Clone(s.calendars), i, i+1)
		s.calendarV++
		result.Version = s.calendarV
	}
	return result, nil
}

// CalendarUsers returns the schedules that name a calendar.
func (s *Store) CalendarUsers(ctx context.Context, name string) ([]schedule.ID, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return recordIDs(s.calendarUsers(map[string]bool{name: true})), nil
}

func recordIDs(all []*record) []schedule.ID {
	var ids []schedule.ID
	for _, r := range all {
		ids = append(ids, r.id)
	}
	return ids
}

// FinishCalendars has nothing to do: no change stops half-way here.
func (s *Store) FinishCalendars(ctx context.Context) error {
	if _, err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	return nil
}
