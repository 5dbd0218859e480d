package admincli

import (
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

func newResume(s *session) *cobra.Command {
	f := &targets{}
	cmd := &cobra.Command{
		Use: "resume NAME... | -l k=v", Short: "Let a paused or disabled schedule fire again",
		Long: `Resume schedules. It ends a pause, enables what too many failures had disabled,
and clears the count of failures in a row. What was missed meanwhile is treated
as the schedule's missed policy says.`,
		Example: `  admin schedule resume nightly-report
  admin schedule resume -l team=billing`,
		ValidArgsFunction: s.completeIDs,
		RunE:              func(_ *cobra.Command, args []string) error { return s.resume(f, args) },
	}
	f.register(cmd)
	return cmd
}

// A resumeJSON is what resume prints for one schedule.
type resumeJSON struct {
	ID       string  `json:"id"`
	Action   string  `json:"action"`
	NextAt   *string `json:"next_at"`
	NextAtMS *int64  `json:"next_at_ms"`
}

func (s *session) resume(f *targets, args []string) error {
	entries, err := f.find(s, args)
	if err != nil {
		return err
	}
	var served []schedule.Schedule
	err = each(s, entries, func(e schedule.Entry) (resumeJSON, string, error) {
		ctx, cancel := s.call()
		defer cancel()
		result, err := s.stores.Catalog.Resume(ctx, e.Schedule.ID)
		if err != nil {
			return resumeJSON{}, "", err
		}
		served = append(served, e.Schedule)
		now, next := s.env.Now(), result.NextAt
		in := s.location(s.read(e.Schedule).zoneAt(next))
		line := "resumed " + string(e.Schedule.ID) + "; next firing "
		switch {
		case next.IsZero():
			line += "none"
		case next.Before(now):
			line += "missed since " + when(next, now, in) + ": missed " + string(missedPolicy(e.Schedule)) + " decides"
		default:
			line += when(next, now, in)
		}
		return resumeJSON{ID: string(e.Schedule.ID), Action: "resumed", NextAt: iso(next, in), NextAtMS: millis(next)}, line, nil
	})
	if err == nil {
		s.warnUnserved(served)
	}
	return err
}

func missedPolicy(d schedule.Schedule) schedule.Missed {
	d.Normalize()
	return d.Missed
}
