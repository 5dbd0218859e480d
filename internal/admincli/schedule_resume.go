package admincli

import (
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

type resumeFlags struct {
	targets
	catchUp string
	dryRun  bool
}

// What resume may do with what was missed.
const (
	catchUpPolicy = "policy"
	catchUpNone   = "none"
)

func newResume(s *session) *cobra.Command {
	f := &resumeFlags{}
	cmd := &cobra.Command{
		Use: "resume NAME... | -l k=v | --all", Short: "Let a paused or disabled schedule fire again",
		Long: `Resume schedules. It ends a pause, enables what too many failures had disabled,
and clears the count of failures in a row. What was missed meanwhile is treated
as the schedule's missed policy says; with --catch-up none nothing of it fires,
and admin schedule why says that it was paused.`,
		Example: `  admin schedule resume nightly-report
  admin schedule resume nightly-report --catch-up none
  admin schedule resume -l team=billing`,
		ValidArgsFunction: s.completeIDs,
		RunE:              func(_ *cobra.Command, args []string) error { return s.resume(f, args) },
	}
	f.registerAll(cmd)
	cmd.Flags().StringVar(&f.catchUp, "catch-up", catchUpPolicy, "policy: the missed policy decides; none: nothing fires of what was missed")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show what would fire next, change nothing")
	return cmd
}

// A resumeJSON is what resume prints for one schedule.
type resumeJSON struct {
	ID       string  `json:"id"`
	Action   string  `json:"action"`
	DryRun   bool    `json:"dry_run,omitempty"`
	NextAt   *string `json:"next_at"`
	NextAtMS *int64  `json:"next_at_ms"`
}

func (s *session) resume(f *resumeFlags, args []string) error {
	if err := oneOf("catch-up", f.catchUp, catchUpPolicy, catchUpNone); err != nil {
		return err
	}
	options := schedule.ResumeOptions{SkipMissed: f.catchUp == catchUpNone}
	entries, err := f.find(s, args)
	if err != nil {
		return err
	}
	var served []schedule.Schedule
	err = each(s, entries, func(e schedule.Entry) (resumeJSON, string, error) {
		ctx, cancel := s.call()
		defer cancel()
		result, verb := s.foreseeResume(e, options), "would be resumed: "
		var err error
		if !f.dryRun {
			verb = "resumed "
			result, err = s.stores.Catalog.Resume(ctx, e.Schedule.ID, options)
		}
		if err != nil {
			return resumeJSON{}, "", err
		}
		served = append(served, e.Schedule)
		now, next := s.env.Now(), result.NextAt
		in := s.location(s.read(e.Schedule).zoneAt(next))
		line := verb + string(e.Schedule.ID) + "; next firing "
		switch {
		case next.IsZero():
			line += "none"
		case next.Before(now):
			line += "missed since " + when(next, now, in) + ": missed " + string(missedPolicy(e.Schedule)) + " decides"
		default:
			line += when(next, now, in)
		}
		return resumeJSON{ID: string(e.Schedule.ID), Action: "resumed", DryRun: f.dryRun, NextAt: iso(next, in), NextAtMS: millis(next)}, line, nil
	})
	if err == nil && !f.dryRun {
		s.warnUnserved(served)
	}
	return err
}

// foreseeResume says what a resume would leave pending.
func (s *session) foreseeResume(e schedule.Entry, options schedule.ResumeOptions) schedule.ResumeResult {
	r := s.read(e.Schedule)
	if r.err != nil {
		return schedule.ResumeResult{}
	}
	return schedule.ResumeResult{NextAt: schedule.PlanResume(r.compiled, e.Status.NextAt, s.env.Now(), options).Next}
}

func missedPolicy(d schedule.Schedule) schedule.Missed {
	d.Normalize()
	return d.Missed
}
