package admincli

import (
	"fmt"
	"io"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

// maxRuns is the most that the run log of a schedule holds.
const maxRuns = 1000

func newHistory(s *session) *cobra.Command {
	limit := 20
	cmd := &cobra.Command{
		Use: "history NAME", Short: "Show the last runs of a schedule, newest first",
		Example: `  admin schedule history nightly-report
  admin schedule history nightly-report -n 5 -o json`,
		Args:              arguments(1, 1, "NAME"),
		ValidArgsFunction: s.completeIDs,
		RunE:              func(_ *cobra.Command, args []string) error { return s.history(args, limit) },
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 20, "at most this many")
	return cmd
}

// A runJSON is one run.
type runJSON struct {
	FiringID    string  `json:"firing_id"`
	ScheduledAt *string `json:"scheduled_at"`
	Outcome     string  `json:"outcome"`
	Attempt     int     `json:"attempt"`
	StartedAt   *string `json:"started_at"`
	EndedAt     *string `json:"ended_at"`
	DurationMS  int64   `json:"duration_ms"`
	Worker      string  `json:"worker"`
	Error       string  `json:"error"`
}

func (s *session) history(args []string, limit int) error {
	if limit < 1 || limit > maxRuns {
		return &schedule.FieldError{Field: "limit", Value: fmt.Sprint(limit), Allowed: fmt.Sprintf("1 to %d", maxRuns)}
	}
	entries, err := s.named(args)
	if err != nil {
		return err
	}
	e := entries[0]
	ctx, cancel := s.call()
	defer cancel()
	runs, err := s.stores.Runs.Runs(ctx, e.Schedule.ID, limit)
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		s.note("no runs yet; next firing %s", s.next(e))
	}
	in := s.location(s.read(e.Schedule).zone)
	v := view{table: func(w io.Writer) { s.showRuns(w, e, runs) }}
	views := []runJSON{}
	for _, r := range runs {
		firing, _ := claim.ParseFiringID(string(r.Firing)) // a manual firing has no scheduled time
		views = append(views, runJSON{FiringID: string(r.Firing), ScheduledAt: iso(firing.ScheduledAt, in), Outcome: string(r.Outcome),
			Attempt: r.Attempt, StartedAt: iso(r.Started, in), EndedAt: iso(r.Ended, in), DurationMS: r.Duration.Milliseconds(),
			Worker: r.Worker, Error: r.Error})
		v.names = append(v.names, string(r.Firing))
	}
	v.data = views
	return s.emit(v)
}

func (s *session) showRuns(w io.Writer, e schedule.Entry, runs []claim.RunRecord) {
	if len(runs) == 0 {
		return
	}
	zone := s.location(s.read(e.Schedule).zone)
	t := newTable("SCHEDULED", "OUTCOME", "ATTEMPT", "STARTED", "TOOK", "WORKER", "ERROR")
	for _, r := range runs {
		scheduled := "manual"
		if firing, err := claim.ParseFiringID(string(r.Firing)); err == nil && !firing.ScheduledAt.IsZero() {
			scheduled = stamp(firing.ScheduledAt, zone)
		}
		outcome := cell{string(r.Outcome), red}
		switch r.Outcome {
		case claim.OutcomeSucceeded:
			outcome.color = green
		case claim.OutcomeRetrying, claim.OutcomeCancelled:
			outcome.color = yellow
		}
		started, took := none, none
		if !r.Started.IsZero() {
			started, took = when(r.Started, s.env.Now(), zone), fine(max(0, r.Duration))
		}
		t.addCells(cell{text: scheduled}, outcome, cell{text: fmt.Sprint(r.Attempt)}, cell{text: started}, cell{text: took},
			cell{text: r.Worker}, cell{text: r.Error})
	}
	t.flush(w, s.painted(s.env.Terminal.Stdout))
}
