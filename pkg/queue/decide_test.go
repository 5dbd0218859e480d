package queue

import (
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

func TestDecideUnseen(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	manual := claim.ManualFiring("nightly", 7, "r")
	backfill := claim.FiringID("nightly:7:bfill.1000")
	tests := []struct {
		name string
		in   claim.OpenFiring
		want what
	}{
		{"intent of a claim that is pending", claim.OpenFiring{State: "I", Position: claim.PositionPending}, doLeave},
		{"the same, cancelled", claim.OpenFiring{State: "I", Position: claim.PositionPending, CancelWanted: true}, doLeave},
		{"intent that was passed", claim.OpenFiring{State: "I", Position: claim.PositionPassed}, doEnqueue},
		{"the same, cancelled", claim.OpenFiring{State: "I", Position: claim.PositionPassed, CancelWanted: true}, doLook},
		{"intent of a trigger", claim.OpenFiring{Firing: manual, State: "I", Position: claim.PositionPassed}, doEnqueue},
		{"intent of a trigger, whatever its position", claim.OpenFiring{Firing: manual, State: "I", Position: claim.PositionPending}, doEnqueue},
		{"intent of a backfill ahead of the schedule", claim.OpenFiring{Firing: backfill, State: "I", Position: claim.PositionPending}, doEnqueue},
		{"enqueued", claim.OpenFiring{State: "E", Position: claim.PositionPassed}, doLook},
		{"enqueued ahead of the mark", claim.OpenFiring{State: "E", Position: claim.PositionPending}, doLook},
		{"waiting", claim.OpenFiring{State: "W", Position: claim.PositionPassed}, doLook},
		{"buffered", claim.OpenFiring{State: "B", Position: claim.PositionPassed}, doLeave},
		{"running with a live lease", claim.OpenFiring{State: "R", LeaseUntil: now.Add(1)}, doLeave},
		{"the same, cancelled", claim.OpenFiring{State: "R", LeaseUntil: now.Add(1), CancelWanted: true}, doLeave},
		{"the same, of a deleted schedule", claim.OpenFiring{State: "R", LeaseUntil: now.Add(1), Position: claim.PositionGone}, doLeave},
		{"running with a dead lease", claim.OpenFiring{State: "R", LeaseUntil: now}, doLook},
		{"running with a dead lease, deleted", claim.OpenFiring{State: "R", LeaseUntil: now, Position: claim.PositionGone}, doSettle},
		{"buffered, deleted", claim.OpenFiring{State: "B", Position: claim.PositionGone}, doSettle},
		{"intent, deleted", claim.OpenFiring{State: "I", Position: claim.PositionGone}, doSettle},
	}
	for _, tt := range tests {
		if tt.in.Firing == "" {
			tt.in.Firing = firingAt(1)
		}
		if got := decideUnseen(tt.in, now); got.what != tt.want {
			t.Errorf("%s: %+v, want %d", tt.name, got, tt.want)
		}
	}
}

func TestDecideSeen(t *testing.T) {
	task := func(state asynq.TaskState, change ...func(*asynq.TaskInfo)) seen {
		s := seen{exists: true, info: asynq.TaskInfo{State: state}}
		for _, f := range change {
			f(&s.info)
		}
		return s
	}
	lastErr := func(text string) func(*asynq.TaskInfo) { return func(i *asynq.TaskInfo) { i.LastErr = text } }
	retried := func(i *asynq.TaskInfo) { i.Retried = 1 }
	cancelled := claim.OpenFiring{CancelWanted: true}
	atMostOnce := func(i *asynq.TaskInfo) { i.Headers = map[string]string{HeaderEffect: string(schedule.AtMostOnce)} }
	tests := []struct {
		name     string
		firing   claim.OpenFiring
		task     seen
		orphaned bool
		want     what
		outcome  claim.RunOutcome
	}{
		{"missing", claim.OpenFiring{}, seen{}, false, doRedrive, ""},
		{"stub", claim.OpenFiring{}, seen{exists: true, stub: true}, false, doRedrive, ""},
		{"foreign", claim.OpenFiring{}, seen{exists: true, foreign: true, info: asynq.TaskInfo{State: asynq.TaskStateCompleted}}, false, doSettle, claim.OutcomeFailed},
		{"pending", claim.OpenFiring{}, task(asynq.TaskStatePending), false, doLeave, ""},
		{"scheduled", claim.OpenFiring{}, task(asynq.TaskStateScheduled), false, doLeave, ""},
		{"retry", claim.OpenFiring{}, task(asynq.TaskStateRetry), false, doLeave, ""},
		{"active", claim.OpenFiring{}, task(asynq.TaskStateActive), false, doLeave, ""},
		{"active and orphaned", claim.OpenFiring{}, task(asynq.TaskStateActive), true, doRedrive, ""},
		{"completed", claim.OpenFiring{}, task(asynq.TaskStateCompleted), false, doSettle, claim.OutcomeSucceeded},
		{"completed though cancelled", cancelled, task(asynq.TaskStateCompleted), false, doSettle, claim.OutcomeSucceeded},
		{"archived, never run", claim.OpenFiring{}, task(asynq.TaskStateArchived), false, doRedrive, ""},
		{"archived after a crash before the handler", claim.OpenFiring{}, task(asynq.TaskStateArchived, lastErr(asynq.ErrLeaseExpired.Error())), false, doRedrive, ""},
		{"archived after several crashes before the handler", claim.OpenFiring{}, task(asynq.TaskStateArchived, retried, lastErr(asynq.ErrLeaseExpired.Error())), false, doRedrive, ""},
		{"archived after retries", claim.OpenFiring{}, task(asynq.TaskStateArchived, retried), false, doSettle, claim.OutcomeFailed},
		{"archived by SkipRetry of a plain consumer", claim.OpenFiring{}, task(asynq.TaskStateArchived, lastErr("bad input: skip retry for the task")), false, doSettle, claim.OutcomeFailed},
		{"archived since it was cancelled under at_most_once", claim.OpenFiring{}, task(asynq.TaskStateArchived, lastErr((&CancelledError{"a:1:2"}).Error())), false, doSettle, claim.OutcomeCancelled},
		{"archived since its fate is unknown", claim.OpenFiring{Attempt: 1}, task(asynq.TaskStateArchived, lastErr((&UnknownFateError{"a:1:2"}).Error())), false, doSettle, claim.OutcomeUnknown},
		{"archived after an attempt that the ledger saw", claim.OpenFiring{Attempt: 1}, task(asynq.TaskStateArchived), false, doSettle, claim.OutcomeFailed},
		{"cancelled, missing", cancelled, seen{}, false, doSettle, claim.OutcomeCancelled},
		{"cancelled, stub", cancelled, seen{exists: true, stub: true}, false, doSettle, claim.OutcomeCancelled},
		{"cancelled, pending", cancelled, task(asynq.TaskStatePending), false, doRemove, ""},
		{"cancelled, retry", cancelled, task(asynq.TaskStateRetry), false, doRemove, ""},
		{"cancelled, retry, it began under at_most_once", claim.OpenFiring{CancelWanted: true, Attempt: 1}, task(asynq.TaskStateRetry, atMostOnce), false, doArchive, ""},
		{"cancelled, pending, it never began under at_most_once", cancelled, task(asynq.TaskStatePending, atMostOnce), false, doRemove, ""},
		{"cancelled, scheduled", cancelled, task(asynq.TaskStateScheduled), false, doRemove, ""},
		{"cancelled, active", cancelled, task(asynq.TaskStateActive), false, doStop, ""},
		{"cancelled, orphaned", cancelled, task(asynq.TaskStateActive), true, doSettle, claim.OutcomeCancelled},
		{"cancelled, archived", cancelled, task(asynq.TaskStateArchived, retried), false, doSettle, claim.OutcomeCancelled},
	}
	for _, tt := range tests {
		got := decideSeen(tt.firing, tt.task, tt.orphaned)
		if got.what != tt.want || got.outcome != tt.outcome || got.reason == "" {
			t.Errorf("%s: %+v, want %d %q", tt.name, got, tt.want, tt.outcome)
		}
	}
}
