package admincli

import (
	"fmt"
	"io"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

type pauseFlags struct {
	targets
	reason string
	until  string
	period string
	dryRun bool
}

func newPause(s *session) *cobra.Command {
	f := &pauseFlags{}
	cmd := &cobra.Command{
		Use: "pause NAME... | -l k=v | --all", Short: "Stop a schedule from firing until it is resumed",
		Long: `Pause schedules. After it returns no new scheduled time is claimed; what was
claimed or queued before still runs and is listed. A pause survives apply and
restarts. With --until or --for it ends by itself.`,
		Example: `  admin schedule pause nightly-report --reason 'database move'
  admin schedule pause nightly-report cache-warm --for 2h
  admin schedule pause -l team=billing --until '2027-01-04 09:00'
  admin schedule pause --all --for 30m --reason maintenance`,
		ValidArgsFunction: s.completeIDs,
		RunE:              func(_ *cobra.Command, args []string) error { return s.pause(f, args) },
	}
	f.registerAll(cmd)
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show which would be paused, change nothing")
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, for whoever looks at it later")
	cmd.Flags().StringVar(&f.until, "until", "", "resume by itself at this time, such as 'tomorrow 9am' (UTC, or in --tz)")
	cmd.Flags().StringVar(&f.period, "for", "", "resume by itself after this long, such as 2h")
	return cmd
}

func (f *pauseFlags) end(s *session) (time.Time, error) {
	now := s.env.Now()
	if f.until != "" && f.period != "" {
		return time.Time{}, usageErrorf("give --until or --for, not both")
	}
	var until time.Time
	if f.period != "" {
		period, err := flagDuration("for", f.period)
		if err != nil {
			return until, err
		}
		until = now.Add(period)
	}
	if err := instantInto(&until, "until", f.until, now, s.viewer); err != nil {
		return until, err
	}
	if (f.until != "" || f.period != "") && !until.After(now) {
		return until, &schedule.FieldError{Field: "until", Value: f.until + f.period, Allowed: "a time in the future"}
	}
	return until, nil
}

// maxReason bounds a reason, in bytes.
const maxReason = 1 << 10

// checkReason refuses a reason that is too long to be shown.
func checkReason(reason string) error {
	if len(reason) > maxReason {
		return &schedule.FieldError{Field: "reason", Value: reason, Allowed: fmt.Sprintf("at most %d bytes", maxReason)}
	}
	return nil
}

// A pauseJSON is what pause prints for one schedule.
type pauseJSON struct {
	ID     string   `json:"id"`
	Action string   `json:"action"`
	DryRun bool     `json:"dry_run,omitempty"`
	By     string   `json:"paused_by,omitempty"`
	Reason string   `json:"pause_reason,omitempty"`
	Until  *string  `json:"paused_until,omitempty"`
	Open   []string `json:"open"`
}

func (s *session) pause(f *pauseFlags, args []string) error {
	until, err := f.end(s)
	if err != nil {
		return err
	}
	if err := checkReason(f.reason); err != nil {
		return err
	}
	entries, err := f.find(s, args)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if in := s.location(s.read(e.Schedule).zone); !until.IsZero() {
			if err := checkShown(until, or(f.until, f.period), in); err != nil {
				return renamed(err, "until")
			}
		}
	}
	by := s.env.User
	if by == "" {
		by = "unknown"
	}
	options := schedule.PauseOptions{By: by, Reason: f.reason, Until: until}
	return each(s, entries, func(e schedule.Entry) (pauseJSON, string, error) {
		if f.dryRun {
			in := s.location(s.read(e.Schedule).zone)
			return pauseJSON{ID: string(e.Schedule.ID), Action: "paused", DryRun: true, By: by, Reason: f.reason, Until: iso(until, in), Open: []string{}},
				"would be paused: " + string(e.Schedule.ID) + "; next firing " + s.next(e) + "; nothing was changed (dry run)", nil
		}
		ctx, cancel := s.call()
		defer cancel()
		result, err := s.stores.Catalog.Pause(ctx, e.Schedule.ID, options)
		if err != nil {
			return pauseJSON{}, "", err
		}
		in := s.location(s.read(e.Schedule).zone)
		line := "paused " + string(e.Schedule.ID)
		if until.IsZero() {
			line += " until it is resumed"
		} else {
			line += " until " + when(until, s.env.Now(), in)
		}
		if len(result.Open) > 0 {
			line += fmt.Sprintf("; %s still run: %s", count(len(result.Open), "firing"), summed(result.Open, 3))
		}
		return pauseJSON{ID: string(e.Schedule.ID), Action: "paused", By: by, Reason: f.reason, Until: iso(until, in),
			Open: notNil(result.Open)}, line, nil
	})
}

// summed lists some and counts the rest.
func summed(names []string, most int) string {
	text := ""
	for i, name := range names {
		if i == most {
			return fmt.Sprintf("%s and %d more", text, len(names)-most)
		}
		if i > 0 {
			text += ", "
		}
		text += name
	}
	return text
}

// notNil makes an empty list [] instead of null in JSON.
func notNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// each acts on schedules one after the other and prints what was done, also
// when one of them fails: what was changed before it stays changed.
func each[T any](s *session, entries []schedule.Entry, act func(schedule.Entry) (T, string, error)) error {
	results, lines, names := []T{}, []string{}, []string{}
	var failed error
	for _, e := range entries {
		result, line, err := act(e)
		if err != nil {
			failed = err
			if len(lines) > 0 {
				s.warn("%d of %d schedules were changed before the error", len(lines), len(entries))
			}
			break
		}
		results, lines, names = append(results, result), append(lines, line), append(names, string(e.Schedule.ID))
	}
	if len(entries) == 0 {
		s.note("no schedules match; nothing was changed")
	}
	err := s.emit(view{data: results, names: names, table: func(w io.Writer) {
		for _, line := range lines {
			fmt.Fprintln(w, visible(line))
		}
	}})
	if failed != nil {
		return failed
	}
	return err
}
