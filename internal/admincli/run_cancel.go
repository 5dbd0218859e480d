package admincli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A FiringLooker looks at firings before their audit is due. A *queue.Auditor is
// one.
type FiringLooker interface {
	Look(ctx context.Context, firings []claim.FiringID) (queue.LookResult, error)
}

type cancelFlags struct {
	yes, dryRun  bool
	reason, wait string
	limit        time.Duration // of wait
}

func newRunCancel(s *session) *cobra.Command {
	f := &cancelFlags{}
	cmd := &cobra.Command{Use: "cancel FIRING...", Short: "End firings that wait or run",
		Long: `Ask firings to end; their outcome is then cancelled. A task that waits, for its
time, its turn or a retry, is deleted and never runs. A run is told to end: its
handler ends when it heeds its context, a command gets SIGTERM. A buffered firing
leaves the buffer. A firing that an interrupted claim has only promised is
enqueued and cancelled once another worker takes it, so that its scheduled time
keeps its verdict. A plain asynq server may still run a task that it took at this
very moment. Later scheduled times are not affected: see admin schedule pause.

The command waits for the end as long as --wait says; what has not ended by then
stays asked to, and the workers see to it. A firing that has ended is left as it
is, which is no error. Exit codes: 5 when there is no such firing, 8 when it is a
scheduled time that has not come: see admin schedule skip.`,
		Example: "  admin run cancel cache-warm:1796018822000001:mseed --reason 'wrong input' --yes", Args: arguments(1, -1, "FIRING"),
		RunE: func(_ *cobra.Command, args []string) error { return s.cancelRuns(f, args) }}
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show what would be cancelled, change nothing")
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, for events and the run log")
	cmd.Flags().StringVar(&f.wait, "wait", "5s", "wait this long for the end of what runs; 0s: not at all")
	return cmd
}

// A cancelJSON is what cancel prints for one firing.
type cancelJSON struct {
	FiringID string  `json:"firing_id"`
	Schedule string  `json:"schedule"`
	Action   string  `json:"action"`            // cancelled; asked, it has not ended yet; ended before
	DryRun   bool    `json:"dry_run,omitempty"` // the action is what would be done
	State    string  `json:"state"`             // before: buffered, promised, waiting, running, retrying or ended
	Worker   string  `json:"worker"`            // that runs it or ran it last
	Outcome  *string `json:"outcome"`           // null: it has not ended, or the run log does not hold it
}

// A cancelling is a firing that is to be cancelled, as it was found.
type cancelling struct {
	id    claim.FiringID
	entry schedule.Entry
	open  *claim.OpenFiring // nil: it is not open
	row   cancelJSON
}

func (s *session) cancelRuns(f *cancelFlags, args []string) (err error) {
	if f.limit, err = flagDuration("wait", f.wait); err != nil {
		return err
	}
	if f.limit < 0 {
		return &schedule.FieldError{Field: "wait", Value: f.wait, Allowed: "0s or more"}
	}
	if err := checkReason(f.reason); err != nil {
		return err
	}
	if _, err := s.store(); err != nil {
		return err
	}
	if s.stores.Cancels == nil || s.stores.Firings == nil {
		return errors.New("admincli: this store cancels no firings")
	}
	var found []*cancelling
	var asked []string
	for _, arg := range args {
		c, err := s.findCancelling(arg)
		if err != nil {
			return err
		}
		found = append(found, c)
		if c.open != nil {
			asked = append(asked, fmt.Sprintf("%s  %s", c.id, c.words()))
		}
	}
	if !f.dryRun {
		if err := s.consent(f.yes, "cancel", "firing", asked); err != nil {
			return err
		}
	}
	return s.cancelAll(f, found)
}

// cancelAll asks all of them first, and then waits for all.
func (s *session) cancelAll(f *cancelFlags, found []*cancelling) error {
	rows, lines, v := []cancelJSON{}, []string{}, view{}
	for _, c := range found {
		if c.open != nil && !f.dryRun {
			if err := s.cancelOne(f, c); err != nil {
				return err
			}
		}
	}
	if !f.dryRun {
		if err := s.awaitCancelled(f, found); err != nil {
			return err
		}
	}
	for _, c := range found {
		c.row.DryRun = f.dryRun
		rows, lines, v.names = append(rows, c.row), append(lines, c.line(f.dryRun)), append(v.names, string(c.id))
	}
	v.data, v.table = rows, func(w io.Writer) {
		for _, line := range lines {
			fmt.Fprintln(w, visible(line))
		}
	}
	return s.emit(v)
}

