package admincli

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

func newSkip(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "skip NAME INSTANT|next", Short: "Let one planned firing not happen",
		Long: `Skip one scheduled time that lies ahead: it gets the verdict "skipped" and
nothing runs. All others stay. "next" is the pending one. A scheduled time that
a worker has claimed already is too late to skip: the exit code is 8.`,
		Example: `  admin schedule skip nightly-report next
  admin schedule skip billing-close '2026-12-01 09:00'`,
		Args: arguments(2, 2, "NAME INSTANT"), ValidArgsFunction: s.completeIDs,
		RunE: func(_ *cobra.Command, args []string) error { return s.skip(args, true) },
	}
}

func newUnskip(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "unskip NAME INSTANT|next", Short: "Take a skip back",
		Long: `Let a scheduled time that was skipped fire after all. One that was not skipped
stays as it is.`,
		Example: "  admin schedule unskip billing-close '2026-12-01 09:00'",
		Args:    arguments(2, 2, "NAME INSTANT"), ValidArgsFunction: s.completeIDs,
		RunE: func(_ *cobra.Command, args []string) error { return s.skip(args, false) },
	}
}

// A skipJSON is what skip and unskip print.
type skipJSON struct {
	ID     string  `json:"id"`
	Action string  `json:"action"` // skipped or restored
	At     *string `json:"at"`
	AtMS   *int64  `json:"at_ms"`
	NextAt *string `json:"next_at"` // the next one that fires
}

func (s *session) skip(args []string, on bool) error {
	entries, err := s.named(args[:1])
	if err != nil {
		return err
	}
	e := entries[0]
	r := s.read(e.Schedule)
	at := e.Status.NextAt
	if args[1] != "next" {
		if err := instantInto(&at, "instant", args[1], s.env.Now(), s.location(r.zone)); err != nil {
			return err
		}
	}
	if at.IsZero() {
		return codedErrorf(exitCondition, "schedule %q has no next scheduled time", e.Schedule.ID)
	}
	in := s.location(r.zoneAt(at))
	if err := checkShown(at, args[1], in); err != nil {
		return err
	}
	ctx, cancel := s.call()
	defer cancel()
	call, action := s.stores.Skipper.Skip, "skipped"
	if !on {
		call, action = s.stores.Skipper.Unskip, "restored"
	}
	err = call(ctx, e.Schedule.ID, at)
	if errors.Is(err, schedule.ErrLate) {
		return codedErrorf(exitCondition, "too late: %s of %q has its verdict already or is claimed; see admin schedule why %s '%s'",
			stamp(at, in), e.Schedule.ID, e.Schedule.ID, at.In(in).Format(rfc3339Milli))
	}
	if err != nil {
		return renamed(err, "instant")
	}
	if entries, err = s.named(args[:1]); err != nil { // what else is skipped
		return err
	}
	next := s.firesNext(entries[0])
	line := fmt.Sprintf("%s %s: %s", action, e.Schedule.ID, when(at, s.env.Now(), in))
	return s.emit(view{
		names: []string{string(e.Schedule.ID)},
		data:  skipJSON{ID: string(e.Schedule.ID), Action: action, At: iso(at, in), AtMS: millis(at), NextAt: iso(next, in)},
		table: func(w io.Writer) {
			fmt.Fprintln(w, visible(line))
			fmt.Fprintln(w, visible("next planned firing "+when(next, s.env.Now(), in)))
		},
	})
}

// firesNext is the first scheduled time that is not skipped.
func (s *session) firesNext(e schedule.Entry) time.Time {
	skipped := map[int64]bool{}
	for _, at := range e.Status.Skips {
		skipped[at.UnixMilli()] = true
	}
	r := s.read(e.Schedule)
	for at := e.Status.NextAt; r.compiled != nil && !at.IsZero(); {
		if !skipped[at.UnixMilli()] {
			return at
		}
		at, _ = r.compiled.Next(at) // zero when nothing follows
	}
	return time.Time{}
}
