package queue

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var errDown = errors.New("redis is down")

// only makes the call fail while on is set; done says whether the call has
// taken effect.
func only(call string, done bool, on *atomic.Bool) func(string, bool) error {
	return func(c string, d bool) error {
		if c == call && d == done && on.Load() {
			return errDown
		}
		return nil
	}
}

func TestLongRunKeepsItsLease(t *testing.T) {
	inBubble(t, definition(func(d *schedule.Schedule) { d.Timeout = time.Hour }), func(b *bench) {
		id := b.pushed(1)
		stop := b.serve(b.middleware(), func(ctx context.Context, _ *asynq.Task) error {
			time.Sleep(10 * time.Minute)
			return ctx.Err()
		})
		time.Sleep(5 * time.Minute)
		if f, _ := b.ledger.get(id); time.Until(f.LeaseUntil) < 15*time.Second {
			b.t.Errorf("the lease ends in %s", time.Until(f.LeaseUntil))
		}
		time.Sleep(6 * time.Minute)
		stop()
		b.wantOutcome(id, claim.OutcomeSucceeded)
		if n := b.ledger.count("heartbeat"); n < 58 || n > 61 {
			b.t.Errorf("%d heartbeats in 10 minutes, want one each 10 s", n)
		}
	})
}

func TestOneHeartbeatServesAllRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := newFakeLedger()
		h := newHeart(ledger, 30*time.Second)
		var lives []*life
		for i := range 150 {
			id := claim.ScheduledFiring("nightly", 7, time.UnixMilli(int64(1000+i)))
			ledger.add(id, claim.FiringEnqueued, "q")
			grant, _ := ledger.Begin(t.Context(), claim.BeginRequest{Firing: id, Owner: "o", Lease: 30 * time.Second})
			_, cancel := context.WithCancelCause(t.Context())
			lives = append(lives, h.start(claim.Run{Firing: id, Token: grant.Token}, time.Now(), cancel))
		}
		time.Sleep(35 * time.Second)
		if calls := ledger.count("heartbeat"); calls != 6 || ledger.beats != 450 {
			t.Errorf("%d heartbeats for %d runs, want 6 for 450", calls, ledger.beats)
		}
		for _, l := range lives {
			if !l.held(time.Now()) {
				t.Fatalf("%v is not held", l.run)
			}
			h.end(l)
		}
		synctest.Wait()
		if h.stop != nil || len(h.runs) != 0 {
			t.Error("the heart beats without runs")
		}
	})
}

// The ledger says that another owner has the firing: the handler is stopped,
// and nothing is reported.
func TestLostLeaseStopsTheHandler(t *testing.T) {
	inBubble(t, definition(), func(b *bench) {
		id := b.pushed(1)
		var cause error
		stop := b.serve(b.middleware(), func(ctx context.Context, _ *asynq.Task) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return nil
		})
		time.Sleep(5 * time.Second)
		b.ledger.change(id, func(f *claim.OpenFiring) { f.Token, f.LeaseUntil = 9999, time.Now().Add(time.Hour) })
		time.Sleep(7 * time.Second)
		synctest.Wait()
		if !errors.Is(cause, ErrLeaseLost) {
			b.t.Errorf("cause = %v, want ErrLeaseLost", cause)
		}
		if n := b.ledger.count("finish"); n != 0 {
			b.t.Errorf("%d reports of a run that was lost", n)
		}
		time.Sleep(10 * time.Second) // asynq delivers it again; the other owner is busy
		stop()
		if info := b.task(string(id)); info == nil || info.State != asynq.TaskStateRetry || info.Retried != 0 {
			b.t.Errorf("task = %+v, want it waiting and no failure counted", info)
		}
	})
}

// The store went back while a handler worked: the ledger does not know the
// attempt and says so only when it ends. What is done is not done again.
func TestSuccessThatTheLedgerForgot(t *testing.T) {
	inBubble(t, definition(), func(b *bench) {
		id := b.pushed(1)
		runs := 0
		stop := b.serve(b.middleware(), func(context.Context, *asynq.Task) error {
			runs++
			b.ledger.change(id, func(f *claim.OpenFiring) { f.State, f.Token, f.LeaseUntil = claim.FiringEnqueued, 0, time.Time{} })
			return nil
		})
		time.Sleep(time.Minute)
		b.wantTask(string(id), "completed")
		if r := b.sweep(id); r.Settled != 1 {
			b.t.Errorf("sweep = %+v, want it settled", r)
		}
		b.wantOutcome(id, claim.OutcomeSucceeded)
		time.Sleep(time.Minute)
		stop()
		if runs != 1 {
			b.t.Errorf("%d runs, want 1", runs)
		}
	})
}

