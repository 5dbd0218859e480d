package admincli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// A desired schedule is one that the files ask for.
type desired struct {
	definition schedule.Schedule
	compiled   *schedule.Compiled
	paused     *bool // what the file says; nil: nothing
	written    written
}

// load reads every file and checks all of it, so that nothing is written
// when anything is wrong. It returns the calendars of the files as well.
func (s *session) load(names []string) ([]desired, []schedule.Calendar, error) {
	if len(names) == 0 {
		return nil, nil, usageErrorf("which files? give -f FILE, -f DIR or -f - for standard input")
	}
	var content fileContent
	var problems []error
	for _, name := range names {
		files, err := inputs(name)
		if err != nil {
			return nil, nil, err
		}
		for _, file := range files {
			found, err := s.loadFile(file)
			problems = append(problems, err)
			content.schedules = append(content.schedules, found.schedules...)
			content.calendars = append(content.calendars, found.calendars...)
			if len(content.schedules) > maxSchedules {
				return nil, nil, tooMany("schedules", file)
			}
		}
	}
	calendars, err := readCalendars(content.calendars)
	spoiled := slices.ContainsFunc(content.calendars, func(w written) bool { return len(w.spoiled) > 0 })
	if err != nil || spoiled {
		_, also := s.decodeAll(withoutCalendars(content.schedules))
		return nil, nil, limited(errors.Join(append(problems, err, also)...))
	}
	if err := s.addCalendars(calendars); err != nil {
		return nil, nil, limited(errors.Join(append(problems, err)...))
	}
	all, err := s.decodeAll(content.schedules)
	if err := limited(errors.Join(append(problems, err)...)); err != nil {
		return nil, nil, err
	}
	return all, calendars, nil
}

// withoutCalendars leaves out the schedules that name calendars, when one of
// those in the files is wrong: they would seem wrong as well.
func withoutCalendars(entries []written) (all []written) {
	for _, w := range entries {
		if d, _ := schedule.Draft(w.object); len(calendarNames(d)) == 0 { // decoding tells what is wrong with it
			all = append(all, w)
		}
	}
	return all
}

// decodeAll turns what was written into definitions, each ID once.
func (s *session) decodeAll(entries []written) ([]desired, error) {
	var all []desired
	var problems []error
	seen := map[schedule.ID]place{}
	for _, w := range entries {
		d, err := s.decode(w)
		problems = append(problems, err)
		id := d.definition.ID
		if first, twice := seen[id]; twice && id != "" {
			problems = append(problems, fileProblem(w.find("id"), "id %q is given twice, first at %s", id, first))
		}
		seen[id] = w.find("id")
		all = append(all, d)
	}
	return all, errors.Join(problems...)
}

// limited keeps the first problems and counts the rest.
func limited(err error) error {
	if err == nil {
		return nil
	}
	problems := flatten(err)
	if len(problems) > maxProblems {
		more := usageErrorf("and %d more problems", len(problems)-maxProblems)
		problems = append(problems[:maxProblems:maxProblems], more)
	}
	return errors.Join(problems...)
}

// inputs expands a directory to its YAML and JSON files, in order of name.
func inputs(name string) ([]string, error) {
	if name == "-" {
		return []string{name}, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, usageErrorf("file %q cannot be read: %s", clip(name, maxCell), reason(err))
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, usageErrorf("directory %q cannot be read: %s", name, reason(err))
	}
	var files []string
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".yaml", ".yml", ".json":
			if !e.IsDir() {
				files = append(files, filepath.Join(name, e.Name()))
			}
		}
	}
	if len(files) == 0 {
		return nil, usageErrorf("directory %q holds no .yaml, .yml or .json file", name)
	}
	return files, nil
}

func (s *session) loadFile(name string) (fileContent, error) {
	text, shown, err := s.readInput(name)
	if err != nil {
		return fileContent{}, err
	}
	return readFile(shown, text)
}

