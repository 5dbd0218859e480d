package admincli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

// maxRuns is the most that the run log of a schedule holds.
const maxRuns = 1000

// historyFlags select runs.
type historyFlags struct {
	limit          int
	since, outcome string
	verdict, grace string
}

func newHistory(s *session) *cobra.Command {
	f := &historyFlags{}
	cmd := &cobra.Command{
		Use: "history NAME", Short: "Show the last runs of a schedule, newest first, or its scheduled times by verdict",
		Long: `Show the last runs of a schedule, newest first. With --verdict show what became
of its scheduled times instead: the ranges of its record, which are at most 33
and join neighbours with the same verdict, with the runs that the log still has.
A range says how many times it holds, or ? where they were not counted. Extra
runs and backfills have no verdict and are left out.

  fired       its task was pushed
  missed      nobody claimed it in time: verdicts missed and coalesced
  skipped     it was left out: verdicts skipped, overlap, paused and excluded
  coalesced, overlap, paused, excluded, superseded, unreadable: that verdict only
  failed      it fired and ended failed or lost; from the run log
  late        its first attempt began more than --grace and the jitter after the
              scheduled time, or it is due that long and unclaimed; from the run
              log`,
		Example: `  admin schedule history nightly-report
  admin schedule history nightly-report -n 5 -o json
  admin schedule history nightly-report --since 24h --outcome failed
  admin schedule history nightly-report --verdict missed`,
		Args:              arguments(1, 1, "NAME"),
		ValidArgsFunction: s.completeIDs,
		RunE:              func(_ *cobra.Command, args []string) error { return s.history(f, args) },
	}
	cmd.Flags().IntVarP(&f.limit, "limit", "n", 20, "at most this many")
	cmd.Flags().StringVar(&f.since, "since", "", "only runs that ended since, such as 24h")
	cmd.Flags().StringVar(&f.outcome, "outcome", "", "only succeeded, failed, retrying, cancelled, lost or unknown")
	cmd.Flags().StringVar(&f.verdict, "verdict", "", "scheduled times instead of runs: "+strings.Join(verdictFilters, ", "))
	cmd.Flags().StringVar(&f.grace, "grace", "30s", "with --verdict late: what is not late yet")
	return s.watched(cmd)
}

// check reads the flags; a zero time is no bound.
func (f *historyFlags) check(now time.Time) (since time.Time, err error) {
	if f.limit < 1 || f.limit > maxRuns {
		return since, &schedule.FieldError{Field: "limit", Value: fmt.Sprint(f.limit), Allowed: fmt.Sprintf("1 to %d", maxRuns)}
	}
	if f.outcome != "" {
		if err := oneOf("outcome", f.outcome, runOutcomes...); err != nil {
			return since, err
		}
	}
	if f.verdict != "" {
		if err := oneOf("verdict", f.verdict, verdictFilters...); err != nil {
			return since, err
		}
		if f.outcome != "" {
			return since, usageErrorf("give --verdict or --outcome, not both: a verdict is of a scheduled time, an outcome of a run")
		}
	}
	if f.since == "" {
		return since, nil
	}
	period, err := flagDuration("since", f.since)
	if err == nil && period <= 0 {
		err = &schedule.FieldError{Field: "since", Value: f.since, Allowed: "a duration above 0 such as 24h"}
	}
	return now.Add(-period), err
}

// of returns the runs that the flags select.
func (f *historyFlags) of(runs []claim.RunRecord, since time.Time) []claim.RunRecord {
	runs = slices.DeleteFunc(runs, func(r claim.RunRecord) bool {
		return r.Ended.Before(since) || f.outcome != "" && string(r.Outcome) != f.outcome
	})
	return runs[:min(len(runs), f.limit)]
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

func newRunJSON(r claim.RunRecord, in *time.Location) runJSON {
	firing, _ := claim.ParseFiringID(string(r.Firing)) // a manual firing has no scheduled time
	return runJSON{FiringID: string(r.Firing), ScheduledAt: iso(firing.ScheduledAt, in), Outcome: string(r.Outcome),
		Attempt: r.Attempt, StartedAt: iso(r.Started, in), EndedAt: iso(r.Ended, in), DurationMS: r.Duration.Milliseconds(),
		Worker: r.Worker, Error: r.Error}
}

func (s *session) history(f *historyFlags, args []string) error {
	since, err := f.check(s.env.Now())
	if err != nil {
		return err
	}
	entries, err := s.named(args)
	if err != nil {
		return err
	}
	e := entries[0]
	if f.verdict != "" {
		return s.verdicts(f, e, since)
	}
	ctx, cancel := s.call()
	defer cancel()
	limit := f.limit
	if f.since != "" || f.outcome != "" {
		limit = maxRuns
	}
	runs, err := s.stores.Runs.Runs(ctx, e.Schedule.ID, limit)
	if err != nil {
		return err
	}
	all := len(runs)
	runs = f.of(runs, since)
	switch {
	case all == 0:
		s.note("no runs yet; next firing %s", s.next(e))
	case len(runs) == 0:
		s.note("none of the %s in the log matches", count(all, "run"))
	}
	in := s.location(s.read(e.Schedule).zone)
	v := view{table: func(w io.Writer) { s.showRuns(w, e, runs) }}
	views := []runJSON{}
	for _, r := range runs {
		views, v.names = append(views, newRunJSON(r, in)), append(v.names, string(r.Firing))
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
