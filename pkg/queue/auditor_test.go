package queue

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// eventually waits for the condition, for real time.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func TestAuditLeavesLiveTasksAlone(t *testing.T) {
	onRedis(t, definition(), func(b *bench) {
		id := firingAt(1)
		for _, state := range []claim.FiringState{claim.FiringEnqueued, claim.FiringWaiting, claim.FiringRunning} {
			b.ledger.add(id, state, b.definition.Queue)
			b.push(id)
			if r := b.sweep(id); r.Looked != 1 || r.Left != 1 {
				b.t.Errorf("state %s: %+v, want it left", state, r)
			}
		}
		if _, ok := b.ledger.get(id); !ok {
			b.t.Error("the firing was closed")
		}
	})
}

func TestAuditEnqueuesWhatIsOwed(t *testing.T) {
	onRedis(t, definition(), func(b *bench) {
		passed, pushed, manual, pending := firingAt(1), firingAt(2), claim.ManualFiring("nightly", testGeneration, "r1"), firingAt(3)
		for _, id := range []claim.FiringID{passed, pushed, manual, pending} {
			b.ledger.add(id, claim.FiringIntent, b.definition.Queue)
		}
		b.ledger.change(pending, func(f *claim.OpenFiring) { f.Position = claim.PositionPending })
		b.push(pushed)
		r := b.sweep(passed, pushed, manual, pending)
		if r.Looked != 4 || r.Enqueued != 3 || r.Left != 1 || r.Redriven != 0 {
			b.t.Errorf("sweep = %+v", r)
		}
		for _, id := range []claim.FiringID{passed, pushed, manual} {
			b.wantTask(string(id), "pending")
			if f, _ := b.ledger.get(id); f.State != claim.FiringEnqueued {
				b.t.Errorf("%s is in state %s, want E", id, f.State)
			}
		}
		b.wantTask(string(pending), "none")
		if f, _ := b.ledger.get(pending); f.State != claim.FiringIntent {
			b.t.Errorf("the pending intent is in state %s", f.State)
		}
	})
}

func TestAuditUsesTheStoredQueue(t *testing.T) {
	onRedis(t, definition(), func(b *bench) {
		id, old := firingAt(1), b.definition.Queue+".old"
		b.ledger.add(id, claim.FiringEnqueued, old)
		b.sweep(id)
		if info, err := b.inspector.GetTaskInfo(old, id.TaskID(1)); err != nil || info.State != asynq.TaskStatePending {
			b.t.Errorf("re-driven task in the stored queue: %+v, %v", info, err)
		}
		b.wantTask(id.TaskID(1), "none")
	})
}

// What is lost comes back under the next ID, three times, and is given up then.
func TestAuditRedrivesLostTasks(t *testing.T) {
	tests := []struct {
		name string
		lose func(b *bench, taskID string)
	}{
		{"missing", func(b *bench, taskID string) {
			b.redis.Del(b.t.Context(), b.key("t:"+taskID), b.key("pending"))
		}},
		{"stub of lost data (K3, S46)", func(b *bench, taskID string) { b.loseData(claim.FiringID(taskID)) }},
		{"undecodable data", func(b *bench, taskID string) {
			b.redis.HSet(b.t.Context(), b.key("t:"+taskID), "msg", "\xff\xff\xff")
		}},
		{"archived before it ran (S48)", func(b *bench, taskID string) {
			if err := b.inspector.ArchiveTask(b.definition.Queue, taskID); err != nil {
				b.t.Fatal(err)
			}
		}},
		{"archived before it ran and trimmed (K5)", func(b *bench, taskID string) {
			if err := b.inspector.ArchiveTask(b.definition.Queue, taskID); err != nil {
				b.t.Fatal(err)
			}
			b.redis.Del(b.t.Context(), b.key("archived"))
		}},
		{"the whole queue, with asynq's set of queues", func(b *bench, taskID string) {
			b.redis.Del(b.t.Context(), b.key("t:"+taskID), b.key("pending"))
			b.redis.SRem(b.t.Context(), queuesKey, b.definition.Queue)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onRedis(t, definition(), func(b *bench) {
				id := b.pushed(1)
				for n := range 3 {
					tt.lose(b, id.TaskID(n))
					if r := b.sweep(id); r.Redriven != 1 {
						b.t.Fatalf("sweep %d = %+v, want a re-drive", n, r)
					}
					b.wantTask(id.TaskID(n+1), "pending")
					if info := b.task(id.TaskID(n + 1)); info == nil || info.Headers[HeaderFiring] != string(id) {
						b.t.Errorf("re-driven task = %+v", info)
					}
				}
				tt.lose(b, id.TaskID(3))
				if r := b.sweep(id); r.Lost != 1 || r.Settled != 1 {
					b.t.Errorf("last sweep = %+v, want it lost", r)
				}
				b.wantOutcome(id, claim.OutcomeLost)
				if len(b.recorder.redriven) != 3 || len(b.recorder.settled) != 1 {
					b.t.Errorf("observed %d re-drives and %d settlements", len(b.recorder.redriven), len(b.recorder.settled))
				}
			})
		})
	}
}

