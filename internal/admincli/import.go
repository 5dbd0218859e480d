package admincli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

const importHelp = `Make schedules of what another scheduler has. What cannot be carried over exactly
is not guessed: it is left out, and the report says what and why. A schedule that
exists and differs is left alone unless --replace is given; the exit code is then
6. It is 1 when an entry was left out.

A file is imported at once unless --dry-run is given; a directory only with
--write. With --print nothing is written and no store is needed: the schedules
go to standard output as a file for admin apply, the report to standard error.`

func newImport(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "import", Short: "Make schedules of a crontab, CronJobs, sidekiq-cron or asynq",
		Long: importHelp, Example: "  admin import crontab crontab.txt --tz Europe/Berlin --print",
	}
	cmd.AddCommand(newImportCrontab(s), newImportKubernetes(s), newImportSidekiq(s), newImportAsynq(s))
	return group(cmd)
}

// importFlags are those of every source.
type importFlags struct {
	zone    string
	queue   string
	labels  []string
	prefix  string
	paused  bool
	dryRun  bool
	write   bool
	replace bool
	print   bool

	taskType string // of those that need one
	labelMap map[string]string
}

func (f *importFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.zone, "tz", "", "time zone of what does not say its own, an IANA name")
	flags.StringVar(&f.queue, "queue", "", "queue of what does not say its own")
	flags.StringArrayVar(&f.labels, "label", nil, "label of every schedule, as k=v; may be repeated")
	flags.StringVar(&f.prefix, "prefix", "", "put in front of every name")
	flags.BoolVar(&f.paused, "paused", false, "create them paused, while the other scheduler still runs")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show everything, write nothing")
	flags.BoolVar(&f.write, "write", false, "write what a directory holds")
	flags.BoolVar(&f.replace, "replace", false, "overwrite schedules that exist and differ")
	flags.BoolVar(&f.print, "print", false, "print the schedules as a file, write nothing")
}

func (f *importFlags) check() error {
	var err error
	if f.zone != "" {
		_, err = specZone(f.zone)
	}
	if f.queue != "" {
		err = errors.Join(err, schedule.ValidateQueue(f.queue))
	}
	if f.taskType != "" {
		err = errors.Join(err, schedule.ValidateType(f.taskType))
	}
	labels, problem := parseLabels("label", f.labels)
	f.labelMap = labels
	if f.write && (f.dryRun || f.print) {
		err = errors.Join(err, usageErrorf("give one of --write, --dry-run and --print"))
	}
	return errors.Join(err, problem)
}

// A found schedule is one entry of another scheduler.
type found struct {
	at         place
	what       string // the entry as it is written, or its name
	definition schedule.Schedule
	refused    string   // why it is not carried over; "" is: it is
	carried    []string // what was, as "name: value"
	left       []string // what was not, and why
	program    string   // of a command: what workers must allow
}

func (f *found) carry(format string, args ...any) {
	f.carried = append(f.carried, fmt.Sprintf(format, args...))
}

func (f *found) leave(format string, args ...any) {
	f.left = append(f.left, fmt.Sprintf(format, args...))
}

// refuse leaves the whole entry out; the first reason stays.
func (f *found) refuse(format string, args ...any) {
	if f.refused == "" {
		f.refused = fmt.Sprintf(format, args...)
	}
}

// A source reads the text of one file. Remarks are about the file as a whole.
type source func(name string, text []byte) (all []found, remarks []string, err error)

// importFrom reads, reports and writes.
func (s *session) importFrom(f *importFlags, read source, extensions []string, args []string) error {
	if err := f.check(); err != nil {
		return err
	}
	var all []found
	directory := false
	for _, name := range args {
		files, isDir, err := importInputs(name, extensions)
		if err != nil {
			return err
		}
		directory = directory || isDir
		for _, file := range files {
			text, shown, err := s.readInput(file)
			if err == nil {
				err = checkText(shown, text)
			}
			if err != nil {
				return err
			}
			entries, remarks, err := read(shown, text)
			if err != nil {
				return err
			}
			for _, remark := range remarks {
				s.note("%s: %s", shown, remark)
			}
			if all = append(all, entries...); len(all) > maxSchedules {
				return tooMany("entries", shown)
			}
		}
	}
	m := &importing{s: s, flags: f, dryRun: f.dryRun || directory && !f.write, directory: directory}
	return m.run(all)
}

// tooMany refuses more than what one run can take.
func tooMany(noun, file string) error {
	return fileProblem(place{file: file}, "more than %d %s: allowed: %d in one run; split the files and run the command for each", maxSchedules, noun, maxSchedules)
}