// Redis is away, or does not answer: the handler is stopped before the lease can
// pass to another.
func TestLocalDeadlineStopsTheHandler(t *testing.T) {
	tests := []struct {
		name string
		hang time.Duration // of each heartbeat
	}{
		{"refused", 0},
		{"hanging", 10 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, definition(), func(b *bench) { localDeadline(b, tt.hang) })
		})
	}
}

func localDeadline(b *bench, hang time.Duration) {
	id := b.pushed(1)
	var down atomic.Bool
	down.Store(true)
	b.ledger.fault = func(call string, done bool) error {
		if call != "heartbeat" || done || !down.Load() {
			return nil
		}
		time.Sleep(hang)
		return errDown
	}
	var stopped, until time.Time
	var runs atomic.Int32
	stop := b.serve(b.middleware(), func(ctx context.Context, _ *asynq.Task) error {
		if runs.Add(1) == 1 {
			f, _ := b.ledger.get(id)
			until = f.LeaseUntil
			<-ctx.Done()
			stopped = time.Now()
			down.Store(false)
		}
		return nil
	})
	time.Sleep(2 * time.Minute)
	stop()
	if early := until.Sub(stopped); early != 3*time.Second {
		b.t.Errorf("stopped %s before the lease ended, want 3 s", early)
	}
	if runs.Load() != 2 || len(b.ledger.log) != 1 || b.ledger.log[0].Attempt != 2 {
		b.t.Errorf("%d runs, reports %+v; want two runs and the second one's report", runs.Load(), b.ledger.log)
	}
}

// Short faults of the ledger between heartbeats do no harm.
func TestHeartbeatSurvivesLostReplies(t *testing.T) {
	inBubble(t, definition(), func(b *bench) {
		id := b.pushed(1)
		n := 0
		b.ledger.fault = func(call string, done bool) error {
			if call == "heartbeat" && done {
				if n++; n%3 != 0 {
					return errDown
				}
			}
			return nil
		}
		stop := b.serve(b.middleware(), func(ctx context.Context, _ *asynq.Task) error {
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Second):
			}
			return ctx.Err()
		})
		time.Sleep(55 * time.Second)
		stop()
		b.wantOutcome(id, claim.OutcomeSucceeded)
	})
}

// The task of a cancelled run is deleted: a completed one says that it
// succeeded. Under at_most_once it is archived, which says that it began.
func TestCancelledRunIsReportedSo(t *testing.T) {
	for effect, state := range map[schedule.Effect]string{schedule.AtLeastOnce: "none", schedule.AtMostOnce: "archived"} {
		t.Run(string(effect), func(t *testing.T) {
			inBubble(t, definition(func(d *schedule.Schedule) { d.Effect = effect }), func(b *bench) { cancelRunning(b, state) })
		})
	}
}

func cancelRunning(b *bench, state string) {
	id := b.pushed(1)
	var cause error
	stop := b.serve(b.middleware(), func(ctx context.Context, _ *asynq.Task) error {
		<-ctx.Done()
		cause = context.Cause(ctx)
		return ctx.Err()
	})
	time.Sleep(5 * time.Second)
	b.ledger.change(id, func(f *claim.OpenFiring) { f.CancelWanted = true })
	time.Sleep(10 * time.Second)
	stop()
	if !errors.Is(cause, ErrCancelRequested) {
		b.t.Errorf("cause = %v", cause)
	}
	b.wantOutcome(id, claim.OutcomeCancelled)
	b.wantTask(string(id), state)
}

