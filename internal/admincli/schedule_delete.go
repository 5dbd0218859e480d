package admincli

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

type deleteFlags struct {
	targets
	yes           bool
	dryRun        bool
	cancelRunning bool
}

func newDelete(s *session) *cobra.Command {
	f := &deleteFlags{}
	cmd := &cobra.Command{
		Use: "delete NAME... | -l k=v", Short: "Delete schedules with their history",
		Long: `Delete schedules with their counters and history. On a terminal it asks; to
delete several, their number has to be typed. Without a terminal it needs --yes,
or it ends with exit code 3 and nothing is deleted. No execution starts after it
returns.

A run under way is told to end by its next heartbeat, a third of the execution
lease later at most. With --cancel-running the servers that run it are told at
once; so are plain asynq servers, which start what they end again as a retry. A
handler ends when it heeds its context.`,
		Example: `  admin schedule delete nightly-report --yes
  admin schedule delete nightly-report --cancel-running --yes
  admin schedule delete -l team=billing --yes`,
		ValidArgsFunction: s.completeIDs,
		RunE:              func(_ *cobra.Command, args []string) error { return s.delete(f, args) },
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&f.cancelRunning, "cancel-running", false, "tell its runs under way to end at once")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show which would be deleted, change nothing")
	return cmd
}

// A deleteJSON is what delete prints for one schedule.
type deleteJSON struct {
	ID         string `json:"id"`
	Action     string `json:"action"` // deleted, or gone: somebody else deleted it meanwhile
	DryRun     bool   `json:"dry_run,omitempty"`
	Generation int64  `json:"generation"`
	Cancelled  int    `json:"cancelled"` // runs under way that were told to end at once
}

func (s *session) delete(f *deleteFlags, args []string) error {
	entries, err := f.find(s, args)
	if err != nil {
		return err
	}
	if len(entries) > 0 && !f.yes && !f.dryRun {
		if err := s.confirmDelete(entries); err != nil {
			return err
		}
	}
	return each(s, entries, func(e schedule.Entry) (deleteJSON, string, error) {
		if f.dryRun {
			return deleteJSON{ID: string(e.Schedule.ID), Action: "deleted", DryRun: true, Generation: e.Status.Generation},
				fmt.Sprintf("would be deleted: %s, %d runs; nothing was changed (dry run)", e.Schedule.ID, e.Status.RunCount), nil
		}
		ctx, cancel := s.call()
		defer cancel()
		// Only what was shown is deleted: a schedule that was deleted and
		// created again meanwhile is another one.
		existed, err := s.stores.Catalog.Remove(ctx, e.Schedule.ID, schedule.RemoveOptions{Generation: e.Status.Generation})
		if err != nil {
			return deleteJSON{}, "", err
		}
		action, line, cancelled := "deleted", "deleted "+string(e.Schedule.ID), 0
		if !existed {
			action, line = "gone", string(e.Schedule.ID)+" was gone already"
		}
		if f.cancelRunning {
			if cancelled, err = s.cancelRunning(e); err != nil {
				return deleteJSON{}, "", fmt.Errorf("%s; its runs were not all told to end: %w", line, err)
			}
			line += ", " + count(cancelled, "run") + " under way told to end"
		}
		return deleteJSON{ID: string(e.Schedule.ID), Action: action, Generation: e.Status.Generation, Cancelled: cancelled}, line, nil
	})
}

// maxCancelled bounds how many runs of one schedule are told to end; a fleet
// does not run more at a time.
const maxCancelled = 10_000

// cancelRunning tells the servers that run tasks of a deleted schedule to end
// them, and returns how many there were. None starts any more.
func (s *session) cancelRunning(e schedule.Entry) (int, error) {
	if s.stores.Tasks == nil {
		return 0, errors.New("admincli: this store has no queues")
	}
	filter := &taskFilter{schedule: string(e.Schedule.ID), limit: maxCancelled}
	active, _, err := filter.find(s, []string{"active"})
	told := 0
	for _, task := range active {
		if err == nil && task.Headers[queue.HeaderGeneration] == strconv.FormatInt(e.Status.Generation, 10) {
			err = s.stores.Tasks.CancelProcessing(task.ID)
			told++
		}
	}
	return told, err
}

// maxListed bounds how many schedules a question lists.
const maxListed = 20

// confirmDelete lists what is hit and asks. Without a terminal nobody can
// answer.
func (s *session) confirmDelete(entries []schedule.Entry) error {
	if !s.env.Terminal.Stdin || !s.env.Terminal.Stderr {
		return codedErrorf(exitDeclined, "deleting %s needs --yes without a terminal; nothing was deleted", count(len(entries), "schedule"))
	}
	for i, e := range entries {
		if i == maxListed {
			fmt.Fprintf(s.err, "  and %d more\n", len(entries)-maxListed)
			break
		}
		fmt.Fprintln(s.err, visible(fmt.Sprintf("  %s  %s, %d runs, next %s", e.Schedule.ID, s.words(e.Schedule), e.Status.RunCount, s.next(e))))
	}
	want := "y"
	if len(entries) == 1 {
		fmt.Fprintf(s.err, "delete it with its history? [y/N] ")
	} else {
		want = strconv.Itoa(len(entries))
		fmt.Fprintf(s.err, "delete all %d with their history? type %d: ", len(entries), len(entries))
	}
	return s.answered(want, "declined; nothing was deleted")
}
