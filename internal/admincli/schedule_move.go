package admincli

import (
	"errors"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

type moveFlags struct {
	targets
	queue  string
	dryRun bool
}

func newMove(s *session) *cobra.Command {
	f := &moveFlags{}
	cmd := &cobra.Command{
		Use: "move NAME... --queue Q", Short: "Let schedules push their tasks into another queue",
		Long: `Change the queue of schedules. Nothing else of them changes, and no scheduled
time moves. Tasks that were pushed already stay in the old queue and run there.`,
		Example: `  admin schedule move nightly-report --queue low
  admin schedule move -l team=billing --queue low --dry-run`,
		ValidArgsFunction: s.completeIDs,
		RunE:              func(_ *cobra.Command, args []string) error { return s.move(f, args) },
	}
	f.register(cmd)
	cmd.Flags().StringVar(&f.queue, "queue", "", "the queue to move to (needed)")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "check and show everything, write nothing")
	return cmd
}

// A moveJSON is what move prints for one schedule.
type moveJSON struct {
	ID       string  `json:"id"`
	Action   string  `json:"action"` // moved or unchanged
	DryRun   bool    `json:"dry_run,omitempty"`
	From     string  `json:"from"`
	To       string  `json:"to"`
	Open     int     `json:"open"` // firings pushed or running, which stay in the old queue
	Version  int64   `json:"version"`
	NextAt   *string `json:"next_at"`
	NextAtMS *int64  `json:"next_at_ms"`
}

func (s *session) move(f *moveFlags, args []string) error {
	if f.queue == "" {
		return usageErrorf("--queue is missing: the queue to move to")
	}
	if err := schedule.ValidateQueue(f.queue); err != nil {
		return err
	}
	entries, err := f.find(s, args)
	if err != nil {
		return err
	}
	var served []schedule.Schedule
	err = each(s, entries, func(e schedule.Entry) (moveJSON, string, error) {
		definition, version := e.Schedule, e.Status.Version
		definition.Normalize()
		from := definition.Queue
		definition.Queue = f.queue
		ctx, cancel := s.call()
		defer cancel()
		result, err := s.stores.Catalog.Put(ctx, definition, schedule.PutOptions{IfVersion: &version, DryRun: f.dryRun})
		if errors.Is(err, schedule.ErrConflict) {
			return moveJSON{}, "", outdated(e.Schedule.ID, version)
		}
		if err != nil {
			return moveJSON{}, "", err
		}
		served = append(served, definition)
		in := s.location(s.read(definition).zoneAt(e.Status.NextAt))
		row := moveJSON{ID: string(definition.ID), Action: "moved", DryRun: f.dryRun, From: from, To: f.queue, Open: e.Status.Open,
			Version: result.Version, NextAt: iso(e.Status.NextAt, in), NextAtMS: millis(e.Status.NextAt)}
		if result.Unchanged {
			row.Action = "unchanged"
		}
		return row, s.moveLine(row, e), nil
	})
	if err == nil && len(served) > 0 {
		s.warnUnserved(served)
	}
	return err
}

func (s *session) moveLine(row moveJSON, e schedule.Entry) string {
	line := "moved " + row.ID + " from " + row.From + " to " + row.To
	switch {
	case row.Action == "unchanged":
		return row.ID + " is in " + row.To + " already"
	case row.DryRun:
		line = "would be moved: " + row.ID + " from " + row.From + " to " + row.To
	}
	if row.Open > 0 {
		line += "; " + count(row.Open, "open firing") + " stay in " + row.From
	}
	return line + "; next " + s.next(e)
}