// importInputs lists the files of a directory that have one of the endings, or
// all when there are none to look for.
func importInputs(name string, extensions []string) (files []string, directory bool, err error) {
	if name == "-" {
		return []string{name}, false, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, false, usageErrorf("file %q cannot be read: %s", clip(name, maxCell), reason(err))
	}
	if !info.IsDir() {
		return []string{name}, false, nil
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, true, usageErrorf("directory %q cannot be read: %s", name, reason(err))
	}
	for _, e := range entries {
		wanted := len(extensions) == 0 || slices.Contains(extensions, filepath.Ext(e.Name()))
		// cron itself leaves out names with a dot, which packages and editors make.
		if len(extensions) == 0 && strings.ContainsAny(e.Name(), ".~") {
			wanted = false
		}
		if wanted && !e.IsDir() {
			files = append(files, filepath.Join(name, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, true, usageErrorf("directory %q holds no file to import", name)
	}
	return files, true, nil
}

// An importing is one run of import.
type importing struct {
	s         *session
	flags     *importFlags
	dryRun    bool
	directory bool
	rows      []importRow
}

// An importRow is one entry and what became of it.
type importRow struct {
	found
	compiled *schedule.Compiled
	action   string // created, updated, unchanged, exists, printed or skipped
	result   schedule.PutResult
}

func (m *importing) run(all []found) error {
	seen := map[schedule.ID]place{}
	for _, f := range all {
		if m.s.interrupted() {
			m.s.warn("interrupted while the entries were read; nothing was written")
			return errInterrupted
		}
		row := importRow{found: f, action: "skipped"}
		m.complete(&row)
		if first, twice := seen[row.definition.ID]; twice && row.refused == "" {
			row.refuse("the name %s is taken by the entry at %s", row.definition.ID, first)
		}
		if row.refused == "" {
			seen[row.definition.ID] = row.at
		}
		m.rows = append(m.rows, row)
	}
	var err error
	switch {
	case m.flags.print:
		return m.print()
	case len(all) > 0:
		err = m.put()
	}
	if err != nil {
		return err
	}
	if err := m.show(); err != nil {
		return err
	}
	return m.finish()
}

// complete adds what the flags say and compiles.
func (m *importing) complete(row *importRow) {
	if row.refused != "" {
		return
	}
	d := &row.definition
	d.ID = schedule.ID(m.flags.prefix + string(d.ID))
	if d.Queue == "" {
		d.Queue = m.flags.queue
	}
	merge(&d.Labels, m.flags.labelMap)
	d.Paused = d.Paused || m.flags.paused
	compiled, err := schedule.Compile(*d, nil)
	if err == nil {
		err = checkCreate(compiled, m.s.env.Now())
	}
	if err != nil {
		row.refuse("%s", describe(flatten(err)[0], ""))
		return
	}
	row.compiled, *d = compiled, compiled.Definition()
}

// put writes what can be carried over, batch by batch.
func (m *importing) put() error {
	stores, err := m.s.store()
	if err != nil {
		return err
	}
	a := &applying{s: m.s, catalog: stores.Catalog, dryRun: m.dryRun, counts: map[string]int{}}
	var wanted []desired
	var places []int
	for i, row := range m.rows {
		if row.refused == "" {
			wanted = append(wanted, desired{definition: row.definition, compiled: row.compiled, written: written{at: row.at}})
			places = append(places, i)
		}
	}
	if err := a.lookUp(wanted); err != nil {
		return err
	}
	bar := m.s.progress("schedules")
	defer bar.end()
	for start := 0; start < len(wanted); start += applyBatch {
		end := min(start+applyBatch, len(wanted))
		if m.s.interrupted() {
			bar.end()
			m.s.warn("interrupted with %d of %d schedules done; what was written stays, and the same command goes on from there: %s", start, len(wanted), m.s.commandLine())
			return errInterrupted
		}
		if err := m.putBatch(a, wanted[start:end], places[start:end]); err != nil {
			bar.end()
			m.s.warn("stopped by an error after %d of %d schedules; importing again goes on from there", start, len(wanted))
			return err
		}
		if end < len(wanted) {
			bar.show(end, len(wanted))
		}
	}
	return nil
}

func (m *importing) putBatch(a *applying, wanted []desired, places []int) error {
	var batch []desired
	var definitions []schedule.Schedule
	var rows []*importRow
	for i, d := range wanted {
		row := &m.rows[places[i]]
		entry, exists := a.stored[d.definition.ID]
		if exists {
			d.definition.Paused = entry.Schedule.Paused // pause and resume decide it
			if len(differences(entry.Schedule, d.definition)) > 0 && !m.flags.replace {
				row.action = "exists"
				continue
			}
		}
		batch, definitions, rows = append(batch, d), append(definitions, d.definition), append(rows, row)
	}
	if len(batch) == 0 {
		return nil
	}
	ctx, cancel := m.s.unbroken()
	defer cancel()
	results, err := a.put(ctx, batch, definitions)
	if err != nil {
		return err
	}
	for i, result := range results {
		rows[i].result, rows[i].action = result, actionOf(result)
		if result.Err != nil {
			rows[i].action = "skipped"
			rows[i].refuse("%s", describe(result.Err, ""))
		}
	}
	return nil
}

// print writes the schedules as a file and the report beside it.
func (m *importing) print() error {
	out := &exporting{s: m.s, yaml: m.s.flags.format != formatJSON, names: map[string]bool{}}
	if format := m.s.flags.format; format != formatTable && format != formatYAML && format != formatJSON {
		return &schedule.FieldError{Field: "output", Value: format, Allowed: "yaml or json with --print, which apply reads"}
	}
	for i := range m.rows {
		row := &m.rows[i]
		if row.refused == "" {
			row.action = "printed"
			out.count++
			if err := out.item("schedules", row.definition); err != nil {
				return err
			}
		}
		for _, line := range row.report() {
			m.s.note("%s: %s", row.at, line)
		}
	}
	if err := out.finish(nil); err != nil {
		return err
	}
	return m.finish()
}

// finish sums up. Entries that were left out make the exit code 1, so that a
// script sees that the import is not complete.
func (m *importing) finish() error {
	counts := map[string]int{}
	for _, row := range m.rows {
		counts[row.action]++
	}
	var parts []string
	for _, action := range []string{"created", "updated", "unchanged", "printed", "exists", "skipped"} {
		if counts[action] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[action], action))
		}
	}
	summary := or(strings.Join(parts, ", "), "nothing to import")
	switch {
	case m.flags.print:
	case m.dryRun && m.directory && !m.flags.dryRun:
		summary += "; nothing was written: a directory is a dry run until --write is given"
	case m.dryRun:
		summary += "; nothing was written (dry run)"
	}
	m.s.note("%s", summary)
	switch {
	case counts["exists"] > 0:
		return codedErrorf(exitConflict, "%s and differ; they were left alone (--replace overwrites them)", count(counts["exists"], "schedule")+" exist")
	case counts["skipped"] > 0:
		return silentCode(exitFailed)
	}
	var served []schedule.Schedule
	for _, row := range m.rows {
		served = append(served, row.definition)
	}
	if !m.flags.print && len(served) > 0 {
		m.s.warnUnserved(served)
	}
	return nil
}

