package admincli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

type applyFlags struct {
	files    []string
	plan     bool
	dryRun   bool
	exitCode bool
	pruneFlags
	yes         bool
	ifVersion   *int64 // nil: any
	differences bool   // show what differs only, as diff does
}

func newApply(s *session) *cobra.Command {
	f := &applyFlags{}
	version := int64(0)
	cmd := &cobra.Command{
		Use: "apply -f FILE|DIR|-", Short: "Create and update schedules from YAML or JSON files",
		Long: `Make the stored schedules what the files say: each file is the full definition,
and what it leaves out takes its default. Counters and history are kept. All
files are checked before anything is written. A pause is kept unless the file
says "paused: false". Schedules that no file names are left alone, unless --prune
with a label says that these files own them; it lists them and asks.

On a terminal a long one shows how far it is. Ctrl-C lets the batch under way
end; what was written stays, and the same command goes on from there. One run
takes up to 100,000 schedules, a file 32 MiB: split what is more. What is no list
with one "- " for each schedule, nor JSON, may have 8 MiB.

With --exit-code it ends with 0 when nothing differed, 1 when something did, and
2 or more on an error.`,
		Example: `  admin apply -f schedules.yaml
  admin apply -f schedules.yaml --plan --exit-code
  admin apply -f schedules/ -o json
  admin apply -f schedules/ --prune -l team=billing --yes`,
		Args: arguments(0, 0, "-f FILE"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("if-version") {
				f.ifVersion = &version
			}
			return f.outcome(s.apply(f))
		},
	}
	cmd.Flags().StringArrayVarP(&f.files, "file", "f", nil, "file, directory, or - for standard input; may be repeated")
	cmd.Flags().BoolVar(&f.plan, "plan", false, "show what would change, write nothing")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "same as --plan")
	cmd.Flags().BoolVar(&f.exitCode, "exit-code", false, "end with 1 when something differed")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask before --prune deletes")
	cmd.Flags().Int64Var(&version, "if-version", 0, "only if the stored version of the one schedule is this; 0: it must not exist")
	f.pruneFlags.register(cmd)
	return cmd
}

// outcome maps what apply did to the exit code.
func (f *applyFlags) outcome(differed int, err error) error {
	switch {
	case !f.exitCode:
		return err
	case err != nil && exitCode(err) == exitFailed:
		return codedErrorf(exitUsage, "%s", describe(err, ""))
	case err == nil && differed > 0:
		return silentCode(1)
	}
	return err
}

// unchanged says so where somebody could think otherwise.
func (f *applyFlags) unchanged(s *session) {
	if !f.differences {
		s.note("nothing was changed")
	}
}

// applyBatch is how many schedules one call writes.
const applyBatch = 500

// apply returns how many schedules differed.
func (s *session) apply(f *applyFlags) (int, error) {
	if err := f.pruneFlags.check(); err != nil {
		return 0, err
	}
	wanted, calendars, err := s.load(f.files)
	if err != nil {
		f.unchanged(s)
		return 0, err
	}
	if len(wanted)+len(calendars) == 0 {
		s.note("the files hold no schedules; nothing was changed")
	}
	stores, err := s.store()
	if err != nil {
		return 0, err
	}
	a := &applying{s: s, catalog: stores.Catalog, dryRun: f.plan || f.dryRun, counts: map[string]int{}, bar: s.progress("schedules"), total: len(wanted)}
	doomed, err := a.prepare(f, wanted)
	if err != nil {
		f.unchanged(s)
		return 0, err
	}
	out := s.newApplied(a.dryRun)
	out.differences = f.differences
	if err = a.calendars(calendars, out); err == nil {
		err = a.batches(wanted, out)
	}
	if err == nil {
		err = a.prune(doomed, out)
	}
	return a.finish(out, err)
}

// batches writes all schedules. An interrupt lets the batch that is under way
// end.
func (a *applying) batches(wanted []desired, out *applied) error {
	defer a.bar.end()
	for len(wanted) > 0 {
		if a.s.interrupted() {
			return errInterrupted
		}
		batch := wanted[:min(applyBatch, len(wanted))]
		wanted = wanted[len(batch):]
		if err := a.batch(batch, out); err != nil {
			return err
		}
		if a.done += len(batch); len(wanted) > 0 {
			out.flush()
			a.bar.show(a.done, a.total)
		}
	}
	return nil
}

// An applying is one run of apply.
type applying struct {
	s       *session
	catalog schedule.Catalog
	dryRun  bool
	stored  map[schedule.ID]schedule.Entry
	counts  map[string]int
	touched []schedule.Schedule
	changed map[string]bool // calendars that differ from the stored ones
	// What these changes leave nothing to fire for: users of calendars that no
	// file names, and schedules of the files.
	silences []silencing
	silent   []schedule.ID
	failed   []error
	bar      *progressBar
	done     int // schedules, of total
	total    int
	// ifVersion is what the one schedule must have; nil: any.
	ifVersion *int64
}

// lookUp reads what is stored under the wanted IDs, and refuses what may not
// be created.
func (a *applying) lookUp(wanted []desired) error {
	a.stored = make(map[schedule.ID]schedule.Entry, len(wanted))
	for start := 0; start < len(wanted); start += pageSize {
		var ids []schedule.ID
		for _, d := range wanted[start:min(start+pageSize, len(wanted))] {
			ids = append(ids, d.definition.ID)
		}
		ctx, cancel := a.s.call()
		found, err := a.catalog.GetMany(ctx, ids)
		cancel()
		if err != nil {
			return err
		}
		for id, entry := range found {
			a.stored[id] = entry
		}
	}
	var problems []error
	for _, d := range wanted {
		if _, exists := a.stored[d.definition.ID]; !exists {
			if err := checkCreate(d.compiled, a.s.env.Now()); err != nil {
				problems = append(problems, located(d.written, err))
			}
		}
	}
	return limited(errors.Join(problems...))
}

