package admincli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

func newExport(s *session) *cobra.Command {
	f := &targets{}
	cmd := &cobra.Command{
		Use: "export [NAME...] [-l k=v]", Short: "Write schedules as a file that can be applied",
		Long: `Write schedules, all or some, and the calendars that they name as one YAML file, or
JSON with -o json. Applying it again changes nothing. With -o jsonl each schedule,
and then each calendar, is a line of its own, which apply reads one at a time;
-o name writes the names of the schedules. A paused schedule is
written as paused. The file is written as it is read, so that its size does not
matter.`,
		Example: `  admin export
  admin export -l team=billing -o json
  admin export nightly-report cache-warm`,
		ValidArgsFunction: s.completeIDs,
		RunE:              func(_ *cobra.Command, args []string) error { return s.export(f, args) },
	}
	f.register(cmd)
	return cmd
}

func (s *session) export(f *targets, args []string) error {
	out := &exporting{s: s, names: map[string]bool{}, all: len(args) == 0 && len(f.selector) == 0}
	switch s.flags.format {
	case formatTable, formatWide, formatYAML:
		out.yaml = true
	case formatJSONL, formatName:
		out.lines = true
	}
	if len(args) > 0 {
		entries, err := f.find(s, args)
		if err != nil {
			return err
		}
		return out.finish(out.entries(entries))
	}
	labels, err := parseLabels("selector", f.selector)
	if err != nil {
		return err
	}
	return out.finish(s.pages(schedule.ListOptions{Labels: labels}, func(page []schedule.Entry) (bool, error) {
		err := out.entries(page)
		return s.out.err == nil, err
	}))
}

// An exporting writes one file, and keeps only the names of calendars.
type exporting struct {
	s     *session
	yaml  bool
	lines bool            // jsonl or name: one thing a line, no file
	all   bool            // every calendar, not only those that are named
	names map[string]bool // of calendars
	count int
	list  string // the list that is open; "" before the first
	items int    // in it
}

func (x *exporting) entries(entries []schedule.Entry) error {
	for _, e := range entries {
		d := e.Schedule
		d.Paused = e.Status.State == schedule.StatePaused
		if e.Invalid != nil {
			x.s.warn("schedule %s cannot be used, it is written as it is stored: %s", d.ID, e.Invalid)
		}
		for _, name := range calendarNames(d) {
			x.names[name] = true
		}
		x.count++
		if err := x.item("schedules", d); err != nil {
			return err
		}
	}
	return nil
}

// item adds an element to a list of the file, which begins with the first one.
func (x *exporting) item(list string, v any) error {
	text, err := marshal(v)
	if err != nil {
		return fmt.Errorf("render the result: %w", err)
	}
	if x.lines {
		return x.line(text, v)
	}
	var b bytes.Buffer
	if err := x.open(&b, list); err != nil {
		return err
	}
	x.items++
	if x.yaml {
		var item bytes.Buffer
		if err := writeYAML(&item, append(append([]byte("["), text...), ']')); err != nil {
			return err
		}
		for line := range strings.Lines(item.String()) {
			b.WriteString("  " + line)
		}
		_, err = x.s.out.Write(b.Bytes())
		return err
	}
	if x.items > 1 {
		b.WriteByte(',')
	}
	b.WriteString("\n    ")
	if err := json.Indent(&b, text, "    ", "  "); err != nil {
		return fmt.Errorf("render the result: %w", err)
	}
	_, err = x.s.out.Write(escapeStrings(b.Bytes(), false))
	return err
}

// line writes a definition, or the name of a schedule, as one line.
func (x *exporting) line(text []byte, v any) error {
	if x.s.flags.format == formatJSONL {
		return writeLines(x.s.out, text)
	}
	if d, ok := v.(schedule.Schedule); ok {
		fmt.Fprintln(x.s.out, visible(string(d.ID)))
	}
	return nil
}

func (x *exporting) open(w io.Writer, list string) error {
	if x.list == list {
		return nil
	}
	begin := map[bool]string{true: list + ":\n", false: "{\n  \"" + list + "\": ["}[x.yaml]
	if !x.yaml && x.list != "" {
		begin = "\n  ],\n  \"" + list + "\": ["
	}
	x.list, x.items = list, 0
	_, err := io.WriteString(w, begin)
	return err
}

// finish writes the calendars and the end. They come last: only then is it
// known which are named.
func (x *exporting) finish(err error) error {
	if err == nil && x.count == 0 {
		err = x.empty()
	}
	if err == nil && (x.all || len(x.names) > 0) {
		err = x.calendars()
	}
	if err != nil {
		return err // what was written so far is no whole file; the exit code says so
	}
	if !x.yaml && !x.lines {
		_, err = io.WriteString(x.s.out, "\n  ]\n}\n")
	}
	x.s.note("%s", count(x.count, "schedule"))
	return err
}

// empty begins a file without schedules.
func (x *exporting) empty() error {
	if x.lines {
		return nil
	}
	if x.yaml {
		_, err := io.WriteString(x.s.out, "schedules: []\n")
		return err
	}
	return x.open(x.s.out, "schedules")
}

func (x *exporting) calendars() error {
	if err := x.s.knowCalendars(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(x.s.calendars)) {
		if !x.all && !x.names[name] {
			continue
		}
		if err := x.item("calendars", x.s.calendars[name]); err != nil {
			return err
		}
	}
	return nil
}
