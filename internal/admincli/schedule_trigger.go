package admincli

import (
	"fmt"
	"io"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

type triggerFlags struct {
	targets
	requestID string
	obey      bool
	dryRun    bool
}

func newTrigger(s *session) *cobra.Command {
	f := &triggerFlags{}
	cmd := &cobra.Command{
		Use: "trigger NAME... | -l k=v", Short: "Run schedules now, beside their planned firings",
		Long: `Open one extra firing now. No planned firing is moved or replaced. The same
--request-id within 24 h opens one firing of a schedule only, so a call whose
answer was lost can be repeated. With --obey-overlap the schedule's overlap
policy decides; when it forbids a firing, the exit code is 8.`,
		Example: `  admin schedule trigger nightly-report
  admin schedule trigger nightly-report --request-id deploy-42
  admin schedule trigger -l team=billing --dry-run`,
		ValidArgsFunction: s.completeIDs,
		RunE:              func(_ *cobra.Command, args []string) error { return s.trigger(f, args) },
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show which would run, open nothing")
	cmd.Flags().StringVar(&f.requestID, "request-id", "", "the same request within 24 h takes effect once")
	cmd.Flags().BoolVar(&f.obey, "obey-overlap", false, "apply the overlap policy instead of running regardless")
	return cmd
}

// A triggerJSON is what trigger prints.
type triggerJSON struct {
	ID        string  `json:"id"`
	Action    string  `json:"action"` // triggered, duplicate, buffered or refused
	DryRun    bool    `json:"dry_run,omitempty"`
	FiringID  string  `json:"firing_id"`
	Queue     string  `json:"queue"`
	Duplicate bool    `json:"duplicate"`
	Buffered  bool    `json:"buffered"`
	NextAt    *string `json:"next_at"`
	NextAtMS  *int64  `json:"next_at_ms"`
}

func (s *session) trigger(f *triggerFlags, args []string) error {
	if f.requestID != "" {
		if err := schedule.ValidateRequestID(f.requestID); err != nil {
			return err
		}
	}
	entries, err := f.find(s, args)
	if err != nil {
		return err
	}
	if len(entries) == 1 && len(f.selector) == 0 {
		return s.triggerOne(f, entries[0])
	}
	refused := 0
	var served []schedule.Schedule
	err = each(s, entries, func(e schedule.Entry) (triggerJSON, string, error) {
		row, line, err := s.open(f, e)
		if row.Action == "refused" {
			refused++
		}
		served = append(served, e.Schedule)
		return row, line, err
	})
	switch {
	case err != nil:
		return err
	case refused > 0:
		return codedErrorf(exitCondition, "%s refused: an open firing, and the overlap policy forbids another", count(refused, "schedule"))
	case len(served) > 0 && !f.dryRun:
		s.warnUnserved(served)
	}
	return nil
}

// triggerOne prints an object instead of a list.
func (s *session) triggerOne(f *triggerFlags, e schedule.Entry) error {
	row, line, err := s.open(f, e)
	if err != nil {
		return err
	}
	if row.Action == "refused" {
		return codedErrorf(exitCondition, "schedule %q has an open firing and its overlap policy forbids another; nothing was opened (without --obey-overlap it runs regardless)", e.Schedule.ID)
	}
	err = s.emit(view{names: []string{or(row.FiringID, row.ID)}, data: row, table: func(w io.Writer) {
		fmt.Fprintln(w, visible(line))
		fmt.Fprintln(w, visible("next planned firing stays "+s.next(e)))
	}})
	if err == nil && !f.dryRun {
		s.warnUnserved([]schedule.Schedule{e.Schedule})
	}
	return err
}

// open opens one extra firing and words what became of it.
func (s *session) open(f *triggerFlags, e schedule.Entry) (triggerJSON, string, error) {
	next := e.Status.NextAt
	in := s.location(s.read(e.Schedule).zoneAt(next))
	row := triggerJSON{ID: string(e.Schedule.ID), Action: "triggered", DryRun: f.dryRun, Queue: e.Schedule.Queue, NextAt: iso(next, in), NextAtMS: millis(next)}
	if f.dryRun {
		return row, fmt.Sprintf("would be triggered: %s in queue %s; nothing was opened (dry run)", row.ID, row.Queue), nil
	}
	ctx, cancel := s.call()
	defer cancel()
	result, err := s.stores.Catalog.Trigger(ctx, e.Schedule.ID, schedule.TriggerOptions{RequestID: f.requestID, ObeyOverlap: f.obey})
	if err != nil {
		return row, "", err
	}
	if result.Refused {
		row.Action = "refused"
		return row, "refused " + row.ID + ": its overlap policy forbids another firing now", nil
	}
	action, words := triggerWords(result)
	row.Action, row.FiringID, row.Queue, row.Duplicate, row.Buffered = action, result.FiringID, result.Queue, result.Duplicate, result.Buffered
	return row, fmt.Sprintf("%s %s in queue %s: %s", action, result.FiringID, result.Queue, words), nil
}

func triggerWords(r schedule.TriggerResult) (action, line string) {
	switch {
	case r.Duplicate:
		return "duplicate", "this request was made before; no second firing was opened"
	case r.Buffered:
		return "buffered", "it runs when the open firing has ended"
	}
	return "triggered", "an extra firing; a worker enqueues it at once"
}