// batch writes some schedules with one call.
func (a *applying) batch(batch []desired, out *applied) error {
	definitions := make([]schedule.Schedule, len(batch))
	for i, d := range batch {
		definitions[i] = d.definition
		if entry, exists := a.stored[d.definition.ID]; exists {
			// Whether an existing schedule is paused is no part of its
			// definition here: pause and resume decide it.
			definitions[i].Paused = entry.Schedule.Paused
			// JSON has no order of keys; the bytes that handlers know are kept.
			if sameJSON(d.definition.Payload, entry.Schedule.Payload) {
				definitions[i].Payload = entry.Schedule.Payload
			}
			if sameJSON(d.definition.Metadata, entry.Schedule.Metadata) {
				definitions[i].Metadata = entry.Schedule.Metadata
			}
		}
	}
	ctx, cancel := a.s.unbroken()
	results, err := a.put(ctx, batch, definitions)
	cancel()
	a.bar.end() // what follows may print
	if err != nil {
		return err
	}
	for i, d := range batch {
		if err := a.one(d, definitions[i], results[i], out); err != nil {
			return err
		}
	}
	return nil
}

// one finishes one schedule after its put.
func (a *applying) one(d desired, definition schedule.Schedule, result schedule.PutResult, out *applied) error {
	row := appliedRow{reading: a.s.reading(definition, d.compiled, nil), result: result, action: actionOf(result), next: result.NextAt}
	entry, exists := a.stored[definition.ID]
	switch {
	case result.Err != nil:
		a.failed = append(a.failed, failure(d, result.Err))
	case exists:
		row.before = &entry
		if !result.Unchanged {
			row.changes = differences(entry.Schedule, definition)
		}
		if row.next.IsZero() && result.Unchanged {
			row.next = entry.Status.NextAt
		}
		row.held = entry.Status.State
		if _, fires := d.compiled.First(a.s.env.Now()); !fires && !entry.Status.NextAt.IsZero() && (!result.Unchanged || a.usesChanged(definition)) {
			a.silent, row.next = append(a.silent, definition.ID), time.Time{}
		}
		if err := a.pausing(d, entry, &row); err != nil {
			return err
		}
	case definition.Paused:
		row.held = schedule.StatePaused
	}
	a.counts[row.action]++
	if row.action == "created" || row.action == "updated" {
		a.touched = append(a.touched, definition)
	}
	return out.add(row)
}

// failure keeps the code of the cause and names the place.
func failure(d desired, cause error) error {
	return codedErrorf(exitCode(cause), "%s: schedule %s: %s", d.written.at, d.definition.ID, describe(cause, ""))
}

// pausing pauses or resumes an existing schedule when the file says so.
func (a *applying) pausing(d desired, entry schedule.Entry, row *appliedRow) error {
	paused := entry.Status.State == schedule.StatePaused
	if d.paused == nil || *d.paused == paused {
		return nil
	}
	if *d.paused && entry.Status.State != schedule.StateActive {
		return nil // disabled or completed: it does not fire anyway
	}
	row.action = "updated"
	row.changes = append(row.changes, change{Field: "paused", From: jsonBool(paused), To: jsonBool(*d.paused)})
	row.held = schedule.StateActive
	if *d.paused {
		row.held = schedule.StatePaused
	}
	if a.dryRun {
		return nil
	}
	ctx, cancel := a.s.unbroken()
	defer cancel()
	if *d.paused {
		_, err := a.catalog.Pause(ctx, d.definition.ID, schedule.PauseOptions{By: a.s.env.User, Reason: "paused in " + d.written.at.file})
		return err
	}
	result, err := a.catalog.Resume(ctx, d.definition.ID, schedule.ResumeOptions{})
	row.next = result.NextAt
	return err
}

// finish prints the summary, however far it came.
func (a *applying) finish(out *applied, err error) (int, error) {
	if closing := out.close(); err == nil {
		err = closing
	}
	var parts []string
	for _, action := range []string{"created", "updated", "deleted", "unchanged", "failed"} {
		if n := a.counts[action]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, action))
		}
	}
	summary := strings.Join(parts, ", ")
	switch {
	case errors.Is(err, errInterrupted) && a.dryRun:
		a.s.warn("interrupted; nothing was written")
	case errors.Is(err, errInterrupted):
		a.s.warn("interrupted with %d of %d schedules done (%s); what was written stays, and the same command goes on from there: %s",
			a.done, a.total, or(summary, "nothing changed"), a.s.commandLine())
	case err != nil && summary != "":
		a.s.warn("stopped by an error after %s; applying again goes on from there", summary)
	case out.differences && summary != "":
		a.s.note("%s", summary)
	case a.dryRun && summary != "":
		a.s.note("plan: %s; nothing was written", summary)
	case summary != "":
		a.s.note("%s", summary)
	}
	if err != nil {
		return 0, err
	}
	a.warnSilent()
	if len(a.touched) > 0 {
		a.s.warnUnserved(a.touched)
	}
	return a.counts["created"] + a.counts["updated"] + a.counts["deleted"], limited(errors.Join(a.failed...))
}
