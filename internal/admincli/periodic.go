package admincli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/pkg/claim"
)

func newPeriodic(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "periodic", Short: "Show, pause and trigger tasks that run inside workers",
		Long: `Periodic tasks are not queued: they run inside the process that claims them. A
program makes their entries when it starts.`,
		Example: "  admin periodic list\n  admin periodic trigger cache-sweep",
	}
	list := &cobra.Command{
		Use: "list", Short: "List the periodic tasks",
		Example: "  admin periodic list\n  admin periodic list -o json",
		Args:    arguments(0, 0, "nothing"),
		RunE:    func(*cobra.Command, []string) error { return s.listPeriodic() },
	}
	get := &cobra.Command{
		Use: "get NAME", Short: "Show a periodic task with its last run",
		Example: "  admin periodic get cache-sweep",
		Args:    arguments(1, 1, "NAME"), ValidArgsFunction: s.completePeriodic,
		RunE: func(_ *cobra.Command, args []string) error { return s.getPeriodic(args[0]) },
	}
	cmd.AddCommand(s.watched(list), get, newPeriodicPause(s), newPeriodicResume(s), newPeriodicTrigger(s))
	return group(cmd)
}

// A periodicJSON is what the commands print for one task.
type periodicJSON struct {
	Name           string  `json:"name"`
	Display        string  `json:"display"`
	State          string  `json:"state"` // running, paused, triggered, active or completed
	NextAt         *string `json:"next_at"`
	NextAtMS       *int64  `json:"next_at_ms"`
	CreatedAt      *string `json:"created_at"`
	PausedBy       string  `json:"paused_by,omitempty"`
	PauseReason    string  `json:"pause_reason,omitempty"`
	PausedUntil    *string `json:"paused_until,omitempty"`
	Owner          string  `json:"owner"`
	Token          string  `json:"token"` // as text: it has more digits than many JSON readers keep
	Until          *string `json:"until"`
	Attempt        int     `json:"attempt"`
	RunCount       int64   `json:"run_count"`
	FailCount      int64   `json:"fail_count"`
	LastRunAt      *string `json:"last_run_at"`
	LastOutcome    string  `json:"last_outcome"`
	LastError      string  `json:"last_error"`
	LastDurationMS int64   `json:"last_duration_ms"`
}

func (s *session) periodicJSON(e claim.PeriodicEntry) periodicJSON {
	in := s.location(time.UTC)
	v := periodicJSON{Name: e.Name, Display: e.Display, State: s.periodicState(e).text, NextAt: iso(e.Next, in), NextAtMS: millis(e.Next),
		CreatedAt: iso(e.Created, in), PausedBy: e.PausedBy, PauseReason: e.PauseReason, PausedUntil: iso(e.PausedUntil, in),
		Owner: e.Owner, Until: iso(e.Until, in), Attempt: e.Attempt, RunCount: e.Runs, FailCount: e.Fails,
		LastRunAt: iso(e.LastStarted, in), LastOutcome: string(e.LastOutcome), LastError: e.LastError,
		LastDurationMS: e.LastDuration.Milliseconds()}
	if e.Token != 0 {
		v.Token = e.Token.String()
	}
	return v
}

// periodicState is the state for people: what is going on comes first.
func (s *session) periodicState(e claim.PeriodicEntry) cell {
	switch {
	case e.Owner != "" && e.Until.After(s.env.Now()):
		return cell{"running", green}
	case e.Trigger:
		return cell{"triggered", yellow}
	case e.Paused:
		return cell{"paused", yellow}
	case e.Next.IsZero():
		return cell{"completed", dim}
	}
	return cell{"active", green}
}

// periodics reads all tasks.
func (s *session) periodics() ([]claim.PeriodicEntry, error) {
	stores, err := s.store()
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.call()
	defer cancel()
	return stores.Periodic.List(ctx)
}