// findCancelling finds a firing, open or ended.
func (s *session) findCancelling(text string) (*cancelling, error) {
	firing, e, err := s.firing(text)
	if err != nil {
		return nil, err
	}
	c := &cancelling{id: firing.ID(), entry: e}
	c.row = cancelJSON{FiringID: string(c.id), Schedule: string(firing.Schedule), Action: "ended", State: "ended"}
	if firing.Generation != c.entry.Status.Generation {
		return nil, codedErrorf(exitNotFound, "firing %q is of an earlier schedule %q, which was deleted since with all its firings", clip(text, 200), firing.Schedule)
	}
	if c.open, err = s.openFiring(c.id); err != nil {
		return nil, err
	}
	if c.open != nil {
		c.row.Action, c.row.State, c.row.Worker = "cancelled", stateWord(*c.open), c.open.Worker
		return c, nil
	}
	return c, s.closedBefore(c, firing)
}

// closedBefore says how a firing ended that is not open, or that there is none.
func (s *session) closedBefore(c *cancelling, firing claim.Firing) error {
	runs, err := s.runsOf(c.entry, &runListFlags{limit: maxRuns})
	if err != nil {
		return err
	}
	var names []string
	for _, r := range runs {
		if r.Firing == c.id {
			outcome := string(r.Outcome)
			c.row.Outcome, c.row.Worker = &outcome, r.Worker
			return nil
		}
		if !slices.Contains(names, string(r.Firing)) {
			names = append(names, string(r.Firing))
		}
	}
	hint := didYouMean(string(c.id), names)
	if hint == "" {
		hint = "; see admin run list " + string(firing.Schedule)
	}
	unknown := codedErrorf(exitNotFound, "schedule %q has no open firing %q, and its run log does not hold it%s", firing.Schedule, clip(string(c.id), 200), hint)
	if firing.Kind != claim.KindScheduled {
		return unknown
	}
	q := s.read(c.entry.Schedule)
	next, ok := time.Time{}, false
	if q.compiled != nil {
		next, ok = q.compiled.Next(firing.ScheduledAt.Add(-time.Millisecond))
	}
	isTime := firing.ScheduledAt.Equal(c.entry.Status.NextAt) || ok && next.Equal(firing.ScheduledAt)
	at := firing.ScheduledAt.Format(time.RFC3339)
	switch {
	case !isTime:
		return unknown
	case !c.entry.Status.NextAt.IsZero() && !firing.ScheduledAt.Before(c.entry.Status.NextAt):
		return codedErrorf(exitCondition, "firing %q has not come yet; to have it not fire: admin schedule skip %s %s", clip(string(c.id), 200), firing.Schedule, at)
	}
	s.note("the run log does not hold how it ended, or it never fired; see admin schedule why %s %s", firing.Schedule, at)
	return nil
}

// stateWord says where an open firing stands.
func stateWord(f claim.OpenFiring) string {
	switch {
	case f.State == claim.FiringBuffered:
		return "buffered"
	case promised(f):
		return "promised"
	case f.State == claim.FiringRunning:
		return "running"
	case f.State == claim.FiringWaiting:
		return "retrying"
	}
	return "waiting"
}

// promised reports whether a claim has promised the firing and nobody has said
// since that its task is in the queue.
func promised(f claim.OpenFiring) bool {
	firing, err := claim.ParseFiringID(string(f.Firing))
	return err == nil && firing.Kind == claim.KindScheduled && f.State == claim.FiringIntent && f.Position == claim.PositionPending
}

func (c *cancelling) words() string {
	switch c.row.State {
	case "buffered":
		return "waits for another firing to end"
	case "promised":
		return "a worker is about to enqueue it"
	case "running":
		return "runs on " + or(c.open.Worker, "a worker") + ", attempt " + fmt.Sprint(c.open.Attempt)
	case "retrying":
		return "waits for another attempt"
	}
	return "waits in queue " + c.open.Queue
}

// line says what became of the firing.
func (c *cancelling) line(dryRun bool) string {
	switch {
	case c.open == nil && c.row.Outcome != nil:
		return fmt.Sprintf("%s has ended before as %s; nothing was changed", c.id, *c.row.Outcome)
	case c.open == nil:
		return fmt.Sprintf("%s is not open; nothing was changed", c.id)
	case dryRun:
		return fmt.Sprintf("would be cancelled: %s %s; nothing was changed (dry run)", c.id, c.words())
	case c.row.Action == "asked":
		return fmt.Sprintf("asked %s to end; it has not ended yet: it %s", c.id, c.words())
	case c.row.Outcome != nil && *c.row.Outcome != string(claim.OutcomeCancelled):
		return fmt.Sprintf("%s ended by itself as %s", c.id, *c.row.Outcome)
	}
	return "cancelled " + string(c.id)
}

