package admincli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

func newPeriodicPause(s *session) *cobra.Command {
	f := &pauseFlags{}
	cmd := &cobra.Command{
		Use: "pause NAME...", Short: "Stop periodic tasks from running until they are resumed",
		Long: `Pause periodic tasks. After it returns no new run starts; one that is under way
goes on to its end. With --until or --for the pause ends by itself.`,
		Example: `  admin periodic pause cache-sweep --reason 'disk is full'
  admin periodic pause cache-sweep --for 2h`,
		Args: arguments(1, -1, "NAME"), ValidArgsFunction: s.completePeriodic,
		RunE: func(_ *cobra.Command, args []string) error { return s.pausePeriodic(f, args) },
	}
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, for whoever looks at it later")
	cmd.Flags().StringVar(&f.until, "until", "", "resume by itself at this time, such as 'tomorrow 9am' (UTC, or in --tz)")
	cmd.Flags().StringVar(&f.period, "for", "", "resume by itself after this long, such as 2h")
	return cmd
}

func newPeriodicResume(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "resume NAME...", Short: "Let paused periodic tasks run again",
		Long: `Resume periodic tasks. One whose time has passed meanwhile runs at once, and
once.`,
		Example: "  admin periodic resume cache-sweep",
		Args:    arguments(1, -1, "NAME"), ValidArgsFunction: s.completePeriodic,
		RunE: func(_ *cobra.Command, args []string) error { return s.resumePeriodic(args) },
	}
}

func newPeriodicTrigger(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "trigger NAME", Short: "Run a periodic task now",
		Long: `Ask for an extra run now, also of a paused task. When the task is running, it
runs again after that. A run that is asked for already absorbs another.`,
		Example: "  admin periodic trigger cache-sweep",
		Args:    arguments(1, 1, "NAME"), ValidArgsFunction: s.completePeriodic,
		RunE: func(_ *cobra.Command, args []string) error { return s.triggerPeriodic(args) },
	}
}

func (s *session) pausePeriodic(f *pauseFlags, args []string) error {
	until, err := f.end(s)
	if err != nil {
		return err
	}
	if err := checkReason(f.reason); err != nil {
		return err
	}
	by := s.env.User
	if by == "" {
		by = "unknown"
	}
	return s.eachPeriodic(args, "paused", func(e claim.PeriodicEntry) (claim.PeriodicEntry, string, error) {
		ctx, cancel := s.call()
		defer cancel()
		running := e.Owner != "" && e.Until.After(s.env.Now())
		e, err := s.stores.Periodic.Pause(ctx, e.Name, schedule.PauseOptions{By: by, Reason: f.reason, Until: until})
		line := "paused " + e.Name + " until it is resumed"
		if !until.IsZero() {
			line = "paused " + e.Name + " until " + when(until, s.env.Now(), s.location(time.UTC))
		}
		if running {
			line += "; the run by " + e.Owner + " goes on"
		}
		return e, line, err
	})
}

func (s *session) resumePeriodic(args []string) error {
	return s.eachPeriodic(args, "resumed", func(e claim.PeriodicEntry) (claim.PeriodicEntry, string, error) {
		ctx, cancel := s.call()
		defer cancel()
		e, err := s.stores.Periodic.Resume(ctx, e.Name)
		line := "resumed " + e.Name + "; next run " + when(e.Next, s.env.Now(), s.location(time.UTC))
		switch {
		case e.Owner != "" && e.Until.After(s.env.Now()):
			line = "resumed " + e.Name + "; the run by " + e.Owner + " goes on"
		case !e.Next.IsZero() && !e.Next.After(s.env.Now()):
			line = "resumed " + e.Name + "; it is due now"
		}
		return e, line, err
	})
}

func (s *session) triggerPeriodic(args []string) error {
	return s.eachPeriodic(args, "triggered", func(e claim.PeriodicEntry) (claim.PeriodicEntry, string, error) {
		ctx, cancel := s.call()
		defer cancel()
		running := e.Owner != "" && e.Until.After(s.env.Now())
		e, fresh, err := s.stores.Periodic.Trigger(ctx, e.Name)
		line := "triggered " + e.Name + ": a worker that has it runs it at once"
		switch {
		case !fresh:
			line = e.Name + " was triggered before and has not run since; nothing was changed"
		case running:
			line = "triggered " + e.Name + ": it runs again after the run by " + e.Owner
		}
		return e, line, err
	})
}

// A periodicActionJSON is what an action prints for one task.
type periodicActionJSON struct {
	Action string `json:"action"`
	periodicJSON
}

// eachPeriodic acts on tasks one after the other and prints what was done,
// also when one of them fails: what was changed before it stays changed.
func (s *session) eachPeriodic(args []string, action string, act func(claim.PeriodicEntry) (claim.PeriodicEntry, string, error)) error {
	entries, err := s.findPeriodic(args)
	if err != nil {
		return err
	}
	results, v, lines := []periodicActionJSON{}, view{}, []string{}
	var failed error
	for _, e := range entries {
		after, line, err := act(e)
		if err != nil {
			failed = err
			if len(lines) > 0 {
				s.warn("%d of %d tasks were changed before the error", len(lines), len(entries))
			}
			break
		}
		results, v.names, lines = append(results, periodicActionJSON{action, s.periodicJSON(after)}), append(v.names, after.Name), append(lines, line)
	}
	v.data = results
	v.table = func(w io.Writer) {
		for _, line := range lines {
			fmt.Fprintln(w, visible(line))
		}
	}
	err = s.emit(v)
	if failed != nil {
		return failed
	}
	return err
}