// An operator's wish reaches asynq before the heartbeat: its context ends first,
// and the ledger says why.
func TestRunThatAsynqEndsFirstIsReportedAsCancelled(t *testing.T) {
	inBubble(t, definition(), func(b *bench) {
		asked, interrupted := b.pushed(1), b.pushed(2)
		stop := b.serve(b.middleware(), func(ctx context.Context, _ *asynq.Task) error {
			<-ctx.Done()
			return ctx.Err()
		})
		time.Sleep(5 * time.Second)
		b.ledger.change(asked, func(f *claim.OpenFiring) { f.CancelWanted, f.CancelByHand = true, true })
		for _, id := range []claim.FiringID{asked, interrupted} {
			if err := b.inspector.CancelProcessing(string(id)); err != nil {
				b.t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		stop()
		b.wantOutcome(asked, claim.OutcomeCancelled)
		b.wantOutcome(interrupted, "")
	})
}

// asynq keeps the task of such a run for a retry. Under at_most_once that ends in
// the archive, by the auditor or by the delivery: deleted, it would be enqueued again
// for a store that went back.
func TestAtMostOnceRunThatAsynqEndsFirstIsArchived(t *testing.T) {
	for _, by := range []string{"auditor", "delivery"} {
		t.Run(by, func(t *testing.T) {
			inBubble(t, definition(func(d *schedule.Schedule) { d.Effect = schedule.AtMostOnce }), func(b *bench) {
				id := b.pushed(1)
				var ran counter
				stop := b.serve(b.middleware(), ran.wrap(func(ctx context.Context, _ *asynq.Task) error {
					<-ctx.Done()
					return ctx.Err()
				}))
				defer stop()
				time.Sleep(5 * time.Second)
				b.ledger.change(id, func(f *claim.OpenFiring) { f.CancelWanted, f.CancelByHand = true, true })
				if err := b.inspector.CancelProcessing(string(id)); err != nil {
					b.t.Fatal(err)
				}
				time.Sleep(100 * time.Millisecond)
				b.wantTask(string(id), "retry")
				b.wantOutcome(id, claim.OutcomeCancelled)
				if by == "auditor" { // which the report did not reach
					b.ledger.add(id, claim.FiringWaiting, b.definition.Queue, func(f *claim.OpenFiring) { f.CancelWanted, f.Attempt = true, 1 })
					b.sweep(id)
					b.wantOutcome(id, claim.OutcomeCancelled)
				} else {
					b.ledger.answer(id, claim.BeginResult{Answer: claim.BeginCancelled})
					time.Sleep(2 * time.Minute)
				}
				b.wantTask(string(id), "archived")
				if n := ran.of(id); n != 1 {
					b.t.Errorf("it ran %d times, want once", n)
				}
			})
		})
	}
}

// asynq gives up on a handler at its timeout without waiting for it, and would
// run a retry beside it. The lease stays, so that the retry is busy.
func TestRetryNeverOverlapsAHandlerThatIgnoresItsTimeout(t *testing.T) {
	inBubble(t, definition(func(d *schedule.Schedule) { d.Timeout = 5 * time.Second }), func(b *bench) {
		id := b.pushed(1)
		var seen counter
		stop := b.serve(b.middleware(), seen.wrap(func(context.Context, *asynq.Task) error {
			if seen.of(id) == 1 {
				time.Sleep(100 * time.Second) // ignores its context
				return errWork
			}
			return nil
		}))
		time.Sleep(3 * time.Minute)
		stop()
		if seen.overlap != 0 || seen.of(id) != 2 {
			b.t.Errorf("%d runs, %d overlaps; want 2 and 0", seen.of(id), seen.overlap)
		}
		b.wantOutcome(id, claim.OutcomeSucceeded)
		if b.ledger.log[0].Outcome != claim.OutcomeRetrying {
			b.t.Errorf("first report = %+v, want retrying", b.ledger.log[0])
		}
	})
}

// The work was done although asynq had given up: the retry finds it settled.
func TestLateSuccessCounts(t *testing.T) {
	inBubble(t, definition(func(d *schedule.Schedule) { d.Timeout = 2 * time.Second }), func(b *bench) {
		id := b.pushed(1)
		var seen counter
		stop := b.serve(b.middleware(), seen.wrap(func(context.Context, *asynq.Task) error {
			time.Sleep(7 * time.Second)
			return nil
		}))
		time.Sleep(time.Minute)
		stop()
		b.wantOutcome(id, claim.OutcomeSucceeded)
		b.wantTask(string(id), "completed")
		if seen.of(id) != 1 {
			b.t.Errorf("%d runs, want 1", seen.of(id))
		}
	})
}

func TestTimeoutOnTheLastAttemptFails(t *testing.T) {
	inBubble(t, definition(retries(0), func(d *schedule.Schedule) { d.Timeout = 2 * time.Second }), func(b *bench) {
		id := b.pushed(1)
		var seen counter
		stop := b.serve(b.middleware(), seen.wrap(func(ctx context.Context, _ *asynq.Task) error {
			<-ctx.Done()
			return ctx.Err()
		}))
		time.Sleep(time.Minute)
		stop()
		b.wantOutcome(id, claim.OutcomeFailed)
		if seen.of(id) != 1 {
			b.t.Errorf("%d runs, want 1", seen.of(id))
		}
	})
}

// A run that a shutdown interrupts did not fail, even on its last attempt.
func TestShutdownInterruptsWithoutFailing(t *testing.T) {
	inBubble(t, definition(retries(0)), func(b *bench) {
		id := b.pushed(1)
		m := b.middleware()
		var seen counter
		handler := seen.wrap(func(ctx context.Context, _ *asynq.Task) error {
			if seen.of(id) == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		stop := b.serve(m, handler)
		time.Sleep(3 * time.Second)
		stop()
		synctest.Wait()
		if f, ok := b.ledger.get(id); !ok || f.State != claim.FiringWaiting {
			b.t.Fatalf("after the shutdown the firing is %+v, want waiting", f)
		}
		b.wantTask(string(id), "pending")
		stop = b.serve(m, handler)
		time.Sleep(3 * time.Second)
		stop()
		b.wantOutcome(id, claim.OutcomeSucceeded)
	})
}

func TestReportsSurviveFaults(t *testing.T) {
	tests := []struct {
		name string
		call string
		done bool // the call took effect, its reply was lost
	}{
		{"begin fails", "begin", false},
		{"reply of begin is lost", "begin", true},
		{"finish fails", "finish", false},
		{"reply of finish is lost", "finish", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, definition(), func(b *bench) {
				id := b.pushed(1)
				var down atomic.Bool
				down.Store(true)
				b.ledger.fault = only(tt.call, tt.done, &down)
				time.AfterFunc(4*time.Second, func() { down.Store(false) })
				var seen counter
				stop := b.serve(b.middleware(), seen.wrap(func(context.Context, *asynq.Task) error { return nil }))
				time.Sleep(30 * time.Second)
				stop()
				b.wantOutcome(id, claim.OutcomeSucceeded)
				b.wantTask(string(id), "completed")
				if seen.of(id) != 1 || seen.last.Attempt != 1 {
					b.t.Errorf("%d runs, attempt %d; want one", seen.of(id), seen.last.Attempt)
				}
			})
		})
	}
}

// When the ledger stays away, nothing runs and nothing is lost.
func TestLedgerStaysAway(t *testing.T) {
	inBubble(t, definition(), func(b *bench) {
		id := b.pushed(1)
		var down atomic.Bool
		down.Store(true)
		b.ledger.fault = only("begin", false, &down)
		var seen counter
		stop := b.serve(b.middleware(), seen.wrap(func(context.Context, *asynq.Task) error { return nil }))
		time.Sleep(10 * time.Minute)
		if seen.of(id) != 0 {
			b.t.Error("it ran without a grant")
		}
		down.Store(false)
		time.Sleep(30 * time.Second)
		stop()
		b.wantOutcome(id, claim.OutcomeSucceeded)
	})
}

// The end cannot be recorded for the rest of the lease. asynq's record of the
// completed task tells the auditor.
func TestAuditorReadsAnEndThatWasNotRecorded(t *testing.T) {
	inBubble(t, definition(), func(b *bench) {
		id := b.pushed(1)
		var down atomic.Bool
		down.Store(true)
		b.ledger.fault = only("finish", false, &down)
		stop := b.serve(b.middleware(), func(context.Context, *asynq.Task) error { return nil })
		time.Sleep(45 * time.Second)
		b.wantTask(string(id), "completed")
		time.Sleep(time.Minute)
		stop()
		if r := b.sweep(id); r.Settled != 1 {
			b.t.Errorf("sweep = %+v, want it settled", r)
		}
		b.wantOutcome(id, claim.OutcomeSucceeded)
	})
}

// K1: asynq fails to complete the task and delivers it again.
func TestRedeliveredTaskDoesNotRunAgain(t *testing.T) {
	inBubble(t, definition(), func(b *bench) {
		id := b.pushed(1)
		var seen counter
		stop := b.serve(b.middleware(), seen.wrap(func(context.Context, *asynq.Task) error { return nil }))
		time.Sleep(3 * time.Second)
		// What the completion did is undone, as if it had not reached Redis.
		ctx := b.t.Context()
		b.redis.ZRem(ctx, b.key("completed"), string(id))
		b.redis.HSet(ctx, b.key("t:"+string(id)), "state", "pending")
		b.redis.LPush(ctx, b.key("pending"), string(id))
		time.Sleep(3 * time.Second)
		stop()
		if seen.of(id) != 1 {
			b.t.Errorf("%d runs, want 1", seen.of(id))
		}
		b.wantTask(string(id), "completed")
		b.wantOutcome(id, claim.OutcomeSucceeded)
	})
}

// A settled firing that somebody enqueues again by hand is acknowledged.
func TestSettledFiringIsAcknowledged(t *testing.T) {
	inBubble(t, definition(), func(b *bench) {
		id := firingAt(1)
		b.push(id)
		var seen counter
		stop := b.serve(b.middleware(), seen.wrap(func(context.Context, *asynq.Task) error { return nil }))
		time.Sleep(3 * time.Second)
		stop()
		if seen.of(id) != 0 {
			b.t.Error("it ran")
		}
		b.wantTask(string(id), "completed")
	})
}

func TestLifeIsNeverRevived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := newFakeLedger()
		h := newHeart(ledger, 30*time.Second)
		ctx, cancel := context.WithCancelCause(t.Context())
		l := h.start(claim.Run{Firing: firingAt(1), Token: 1}, time.Now(), cancel)
		defer h.end(l)
		l.lose()
		l.extend(time.Now(), 30*time.Second, 3*time.Second)
		if l.held(time.Now()) || !errors.Is(context.Cause(ctx), ErrLeaseLost) {
			t.Error("a late heartbeat revived a lost lease")
		}
	})
}