// A queue that refuses writes for a while does not use up the re-drives.
func TestFailedRedriveIsRepeatedUnderItsNumber(t *testing.T) {
	onRedis(t, definition(), func(b *bench) {
		id := firingAt(1)
		b.ledger.add(id, claim.FiringEnqueued, b.definition.Queue)
		b.redis.Set(b.t.Context(), b.key("pending"), "not a list", 0)
		for range 5 {
			b.ledger.due(id)
			r, err := b.auditor.Sweep(b.t.Context(), 0)
			if err == nil || r.Failed != 1 {
				b.t.Fatalf("Sweep = %+v, %v; want a failure", r, err)
			}
			// asynq's script is not atomic: the hash stays when the list refuses.
			b.redis.Del(b.t.Context(), b.key("t:"+id.TaskID(1)))
		}
		b.redis.Del(b.t.Context(), b.key("pending"))
		if r := b.sweep(id); r.Redriven != 1 {
			b.t.Errorf("sweep = %+v", r)
		}
		b.wantTask(id.TaskID(1), "pending")
		if f, _ := b.ledger.get(id); f.Redrives != 1 {
			b.t.Errorf("%d re-drives were used", f.Redrives)
		}
	})
}

// Two auditors that saw the same firing make one task.
func TestAuditorsCompeteHarmlessly(t *testing.T) {
	onRedis(t, definition(), func(b *bench) {
		id := firingAt(1)
		b.ledger.add(id, claim.FiringEnqueued, b.definition.Queue)
		other := newBench(b.t, b.redis, b.definition)
		other.ledger = b.ledger
		second, err := NewAuditor(AuditorOptions{Ledger: b.ledger, Catalog: b.catalog, Enqueuer: b.enqueuer, Redis: b.redis})
		if err != nil {
			b.t.Fatal(err)
		}
		stale, _ := b.ledger.get(id)
		b.sweep(id)
		s := &sweep{Auditor: second, batch: claim.AuditBatch{Now: time.Now(), Firings: []claim.OpenFiring{stale}}}
		s.definitions = map[claim.FiringID]schedule.Schedule{id: b.definition}
		if err := s.redrive(b.t.Context(), stale, "seen before"); err != nil {
			b.t.Fatal(err)
		}
		if n := b.redis.LLen(b.t.Context(), b.key("pending")).Val(); n != 1 {
			b.t.Errorf("%d tasks, want 1", n)
		}
		if f, _ := b.ledger.get(id); f.Redrives != 1 {
			b.t.Errorf("%d re-drives, want 1", f.Redrives)
		}
	})
}

func TestAuditNeverRedrivesAtMostOnce(t *testing.T) {
	d := definition(func(d *schedule.Schedule) { d.Effect = schedule.AtMostOnce })
	onRedis(t, d, func(b *bench) {
		id := firingAt(1)
		b.ledger.add(id, claim.FiringRunning, b.definition.Queue, func(f *claim.OpenFiring) { f.Attempt, f.Token = 1, 9 })
		if r := b.sweep(id); r.Settled != 1 || r.Redriven != 0 {
			b.t.Errorf("sweep = %+v", r)
		}
		b.wantOutcome(id, claim.OutcomeUnknown)
	})
}

func TestAuditSettlesWhatAPlainServerFinished(t *testing.T) {
	onRedis(t, definition(), func(b *bench) {
		good, bad, retrying := firingAt(1), firingAt(2), firingAt(3)
		for _, id := range []claim.FiringID{good, bad, retrying} {
			b.ledger.add(id, claim.FiringEnqueued, b.definition.Queue)
			b.push(id)
		}
		stop := b.serve(nil, func(_ context.Context, task *asynq.Task) error {
			switch f, _ := FiringOf(task); f.ID {
			case good:
				return nil
			case bad:
				return errors.Join(errWork, asynq.SkipRetry)
			default:
				return errWork
			}
		})
		eventually(b.t, "all three ran", func() bool {
			return b.state(string(good)) == "completed" && b.state(string(bad)) == "archived" && b.state(string(retrying)) == "retry"
		})
		stop()
		if r := b.sweep(good, bad, retrying); r.Settled != 2 || r.Left != 1 {
			b.t.Errorf("sweep = %+v", r)
		}
		b.wantOutcome(good, claim.OutcomeSucceeded)
		b.wantOutcome(bad, claim.OutcomeFailed)
		b.wantOutcome(retrying, "")
		if _, text := b.ledger.outcome(bad); !strings.HasPrefix(text, errWork.Error()) {
			b.t.Errorf("error = %q, want the handler's", text)
		}
	})
}

