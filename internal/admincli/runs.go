package admincli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// runOutcomes are the outcomes that a run log holds.
var runOutcomes = []string{"succeeded", "failed", "retrying", "cancelled", "lost", "unknown"}

type runListFlags struct {
	outcome string
	limit   int
}

func newRuns(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "run", Short: "Show runs of all schedules, end one and run one again",
		Example: "  admin run list\n  admin run list cache-warm"}
	f := &runListFlags{}
	list := &cobra.Command{Use: "list [NAME]", Short: "List the last runs of all schedules or of one, newest first",
		Example: "  admin run list\n  admin run list cache-warm --outcome failed -o json", Args: arguments(0, 1, "NAME"),
		ValidArgsFunction: s.completeIDs, RunE: func(_ *cobra.Command, args []string) error { return s.listRuns(f, args) }}
	list.Flags().StringVar(&f.outcome, "outcome", "", "only succeeded, failed, retrying, cancelled, lost or unknown")
	list.Flags().IntVarP(&f.limit, "limit", "n", 20, "at most this many")
	get := &cobra.Command{Use: "get FIRING", Short: "Show where a firing stands, its attempts and its task",
		Example: "  admin run get cache-warm:1796018822000001:mseed", Args: arguments(1, 1, "FIRING"),
		RunE: func(_ *cobra.Command, args []string) error { return s.getRun(args[0]) }}
	cmd.AddCommand(s.watched(list), get, newRunLogs(s), newRunCancel(s), newRunRetry(s))
	return group(cmd)
}

// logged is a run with the schedule that it belongs to.
type logged struct {
	claim.RunRecord
	entry schedule.Entry
}

func (s *session) listRuns(f *runListFlags, args []string) error {
	if f.limit < 1 || f.limit > maxRuns {
		return &schedule.FieldError{Field: "limit", Value: fmt.Sprint(f.limit), Allowed: fmt.Sprintf("1 to %d", maxRuns)}
	}
	if f.outcome != "" {
		if err := oneOf("outcome", f.outcome, runOutcomes...); err != nil {
			return err
		}
	}
	entries, err := s.ran(args, f)
	if err != nil {
		return err
	}
	var all []logged
	for _, e := range entries {
		runs, err := s.runsOf(e, f)
		if err != nil {
			return err
		}
		all = append(all, runs...)
	}
	slices.SortStableFunc(all, func(a, b logged) int { return b.Ended.Compare(a.Ended) })
	all = all[:min(len(all), f.limit)]
	views, v := []scheduleRunJSON{}, view{}
	for _, r := range all {
		views, v.names = append(views, s.scheduleRun(r)), append(v.names, string(r.Firing))
	}
	v.data = views
	v.table = func(w io.Writer) { s.showLogged(w, all, false) }
	v.wide = func(w io.Writer) { s.showLogged(w, all, true) }
	if len(all) == 0 {
		s.note("no run matches")
	}
	if err := s.emit(v); err != nil {
		return err
	}
	if len(all) > 0 && s.flags.format == formatTable {
		s.note("-o wide has the firings that admin run logs, get, retry and cancel want")
	}
	return nil
}

// ran returns the schedules whose newest runs may be among the newest of all.
func (s *session) ran(args []string, f *runListFlags) ([]schedule.Entry, error) {
	if len(args) > 0 {
		return s.named(args)
	}
	var entries []schedule.Entry
	err := s.pages(schedule.ListOptions{}, func(page []schedule.Entry) (bool, error) {
		for _, e := range page {
			if e.Status.RunCount > 0 && (f.outcome != "failed" || e.Status.FailCount > 0) {
				// Only what is needed stays: a page may hold large payloads.
				e.Schedule.Payload, e.Schedule.Metadata = nil, nil
				entries = append(entries, e)
			}
		}
		// Any schedule may hold the outcome that is asked for; without one, those
		// that ran last hold the newest runs.
		if f.outcome == "" && len(entries) > 2*f.limit {
			entries = newestRan(entries, f.limit)
		}
		return true, nil
	})
	if f.outcome == "" {
		entries = newestRan(entries, f.limit)
	}
	return entries, err
}

