package queue

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// what the auditor does to a firing.
type what int

const (
	doLeave   what = iota
	doLook         // find its task, then decide
	doEnqueue      // enqueue the task that is owed, under the same ID
	doRedrive      // enqueue it under the next ID
	doSettle       // close it with the outcome
	doRemove       // delete its task, then close it as cancelled
	doArchive      // archive its task, then close it as cancelled
	doStop         // ask the worker that runs its task to stop
)

// A decision is what becomes of one firing, and why.
type decision struct {
	what    what
	outcome claim.RunOutcome // with doSettle
	reason  string
}

// decideUnseen decides what the ledger's record alone can decide.
func decideUnseen(f claim.OpenFiring, now time.Time) decision {
	live := f.State == claim.FiringRunning && f.LeaseUntil.After(now)
	switch {
	case live: // a wish to cancel it reaches it with its next heartbeat
		return decision{what: doLeave, reason: "runs"}
	case f.Position == claim.PositionGone:
		return decision{doSettle, claim.OutcomeCancelled, "the schedule was deleted"}
	case f.State == claim.FiringBuffered:
		return decision{what: doLeave, reason: "waits for an open firing"}
	case f.State == claim.FiringIntent && f.Position == claim.PositionPending && scheduled(f.Firing):
		return decision{what: doLeave, reason: "whoever claims it again enqueues it"}
	case f.State == claim.FiringIntent && !f.CancelWanted:
		return decision{what: doEnqueue, reason: "its task is owed"}
	case f.TaskOwed && !f.CancelWanted:
		return decision{what: doRedrive, reason: "the task of its re-drive is owed"}
	default:
		return decision{what: doLook}
	}
}

// scheduled reports whether the firing is one that a claim enqueues.
func scheduled(id claim.FiringID) bool {
	firing, err := claim.ParseFiringID(string(id))
	return err == nil && firing.Kind == claim.KindScheduled
}

// decideSeen decides with the task at hand. Orphaned tells that the task has
// been active for too long with no worker.
func decideSeen(f claim.OpenFiring, task seen, orphaned bool) decision {
	switch {
	case task.foreign:
		return decision{doSettle, claim.OutcomeFailed, ErrForeignTask.Error()}
	case task.exists && !task.stub && task.info.State == asynq.TaskStateCompleted:
		return decision{doSettle, claim.OutcomeSucceeded, "its task is completed"}
	case f.CancelWanted:
		return decideCancelled(f, task, orphaned)
	case !task.exists:
		return decision{what: doRedrive, reason: "its task is missing"}
	case task.stub:
		return decision{what: doRedrive, reason: "the data of its task is lost"}
	}
	switch task.info.State {
	case asynq.TaskStateArchived:
		return decideArchived(f, task)
	case asynq.TaskStateActive:
		if orphaned {
			return decision{what: doRedrive, reason: "its task is active and no worker runs it"}
		}
		return decision{what: doLeave, reason: "its task is active"}
	default:
		return decision{what: doLeave, reason: "its task is " + task.info.State.String()}
	}
}

// decideArchived goes by the error that the task was archived with.
func decideArchived(f claim.OpenFiring, task seen) decision {
	switch {
	case strings.HasSuffix(task.info.LastErr, unknownFate):
		return decision{doSettle, claim.OutcomeUnknown, unknownFate}
	case strings.HasSuffix(task.info.LastErr, cancelledRun):
		return decision{doSettle, claim.OutcomeCancelled, cancelledRun}
	case attempted(f, task):
		return decision{doSettle, claim.OutcomeFailed, archivedReason(task)}
	default:
		return decision{what: doRedrive, reason: "its task was archived and never run"}
	}
}

