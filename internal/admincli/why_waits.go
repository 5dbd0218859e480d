package admincli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A surroundings is what an undecided firing waits for outside its schedule.
type surroundings struct {
	members []claim.Member // alive
	paused  bool           // its queue
	plain   bool           // an asynq server that is no worker of this namespace serves its queue
}

// waits adds to an answer about a firing that is not done why it does not go
// on: nobody who claims or runs it, or a paused queue.
func (s *session) waits(q *question, a *answer) error {
	stage, queue := q.stage()
	if stage == stageNone {
		return nil
	}
	around, err := s.around(queue)
	if err != nil {
		return err
	}
	var text, hint string
	if stage == stageClaim {
		text, hint = around.claiming()
	}
	if text == "" {
		text, hint = around.serving(queue, q.entry.Schedule.Type)
		if text != "" && stage == stageClaim {
			text = "once claimed, its task will wait: " + text
			if q.open != nil { // a worker claimed it; its task is about to be pushed
				text = strings.TrimPrefix(text, "once claimed, ")
			}
		}
	}
	if text != "" {
		a.text, a.hint = a.text+"; "+text, hint
	}
	return nil
}

// A stage says who has to act on a firing next.
type stage int

const (
	stageNone  stage = iota // nobody, or a run that is under way
	stageClaim              // a worker that claims
	stageRun                // a worker that serves the queue
)

// stage returns who has to act next, and the queue that the task goes to.
func (q *question) stage() (stage, string) {
	d := q.entry.Schedule
	d.Normalize()
	status := &q.entry.Status
	switch {
	case q.open != nil && (q.open.State == claim.FiringEnqueued || q.open.State == claim.FiringWaiting):
		return stageRun, q.open.Queue
	case q.open != nil && q.open.State == claim.FiringIntent:
		return stageClaim, q.open.Queue
	case q.open != nil || len(q.runs) > 0 || status.State != schedule.StateActive || status.Claimed:
		return stageNone, ""
	case !status.NextAt.IsZero() && !q.at.Before(status.NextAt) && !status.DueAt.After(q.now) && q.scheduled():
		return stageClaim, d.Queue
	}
	return stageNone, ""
}

// around looks at the workers and at a queue.
func (s *session) around(queue string) (a surroundings, err error) {
	err = s.within(func(ctx context.Context) (err error) {
		a.members, err = s.stores.Roster.Members(ctx, workerMaxAge)
		return err
	})
	if err != nil || s.stores.Tasks == nil {
		return a, err
	}
	servers, err := s.stores.Tasks.Servers()
	if err != nil {
		return a, err
	}
	for _, server := range servers {
		_, serves := server.Queues[queue]
		ours := slices.ContainsFunc(a.members, func(m claim.Member) bool { return m.Host == server.Host && m.PID == server.PID })
		a.plain = a.plain || serves && !ours
	}
	names, err := s.queueNames()
	if err != nil || !slices.Contains(names, queue) {
		return a, err // no task was ever in it
	}
	info, err := s.readQueue(queue)
	if err == nil {
		a.paused = info.Paused
	}
	return a, err
}

// working leaves out those that take no new work, which it names.
func working(members []claim.Member) (able []claim.Member, draining []string) {
	for _, m := range members {
		if m.Drain.Wanted() || m.State == claim.MemberDraining || m.State == claim.MemberDrained {
			draining = append(draining, m.ID)
			continue
		}
		able = append(able, m)
	}
	return able, draining
}

// claiming says why nobody claims; "" is that somebody may.
func (a surroundings) claiming() (text, hint string) {
	claiming := slices.DeleteFunc(slices.Clone(a.members), func(m claim.Member) bool { return !m.Claims })
	switch {
	case len(a.members) == 0:
		return "no worker is alive in this namespace", "start a worker, and see it with: admin worker list"
	case len(claiming) == 0:
		return "no live worker claims schedules", "start a worker without BELFRY_SCHEDULE=false"
	}
	if able, draining := working(claiming); len(able) == 0 {
		return "every worker that claims takes no new work: " + strings.Join(draining, ", "), "admin worker undrain " + draining[0] + ", or start another worker"
	}
	return "", ""
}

// serving says why nobody runs a task of the queue; "" is that somebody may.
func (a surroundings) serving(queue, kind string) (text, hint string) {
	serving := slices.DeleteFunc(slices.Clone(a.members), func(m claim.Member) bool { _, serves := m.Queues[queue]; return !serves })
	free, draining := working(serving)
	able := slices.DeleteFunc(slices.Clone(free), func(m claim.Member) bool { return !slices.Contains(m.Types, kind) })
	switch {
	case a.paused:
		return "queue " + queue + " is paused", "admin queue resume " + queue
	case a.plain: // it does not say which types it has handlers for
	case len(serving) == 0:
		return "no live worker serves queue " + queue, fmt.Sprintf("start a worker with BELFRY_QUEUES=%s=1; admin worker list shows who is alive", queue)
	case len(free) == 0:
		return fmt.Sprintf("every worker of queue %s takes no new work: %s", queue, strings.Join(draining, ", ")), "admin worker undrain " + draining[0] + ", or start another worker"
	case len(able) == 0:
		var ids []string
		for _, m := range free {
			ids = append(ids, m.ID)
		}
		return fmt.Sprintf("no worker of queue %s has a handler for type %s", queue, kind), "add the handler to " + strings.Join(ids, ", ") + ", or start the worker that has it"
	}
	return "", ""
}
