package admincli

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

func newValidate(s *session) *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use: "validate -f FILE|DIR|-", Short: "Check schedule files without a store",
		Long: `Check files as apply does, and show when what they hold fires first. It needs no
Redis: a calendar that the files name but do not hold is taken for empty, and
said. All problems are shown, each with its place; the exit code is then 2.`,
		Example: `  admin validate -f schedules.yaml
  admin validate -f schedules/ -o json`,
		Args: arguments(0, 0, "-f FILE"),
		RunE: func(*cobra.Command, []string) error { return s.validate(files) },
	}
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "file, directory, or - for standard input; may be repeated")
	return cmd
}

// A validJSON is what validate prints for one schedule.
type validJSON struct {
	ID       string   `json:"id"`
	Valid    bool     `json:"valid"`
	File     string   `json:"file"`
	Line     int      `json:"line"`
	Words    string   `json:"words"`
	FirstAt  *string  `json:"first_at"` // if it were created now; null: never, or when a run ends
	FirstMS  *int64   `json:"first_at_ms"`
	Warnings []string `json:"warnings"`
}

func (s *session) validate(files []string) error {
	s.calendars = map[string]schedule.Calendar{} // none is stored: there is no store
	s.offline = true
	wanted, calendars, err := s.load(files)
	if err != nil {
		return err
	}
	views, v := []validJSON{}, view{}
	var problems []error
	t := newTable("NAME", "WHEN", "FIRST", "CAREFUL")
	for _, d := range wanted {
		row, first, err := s.valid(d)
		problems = append(problems, err)
		views, v.names = append(views, row), append(v.names, row.ID)
		warnings := row.Warnings
		if len(warnings) == 0 {
			warnings = []string{""}
		}
		t.add(row.ID, clip(row.Words, 48), first, warnings[0])
		for _, line := range warnings[1:] {
			t.add("", "", "", line)
		}
	}
	if err := limited(errors.Join(problems...)); err != nil {
		return err
	}
	v.data = views
	v.table = func(w io.Writer) {
		if len(wanted) > 0 {
			t.flush(w, s.painted(s.env.Terminal.Stdout))
		}
	}
	s.note("%s and %s are valid", count(len(wanted), "schedule"), count(len(calendars), "calendar"))
	return s.emit(v)
}

// valid checks what apply would refuse to create.
func (s *session) valid(d desired) (validJSON, string, error) {
	now := s.env.Now()
	r := s.reading(d.definition, d.compiled, nil)
	row := validJSON{ID: string(d.definition.ID), Valid: true, File: d.written.at.file, Line: d.written.at.line, Words: r.words(), Warnings: []string{}}
	row.Warnings = append(row.Warnings, r.warnings()...)
	unknown := false
	for _, name := range calendarNames(d.definition) {
		if s.assumed[name] {
			unknown = true
			row.Warnings = append(row.Warnings, fmt.Sprintf("calendar %q is not in the files: taken for empty", name))
		}
	}
	if !unknown {
		if err := checkCreate(d.compiled, now); err != nil {
			return row, none, located(d.written, err)
		}
	}
	first, _ := d.compiled.First(now) // zero: none
	if delay, after := d.compiled.Delay(); after {
		first = now.Add(delay)
	}
	in := s.location(r.zoneAt(first))
	row.FirstAt, row.FirstMS = iso(first, in), millis(first)
	return row, when(first, now, in), nil
}

// neverDate stands in a calendar that is taken for empty: one without any
// window is refused.
const neverDate = "1970-01-01"

// assume adds the calendars that a definition names and that nothing defines,
// when there is no store that could.
func (s *session) assume(d schedule.Schedule) {
	for _, name := range calendarNames(d) {
		if _, known := s.calendars[name]; known {
			continue
		}
		if s.assumed == nil {
			s.assumed = map[string]bool{}
		}
		s.assumed[name] = true
		s.calendars[name] = schedule.Calendar{Name: name, Timezone: time.UTC.String(), Dates: []string{neverDate}}
	}
}