// decideCancelled is for a firing that cancel_other or an operator ended.
func decideCancelled(f claim.OpenFiring, task seen, orphaned bool) decision {
	reason := "cancelled by a newer firing"
	if f.CancelByHand {
		reason = "cancelled by an operator"
	}
	switch {
	case !task.exists, task.stub, orphaned, task.info.State == asynq.TaskStateArchived:
		return decision{doSettle, claim.OutcomeCancelled, reason}
	case task.info.State == asynq.TaskStateActive:
		return decision{what: doStop, reason: reason}
	case f.Attempt > 0 && task.info.Headers[HeaderEffect] == string(schedule.AtMostOnce):
		// Deleted, the task would be enqueued again for a store that goes back to
		// before the attempt.
		return decision{what: doArchive, reason: reason}
	default:
		return decision{what: doRemove, reason: reason}
	}
}

// attempted reports whether an archived task was run at least once. The ledger
// knows for our middleware. For other consumers asynq's count decides, or the
// error of a handler that asked for no retry. A lost lease says nothing, however
// often it was lost: the reply of a dequeue that does not arrive counts as a
// retry. What kills its worker every time runs out of re-drives instead.
func attempted(f claim.OpenFiring, task seen) bool {
	if f.Attempt > 0 {
		return true
	}
	return task.info.LastErr != asynq.ErrLeaseExpired.Error() && (task.info.Retried > 0 || task.info.LastErr != "")
}

func archivedReason(task seen) string {
	if task.info.LastErr == "" {
		return "its task is archived"
	}
	return clip(task.info.LastErr, maxErrorText)
}

// inspect decides about the i-th firing, with a look at its task if need be.
func (s *sweep) inspect(ctx context.Context, i int) {
	f := s.batch.Firings[i]
	d := decideUnseen(f, s.batch.Now)
	if d.what == doLook {
		var err error
		if d, err = s.look(ctx, f); err != nil {
			s.fail(fmt.Errorf("queue: look at the task of %s in %s: %w", f.Firing, f.Queue, err))
			d = decision{what: doLeave}
		}
	}
	s.decisions[i] = d
}

func (s *sweep) look(ctx context.Context, f claim.OpenFiring) (decision, error) {
	taskID := f.Firing.TaskID(f.Redrives)
	task, err := s.tasks.look(ctx, f.Queue, taskID, f.Firing)
	if err != nil {
		return decision{}, err
	}
	orphaned := false
	if task.exists && !task.stub && task.info.State == asynq.TaskStateActive {
		if orphaned, err = s.orphaned(f, taskID); err != nil {
			return decision{}, err
		}
	}
	return decideSeen(f, task, orphaned), nil
}

// orphaned reports whether nobody has been running the active task for
// LostAfter. asynq recovers the task of a dead worker within two minutes, but
// not one without a lease of its own. For a firing that never began here, and
// for the task of a re-drive, which may not be the one that began, the time
// counts from when this process first saw it so.
func (s *sweep) orphaned(f claim.OpenFiring, taskID string) (bool, error) {
	working, err := s.working()
	if err != nil {
		return false, err
	}
	if working[taskID] {
		s.memory.forget(taskID)
		return false, nil
	}
	since := s.memory.first(taskID, s.batch.Now)
	if f.State == claim.FiringRunning && f.Redrives == 0 && f.LeaseUntil.Before(since) {
		since = f.LeaseUntil
	}
	return s.batch.Now.Sub(since) >= s.lostAfter, nil
}

// memory is what an auditor remembers between sweeps. Losing it costs time only.
type memory struct {
	mu      sync.Mutex
	orphans map[string]sighting // by task ID
}

type sighting struct{ first, last time.Time }

// memoryTime is how long something is remembered that is not seen again.
const memoryTime = time.Hour

func newMemory() *memory {
	return &memory{orphans: make(map[string]sighting)}
}

// first returns when the task was first seen without a worker.
func (m *memory) first(taskID string, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.orphans[taskID]
	if !ok {
		s.first = now
	}
	s.last = now
	m.orphans[taskID] = s
	return s.first
}

func (m *memory) forget(taskID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.orphans, taskID)
}

// trim forgets what was not seen for long.
func (m *memory) trim(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, s := range m.orphans {
		if now.Sub(s.last) > memoryTime {
			delete(m.orphans, id)
		}
	}
}
