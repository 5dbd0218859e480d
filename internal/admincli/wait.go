package admincli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// What wait waits for.
const (
	waitNextFire = "next-fire"
	waitRun      = "run"
	waitSuccess  = "run=success"
	waitFailure  = "run=failure"
)

type waitFlags struct{ condition, limit, interval string }

func newWait(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "wait", Short: "Wait until something happens",
		Example: "  admin wait schedule nightly-report --for next-fire --timeout 1ms"}
	f := &waitFlags{}
	one := &cobra.Command{
		Use: "schedule NAME", Short: "Wait until a schedule fires or a run of it ends",
		Long: `Wait until, counted from now, the schedule fires (next-fire), or a run of it
ends: any (run), one that succeeded (run=success), one that failed (run=failure).
The exit code is 8 when the time given by --timeout runs out, or when the
schedule cannot fire any more.`,
		Example:           `  admin wait schedule nightly-report --for run=success --timeout 1ms`,
		Args:              arguments(1, 1, "NAME"),
		ValidArgsFunction: s.completeIDs,
		RunE:              func(_ *cobra.Command, args []string) error { return s.wait(f, args) },
	}
	one.Flags().StringVar(&f.condition, "for", waitNextFire, "next-fire, run, run=success or run=failure")
	one.Flags().StringVar(&f.limit, "timeout", "0s", "give up after this long; 0s: never (one call to the store may take 10s)")
	one.Flags().StringVar(&f.interval, "interval", "500ms", "how often to look")
	cmd.AddCommand(one)
	return group(cmd)
}

// A waitJSON is what wait prints.
type waitJSON struct {
	ID       string  `json:"id"`
	Met      bool    `json:"met"`
	For      string  `json:"for"`
	FiringID string  `json:"firing_id"`
	Outcome  string  `json:"outcome"`
	WaitedMS int64   `json:"waited_ms"`
	At       *string `json:"at"`
	AtMS     *int64  `json:"at_ms"`
}

func (s *session) wait(f *waitFlags, args []string) error {
	if err := oneOf("for", f.condition, waitNextFire, waitRun, waitSuccess, waitFailure); err != nil {
		return err
	}
	limit, err := flagDuration("timeout", f.limit)
	if err != nil {
		return err
	}
	interval, err := flagDuration("interval", f.interval)
	if err == nil && interval < 10*time.Millisecond {
		err = &schedule.FieldError{Field: "interval", Value: f.interval, Allowed: "10ms or more"}
	}
	if err != nil {
		return err
	}
	entries, err := s.named(args)
	if err != nil {
		return err
	}
	started := s.ownNow()
	w := waiter{s: s, condition: f.condition, before: entries[0]}
	if err := w.begin(); err != nil {
		return err
	}
	result, err := w.until(limit, interval)
	if err != nil {
		return err
	}
	result.WaitedMS = s.ownNow().Sub(started).Milliseconds()
	return s.showWait(result)
}

func (s *session) showWait(result waitJSON) error {
	line := fmt.Sprintf("%s: %s", result.ID, result.For)
	if result.FiringID != "" {
		line += " " + result.FiringID
	}
	if result.Outcome != "" {
		line += " " + result.Outcome
	}
	v := view{data: result, names: []string{result.ID}}
	v.table = func(w io.Writer) {
		if result.Met {
			fmt.Fprintf(w, "%s, after %s\n", visible(line), fine(time.Duration(result.WaitedMS)*time.Millisecond))
		} else {
			fmt.Fprintln(w, visible("not met: "+line))
		}
	}
	if err := s.emit(v); err != nil {
		return err
	}
	if !result.Met {
		return silentCode(exitCondition)
	}
	return nil
}

// A waiter compares a schedule with how it was.
type waiter struct {
	s         *session
	condition string
	before    schedule.Entry
	seen      map[claim.FiringID]time.Time // newest end of each firing's runs that were there before
}