// report says what became of the parts of an entry, for people.
func (row importRow) report() []string {
	var lines []string
	if row.refused != "" {
		return []string{"not carried over: " + row.refused}
	}
	if len(row.carried) > 0 {
		lines = append(lines, "carried over: "+strings.Join(row.carried, ", "))
	}
	for _, text := range row.left {
		lines = append(lines, "left out: "+text)
	}
	return lines
}

// brief is the report without the values, which stand elsewhere in a table.
func (row importRow) brief() []string {
	short := row
	short.carried = nil
	for _, text := range row.carried {
		name, _, _ := strings.Cut(text, ": ")
		short.carried = append(short.carried, name)
	}
	return short.report()
}

// An importJSON is what import prints for one entry.
type importJSON struct {
	Source     string   `json:"source"` // file and line
	Entry      string   `json:"entry"`
	ID         string   `json:"id"` // "" when the entry was left out before it had one
	Action     string   `json:"action"`
	DryRun     bool     `json:"dry_run,omitempty"`
	Refused    string   `json:"refused,omitempty"` // why the entry was left out
	Carried    []string `json:"carried"`
	NotCarried []string `json:"not_carried"`
	Words      string   `json:"words"`
	NextAt     *string  `json:"next_at"`
	NextAtMS   *int64   `json:"next_at_ms"`
}

func (m *importing) show() error {
	views, v := []importJSON{}, view{}
	t := newTable("SOURCE", "ACTION", "NAME", "WHEN", "DETAIL")
	for _, row := range m.rows {
		r := m.s.reading(row.definition, row.compiled, nil)
		out := importJSON{Source: row.at.String(), Entry: row.what, ID: string(row.definition.ID), Action: row.action, DryRun: m.dryRun,
			Refused: row.refused, Carried: notNil(row.carried), NotCarried: notNil(row.left)}
		words := none
		if row.refused != "" {
			out.Carried, out.NotCarried = []string{}, []string{}
		} else {
			words = r.words()
			in := m.s.location(r.zoneAt(row.result.NextAt))
			out.Words, out.NextAt, out.NextAtMS = words, iso(row.result.NextAt, in), millis(row.result.NextAt)
			v.names = append(v.names, string(row.definition.ID))
		}
		views = append(views, out)
		lines := append(row.brief(), "")
		t.addCells(cell{text: row.at.String()}, cell{row.action, importColors[row.action]}, cell{text: or(string(row.definition.ID), none)},
			cell{text: clip(words, 40)}, cell{text: lines[0]})
		for _, line := range lines[1:max(1, len(lines)-1)] {
			t.add("", "", "", "", line)
		}
	}
	v.data = views
	v.table = func(w io.Writer) {
		if len(m.rows) > 0 {
			t.flush(w, m.s.painted(m.s.env.Terminal.Stdout))
		}
	}
	return m.s.emit(v)
}

var importColors = map[string]color{"created": green, "updated": yellow, "unchanged": dim, "exists": yellow, "skipped": red}
