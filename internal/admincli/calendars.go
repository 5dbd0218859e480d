package admincli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// compile prepares a definition with the calendars that it names.
func (s *session) compile(d schedule.Schedule) (*schedule.Compiled, error) {
	if len(calendarNames(d)) == 0 {
		return schedule.Compile(d, nil)
	}
	if err := s.knowCalendars(); err != nil {
		return nil, err
	}
	if s.offline {
		s.assume(d)
	}
	return schedule.Compile(d, slices.Collect(maps.Values(s.calendars)))
}

// calendarNames lists the calendars that a definition names.
func calendarNames(d schedule.Schedule) []string {
	var names []string
	for _, windows := range [][]schedule.Window{d.Except, d.Only} {
		for _, w := range windows {
			if w.Calendar != "" {
				names = append(names, w.Calendar)
			}
		}
	}
	return names
}

// knowCalendars reads the stored calendars once.
func (s *session) knowCalendars() error {
	if s.calendars != nil {
		return nil
	}
	stores, err := s.store()
	if err != nil {
		return err
	}
	known := map[string]schedule.Calendar{}
	if stores.Calendars != nil {
		ctx, cancel := s.call()
		defer cancel()
		all, _, err := stores.Calendars.Calendars(ctx)
		if err != nil {
			return err
		}
		for _, c := range all {
			known[c.Name] = c
		}
	}
	s.calendars = known
	return nil
}

// loadCalendars reads the calendars of files; definitions are compiled with
// them from then on.
func (s *session) loadCalendars(entries []written) ([]schedule.Calendar, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	var all []schedule.Calendar
	var problems []error
	seen := map[string]bool{}
	for _, w := range entries {
		var c schedule.Calendar
		err := json.Unmarshal(w.object, &c)
		if err == nil {
			err = c.Validate()
		}
		if err != nil {
			problems = append(problems, located(w, err))
		} else if seen[c.Name] {
			problems = append(problems, fileProblem(w.find("name"), "calendar %q is given twice", c.Name))
		}
		seen[c.Name] = true
		all = append(all, c)
	}
	if err := limited(errors.Join(problems...)); err != nil {
		return nil, err
	}
	if err := s.knowCalendars(); err != nil {
		return nil, err
	}
	s.stored = maps.Clone(s.calendars)
	for _, c := range all {
		s.calendars[c.Name] = c
	}
	return all, nil
}

// calendars stores the calendars of the files beside those that are stored
// already. It comes before the schedules, which may name them.
func (a *applying) calendars(wanted []schedule.Calendar, out *applied) error {
	a.changed = map[string]bool{}
	for _, c := range wanted {
		old, exists := a.s.stored[c.Name]
		action := "unchanged"
		switch {
		case !exists:
			action = "created"
		case !sameCalendar(old, c):
			action = "updated"
		}
		a.changed[c.Name] = action != "unchanged"
		a.counts[action]++
		if err := out.addCalendar(c.Name, action); err != nil {
			return err
		}
	}
	if a.dryRun || !slices.Contains(slices.Collect(maps.Values(a.changed)), true) {
		return nil
	}
	if a.s.stores.Calendars == nil {
		return usageErrorf("this store keeps no calendars")
	}
	ctx, cancel := a.s.call()
	defer cancel()
	_, err := a.s.stores.Calendars.PutCalendars(ctx, wanted, schedule.CalendarOptions{})
	return err
}

func sameCalendar(a, b schedule.Calendar) bool {
	first, err1 := json.Marshal(a)
	second, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(first, second)
}

func (a *applied) addCalendar(name, action string) error {
	if a.differences && action == "unchanged" {
		return nil
	}
	if a.array != nil {
		return a.array.add(putJSON{Kind: "calendar", ID: name, Action: action, DryRun: a.dryRun})
	}
	if a.s.flags.format == formatName {
		fmt.Fprintln(a.s.out, "calendar/"+visible(name))
		return nil
	}
	a.table.addCells(cell{a.shownAction(action), actionColors[action]}, cell{text: "calendar/" + name}, cell{text: none}, cell{})
	return nil
}

// put writes a batch. A plan whose calendars are not stored yet cannot be
// answered by the store; it is worked out here.
func (a *applying) put(ctx context.Context, batch []desired, definitions []schedule.Schedule) ([]schedule.PutResult, error) {
	results := make([]schedule.PutResult, len(batch))
	var asked []schedule.Schedule
	var places []int
	for i, d := range batch {
		if a.dryRun && a.usesChanged(d.definition) {
			results[i] = a.foresee(d)
			continue
		}
		asked, places = append(asked, definitions[i]), append(places, i)
	}
	if len(asked) == 0 {
		return results, nil
	}
	answers, err := a.catalog.PutMany(ctx, asked, schedule.PutOptions{DryRun: a.dryRun, IfVersion: a.ifVersion})
	if err != nil {
		return nil, err
	}
	for i, answer := range answers {
		results[places[i]] = answer
	}
	return results, nil
}

func (a *applying) usesChanged(d schedule.Schedule) bool {
	return slices.ContainsFunc(calendarNames(d), func(name string) bool { return a.changed[name] })
}

func (a *applying) foresee(d desired) schedule.PutResult {
	next, _ := d.compiled.First(a.s.env.Now()) // zero: none
	entry, exists := a.stored[d.definition.ID]
	result := schedule.PutResult{Created: !exists, NextAt: next, Version: 1}
	if exists {
		result.Version, result.Generation = entry.Status.Version, entry.Status.Generation
		result.Unchanged = len(differences(entry.Schedule, d.definition)) == 0
	}
	return result
}