func newestRan(entries []schedule.Entry, limit int) []schedule.Entry {
	slices.SortStableFunc(entries, func(a, b schedule.Entry) int {
		return cmp.Or(b.Status.LastRunAt.Compare(a.Status.LastRunAt), cmp.Compare(a.Schedule.ID, b.Schedule.ID))
	})
	return entries[:min(len(entries), limit)]
}

// runsOf reads the run log of one schedule.
func (s *session) runsOf(e schedule.Entry, f *runListFlags) ([]logged, error) {
	limit := f.limit
	if f.outcome != "" {
		limit = maxRuns
	}
	var runs []claim.RunRecord
	err := s.within(func(ctx context.Context) (err error) {
		runs, err = s.stores.Runs.Runs(ctx, e.Schedule.ID, limit)
		return err
	})
	var all []logged
	for _, r := range runs {
		if f.outcome == "" || string(r.Outcome) == f.outcome {
			all = append(all, logged{r, e})
		}
	}
	return all, err
}

// A scheduleRunJSON is a run with its schedule.
type scheduleRunJSON struct {
	Schedule string `json:"schedule"`
	runJSON
}

func (s *session) scheduleRun(r logged) scheduleRunJSON {
	in := s.location(s.read(r.entry.Schedule).zone)
	firing, _ := claim.ParseFiringID(string(r.Firing)) // a manual firing has no scheduled time
	return scheduleRunJSON{Schedule: string(r.entry.Schedule.ID), runJSON: runJSON{FiringID: string(r.Firing),
		ScheduledAt: iso(firing.ScheduledAt, in), Outcome: string(r.Outcome), Attempt: r.Attempt, StartedAt: iso(r.Started, in),
		EndedAt: iso(r.Ended, in), DurationMS: r.Duration.Milliseconds(), Worker: r.Worker, Error: r.Error}}
}

// showLogged shows runs, with the firings when it is wide.
func (s *session) showLogged(w io.Writer, all []logged, wide bool) {
	if len(all) == 0 {
		return
	}
	header := []string{"SCHEDULE", "SCHEDULED", "OUTCOME", "ATTEMPT", "ENDED", "TOOK", "WORKER", "ERROR"}
	if wide {
		header[0] = "FIRING"
	}
	t := newTable(header...)
	for _, r := range all {
		zone := s.location(s.read(r.entry.Schedule).zone)
		scheduled := "manual"
		if firing, err := claim.ParseFiringID(string(r.Firing)); err == nil && !firing.ScheduledAt.IsZero() {
			scheduled = stamp(firing.ScheduledAt, zone)
		}
		name := string(r.entry.Schedule.ID)
		if wide {
			name = string(r.Firing)
		}
		t.addCells(cell{text: name}, cell{text: scheduled}, outcomeCell(r.Outcome), cell{text: fmt.Sprint(r.Attempt)},
			cell{text: when(r.Ended, s.env.Now(), zone)}, cell{text: fine(max(0, r.Duration))}, cell{text: r.Worker}, cell{text: r.Error})
	}
	t.flush(w, s.painted(s.env.Terminal.Stdout))
}

func outcomeCell(outcome claim.RunOutcome) cell {
	c := cell{string(outcome), red}
	switch outcome {
	case claim.OutcomeSucceeded:
		c.color = green
	case claim.OutcomeRetrying, claim.OutcomeCancelled:
		c.color = yellow
	}
	return c
}

// A firingJSON is what run get prints.
type firingJSON struct {
	FiringID    string    `json:"firing_id"`
	Schedule    string    `json:"schedule"`
	ScheduledAt *string   `json:"scheduled_at"` // null for a manual firing
	Open        *openJSON `json:"open"`         // null when it has ended
	Runs        []runJSON `json:"runs"`         // newest first
	Task        *taskJSON `json:"task"`         // null when asynq has none any more
}

// An openJSON is what the ledger holds of a firing that has not ended.
type openJSON struct {
	State           string  `json:"state"` // buffered, promised, waiting, running or retrying
	OpenedAt        *string `json:"opened_at"`
	Attempt         int     `json:"attempt"` // 0: none has begun
	Worker          string  `json:"worker"`  // that runs it, or ran it last; "" is nobody
	LeaseUntil      *string `json:"lease_until"`
	Redrives        int     `json:"redrives"`
	CancelRequested bool    `json:"cancel_requested"`
}