func (s *session) readInput(name string) (text []byte, shown string, err error) {
	source := s.env.Stdin
	shown = "stdin"
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, "", usageErrorf("file %q cannot be read: %s", clip(name, maxCell), reason(err))
		}
		defer f.Close()
		source, shown = f, name
	}
	// One byte more than allowed is enough to know that it is too long.
	text, err = io.ReadAll(io.LimitReader(source, maxFileBytes+1))
	if errors.Is(err, errInterrupted) {
		return nil, "", err
	}
	if err != nil {
		return nil, "", usageErrorf("file %q cannot be read: %s", clip(shown, maxCell), reason(err))
	}
	return text, shown, nil
}

// decode turns what was written into a definition that can be compiled. The
// error joins everything that is wrong with it, each field once.
func (s *session) decode(w written) (desired, error) {
	d := desired{written: w}
	var unread error
	if d.definition, unread = schedule.Draft(w.object); unread != nil && reflect.ValueOf(d.definition).IsZero() {
		return d, located(w, unread)
	}
	var explicit struct {
		Paused *bool `json:"paused"`
	}
	if err := json.Unmarshal(w.object, &explicit); err != nil {
		return d, located(w, err)
	}
	d.paused = explicit.Paused
	compiled, err := s.compile(d.definition)
	if err := errors.Join(unread, unrelated(err, w.spoiled, unread)); err != nil {
		return d, located(w, err)
	}
	if err != nil { // it follows from what was told before
		return d, nil
	}
	d.compiled, d.definition = compiled, compiled.Definition()
	return d, nil
}

// unrelated leaves out what follows from fields that could not be read.
func unrelated(err error, spoiled []string, unread error) error {
	if err == nil {
		return nil
	}
	for _, one := range flatten(unread) {
		var field *schedule.FieldError
		if errors.As(one, &field) {
			spoiled = append(spoiled, field.Field)
		}
	}
	within := func(path, around string) bool {
		rest, ok := strings.CutPrefix(path, around)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	var all []error
	for _, one := range flatten(err) {
		var field *schedule.FieldError
		if errors.As(one, &field) && slices.ContainsFunc(spoiled, func(path string) bool { return within(path, field.Field) || within(field.Field, path) }) {
			continue
		}
		all = append(all, one)
	}
	return errors.Join(all...)
}

// located puts the place in the file before each problem, in the order of the
// file.
func located(w written, err error) error {
	type placed struct {
		at  place
		err error
	}
	var all []placed
	for _, one := range flatten(err) {
		var field *schedule.FieldError
		at, text := w.at, one.Error()
		if errors.As(one, &field) {
			at, text = w.find(field.Field), field.Error()
		}
		all = append(all, placed{at, fileProblem(at, "%s%s", owner(w), text)})
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Or(a.at.line-b.at.line, a.at.column-b.at.column) })
	problems := make([]error, len(all))
	for i := range all {
		problems[i] = all[i].err
	}
	return errors.Join(problems...)
}

// owner names the schedule of a problem, when it has a readable ID.
func owner(w written) string {
	var named struct {
		ID schedule.ID `json:"id"`
	}
	if json.Unmarshal(w.object, &named) != nil || named.ID.Validate() != nil {
		return ""
	}
	return fmt.Sprintf("schedule %s: ", named.ID)
}

// checkCreate refuses what may not be created at now.
func checkCreate(compiled *schedule.Compiled, now time.Time) error {
	err := compiled.CheckCreate(now)
	var field *schedule.FieldError
	if !errors.As(err, &field) || field.Hint != "" {
		return err
	}
	for _, warning := range schedule.Warnings(compiled.Spec()) {
		_, hint, found := strings.Cut(warning, " (did you mean ")
		if found && strings.HasPrefix(warning, "it never runs: ") {
			return withHint(err, "did you mean "+strings.TrimSuffix(hint, ")"))
		}
	}
	return err
}

// fromFlags names fields as the flags that set them: there is only one spec.
func (f *specFlags) fromFlags(err error) error {
	var all []error
	for _, one := range flatten(err) {
		var field *schedule.FieldError
		if !errors.As(one, &field) {
			return err
		}
		copied := *field
		copied.Field = strings.TrimPrefix(copied.Field, "specs[0].")
		if copied.Field == "specs[0]" {
			copied.Field = f.given()
		}
		all = append(all, &copied)
	}
	return errors.Join(all...)
}