// B120, for a firing whose push was owed, and for one that was enqueued.
func TestAuditReportsForeignTasks(t *testing.T) {
	onRedis(t, definition(), func(b *bench) {
		owed, enqueued := firingAt(1), firingAt(2)
		b.ledger.add(owed, claim.FiringIntent, b.definition.Queue)
		b.ledger.add(enqueued, claim.FiringEnqueued, b.definition.Queue)
		client := asynq.NewClientFromRedisClient(b.redis)
		for _, id := range []claim.FiringID{owed, enqueued} {
			if _, err := client.Enqueue(asynq.NewTask("by:hand", nil), asynq.TaskID(string(id)), asynq.Queue(b.definition.Queue)); err != nil {
				b.t.Fatal(err)
			}
		}
		if r := b.sweep(owed, enqueued); r.Settled != 2 {
			b.t.Errorf("sweep = %+v", r)
		}
		for _, id := range []claim.FiringID{owed, enqueued} {
			b.wantOutcome(id, claim.OutcomeFailed)
			if _, text := b.ledger.outcome(id); !strings.Contains(text, ErrForeignTask.Error()) {
				b.t.Errorf("error = %q", text)
			}
			b.wantTask(string(id), "pending") // it is somebody's
		}
	})
}

func TestAuditSettlesFiringsOfDeletedSchedules(t *testing.T) {
	onRedis(t, definition(), func(b *bench) {
		id := firingAt(1)
		b.ledger.add(id, claim.FiringEnqueued, b.definition.Queue, func(f *claim.OpenFiring) { f.Position = claim.PositionGone })
		if r := b.sweep(id); r.Settled != 1 {
			b.t.Errorf("sweep = %+v", r)
		}
		b.wantOutcome(id, claim.OutcomeCancelled)
	})
}

func TestAuditLeavesFiringsWhoseDefinitionIsGone(t *testing.T) {
	onRedis(t, definition(), func(b *bench) {
		owed, lost := firingAt(1), firingAt(2)
		b.ledger.add(owed, claim.FiringIntent, b.definition.Queue)
		b.ledger.add(lost, claim.FiringEnqueued, b.definition.Queue)
		b.catalog.generation++ // deleted and created again since the audit
		if r := b.sweep(owed, lost); r.Left != 2 {
			b.t.Errorf("sweep = %+v", r)
		}
		b.wantTask(string(owed), "none")
		b.wantTask(lost.TaskID(1), "none")
	})
}

func TestAuditCancels(t *testing.T) {
	cancel := func(f *claim.OpenFiring) { f.CancelWanted = true }
	onRedis(t, definition(), func(b *bench) {
		waiting, running := firingAt(1), firingAt(2)
		b.ledger.add(waiting, claim.FiringEnqueued, b.definition.Queue, cancel)
		b.push(waiting)
		if r := b.sweep(waiting); r.Settled != 1 {
			b.t.Errorf("sweep = %+v", r)
		}
		b.wantTask(string(waiting), "none")
		b.wantOutcome(waiting, claim.OutcomeCancelled)

		// A plain consumer runs it: it is asked to stop, and closed when its
		// task is back in the queue.
		b.ledger.add(running, claim.FiringEnqueued, b.definition.Queue, cancel)
		b.push(running)
		var stopped atomic.Bool
		stop := b.serve(nil, func(ctx context.Context, _ *asynq.Task) error {
			<-ctx.Done()
			stopped.Store(true)
			return ctx.Err()
		})
		defer stop()
		eventually(b.t, "the task is active", func() bool { return b.state(string(running)) == "active" })
		eventually(b.t, "the handler was stopped", func() bool {
			b.sweep(running)
			return stopped.Load()
		})
		eventually(b.t, "the firing is closed", func() bool {
			b.sweep(running)
			_, open := b.ledger.get(running)
			return !open
		})
		b.wantOutcome(running, claim.OutcomeCancelled)
	})
}

