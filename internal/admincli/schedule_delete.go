package admincli

import (
	"fmt"
	"strconv"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

type deleteFlags struct {
	targets
	yes    bool
	dryRun bool
}

func newDelete(s *session) *cobra.Command {
	f := &deleteFlags{}
	cmd := &cobra.Command{
		Use: "delete NAME... | -l k=v", Short: "Delete schedules with their history",
		Long: `Delete schedules with their counters and history. On a terminal it asks; to
delete several, their number has to be typed. Without a terminal it needs --yes,
or it ends with exit code 3 and nothing is deleted. No execution starts after it
returns.`,
		Example: `  admin schedule delete nightly-report --yes
  admin schedule delete -l team=billing --yes`,
		ValidArgsFunction: s.completeIDs,
		RunE:              func(_ *cobra.Command, args []string) error { return s.delete(f, args) },
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show which would be deleted, change nothing")
	return cmd
}

// A deleteJSON is what delete prints for one schedule.
type deleteJSON struct {
	ID         string `json:"id"`
	Action     string `json:"action"` // deleted, or gone: somebody else deleted it meanwhile
	DryRun     bool   `json:"dry_run,omitempty"`
	Generation int64  `json:"generation"`
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
		action, line := "deleted", "deleted "+string(e.Schedule.ID)
		if !existed {
			action, line = "gone", string(e.Schedule.ID)+" was gone already"
		}
		return deleteJSON{ID: string(e.Schedule.ID), Action: action, Generation: e.Status.Generation}, line, nil
	})
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
