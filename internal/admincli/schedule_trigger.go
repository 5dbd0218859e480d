package admincli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

type triggerFlags struct {
	targets
	requestID string
	obey      bool
	dryRun    bool
	wait      bool
	limitText string
	limit     time.Duration // of the waiting for each; 0: none

	overlap     string // of this firing alone; "": none
	payloadText string
	payloadSet  bool
	payload     []byte // nil: that of the definition
	atText      string
	at          time.Time // without atText; zero: none
}

func newTrigger(s *session) *cobra.Command {
	f := &triggerFlags{}
	cmd := &cobra.Command{
		Use: "trigger NAME... | -l k=v", Short: "Run schedules now, beside their planned firings",
		Long: `Open one extra firing now. No planned firing is moved or replaced. The same
--request-id within 24 h opens one firing of a schedule only, so a call whose
answer was lost can be repeated: what the first one asked for stands.

It runs beside whatever is open. With --obey-overlap the schedule's overlap
policy decides, with --overlap another one, for this firing only; when it forbids
a firing, the exit code is 8. With cancel_other it runs when all that were open
have ended.

--payload hands over another payload than that of the definition, at most 64 KiB.
--at-instant names the scheduled time that the run stands for: handlers see it,
and nothing else comes of it. It need not be a scheduled time of the schedule;
the output says whether it is one and what became of it, as admin schedule why.

With --wait it returns when the run has ended, retries included; the exit code
is 8 when it did not succeed, or did not end within --wait-timeout. Ctrl-C ends
the waiting, not the run.`,
		Example: `  admin schedule trigger nightly-report
  admin schedule trigger nightly-report --request-id deploy-42
  admin schedule trigger nightly-report --payload '{"account": 7}' --at-instant 2026-11-29T07:30:00Z
  admin schedule trigger cache-warm --overlap buffer_one
  admin schedule trigger -l team=billing --dry-run`,
		ValidArgsFunction: s.completeIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.payloadSet = cmd.Flags().Changed("payload")
			if err := refuseEmpty(cmd, "request-id", "overlap", "at-instant"); err != nil {
				return err
			}
			return s.trigger(f, args)
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show which would run, open nothing")
	cmd.Flags().StringVar(&f.requestID, "request-id", "", "the same request within 24 h takes effect once")
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait until the run has ended")
	cmd.Flags().StringVar(&f.limitText, "wait-timeout", "0s", "with --wait: give up after this long; 0s: never")
	cmd.Flags().BoolVar(&f.obey, "obey-overlap", false, "apply the overlap policy instead of running regardless")
	cmd.Flags().StringVar(&f.overlap, "overlap", "", "policy for this firing only: allow, skip, buffer_one, buffer_all or cancel_other")
	cmd.Flags().StringVar(&f.payloadText, "payload", "", "payload of this firing only: JSON, @FILE, or - for standard input")
	cmd.Flags().StringVar(&f.atText, "at-instant", "", "the scheduled time that the run stands for, such as 09:00 or 2026-11-29T09:00:00Z")
	return cmd
}

// refuseEmpty refuses flags that were given without a value. It is the variable
// of a script that is not set, and what the flag was there for must not be
// dropped without a word: a repeat with no request ID opens a second firing.
func refuseEmpty(cmd *cobra.Command, names ...string) error {
	var errs []error
	for _, name := range names {
		if flag := cmd.Flags().Lookup(name); flag.Changed && flag.Value.String() == "" {
			errs = append(errs, &schedule.FieldError{Field: name, Allowed: "a value, or no --" + name})
		}
	}
	return errors.Join(errs...)
}

// A triggerJSON is what trigger prints.
type triggerJSON struct {
	ID        string  `json:"id"`
	Action    string  `json:"action"` // triggered, duplicate, buffered or refused
	DryRun    bool    `json:"dry_run,omitempty"`
	FiringID  string  `json:"firing_id"`
	Queue     string  `json:"queue"`
	Duplicate bool    `json:"duplicate"`
	Buffered  bool    `json:"buffered"`
	NextAt    *string `json:"next_at"`
	NextAtMS  *int64  `json:"next_at_ms"`
	// With --wait: succeeded, failed, cancelled, lost or unknown; "" has not
	// ended in time.
	Outcome  *string `json:"outcome,omitempty"`
	RunError string  `json:"run_error,omitempty"`
	contentJSON

	lines []string // what is said of the firing beside its line
	unmet bool     // it was waited for, and did not succeed
}

// check reads the flags of waiting.
func (f *triggerFlags) check() (err error) {
	if f.wait {
		limit, problem := flagDuration("wait-timeout", f.limitText)
		if problem == nil && limit < 0 {
			problem = &schedule.FieldError{Field: "wait-timeout", Value: f.limitText, Allowed: "0s (never) or more"}
		}
		f.limit, err = limit, errors.Join(err, problem)
	}
	return err
}

func (s *session) trigger(f *triggerFlags, args []string) error {
	if err := errors.Join(f.check(), s.readContent(f)); err != nil {
		return err
	}
	entries, err := f.find(s, args)
	if err != nil {
		return err
	}
	at, err := s.instants(f, entries)
	if err != nil {
		return err
	}
	if len(entries) == 1 && len(f.selector) == 0 {
		return s.triggerOne(f, entries[0], at[entries[0].Schedule.ID])
	}
	refused, unmet := 0, 0
	var served []schedule.Schedule
	err = each(s, entries, func(e schedule.Entry) (triggerJSON, string, error) {
		row, line, err := s.open(f, e, at[e.Schedule.ID])
		line = strings.Join(append([]string{line}, row.lines...), "; ")
		if row.Action == "refused" {
			refused++
		}
		if row.unmet {
			unmet++
		}
		served = append(served, e.Schedule)
		return row, line, err
	})
	switch {
	case err != nil:
		return err
	case refused > 0:
		return codedErrorf(exitCondition, "%s refused: an open firing, and the overlap policy forbids another or the buffer is full", count(refused, "schedule"))
	case unmet > 0:
		return codedErrorf(exitCondition, "%s did not succeed", count(unmet, "firing"))
	case len(served) > 0 && !f.dryRun:
		s.warnUnserved(served)
	}
	return nil
}

// refusal says why the store refused the firing: the policy lets none wait, or
// its buffer is full.
func (f *triggerFlags) refusal(d schedule.Schedule) string {
	policy, whose := d.Overlap, "its overlap policy"
	if f.overlap != "" {
		policy, whose = schedule.Overlap(f.overlap), "overlap policy"
	}
	if policy == schedule.OverlapBufferOne || policy == schedule.OverlapBufferAll {
		return fmt.Sprintf("the buffer of %s %s is full", whose, policy)
	}
	return fmt.Sprintf("%s %s forbids another", whose, policy)
}

// triggerOne prints an object instead of a list.
func (s *session) triggerOne(f *triggerFlags, e schedule.Entry, at *instantOf) error {
	row, line, err := s.open(f, e, at)
	if err != nil {
		return err
	}
	if row.Action == "refused" {
		flag := "--obey-overlap"
		if f.overlap != "" {
			flag = "--overlap"
		}
		return codedErrorf(exitCondition, "schedule %q has an open firing and %s; nothing was opened (without %s it runs regardless)", e.Schedule.ID, f.refusal(e.Schedule), flag)
	}
	err = s.emit(view{names: []string{or(row.FiringID, row.ID)}, data: row, table: func(w io.Writer) {
		for _, line := range append([]string{line}, row.lines...) {
			fmt.Fprintln(w, visible(line))
		}
		fmt.Fprintln(w, visible("next planned firing stays "+s.next(e)))
	}})
	switch {
	case err != nil:
		return err
	case row.unmet:
		return silentCode(exitCondition)
	case !f.dryRun && !f.wait:
		s.warnUnserved([]schedule.Schedule{e.Schedule})
	}
	return nil
}

// open opens one extra firing and words what became of it.
func (s *session) open(f *triggerFlags, e schedule.Entry, at *instantOf) (triggerJSON, string, error) {
	next := e.Status.NextAt
	in := s.location(s.read(e.Schedule).zoneAt(next))
	row := triggerJSON{ID: string(e.Schedule.ID), Action: "triggered", DryRun: f.dryRun, Queue: e.Schedule.Queue, NextAt: iso(next, in), NextAtMS: millis(next)}
	row.contentJSON, row.lines = f.content(at)
	if f.dryRun {
		return row, fmt.Sprintf("would be triggered: %s in queue %s; nothing was opened (dry run)", row.ID, row.Queue), nil
	}
	ctx, cancel := s.call()
	result, err := s.stores.Catalog.Trigger(ctx, e.Schedule.ID, f.options(at))
	cancel()
	if err != nil {
		return row, "", err
	}
	if result.Refused {
		row.Action, row.lines = "refused", nil
		return row, "refused " + row.ID + ": " + f.refusal(e.Schedule), nil
	}
	if result.Duplicate {
		row.lines = duplicateLines(f, at, result.Differs)
	}
	if result.Differs {
		row.contentJSON = contentJSON{Differs: true}
	}
	action, words := triggerWords(result, e.Status.State)
	row.Action, row.FiringID, row.Queue, row.Duplicate, row.Buffered = action, result.FiringID, result.Queue, result.Duplicate, result.Buffered
	line := fmt.Sprintf("%s %s in queue %s: %s", action, result.FiringID, result.Queue, words)
	if f.wait {
		return s.openedAndEnded(f, e, row, line)
	}
	return row, line, nil
}

// openedAndEnded waits for the end of what was opened.
func (s *session) openedAndEnded(f *triggerFlags, e schedule.Entry, row triggerJSON, line string) (triggerJSON, string, error) {
	s.warnUnserved([]schedule.Schedule{e.Schedule})
	s.note("%s; waiting for its end", line)
	ended, err := s.await(e.Schedule.ID, claim.FiringID(row.FiringID), f.limit)
	if err != nil {
		return row, "", err
	}
	outcome := string(ended.outcome)
	if ended.ended && !ended.known {
		outcome = string(claim.OutcomeUnknown)
	}
	row.Outcome, row.RunError, row.unmet = &outcome, ended.error, !ended.succeeded()
	return row, fmt.Sprintf("%s %s", row.FiringID, ended), nil
}

func triggerWords(r schedule.TriggerResult, state schedule.State) (action, line string) {
	switch {
	case r.Duplicate:
		return "duplicate", "this request was made before; no second firing was opened"
	case r.Buffered && (state == schedule.StatePaused || state == schedule.StateDisabled): // nothing leaves the buffer meanwhile
		return "buffered", "it runs when the open firing has ended and the schedule, which is " + string(state) + ", was resumed"
	case r.Buffered:
		return "buffered", "it runs when the open firing has ended"
	}
	return "triggered", "an extra firing; a worker enqueues it at once"
}
