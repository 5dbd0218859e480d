package admincli

import (
	"fmt"
	"io"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

type triggerFlags struct {
	requestID string
	obey      bool
}

func newTrigger(s *session) *cobra.Command {
	f := &triggerFlags{}
	cmd := &cobra.Command{
		Use: "trigger NAME", Short: "Run a schedule now, beside its planned firings",
		Long: `Open one extra firing now. No planned firing is moved or replaced. The same
--request-id within 24 h opens one firing only, so a call whose answer was lost
can be repeated. With --obey-overlap the schedule's overlap policy decides; when
it forbids the firing, the exit code is 8.`,
		Example: `  admin schedule trigger nightly-report
  admin schedule trigger nightly-report --request-id deploy-42`,
		Args:              arguments(1, 1, "NAME"),
		ValidArgsFunction: s.completeIDs,
		RunE:              func(_ *cobra.Command, args []string) error { return s.trigger(f, args) },
	}
	cmd.Flags().StringVar(&f.requestID, "request-id", "", "the same request within 24 h takes effect once")
	cmd.Flags().BoolVar(&f.obey, "obey-overlap", false, "apply the overlap policy instead of running regardless")
	return cmd
}

// A triggerJSON is what trigger prints.
type triggerJSON struct {
	ID        string  `json:"id"`
	Action    string  `json:"action"` // triggered, duplicate, buffered or refused
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
	entries, err := s.named(args)
	if err != nil {
		return err
	}
	e := entries[0]
	ctx, cancel := s.call()
	defer cancel()
	result, err := s.stores.Catalog.Trigger(ctx, e.Schedule.ID, schedule.TriggerOptions{RequestID: f.requestID, ObeyOverlap: f.obey})
	if err != nil {
		return err
	}
	if result.Refused {
		return codedErrorf(exitCondition, "schedule %q has an open firing and its overlap policy forbids another; nothing was opened (without --obey-overlap it runs regardless)", e.Schedule.ID)
	}
	action, line := triggerWords(result)
	next := e.Status.NextAt
	in := s.location(s.read(e.Schedule).zoneAt(next))
	err = s.emit(view{
		names: []string{result.FiringID},
		data: triggerJSON{ID: string(e.Schedule.ID), Action: action, FiringID: result.FiringID, Queue: result.Queue,
			Duplicate: result.Duplicate, Buffered: result.Buffered, NextAt: iso(next, in), NextAtMS: millis(next)},
		table: func(w io.Writer) {
			fmt.Fprintln(w, visible(fmt.Sprintf("%s %s in queue %s: %s", action, result.FiringID, result.Queue, line)))
			fmt.Fprintln(w, visible("next planned firing stays "+s.next(e)))
		},
	})
	if err == nil {
		s.warnUnserved([]schedule.Schedule{e.Schedule})
	}
	return err
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
