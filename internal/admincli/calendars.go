package admincli

import (
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

// calendarNames lists the calendars that a definition names, each once.
func calendarNames(d schedule.Schedule) []string { return d.CalendarNames() }

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

// readCalendars reads the calendars of files, or says all that is wrong with
// them.
func readCalendars(entries []written) ([]schedule.Calendar, error) {
	var all []schedule.Calendar
	var problems []error
	seen := map[string]bool{}
	for _, w := range entries {
		var c schedule.Calendar
		err := json.Unmarshal(w.object, &c)
		if err == nil && len(w.spoiled) == 0 { // otherwise something was told, and more would follow from it
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
	return all, limited(errors.Join(problems...))
}

// addCalendars puts the calendars of files beside the stored ones: definitions
// are compiled with them from then on.
func (s *session) addCalendars(all []schedule.Calendar) error {
	if len(all) == 0 {
		return nil
	}
	if err := s.knowCalendars(); err != nil {
		return err
	}
	s.stored = maps.Clone(s.calendars)
	for _, c := range all {
		s.calendars[c.Name] = c
	}
	return nil
}

// calendars stores the calendars of the files beside those that are stored
// already. It comes before the schedules, which may name them.
func (a *applying) calendars(wanted []schedule.Calendar, out *applied) error {
	a.changed = map[string]bool{}
	for _, c := range wanted {
		row, quiet, err := a.s.putCalendar(c, schedule.CalendarOptions{DryRun: a.dryRun})
		if err != nil {
			return err
		}
		a.silences = append(a.silences, quiet.without(func(id schedule.ID) bool { _, known := a.stored[id]; return known }))
		a.changed[c.Name] = row.Action != string(schedule.CalendarUnchanged)
		a.counts[row.Action]++
		if err := out.addCalendar(row); err != nil {
			return err
		}
	}
	return nil
}

func (a *applied) addCalendar(row putJSON) error {
	if a.differences && row.Action == string(schedule.CalendarUnchanged) {
		return nil
	}
	if a.array != nil {
		return a.array.add(row)
	}
	if a.s.flags.format == formatName {
		fmt.Fprintln(a.s.out, "calendar/"+visible(row.ID))
		return nil
	}
	lines := append(row.lines(), "")
	a.table.addCells(cell{a.shownAction(row.Action), actionColors[row.Action]}, cell{text: "calendar/" + row.ID}, cell{text: none}, cell{text: lines[0]})
	for _, line := range lines[1:max(1, len(lines)-1)] {
		a.table.add("", "", "", line)
	}
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
