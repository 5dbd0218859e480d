package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// act does what was decided about the i-th firing.
func (s *sweep) act(ctx context.Context, i int) {
	f, d := s.batch.Firings[i], s.decisions[i]
	var err error
	switch d.what {
	case doLeave, doLook:
		s.count(func(r *SweepResult) { r.Left++ })
	case doEnqueue:
		err = s.enqueue(ctx, f)
	case doRedrive:
		err = s.redrive(ctx, f, d.reason)
	case doSettle:
		err = s.settle(ctx, f, d.outcome, d.reason)
	case doRemove:
		err = s.removeTask(ctx, f, d.reason, s.tasks.inspector.DeleteTask)
	case doArchive:
		err = s.removeTask(ctx, f, d.reason, s.tasks.inspector.ArchiveTask)
	case doStop:
		s.count(func(r *SweepResult) { r.Left++ })
		err = s.tasks.inspector.CancelProcessing(f.Firing.TaskID(f.Redrives))
	}
	if err != nil {
		s.fail(fmt.Errorf("queue: audit %s: %w", f.Firing, err))
	}
}

// enqueue pushes the task that is owed. A conflict proves that it was pushed.
func (s *sweep) enqueue(ctx context.Context, f claim.OpenFiring) error {
	definition, ok := s.definitions[f.Firing]
	if !ok { // deleted since the audit, or not readable now
		s.count(func(r *SweepResult) { r.Left++ })
		return nil
	}
	err := s.releaser.enqueuer.Push(ctx, Push{Firing: f.Firing, Redrives: f.Redrives, Definition: definition, Queue: f.Queue, Extra: f.Extra})
	if hopeless(err) {
		return s.settle(ctx, f, claim.OutcomeFailed, err.Error())
	}
	if err != nil {
		return err
	}
	if err := s.ledger.Mark(ctx, s.auditAfter, []claim.FiringID{f.Firing}); err != nil {
		return fmt.Errorf("mark as enqueued: %w", err)
	}
	s.count(func(r *SweepResult) { r.Enqueued++ })
	return nil
}

// hopeless reports whether repeating a push cannot succeed.
func hopeless(err error) bool {
	var field *schedule.FieldError
	return errors.Is(err, ErrForeignTask) || errors.As(err, &field)
}

// redrive enqueues a lost task again, unless that is not allowed or was done
// too often. The number is raised first: it decides between auditors. Until the
// task is marked the ledger says that it is owed, and the same number is tried
// again, by whoever audits it next: neither the death of an auditor nor a queue
// that is down uses re-drives up.
func (s *sweep) redrive(ctx context.Context, f claim.OpenFiring, reason string) error {
	definition, ok := s.definitions[f.Firing]
	if !ok {
		s.count(func(r *SweepResult) { r.Left++ })
		return nil
	}
	if definition.Effect == schedule.AtMostOnce {
		return s.settle(ctx, f, claim.OutcomeUnknown, reason)
	}
	redrives := f.Redrives
	if !f.TaskOwed {
		if redrives >= s.maxRedrives {
			return s.settle(ctx, f, claim.OutcomeLost, fmt.Sprintf("%s after %d re-drives", reason, redrives))
		}
		result, err := s.ledger.Redrive(ctx, claim.RedriveRequest{Firing: f.Firing, Expected: redrives, Token: f.Token, AuditAfter: s.auditAfter})
		if err != nil {
			return fmt.Errorf("re-drive: %w", err)
		}
		s.released(ctx, result.Released)
		if result.Answer != claim.RedriveOK {
			s.count(func(r *SweepResult) { r.Left++ })
			return nil
		}
		redrives = result.Redrives
	}
	err := s.releaser.enqueuer.Push(ctx, Push{Firing: f.Firing, Redrives: redrives, Definition: definition, Queue: f.Queue, Extra: f.Extra})
	if hopeless(err) {
		return s.settle(ctx, f, claim.OutcomeFailed, err.Error())
	}
	if err != nil {
		return err
	}
	if err := s.ledger.Mark(ctx, s.auditAfter, []claim.FiringID{f.Firing}); err != nil {
		return fmt.Errorf("mark re-drive %d as enqueued: %w", redrives, err)
	}
	s.count(func(r *SweepResult) { r.Redriven++ })
	s.observer.Redriven(AuditEvent{Firing: f.Firing, Queue: f.Queue, Redrives: redrives, Reason: reason})
	return nil
}

// settle closes the firing, unless it moved on since the audit.
func (s *sweep) settle(ctx context.Context, f claim.OpenFiring, outcome claim.RunOutcome, reason string) error {
	request := claim.SettleRequest{Firing: f.Firing, Token: f.Token, Outcome: outcome, KeepRuns: s.keepRuns}
	if outcome != claim.OutcomeSucceeded {
		request.Error = clip(reason, maxErrorText)
	}
	result, err := s.ledger.Settle(ctx, request)
	if err != nil {
		return fmt.Errorf("settle as %s: %w", outcome, err)
	}
	s.released(ctx, result.Released)
	if result.Answer != claim.RedriveStale {
		s.count(func(*SweepResult) { s.closed = append(s.closed, f.Firing) })
	}
	if result.Answer != claim.RedriveOK {
		s.count(func(r *SweepResult) { r.Left++ })
		return nil
	}
	s.count(func(r *SweepResult) {
		r.Settled++
		if outcome == claim.OutcomeLost {
			r.Lost++
		}
	})
	s.observer.Settled(AuditEvent{Firing: f.Firing, Queue: f.Queue, Outcome: outcome, Reason: reason})
	return nil
}

// removeTask deletes or archives the task of a cancelled firing and closes the
// firing. A task that was started meanwhile is asked to stop.
func (s *sweep) removeTask(ctx context.Context, f claim.OpenFiring, reason string, remove func(queue, id string) error) error {
	taskID := f.Firing.TaskID(f.Redrives)
	gone, err := s.tasks.remove(ctx, f.Queue, taskID, remove)
	if err != nil {
		return fmt.Errorf("remove task %s: %w", taskID, err)
	}
	if !gone {
		s.count(func(r *SweepResult) { r.Left++ })
		return s.tasks.inspector.CancelProcessing(taskID)
	}
	return s.settle(ctx, f, claim.OutcomeCancelled, reason)
}
