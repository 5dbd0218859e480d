package admincli

import (
	"errors"
	"fmt"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

// pruneFlags say which schedules go when no file names them.
type pruneFlags struct {
	prune bool
	targets
}

func (f *pruneFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.prune, "prune", false, "delete those that -l selects and no file names")
	cmd.Flags().StringArrayVarP(&f.selector, "selector", "l", nil, "with --prune: those with this label, as k=v; several must all match")
}

func (f *pruneFlags) check() error {
	switch {
	case f.prune && len(f.selector) == 0:
		return usageErrorf("--prune needs -l k=v: the label of what these files own; without it everything else would be deleted")
	case !f.prune && len(f.selector) > 0:
		return usageErrorf("-l goes with --prune")
	}
	_, err := parseLabels("selector", f.selector)
	return err
}

// doomed lists what the selector finds and the files do not name.
func (a *applying) doomed(f *pruneFlags, wanted []desired) ([]schedule.Entry, error) {
	if !f.prune {
		return nil, nil
	}
	labels, err := parseLabels("selector", f.selector)
	if err != nil {
		return nil, err
	}
	named := make(map[schedule.ID]bool, len(wanted))
	for _, d := range wanted {
		named[d.definition.ID] = true
	}
	var entries []schedule.Entry
	err = a.s.pages(schedule.ListOptions{Labels: labels}, func(page []schedule.Entry) (bool, error) {
		for _, e := range page {
			if !named[e.Schedule.ID] {
				entries = append(entries, e)
			}
		}
		return true, nil
	})
	return entries, err
}

// prune deletes, when everything else went well.
func (a *applying) prune(entries []schedule.Entry, out *applied) error {
	if len(entries) > 0 && len(a.failed) > 0 {
		a.s.warn("nothing was pruned, since %s failed", count(len(a.failed), "schedule"))
		return nil
	}
	for _, e := range entries {
		if a.s.interrupted() {
			return errInterrupted
		}
		if !a.dryRun {
			ctx, cancel := a.s.unbroken()
			_, err := a.catalog.Remove(ctx, e.Schedule.ID, schedule.RemoveOptions{Generation: e.Status.Generation})
			cancel()
			if err != nil {
				return err
			}
		}
		a.counts["deleted"]++
		if err := out.addDeleted(e); err != nil {
			return err
		}
	}
	return nil
}

// addDeleted writes the row of a schedule that no file names.
func (a *applied) addDeleted(e schedule.Entry) error {
	s := a.s
	firings := compareFirings(s.storedFirer(e), firer{}, s.env.Now())
	if a.array != nil {
		return a.array.add(putJSON{ID: string(e.Schedule.ID), Action: "deleted", DryRun: a.dryRun, Version: e.Status.Version,
			Generation: e.Status.Generation, Firings: firings.json(s)})
	}
	if s.flags.format == formatName {
		fmt.Fprintln(s.out, visible(string(e.Schedule.ID)))
		return nil
	}
	a.table.addCells(cell{a.shownAction("deleted"), red}, cell{text: string(e.Schedule.ID)}, cell{text: none},
		cell{text: fmt.Sprintf("%s; %d runs", s.words(e.Schedule), e.Status.RunCount)})
	for _, line := range firings.lines(s) {
		a.table.add("", "", "", line)
	}
	return nil
}

// checkVersion refuses before anything is written when the one schedule of the
// files does not have the version that is asked for.
func (a *applying) checkVersion(f *applyFlags, wanted []desired) error {
	if f.ifVersion == nil {
		return nil
	}
	if len(wanted) != 1 {
		return usageErrorf("--if-version is about one schedule, the files hold %d", len(wanted))
	}
	if *f.ifVersion < 0 {
		return &schedule.FieldError{Field: "if-version", Value: fmt.Sprint(*f.ifVersion), Allowed: "0 or more; 0: it must not exist"}
	}
	a.ifVersion = f.ifVersion
	id := wanted[0].definition.ID
	entry, exists := a.stored[id]
	switch {
	case exists && *f.ifVersion == 0:
		return codedErrorf(exitConflict, "schedule %q exists already: see admin schedule get %s", id, id)
	case exists && entry.Status.Version != *f.ifVersion, !exists && *f.ifVersion > 0:
		return outdated(id, *f.ifVersion)
	}
	return nil
}

// prepare asks everything before anything is written.
func (a *applying) prepare(f *applyFlags, wanted []desired) ([]schedule.Entry, error) {
	if err := a.lookUp(wanted); err != nil {
		return nil, err
	}
	if err := a.checkVersion(f, wanted); err != nil {
		return nil, err
	}
	entries, err := a.doomed(&f.pruneFlags, wanted)
	if err == nil && len(entries) > 0 && !a.dryRun && !f.yes {
		err = a.s.confirmDelete(entries)
	}
	var declined *codedError
	if errors.As(err, &declined) && declined.code == exitDeclined {
		return nil, codedErrorf(exitDeclined, "%s and nothing was written", declined.text)
	}
	return entries, err
}