// begin remembers the runs that ended before.
func (w *waiter) begin() error {
	w.seen = map[claim.FiringID]time.Time{}
	runs, err := w.runs()
	for _, r := range runs {
		if r.Ended.After(w.seen[r.Firing]) {
			w.seen[r.Firing] = r.Ended
		}
	}
	return err
}

func (w *waiter) runs() ([]claim.RunRecord, error) {
	var runs []claim.RunRecord
	err := w.s.within(func(ctx context.Context) (err error) {
		runs, err = w.s.stores.Runs.Runs(ctx, w.before.Schedule.ID, maxRuns)
		return err
	})
	return runs, err
}

// until looks again and again. A limit of 0 is none.
func (w *waiter) until(limit, interval time.Duration) (result waitJSON, err error) {
	err = w.s.repeat(limit, interval, func() (over bool, err error) {
		result, over, err = w.look()
		return over, err
	})
	return result, err
}

// repeat looks at each interval until there is nothing more to wait for, an
// error, or the limit, which is no error; 0 is no limit.
func (s *session) repeat(limit, interval time.Duration, look func() (over bool, err error)) error {
	var end <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		end = timer.C
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if over, err := look(); err != nil || over {
			return err
		}
		select {
		case <-ticker.C:
		case <-end:
			return nil
		case <-s.ctx.Done():
			return errInterrupted
		}
	}
}

// look returns whether there is nothing more to wait for.
func (w *waiter) look() (waitJSON, bool, error) {
	id := w.before.Schedule.ID
	result := waitJSON{ID: string(id), For: w.condition}
	var now schedule.Entry
	err := w.s.within(func(ctx context.Context) (err error) {
		now, err = w.s.stores.Catalog.Get(ctx, id)
		return err
	})
	if errors.Is(err, schedule.ErrNotFound) {
		return result, true, codedErrorf(exitNotFound, "schedule %q was deleted meanwhile", id)
	}
	if err != nil {
		return result, false, err
	}
	if w.condition == waitNextFire {
		return w.fired(result, now), w.isOver(now), nil
	}
	return w.ended(result, now)
}

// isOver reports whether a schedule fired since, or never will again.
func (w *waiter) isOver(now schedule.Entry) bool {
	return now.Status.Fired > w.before.Status.Fired || now.Status.State == schedule.StateCompleted
}

func (w *waiter) fired(result waitJSON, now schedule.Entry) waitJSON {
	if now.Status.Fired <= w.before.Status.Fired {
		return result
	}
	result.Met = true
	for _, v := range now.Status.Verdicts {
		if v.Verdict == schedule.VerdictFired {
			w.at(&result, v.Last)
			result.FiringID = string(claim.ScheduledFiring(now.Schedule.ID, now.Status.Generation, v.Last))
		}
	}
	return result
}

func (w *waiter) at(result *waitJSON, at time.Time) {
	in := w.s.location(w.s.read(w.before.Schedule).zoneAt(at))
	result.At, result.AtMS = iso(at, in), millis(at)
}

// ended looks for a run that was not there before.
func (w *waiter) ended(result waitJSON, now schedule.Entry) (waitJSON, bool, error) {
	runs, err := w.runs()
	if err != nil {
		return result, false, err
	}
	for i := len(runs) - 1; i >= 0; i-- { // oldest first
		r := runs[i]
		if !r.Ended.After(w.seen[r.Firing]) || r.Outcome == claim.OutcomeRetrying {
			continue
		}
		succeeded := r.Outcome == claim.OutcomeSucceeded
		if w.condition == waitSuccess && !succeeded || w.condition == waitFailure && succeeded {
			continue
		}
		result.Met, result.FiringID, result.Outcome = true, string(r.Firing), string(r.Outcome)
		w.at(&result, r.Ended)
		return result, true, nil
	}
	over := now.Status.State == schedule.StateCompleted && now.Status.Open == 0 && now.Status.Buffered == 0
	return result, over, nil
}