// firing returns the firing that an argument names, and its schedule.
func (s *session) firing(text string) (claim.Firing, schedule.Entry, error) {
	firing, err := claim.ParseFiringID(text)
	if err != nil {
		if id := schedule.ID(text); id.Validate() == nil {
			err = withHint(err, "for those of a schedule of that name: admin run list "+text+" -o wide")
		}
		return firing, schedule.Entry{}, err
	}
	entries, err := s.named([]string{string(firing.Schedule)})
	if err != nil {
		return firing, schedule.Entry{}, err
	}
	return firing, entries[0], nil
}

// openFiring returns what the ledger holds of a firing, nil when it is not open.
func (s *session) openFiring(id claim.FiringID) (open *claim.OpenFiring, err error) {
	err = s.within(func(ctx context.Context) error {
		all, _, err := s.stores.Firings.Firings(ctx, []claim.FiringID{id})
		if f, is := all[id]; is {
			open = &f
		}
		return err
	})
	return open, err
}

// openOf returns nil for a firing that is not open.
func (s *session) openOf(id claim.FiringID, in *time.Location) (*openJSON, error) {
	f, err := s.openFiring(id)
	if err != nil || f == nil {
		return nil, err
	}
	return openView(f, in), nil
}

func openView(f *claim.OpenFiring, in *time.Location) *openJSON {
	return &openJSON{State: stateWord(*f), OpenedAt: iso(f.OpenedAt, in), Attempt: f.Attempt, Worker: f.Worker, LeaseUntil: iso(f.LeaseUntil, in),
		Redrives: f.Redrives, CancelRequested: f.CancelWanted}
}

// line words it for people.
func (o *openJSON) line() string {
	line := o.State
	if o.Attempt > 0 {
		line += fmt.Sprintf(", attempt %d", o.Attempt)
	}
	if o.Worker != "" && o.State == "running" {
		line += " on " + o.Worker
	}
	return line + o.besides()
}

// besides words what befell the firing, whatever its state is.
func (o *openJSON) besides() (text string) {
	if o.Redrives > 0 {
		text = fmt.Sprintf(", enqueued anew %s", count(o.Redrives, "time"))
	}
	if o.CancelRequested {
		text += ", asked to end"
	}
	return text
}

func (s *session) getRun(text string) error {
	firing, e, err := s.firing(text)
	if err != nil {
		return err
	}
	all, err := s.runsOf(e, &runListFlags{limit: maxRuns})
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(r logged) bool { return r.Firing != firing.ID() })
	task, err := s.newestTask(e, firing.ID())
	if err != nil {
		return err
	}
	in := s.location(s.read(e.Schedule).zoneAt(firing.ScheduledAt))
	open, err := s.openOf(firing.ID(), in)
	if err != nil {
		return err
	}
	if len(all) == 0 && task == nil && open == nil {
		return codedErrorf(exitNotFound, "firing %q left no run and no task: the logs keep the last ones only; see admin run list %s", clip(text, 200), e.Schedule.ID)
	}
	v := firingJSON{FiringID: string(firing.ID()), Schedule: string(firing.Schedule), ScheduledAt: iso(firing.ScheduledAt, in), Open: open, Runs: []runJSON{}}
	for _, r := range all {
		v.Runs = append(v.Runs, s.scheduleRun(r).runJSON)
	}
	if task != nil {
		view := s.taskJSON(task)
		v.Task = &view
	}
	return s.emit(view{data: v, names: []string{v.FiringID}, table: func(w io.Writer) { s.showFiring(w, v, all, in) }})
}

func (s *session) showFiring(w io.Writer, v firingJSON, all []logged, in *time.Location) {
	fmt.Fprintln(w, visible(v.FiringID))
	f := &sheet{}
	f.add("schedule", v.Schedule)
	if v.Open != nil {
		f.add("open", v.Open.line())
	}
	if v.Task != nil {
		f.add("task", fmt.Sprintf("%s in queue %s", v.Task.State, v.Task.Queue))
	}
	for _, r := range all {
		line := fmt.Sprintf("%s, attempt %d, ended %s, took %s on %s", r.Outcome, r.Attempt, when(r.Ended, s.env.Now(), in), fine(max(0, r.Duration)), r.Worker)
		if r.Error != "" {
			line += ": " + r.Error
		}
		f.add("run", line)
	}
	f.write(w)
}
