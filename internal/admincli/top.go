package admincli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/internal/top"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

type topFlags struct {
	interval string
	sort     string
	once     bool
	width    int
	height   int
}

func newTop(s *session) *cobra.Command {
	f := &topFlags{}
	cmd := &cobra.Command{Use: "top", Short: "Watch schedules, workers, leases and runs live in the terminal",
		Long: `Watch the fleet live: what is due next, how late the oldest due schedule is, who
works, who holds which lease, how the last runs ended. Needs a terminal of 60 by
15 or more; --once prints one frame anywhere.

Up to 2,000 schedules are all listed. Of more, the 1,000 that fire next are: the
counts in the header are of all, and the rest is in admin schedule list.

Keys: tab or 1-4 views, j k g G move, / filter, s sort, enter details, p pause or
resume, T trigger (asks), ? help, q quit.`,
		Example: "  admin top --once\n  admin top --once --sort fails -o json", Args: arguments(0, 0, "nothing"),
		RunE: func(*cobra.Command, []string) error { return s.top(f) }}
	cmd.Flags().StringVar(&f.interval, "interval", "1s", "how often to look")
	cmd.Flags().StringVar(&f.sort, "sort", "next", "order of schedules: next, name, state or fails")
	cmd.Flags().BoolVar(&f.once, "once", false, "print one frame and end")
	cmd.Flags().IntVar(&f.width, "width", 80, "columns of the frame of --once")
	cmd.Flags().IntVar(&f.height, "height", 24, "lines of the frame of --once")
	return cmd
}

func (s *session) top(f *topFlags) error {
	interval, err := flagDuration("interval", f.interval)
	if err == nil && interval < 100*time.Millisecond {
		err = &schedule.FieldError{Field: "interval", Value: f.interval, Allowed: "100ms or more"}
	}
	if err != nil {
		return err
	}
	if err := oneOf("sort", f.sort, top.Sorts()...); err != nil {
		return err
	}
	if _, err := s.store(); err != nil {
		return err
	}
	source := &topSource{s: s}
	m := top.New(top.Options{Width: width, Color: s.painted(s.env.Terminal.Stdout), Sort: f.sort})
	if f.once {
		return s.topOnce(m, source, f)
	}
	if !s.env.Terminal.Stdin || !s.env.Terminal.Stdout {
		return usageErrorf("top needs a terminal; print one frame with --once")
	}
	var environ []string
	for name, value := range s.env.Environ {
		environ = append(environ, name+"="+value)
	}
	err = top.Show(s.ctx, m, source, interval, top.Terminal{In: s.env.Terminal.Input, Out: s.env.Stdout, Environ: environ})
	if errors.Is(err, context.Canceled) {
		return errInterrupted
	}
	return err
}

// A topJSON is what top --once prints.
type topJSON struct {
	Now        *string           `json:"now"`
	NowMS      *int64            `json:"now_ms"`
	AheadMS    int64             `json:"ahead_ms"` // this machine's clock before the store's
	Active     int64             `json:"active"`
	Paused     int64             `json:"paused"`
	Disabled   int64             `json:"disabled"`
	Due        int64             `json:"due"`
	Claimed    int64             `json:"claimed"`
	Open       int64             `json:"open"`
	Buffered   int64             `json:"buffered"`
	LatenessMS int64             `json:"lateness_ms"`
	Workers    int               `json:"workers"`
	Total      int64             `json:"total"`   // schedules that there are
	Partial    bool              `json:"partial"` // schedules has only those that fire next
	Schedules  []topScheduleJSON `json:"schedules"`
}

// A topScheduleJSON is a row of top.
type topScheduleJSON struct {
	ID     string  `json:"id"`
	State  string  `json:"state"`
	When   string  `json:"when"`
	NextAt *string `json:"next_at"`
	Last   string  `json:"last"`
	Error  string  `json:"error"`
	Fails  int64   `json:"consecutive_fails"`
}

// topOnce prints one frame.
func (s *session) topOnce(m *top.Model, source *topSource, f *topFlags) error {
	if f.width < top.MinWidth || f.height < top.MinHeight || f.width > 1000 || f.height > 1000 {
		return &schedule.FieldError{Field: "width and height", Value: fmt.Sprintf("%dx%d", f.width, f.height),
			Allowed: fmt.Sprintf("%dx%d to 1000x1000", top.MinWidth, top.MinHeight)}
	}
	snapshot, err := source.Read(s.ctx)
	if err != nil {
		return err
	}
	m.Resize(f.width, f.height)
	m.Set(snapshot, "", s.env.Now())
	in := s.location(time.UTC)
	data := topJSON{Now: iso(snapshot.Now, in), NowMS: millis(snapshot.Now), AheadMS: snapshot.Ahead.Milliseconds(), Active: snapshot.Active,
		Paused: snapshot.Paused, Disabled: snapshot.Disabled, Due: snapshot.Due, Claimed: snapshot.Claimed, Open: snapshot.Open, Buffered: snapshot.Buffered,
		LatenessMS: snapshot.Lateness.Milliseconds(), Workers: len(snapshot.Workers), Total: snapshot.Total, Partial: snapshot.Partial, Schedules: []topScheduleJSON{}}
	v := view{table: func(w io.Writer) { fmt.Fprintln(w, m.Frame()) }}
	for _, e := range snapshot.Schedules {
		data.Schedules = append(data.Schedules, topScheduleJSON{e.ID, e.State, e.When, iso(e.Next, in), e.Last, e.Error, e.Fails})
		v.names = append(v.names, e.ID)
	}
	v.data = data
	return s.emit(v)
}

