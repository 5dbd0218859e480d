package admincli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

type drainFlags struct {
	yes, dryRun, wait bool
	reason, limit     string
	until             time.Duration // of limit
}

func newDrain(s *session) *cobra.Command {
	f := &drainFlags{}
	cmd := &cobra.Command{Use: "drain ID", Short: "Have a worker take no new work and end what it runs",
		Long: `Ask a worker to take no new work: it claims no schedules, takes no tasks from its
queues, audits nothing, and starts no periodic task; its groups end and go to
another process. What it runs goes on to its end, periodic tasks for the rest of
BELFRY_DRAIN at most. It stays in the roster as draining, then drained, is live
and not ready, until admin worker undrain, or until its process ends: the next
one of that name works. It hears of it at once, or within 10 s.

With --wait the command ends when the worker runs nothing; the exit code is 8
when --wait-timeout is over before, and 1 when the worker is gone and did not end
what it ran: it was killed, it lost Redis, or its time to stop was too short.
The last worker that serves a queue, or that
claims schedules, is drained after a question, or with --yes, only.`,
		Example: "  admin worker drain w1 --reason 'kernel update' --yes", Args: arguments(1, 1, "ID"), ValidArgsFunction: s.completeWorkers,
		RunE: func(_ *cobra.Command, args []string) error { return s.drainWorker(f, args[0]) }}
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask, whatever nobody serves then")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show what would be done, change nothing")
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait until it runs nothing")
	cmd.Flags().StringVar(&f.limit, "wait-timeout", "0s", "give up waiting after this long; 0s: never")
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, for those who look at it")
	return cmd
}

func newUndrain(s *session) *cobra.Command {
	return &cobra.Command{Use: "undrain ID", Short: "Have a drained worker work again",
		Long: `Take back admin worker drain: the worker takes up again what it did before. It
hears of it at once, or within 10 s.`,
		Example: "  admin worker undrain w1", Args: arguments(1, 1, "ID"), ValidArgsFunction: s.completeWorkers,
		RunE: func(_ *cobra.Command, args []string) error { return s.undrainWorker(args[0]) }}
}

// A drainJSON is what drain and undrain print.
type drainJSON struct {
	ID       string   `json:"id"`
	Action   string   `json:"action"`            // asked, drained, unchanged or undrained; left or vanished with work that it did not end
	DryRun   bool     `json:"dry_run,omitempty"` // the action is what would be done
	State    string   `json:"state"`             // of the worker now; gone is one that has left
	Running  int      `json:"running"`           // tasks, periodic tasks and groups that it runs, or did not end
	Tasks    []string `json:"tasks,omitempty"`   // of one that is gone: those that it ran and that have not ended
	Unserved []string `json:"unserved"`          // queues that no other worker serves
	Claims   bool     `json:"last_that_claims"`  // nobody else claims schedules
}

func (s *session) drainWorker(f *drainFlags, id string) (err error) {
	if f.until, err = flagDuration("wait-timeout", f.limit); err != nil {
		return err
	}
	if f.until < 0 {
		return &schedule.FieldError{Field: "wait-timeout", Value: f.limit, Allowed: "0s or more"}
	}
	if err := checkReason(f.reason); err != nil {
		return err
	}
	m, members, err := s.member(id)
	if err != nil {
		return err
	}
	row := drainJSON{ID: m.ID, Action: "asked", DryRun: f.dryRun, State: workerState(m), Running: m.Running}
	row.Unserved, row.Claims = missing(m, members)
	if f.dryRun {
		return s.showDrain(row, "would be drained: "+m.ID+lacks(row)+"; nothing was changed (dry run)")
	}
	if left := lacks(row); left != "" && !m.Drain.Wanted() && !f.yes {
		if !s.env.Terminal.Stdin || !s.env.Terminal.Stderr {
			return codedErrorf(exitDeclined, "draining %s needs --yes%s; nothing was changed", visible(m.ID), visible(left))
		}
		if err := s.consent(false, "drain", "worker", []string{m.ID + left}); err != nil {
			return err
		}
	}
	known, reason := false, or(f.reason, m.Drain.Reason) // one that is asked for again keeps why
	err = s.within(func(ctx context.Context) (err error) {
		_, known, err = s.stores.Roster.Drain(ctx, m, s.env.User, reason)
		return err
	})
	if err != nil {
		return err
	}
	if !known {
		return codedErrorf(exitNotFound, "worker %q has left the fleet", clip(m.ID, 60))
	}
	if !f.wait {
		return s.showDrain(row, "asked "+m.ID+" to drain"+lacks(row)+"; see it with: admin worker get "+shellWord(m.ID))
	}
	return s.awaitDrained(f, row, m)
}

// notDrained says what a worker does that has not drained in time.
func notDrained(row drainJSON) string {
	if row.State == "asked" {
		return "has not heard of it yet"
	}
	return fmt.Sprintf("is %s and runs %s", row.State, count(row.Running, "task"))
}

func (s *session) undrainWorker(id string) error {
	m, _, err := s.member(id)
	if err != nil {
		return err
	}
	row := drainJSON{ID: m.ID, Action: "undrained", State: workerState(m), Running: m.Running, Unserved: []string{}}
	if !m.Drain.Wanted() {
		row.Action = "unchanged"
		return s.showDrain(row, m.ID+" is not drained; nothing was changed")
	}
	known := false
	err = s.within(func(ctx context.Context) (err error) {
		known, err = s.stores.Roster.Undrain(ctx, m)
		return err
	})
	if err != nil {
		return err
	}
	if !known {
		return codedErrorf(exitNotFound, "worker %q has left the fleet", clip(m.ID, 60))
	}
	row.State = string(claim.MemberWorking)
	return s.showDrain(row, m.ID+" works again")
}

func (s *session) showDrain(row drainJSON, line string) error {
	if row.Unserved == nil {
		row.Unserved = []string{}
	}
	return s.emit(view{data: row, names: []string{row.ID}, table: func(w io.Writer) { fmt.Fprintln(w, visible(line)) }})
}

// missing returns the queues that only this worker serves, and whether only it
// claims schedules. Draining ones do not count.
func missing(m claim.Member, members []claim.Member) (queues []string, claims bool) {
	others := slices.DeleteFunc(slices.Clone(members), func(o claim.Member) bool { return o.ID == m.ID })
	if len(m.Types) > 0 { // one without handlers takes no tasks
		for _, name := range slices.Sorted(maps.Keys(m.Queues)) {
			if !slices.ContainsFunc(others, func(o claim.Member) bool { return o.Serves(name) && len(o.Types) > 0 }) {
				queues = append(queues, name)
			}
		}
	}
	return queues, m.Claims && !slices.ContainsFunc(others, claim.Member.Claiming)
}

// lacks says what nobody does while the worker is drained, "" for nothing.
func lacks(row drainJSON) string {
	var parts []string
	if len(row.Unserved) > 0 {
		parts = append(parts, "no other worker serves "+strings.Join(row.Unserved, ", "))
	}
	if row.Claims {
		parts = append(parts, "no other claims schedules, so that nothing fires")
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", and ")
}

// workerState is what a worker does, as far as it said: one that has not heard
// of a wish yet is asked.
func workerState(m claim.Member) string {
	working := m.State == "" || m.State == claim.MemberWorking
	switch {
	case working && m.Drain.Wanted():
		return "asked"
	case working:
		return string(claim.MemberWorking)
	}
	return string(m.State)
}

func workerStateCell(m claim.Member) cell {
	state := workerState(m)
	if state == string(claim.MemberWorking) {
		return cell{state, green}
	}
	return cell{state, yellow}
}
