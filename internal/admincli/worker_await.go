package admincli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/claim"
)

// A departure is what is known of a worker that drains, for the case that it
// leaves before it says that it has drained.
type departure struct {
	s     *session
	last  claim.Member        // as it was seen last
	tasks []*asynq.WorkerInfo // what it ran then, by asynq's own account
	gone  bool                // its process is in the roster no more
	after claim.Member        // another process of its name; no ID: there is none
}

// awaitDrained waits until the worker runs nothing, or is gone. One that is gone
// has drained when nothing is left of what it ran.
func (s *session) awaitDrained(f *drainFlags, row drainJSON, m claim.Member) error {
	d := &departure{s: s, last: m}
	err := s.repeat(f.until, awaitPoll, func() (bool, error) {
		if err := d.look(); err != nil || d.gone {
			return d.gone, err
		}
		row.State, row.Running = workerState(d.last), d.last.Running
		return d.last.State == claim.MemberDrained, nil
	})
	if errors.Is(err, errInterrupted) || s.interrupted() {
		s.warn("interrupted; %s goes on draining: admin worker undrain takes it back", row.ID)
		return errInterrupted
	}
	switch {
	case err != nil:
		return err
	case d.gone:
		return d.tell(row)
	case row.State == string(claim.MemberDrained):
		row.Action = "drained"
		return s.showDrain(row, row.ID+" has drained: it runs nothing and takes nothing"+lacks(row))
	}
	if err := s.showDrain(row, "not met: "+row.ID+" "+notDrained(row)+"; it goes on draining"); err != nil {
		return err
	}
	return silentCode(exitCondition)
}

// look reads what the worker does now.
func (d *departure) look() error {
	members, err := d.s.members()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(members, func(m claim.Member) bool { return m.ID == d.last.ID })
	if at < 0 {
		d.gone = true
		return nil
	}
	if members[at].Process() != d.last.Process() {
		d.gone, d.after = true, members[at]
		return nil
	}
	d.last = members[at]
	tasks, err := d.s.running(d.last)
	if len(tasks) > 0 || d.last.Running == 0 { // asynq forgets a server that is silent before the roster does
		d.tasks = tasks
	}
	return err
}

// silence is after how long without a sign of life a worker that is missing was
// taken out of the roster by others, who do so after 25 s: one that stops takes
// itself out.
const silence = 24 * time.Second

// vanished reports whether nobody can tell that the worker ended its work: it fell
// silent before it had drained. One that stops is not silent until it takes itself
// out, unless Redis was away meanwhile; then all that it said that it ran may be
// known to have ended.
func (d *departure) vanished(unfinished int) bool {
	if d.after.ID != "" || d.last.State == claim.MemberDrained || d.s.env.Now().Sub(d.last.Seen) < silence {
		return false
	}
	return unfinished > 0 || len(d.tasks) == 0 || d.last.Running > len(d.tasks)
}

// tell says how a worker went.
func (d *departure) tell(row drainJSON) (err error) {
	if row.Tasks, err = d.unfinished(); err != nil {
		return err
	}
	row.State, row.Running = "gone", len(row.Tasks)
	vanished := d.vanished(len(row.Tasks))
	if vanished {
		row.Running = max(row.Running, d.last.Running)
	}
	ran := count(row.Running, "task")
	if len(row.Tasks) > 0 {
		ran += " (" + strings.Join(row.Tasks[:min(3, len(row.Tasks))], ", ") + map[bool]string{true: ", …)", false: ")"}[len(row.Tasks) > 3]
	}
	const follows = ": what it claimed and ran is taken over when its leases run out; see admin run list, and admin run logs FIRING"
	line := ""
	switch {
	case vanished:
		row.Action = "vanished"
		line = fmt.Sprintf("%s vanished: its last sign of life was %s, when it %s and ran %s%s", row.ID, when(d.last.Seen, d.s.env.Now(), d.s.location(time.UTC)),
			map[bool]string{true: "had not heard of it", false: "was " + workerState(d.last)}[workerState(d.last) == "asked"], ran, follows)
	case len(row.Tasks) > 0:
		row.Action = "left"
		line = fmt.Sprintf("%s has left the fleet and did not end %s%s", row.ID, ran, follows)
	case d.after.ID != "":
		row.Action = "drained"
		line = fmt.Sprintf("the process of %s has ended, with all that it ran; another one of that name works now: the wish to drain ended with the first", row.ID)
	default:
		row.Action = "drained"
		line = row.ID + " has left the fleet after it had ended what it ran" + lacks(row)
	}
	if err := d.s.showDrain(row, line); err != nil || row.Action == "drained" {
		return err
	}
	return silentCode(exitFailed)
}

// unfinished returns what of the last tasks of the worker has not ended: firings
// that the ledger has running there, other tasks that asynq has as active.
func (d *departure) unfinished() ([]string, error) {
	var left []string
	var firings []claim.FiringID
	for _, task := range d.tasks {
		if firing, err := claim.ParseFiringID(task.TaskID); err == nil {
			firings = append(firings, firing.ID())
			continue
		}
		info, err := d.s.stores.Tasks.GetTaskInfo(task.Queue, task.TaskID)
		switch {
		case errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound):
		case err != nil:
			return nil, err
		case info.State == asynq.TaskStateActive:
			left = append(left, task.TaskID)
		}
	}
	if len(firings) == 0 {
		return left, nil
	}
	err := d.s.within(func(ctx context.Context) error {
		open, _, err := d.s.stores.Firings.Firings(ctx, firings)
		for _, id := range firings {
			if f, is := open[id]; is && f.State == claim.FiringRunning && f.Worker == d.last.ID {
				left = append(left, string(id))
			}
		}
		return err
	})
	return left, err
}