// Read takes a snapshot.
func (t *topSource) Read(ctx context.Context) (top.Snapshot, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.s
	out, err := t.read(ctx)
	if err != nil {
		return top.Snapshot{}, errors.New(describe(err, s.address))
	}
	return out, nil
}

func (t *topSource) read(ctx context.Context) (top.Snapshot, error) {
	s := t.s
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	sent := s.ownNow()
	stats, err := s.stores.Catalog.Stats(ctx)
	if err != nil {
		return top.Snapshot{}, err
	}
	middle := between(sent, s.ownNow())
	members, err := s.stores.Roster.Members(ctx, workerMaxAge)
	if err != nil {
		return top.Snapshot{}, err
	}
	out := top.Snapshot{Where: visible(s.address + " " + s.stores.Namespace), Now: stats.Now, Ahead: middle.Sub(stats.Now), Active: stats.Active, Paused: stats.Paused,
		Total: stats.Total, Disabled: stats.Disabled, Due: stats.Due, Claimed: stats.Claimed, Open: stats.Open, Buffered: stats.Buffered, Lateness: max(0, stats.Lateness)}
	for _, m := range members {
		out.Workers = append(out.Workers, top.Worker{ID: visible(m.ID), Host: visible(m.Host), Queues: visible(weights(m.Queues)), Version: visible(m.Version),
			Claims: m.Claims, State: workerState(m), Types: len(m.Types), Seen: m.Seen})
	}
	if s.stores.Leases != nil {
		leases, err := s.stores.Leases.List(ctx)
		if err != nil {
			return top.Snapshot{}, err
		}
		for _, l := range leases {
			out.Leases = append(out.Leases, top.Lease{Name: visible(l.Name), Owner: visible(l.Owner), Token: l.Token.String(), Until: l.Until})
		}
	}
	if err := t.list(ctx, stats); err != nil {
		return top.Snapshot{}, err
	}
	out.Schedules, out.Fired, out.Partial = t.schedules, t.fired, t.partial
	out.Runs, err = t.runs()
	return out, err
}

func (t *topSource) row(e schedule.Entry, now time.Time) top.Schedule {
	state := shownState(e)
	next := e.Status.NextAt
	if e.Status.State == schedule.StateDisabled {
		next = time.Time{} // it does not fire until it is resumed, so it is not late either
	}
	return top.Schedule{ID: visible(string(e.Schedule.ID)), State: state.text, When: visible(t.s.words(e.Schedule)), Last: t.s.last(e, now).text,
		Error: visible(e.Status.LastError), Bad: state.color == red, Paused: e.Status.State == schedule.StatePaused, Next: next,
		Fails: e.Status.ConsecutiveFails}
}

// topRuns is how many schedules have their last run read.
const topRuns = 50

// runs are the last ones of the schedules that ran last.
func (t *topSource) runs() ([]top.Run, error) {
	var ran []schedule.Entry
	for _, entries := range []map[schedule.ID]schedule.Entry{t.entries, t.left} {
		for _, e := range entries {
			if e.Status.RunCount > 0 {
				ran = append(ran, e)
			}
		}
	}
	var out []top.Run
	for _, e := range newestRan(ran, topRuns) {
		runs, err := t.s.runsOf(e, &runListFlags{limit: 5})
		if err != nil {
			return nil, err
		}
		for _, r := range runs {
			out = append(out, top.Run{Schedule: visible(string(e.Schedule.ID)), Outcome: string(r.Outcome), Worker: visible(r.Worker), Error: visible(r.Error),
				Bad: r.Outcome != claim.OutcomeSucceeded && r.Outcome != claim.OutcomeCancelled, Ended: r.Ended, Took: max(0, r.Duration)})
		}
	}
	slices.SortStableFunc(out, func(a, b top.Run) int { return b.Ended.Compare(a.Ended) })
	return out[:min(len(out), 200)], nil
}

// Act does one thing to a schedule.
func (t *topSource) Act(ctx context.Context, act top.Act, name string) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text, err := t.act(ctx, act, schedule.ID(name))
	t.listed = time.Time{} // show at once what it did
	if err != nil {
		return "", errors.New(describe(err, t.s.address))
	}
	return visible(text), nil
}

func (t *topSource) act(ctx context.Context, act top.Act, id schedule.ID) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, t.s.timeout)
	defer cancel()
	catalog := t.s.stores.Catalog
	switch act {
	case top.ActPause:
		by := t.s.env.User
		if by == "" {
			by = "unknown"
		}
		_, err := catalog.Pause(ctx, id, schedule.PauseOptions{By: by, Reason: "admin top"})
		return fmt.Sprintf("paused %s until it is resumed", id), err
	case top.ActResume:
		result, err := catalog.Resume(ctx, id, schedule.ResumeOptions{})
		return fmt.Sprintf("resumed %s, next %s", id, relative(result.NextAt, t.s.env.Now())), err
	}
	result, err := catalog.Trigger(ctx, id, schedule.TriggerOptions{})
	return fmt.Sprintf("triggered %s in queue %s", result.FiringID, result.Queue), err
}