func TestSweepReportsFaults(t *testing.T) {
	b := newBench(t, newBenchClient(t), definition())
	id := firingAt(1)
	b.ledger.add(id, claim.FiringIntent, b.definition.Queue)
	for _, call := range []string{"audit", "mark"} {
		var down atomic.Bool
		down.Store(true)
		b.ledger.fault = only(call, false, &down)
		b.ledger.due(id)
		if _, err := b.auditor.Sweep(t.Context(), 0); !errors.Is(err, errDown) {
			t.Errorf("Sweep while %s fails = %v", call, err)
		}
	}
	b.ledger.fault = nil
	b.catalog.err = errDown
	b.ledger.due(id)
	if r, err := b.auditor.Sweep(t.Context(), 0); !errors.Is(err, errDown) || r.Looked != 1 {
		t.Errorf("Sweep without a catalog = %+v, %v", r, err)
	}
	b.catalog.err = nil
	if r := b.sweep(id); r.Enqueued != 1 {
		t.Errorf("afterwards: %+v", r)
	}
}

// A malformed ID, as a damaged ledger holds, is an error of its own and keeps
// no other firing from being enqueued.
func TestAMalformedFiringStopsNoOther(t *testing.T) {
	inBubble(t, definition(), func(b *bench) {
		good, bad := firingAt(1), claim.FiringID("no firing")
		for _, id := range []claim.FiringID{good, bad} {
			b.ledger.add(id, claim.FiringIntent, b.definition.Queue)
			b.ledger.due(id)
		}
		result, err := b.auditor.Sweep(b.t.Context(), 0)
		if err == nil || result.Failed != 1 || result.Enqueued != 1 || result.Looked != 2 {
			b.t.Errorf("Sweep = %+v, %v; want one enqueued, one failed", result, err)
		}
		b.wantTask(string(good), "pending")
		second := firingAt(2)
		b.ledger.add(second, claim.FiringIntent, b.definition.Queue)
		if err := b.auditor.Release(b.t.Context(), []claim.Released{{Firing: bad, Queue: "default"}, {Firing: second, Queue: b.definition.Queue}}); err == nil {
			b.t.Error("Release with a malformed firing = nil, want an error")
		}
		b.wantTask(string(second), "pending")
		if f, ok := b.ledger.get(second); !ok || f.State != claim.FiringEnqueued {
			b.t.Errorf("ledger = %+v, want it marked", f)
		}
	})
}

func TestReleaseEnqueuesAndMarks(t *testing.T) {
	onRedis(t, definition(), func(b *bench) {
		id, other := firingAt(1), firingAt(2)
		b.ledger.add(id, claim.FiringIntent, b.definition.Queue)
		b.ledger.add(other, claim.FiringIntent, b.definition.Queue)
		for range 2 {
			if err := b.auditor.Release(b.t.Context(), []claim.Released{{Firing: id, Queue: b.definition.Queue}}); err != nil {
				b.t.Fatal(err)
			}
		}
		if f, _ := b.ledger.get(id); f.State != claim.FiringEnqueued {
			b.t.Errorf("state = %s", f.State)
		}
		b.wantTask(string(id), "pending")

		b.ledger.release = []claim.Released{{Firing: other, Queue: b.definition.Queue}}
		r, err := b.auditor.Sweep(b.t.Context(), 0)
		if err != nil || r.Released != 1 {
			b.t.Errorf("Sweep = %+v, %v", r, err)
		}
		b.wantTask(string(other), "pending")
		if err := b.auditor.Release(b.t.Context(), []claim.Released{{Firing: "not one"}}); err == nil {
			b.t.Error("Release took a damaged firing ID")
		}
	})
}

func TestNewAuditorRefuses(t *testing.T) {
	b := newBench(t, newBenchClient(t), definition())
	good := AuditorOptions{Ledger: b.ledger, Catalog: b.catalog, Enqueuer: b.enqueuer, Redis: b.redis}
	tests := map[string]func(*AuditorOptions){
		"ledger": func(o *AuditorOptions) { o.Ledger = nil }, "catalog": func(o *AuditorOptions) { o.Catalog = nil },
		"enqueuer": func(o *AuditorOptions) { o.Enqueuer = nil }, "redis": func(o *AuditorOptions) { o.Redis = nil },
		"limit": func(o *AuditorOptions) { o.Limit = -1 }, "hide": func(o *AuditorOptions) { o.Hide = -1 },
		"audit_after": func(o *AuditorOptions) { o.AuditAfter = -1 }, "lost_after": func(o *AuditorOptions) { o.LostAfter = -1 },
		"max_redrives": func(o *AuditorOptions) { o.MaxRedrives = -1 }, "keep_runs": func(o *AuditorOptions) { o.KeepRuns = -1 },
		"concurrency": func(o *AuditorOptions) { o.Concurrency = -1 },
	}
	for field, change := range tests {
		options := good
		change(&options)
		var refused *schedule.FieldError
		if _, err := NewAuditor(options); !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("NewAuditor with a bad %s = %v", field, err)
		}
	}
}