// cancelOne asks for the end of one firing, and tells the server that runs it.
func (s *session) cancelOne(f *cancelFlags, c *cancelling) error {
	ctx, cancel := s.call()
	defer cancel()
	result, err := s.stores.Cancels.Cancel(ctx, claim.CancelRequest{Firing: c.id, By: s.env.User, Reason: f.reason, KeepRuns: maxRuns})
	if err != nil {
		return err
	}
	switch result.Answer {
	case claim.CancelDone:
		outcome := string(claim.OutcomeCancelled)
		c.row.Outcome = &outcome
	case claim.CancelAsked:
		c.row.Action, c.open = "asked", &result.Firing
		c.row.State, c.row.Worker = stateWord(result.Firing), result.Firing.Worker
		if c.row.State == "running" && s.stores.Tasks != nil {
			// asynq's server tells the handler at once, our worker with its next heartbeat.
			return s.stores.Tasks.CancelProcessing(c.id.TaskID(result.Firing.Redrives))
		}
	default: // it ended since it was looked at
		c.row.Action, c.row.State, c.open = "ended", "ended", nil
	}
	return nil
}

// cancelPoll is how often cancel looks.
const cancelPoll = 200 * time.Millisecond

// awaitCancelled waits until everything that was asked to end has ended, or the
// time is over. It does what the auditor of a worker would do, only sooner.
func (s *session) awaitCancelled(f *cancelFlags, found []*cancelling) error {
	left := slices.DeleteFunc(slices.Clone(found), func(c *cancelling) bool { return c.row.Action != "asked" })
	look := func() (bool, error) {
		for _, c := range left {
			if err := s.lookCancelled(c); err != nil {
				return false, err
			}
		}
		left = slices.DeleteFunc(left, func(c *cancelling) bool { return c.row.Action != "asked" })
		return len(left) == 0, nil
	}
	if f.limit == 0 {
		_, err := look()
		return err
	}
	return s.repeat(f.limit, cancelPoll, look)
}

func (s *session) lookCancelled(c *cancelling) error {
	if s.stores.Looker != nil && c.row.State != "promised" {
		ctx, cancel := s.call()
		_, err := s.stores.Looker.Look(ctx, []claim.FiringID{c.id})
		cancel()
		if err != nil {
			return err
		}
	}
	open, err := s.openFiring(c.id)
	if err != nil {
		return err
	}
	if open != nil {
		c.row.State = stateWord(*open)
		return nil
	}
	c.row.Action = "cancelled"
	ended, err := s.lookForEnd(c.entry.Schedule.ID, c.id)
	if err != nil {
		return err
	}
	if ended.known {
		outcome := string(ended.outcome)
		c.row.Outcome = &outcome
		if ended.outcome != claim.OutcomeCancelled {
			c.row.Action = "ended"
		}
	}
	return s.dropLeftover(c)
}

// dropLeftover deletes the task of a cancelled run that asynq keeps for a retry,
// or archived, because it heard of the end before the worker did. It would be
// acknowledged and not run. Under at_most_once it is archived: that it began must
// not be forgotten by a store that goes back.
func (s *session) dropLeftover(c *cancelling) error {
	if s.stores.Tasks == nil || c.open == nil || c.row.Action != "cancelled" {
		return nil
	}
	taskID := c.id.TaskID(c.open.Redrives)
	task, err := s.stores.Tasks.GetTaskInfo(c.open.Queue, taskID)
	gone := func(err error) bool {
		return errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound) || err != nil && strings.Contains(err.Error(), "active state")
	}
	if gone(err) {
		return nil
	}
	if err != nil || task.State != asynq.TaskStateRetry && task.State != asynq.TaskStateArchived {
		return err
	}
	drop := s.stores.Tasks.DeleteTask
	if task.Headers[queue.HeaderEffect] == string(schedule.AtMostOnce) {
		if task.State == asynq.TaskStateArchived {
			return nil
		}
		drop = s.stores.Tasks.ArchiveTask
	}
	if err := drop(c.open.Queue, taskID); !gone(err) {
		return err
	}
	return nil
}