func (s *session) listPeriodic() error {
	all, err := s.periodics()
	if err != nil {
		return err
	}
	views, v := []periodicJSON{}, view{}
	for _, e := range all {
		views, v.names = append(views, s.periodicJSON(e)), append(v.names, e.Name)
	}
	v.data = views
	v.table = func(w io.Writer) {
		if len(all) == 0 {
			return
		}
		now, in := s.env.Now(), s.location(time.UTC)
		t := newTable("NAME", "STATE", "NEXT", "LAST", "RUNS", "OWNER")
		for _, e := range all {
			last := none
			if e.LastOutcome != "" {
				last = string(e.LastOutcome) + " " + relative(e.LastStarted, now)
			}
			owner := none
			if e.Owner != "" {
				owner = e.Owner
			}
			t.addCells(cell{text: e.Name}, s.periodicState(e), cell{text: when(e.Next, now, in)}, cell{text: last},
				cell{text: fmt.Sprintf("%d, %d failed", e.Runs, e.Fails)}, cell{text: owner})
		}
		t.flush(w, s.painted(s.env.Terminal.Stdout))
	}
	if err := s.emit(v); err != nil {
		return err
	}
	if s.tabular() {
		if len(all) == 0 {
			s.note("no periodic task in this namespace; a program makes them when it starts")
			return nil
		}
		s.footer(count(len(all), "task"))
	}
	return nil
}

// findPeriodic returns the tasks of these names. It fails without having
// changed anything when one is unknown.
func (s *session) findPeriodic(args []string) ([]claim.PeriodicEntry, error) {
	for _, name := range args {
		if err := claim.ValidatePeriodicName(name); err != nil {
			return nil, err
		}
	}
	all, err := s.periodics()
	if err != nil {
		return nil, err
	}
	byName, names := map[string]claim.PeriodicEntry{}, []string{}
	for _, e := range all {
		byName[e.Name], names = e, append(names, e.Name)
	}
	var found []claim.PeriodicEntry
	for _, name := range args {
		e, ok := byName[name]
		if !ok {
			near := didYouMean(name, names)
			if near == "" {
				near = "; see admin periodic list"
			}
			return nil, codedErrorf(exitNotFound, "periodic task %q does not exist in this namespace%s", name, near)
		}
		found = append(found, e)
	}
	return found, nil
}

func (s *session) getPeriodic(name string) error {
	found, err := s.findPeriodic([]string{name})
	if err != nil {
		return err
	}
	e := found[0]
	return s.emit(view{data: s.periodicJSON(e), names: []string{name}, table: func(w io.Writer) { s.showPeriodic(w, e) }})
}

func (s *session) showPeriodic(w io.Writer, e claim.PeriodicEntry) {
	now, in, state := s.env.Now(), s.location(time.UTC), s.periodicState(e)
	fmt.Fprintf(w, "%s  %s\n", visible(e.Name), paint(state.text, state.color, s.painted(s.env.Terminal.Stdout)))
	f := &sheet{}
	if e.Display != e.Name {
		f.add("display", e.Display)
	}
	f.add("next", when(e.Next, now, in))
	if e.Trigger {
		f.add("trigger", "an extra run is asked for")
	}
	if e.Paused {
		f.add("paused", pauseText(e, now, in))
	}
	if e.Owner != "" {
		f.add("claim", fmt.Sprintf("%s, token %s, attempt %d, until %s", e.Owner, e.Token, e.Attempt, when(e.Until, now, in)))
	}
	last := none
	if e.LastOutcome != "" {
		last = fmt.Sprintf("%s %s, took %s", e.LastOutcome, when(e.LastStarted, now, in), fine(e.LastDuration))
	}
	f.add("last run", last)
	f.add("last error", e.LastError)
	f.add("runs", fmt.Sprintf("%d, %d failed", e.Runs, e.Fails))
	f.add("created", when(e.Created, now, in))
	f.write(w)
}

func pauseText(e claim.PeriodicEntry, now time.Time, in *time.Location) string {
	text := "by " + e.PausedBy
	if !e.PausedUntil.IsZero() {
		text += " until " + when(e.PausedUntil, now, in)
	}
	if e.PauseReason != "" {
		text += ": " + e.PauseReason
	}
	return text
}

// completePeriodic offers the tasks that exist.
func (s *session) completePeriodic(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return s.offer(cmd, args, prefix, func(add func(name, about string)) error {
		all, err := s.periodics()
		for _, e := range all {
			add(e.Name, e.Display)
		}
		return err
	})
}
