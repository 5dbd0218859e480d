package queue

import (
	"context"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// orphan makes the pending task active with no worker and no lease, as a
// script that was cut short by a moving slot leaves it (K4).
func (b *bench) orphan(taskID string) {
	b.t.Helper()
	ctx := b.t.Context()
	b.redis.LRem(ctx, b.key("pending"), 0, taskID)
	b.redis.LPush(ctx, b.key("active"), taskID)
	if err := b.redis.HSet(ctx, b.key("t:"+taskID), "state", "active").Err(); err != nil {
		b.t.Fatal(err)
	}
}

// K4, S47: asynq never recovers an active task without a lease.
func TestOrphanedTaskIsRedriven(t *testing.T) {
	tests := []struct {
		name   string
		change func(*claim.OpenFiring)
	}{
		{"that no middleware began", func(f *claim.OpenFiring) { f.State = claim.FiringEnqueued }},
		{"that began here", func(f *claim.OpenFiring) {
			f.State, f.Attempt, f.Token, f.LeaseUntil = claim.FiringRunning, 1, 9, time.Now()
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, definition(), func(b *bench) {
				id := firingAt(1)
				b.ledger.add(id, claim.FiringEnqueued, b.definition.Queue, tt.change)
				b.push(id)
				b.orphan(string(id))
				start := time.Now()
				for time.Since(start) < 10*time.Minute {
					if r := b.sweep(id); r.Redriven > 0 {
						break
					}
					time.Sleep(15 * time.Second)
				}
				if after := time.Since(start); after != 3*time.Minute {
					b.t.Errorf("re-driven after %s, want 3 min", after)
				}
				b.wantTask(id.TaskID(1), "pending")
			})
		})
	}
}

// The lease of an attempt that ended with an earlier task says nothing about the
// task of a re-drive: one whose dequeue got no reply is active without a worker
// until asynq takes it back, and must not be taken for lost at once.
func TestRedrivenTaskIsGivenItsTime(t *testing.T) {
	inBubble(t, definition(), func(b *bench) {
		id := firingAt(1)
		b.ledger.add(id, claim.FiringRunning, b.definition.Queue, func(f *claim.OpenFiring) {
			f.Attempt, f.Token, f.Redrives, f.LeaseUntil = 1, 9, 3, time.Now().Add(-time.Hour)
		})
		if err := b.enqueuer.Push(b.t.Context(), Push{Firing: id, Redrives: 3, Definition: b.definition}); err != nil {
			b.t.Fatal(err)
		}
		b.orphan(id.TaskID(3))
		start := time.Now()
		for time.Since(start) < 10*time.Minute {
			if r := b.sweep(id); r.Lost > 0 {
				break
			}
			time.Sleep(15 * time.Second)
		}
		if after := time.Since(start); after != 3*time.Minute {
			b.t.Errorf("lost after %s, want 3 min", after)
		}
	})
}

// A plain consumer may run for long; its server says that it does.
func TestRunningTaskOfAPlainServerIsLeftAlone(t *testing.T) {
	inBubble(t, definition(func(d *schedule.Schedule) { d.Timeout = time.Hour }), func(b *bench) {
		id := b.pushed(1)
		stop := b.serve(nil, func(context.Context, *asynq.Task) error {
			time.Sleep(20 * time.Minute)
			return nil
		})
		for range 19 {
			time.Sleep(time.Minute)
			if r := b.sweep(id); r.Left != 1 {
				b.t.Fatalf("sweep = %+v", r)
			}
		}
		time.Sleep(2 * time.Minute)
		stop()
		b.sweep(id)
		b.wantOutcome(id, claim.OutcomeSucceeded)
	})
}

// A worker that dies is asynq's business first: its recoverer makes the task
// due again, long before the auditor takes it for lost.
func TestCrashedWorkerIsLeftToAsynq(t *testing.T) {
	inBubble(t, definition(), func(b *bench) {
		id := firingAt(1)
		b.ledger.add(id, claim.FiringRunning, b.definition.Queue, func(f *claim.OpenFiring) {
			f.Attempt, f.Token, f.LeaseUntil = 1, 9, time.Now().Add(30*time.Second)
		})
		b.push(id)
		b.orphan(string(id))
		b.redis.ZAdd(b.t.Context(), b.key("lease"), redisZ(time.Now().Add(30*time.Second), string(id)))
		var seen counter
		stop := b.serve(b.middleware(), seen.wrap(func(context.Context, *asynq.Task) error { return nil }))
		for range 12 {
			time.Sleep(15 * time.Second)
			if r := b.sweep(id); r.Redriven != 0 {
				b.t.Fatalf("sweep = %+v", r)
			}
		}
		stop()
		b.wantOutcome(id, claim.OutcomeSucceeded)
		if seen.of(id) != 1 || seen.last.Attempt != 2 {
			b.t.Errorf("%d runs, attempt %d", seen.of(id), seen.last.Attempt)
		}
	})
}

// S05, S06: duplicates of a settled firing's task, under any ID, run nothing.
func TestDuplicateTasksRunOnce(t *testing.T) {
	inBubble(t, definition(), func(b *bench) {
		id := firingAt(1)
		b.ledger.add(id, claim.FiringEnqueued, b.definition.Queue)
		for n := range 4 {
			if err := b.enqueuer.Push(b.t.Context(), Push{Firing: id, Redrives: n, Definition: b.definition}); err != nil {
				b.t.Fatal(err)
			}
		}
		var seen counter
		stop := b.serve(b.middleware(), seen.wrap(func(context.Context, *asynq.Task) error {
			time.Sleep(3 * time.Second)
			return nil
		}))
		time.Sleep(2 * time.Minute)
		stop()
		if seen.of(id) != 1 || seen.overlap != 0 {
			b.t.Errorf("%d runs, %d overlaps", seen.of(id), seen.overlap)
		}
		for n := range 4 {
			b.wantTask(id.TaskID(n), "completed")
		}
	})
}

func TestAuditorForgets(t *testing.T) {
	m, now := newMemory(), time.Now()
	m.first("a", now)
	m.trim(now.Add(memoryTime))
	if m.first("a", now.Add(memoryTime)) != now {
		t.Error("forgotten too early")
	}
	m.trim(now.Add(3 * memoryTime))
	if len(m.orphans) != 0 {
		t.Error("remembered for ever")
	}
}
