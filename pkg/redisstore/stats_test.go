package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// An unruly client executes scripts twice, loses replies, and repeats calls
// long after their caller has gone on.
type unruly struct {
	mu     sync.Mutex
	random *rand.Rand
	calm   bool
	late   sync.WaitGroup

	doubled, lost, repeated int
}

var errLostReply = fmt.Errorf("the reply is lost: %w", io.ErrUnexpectedEOF)

func (u *unruly) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (u *unruly) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// draw says what happens to a call.
func (u *unruly) draw() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.calm {
		return -1
	}
	n := u.random.IntN(20)
	u.doubled, u.lost, u.repeated = u.doubled+one(n < 3), u.lost+one(n == 3 || n == 4), u.repeated+one(n == 5)
	return n
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func (u *unruly) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !strings.HasPrefix(strings.ToLower(cmd.Name()), "eval") {
			return next(ctx, cmd)
		}
		n := u.draw()
		err := next(ctx, cmd)
		switch {
		case err != nil || n < 0:
			return err
		case n < 3:
			return next(ctx, cmd)
		case n < 5:
			cmd.SetErr(errLostReply)
			return errLostReply
		case n == 5:
			again := redis.NewCmd(ctx, cmd.Args()...)
			u.late.Go(func() {
				pausedFor(ctx, time.Duration(n)*7*time.Millisecond)
				_ = next(context.WithoutCancel(ctx), again) // nobody waits for the answer
			})
		}
		return nil
	}
}

// A tally is what the run log and the verdicts of one schedule say.
type tally struct {
	runs, failures, consecutive int64
	fired                       int64 // distinct scheduled times with a settled run
}

func (b *bench) tally(id schedule.ID) tally {
	b.t.Helper()
	log, err := b.Runs(b.t.Context(), id, 100_000)
	if err != nil {
		b.t.Fatal(err)
	}
	var t tally
	streak, scheduled := true, map[claim.FiringID]int{}
	for _, run := range log { // newest first
		if run.Outcome == claim.OutcomeRetrying {
			continue
		}
		failed := run.Outcome == claim.OutcomeFailed || run.Outcome == claim.OutcomeLost
		t.runs++
		t.failures += int64(one(failed))
		streak = streak && run.Outcome != claim.OutcomeSucceeded
		t.consecutive += int64(one(streak && failed))
		if f, err := claim.ParseFiringID(string(run.Firing)); err == nil && f.Kind == claim.KindScheduled {
			scheduled[run.Firing]++
		}
	}
	for firing, n := range scheduled {
		t.fired++
		if n > 1 {
			b.t.Errorf("%s was settled %d times", firing, n)
		}
	}
	return t
}

// checkVerdictTotals compares the totals of a record with the scheduled times
// that its high-water mark has passed: each has exactly one verdict.
func (b *bench) checkVerdictTotals(id schedule.ID, first time.Time) {
	b.t.Helper()
	fields := strings.Split(b.client.HGet(b.t.Context(), b.key(id, "st"), string(id)).Val(), "|")
	number := func(i int) int64 {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			b.t.Fatalf("%s: field %d of %q: %v", id, i, fields, err)
		}
		return n
	}
	const fired, current, cold = 10, 11, 13
	total := number(fired)
	if len(fields) > cold+10 {
		for i := range 4 { // coalesced, missed, overlapped, others
			total += number(cold + 6 + i)
		}
	}
	if v := strings.Split(fields[current], ","); len(v) == 5 && v[0] != "1" {
		n, _ := strconv.ParseInt(v[2], 10, 64)
		total += n
	}
	passed := int64(0)
	if mark := time.UnixMilli(number(5)); !mark.Before(first) {
		passed = int64(mark.Sub(first)/(10*time.Second)) + 1
	}
	if total != passed {
		b.t.Errorf("%s: %d verdicts for %d scheduled times", id, total, passed)
	}
}

// TestStatsAreExact lets workers claim, run, audit and settle at once over
// clients that double, lose and delay calls, while an operator triggers and
// edits. In the end every counter equals what the run log and the verdicts
// say, exactly.
func TestStatsAreExact(t *testing.T) {
	for _, backend := range redistest.Backends() {
		t.Run(backend.Name, func(t *testing.T) {
			client := backend.Dial(t)
			b := newBench(t, client, 3)
			ids := []schedule.ID{}
			first := b.clock.Now().Add(10 * time.Second)
			for i, overlap := range []schedule.Overlap{schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapBufferOne,
				schedule.OverlapBufferAll, schedule.OverlapCancelOther} {
				for n := range 3 {
					d := every10(schedule.ID(fmt.Sprintf("s%d-%d", i, n)))
					d.Overlap, d.Missed = overlap, schedule.MissedSkip
					if overlap == schedule.OverlapBufferAll {
						d.BufferLimit = 3
					}
					b.put(d)
					ids = append(ids, d.ID)
				}
			}
			u := &unruly{random: rand.New(rand.NewPCG(4, 2))}
			b.unrulyFleet(backend, u, ids)
			t.Logf("%d calls doubled, %d replies lost, %d repeated late", u.doubled, u.lost, u.repeated)
			b.drain(ids)
			b.check()
			sum := int64(0)
			for _, id := range ids {
				got, want := b.get(id), b.tally(id)
				if got.RunCount != want.runs || got.FailCount != want.failures || got.ConsecutiveFails != want.consecutive || got.Fired != want.fired {
					t.Errorf("%s: runs %d, fails %d, in a row %d, fired %d; the run log says %+v", id, got.RunCount, got.FailCount, got.ConsecutiveFails, got.Fired, want)
				}
				sum += want.runs
				b.checkVerdictTotals(id, first)
			}
			t.Logf("%d runs settled", sum)
			if least := int64(5); sum < least { // miniredis is slow
				t.Errorf("%d runs, want %d at least", sum, least)
			}
			stats, err := b.Stats(t.Context())
			if err != nil || stats.Total != int64(len(ids)) || stats.Completed != stats.Total || stats.Open != 0 || stats.Buffered != 0 || stats.Claimed != 0 {
				t.Errorf("Stats = %+v, %v, want %d completed and nothing open", stats, err, len(ids))
			}
		})
	}
}

// unrulyFleet runs workers and an operator until enough has happened.
func (b *bench) unrulyFleet(backend redistest.Backend, u *unruly, ids []schedule.ID) {
	ctx, cancel := context.WithTimeout(b.t.Context(), 4*time.Second)
	defer cancel()
	var group sync.WaitGroup
	for n := range 4 {
		client := backend.Dial(b.t)
		client.AddHook(u)
		store, err := redisstore.New(client, redisstore.Options{Namespace: b.Namespace(), Now: b.clock.Now})
		if err != nil {
			b.t.Fatal(err)
		}
		w := &bench{Store: store, t: b.t, clock: b.clock, client: client}
		random := rand.New(rand.NewPCG(uint64(n), 5))
		group.Go(func() {
			for ctx.Err() == nil {
				w.toil(ctx, random, 10*time.Second)
			}
		})
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 6))
			for i := 0; ctx.Err() == nil; i++ {
				id := ids[random.IntN(len(ids))]
				_, _ = store.Trigger(ctx, id, schedule.TriggerOptions{RequestID: fmt.Sprintf("r%d-%d", n, i), ObeyOverlap: i%2 == 0})
				if i%5 == 0 {
					_, _ = store.Pause(ctx, id, schedule.PauseOptions{Until: b.clock.Now().Add(15 * time.Second)})
				}
				pausedFor(ctx, 10*time.Millisecond)
			}
		})
	}
	group.Wait()
	u.mu.Lock()
	u.calm = true
	u.mu.Unlock()
	u.late.Wait()
}

// toil claims, completes, begins, finishes and settles, as workers and
// auditors do; what fails is tried again by whoever comes next.
func (b *bench) toil(ctx context.Context, random *rand.Rand, period time.Duration) {
	shard := random.IntN(3)
	batch, err := b.ClaimDue(ctx, claim.ClaimRequest{Shard: shard, Owner: "w", Limit: 5, TTL: 10 * time.Second, AuditAfter: 4 * time.Second})
	for _, c := range batch.Claims {
		if random.IntN(10) == 0 {
			continue // the worker died
		}
		completion := claim.Completion{Schedule: c.Schedule, Token: c.Token, ScheduledAt: c.ScheduledAt}
		switch c.Kind {
		case claim.ClaimFire:
			completion.Decision = claim.DecideEnqueued
			if !c.Again && random.IntN(4) == 0 {
				completion.Decision, completion.Verdict = claim.DecideVerdict, schedule.VerdictMissed
			}
		case claim.ClaimOverlap:
			completion.Decision = claim.DecideOverlap
		default:
			completion.Decision = claim.DecideAdvance
		}
		if period > 0 {
			completion.Next = c.ScheduledAt.Add(period)
		}
		if completion.Decision == claim.DecideVerdict && period > 0 {
			last := c.ScheduledAt.Add(2 * period)
			completion.Range = &schedule.VerdictRange{Verdict: schedule.VerdictMissed, Count: 2, First: completion.Next, Last: last}
			completion.Next = last.Add(period)
		}
		_, _ = b.Complete(ctx, claim.CompleteRequest{AuditBuffered: 4 * time.Second, Completions: []claim.Completion{completion}})
	}
	if err == nil && random.IntN(2) == 0 {
		b.clock.Add(400 * time.Millisecond)
	}
	audit, _ := b.Audit(ctx, claim.AuditRequest{Shard: shard, Limit: 10, Hide: time.Second})
	for _, f := range audit.Firings {
		b.work(ctx, random, f)
	}
}

// work runs a firing, or settles one that ran before.
func (b *bench) work(ctx context.Context, random *rand.Rand, f claim.OpenFiring) {
	if f.Token != 0 && random.IntN(3) == 0 {
		outcomes := []claim.RunOutcome{claim.OutcomeLost, claim.OutcomeSucceeded}
		_, _ = b.Settle(ctx, claim.SettleRequest{Firing: f.Firing, Token: f.Token, Outcome: outcomes[random.IntN(2)], KeepRuns: 100_000})
		return
	}
	effect := schedule.AtLeastOnce
	if random.IntN(3) == 0 {
		effect = schedule.AtMostOnce
	}
	request := claim.BeginRequest{Firing: f.Firing, Owner: fmt.Sprint(random.Uint64()), Worker: "w", Lease: 5 * time.Second,
		Effect: effect, KeepRuns: 100_000}
	begun, err := b.Begin(ctx, request)
	if errors.Is(err, errLostReply) {
		begun, err = b.Begin(ctx, request)
	}
	if err != nil || begun.Answer != claim.BeginRun || random.IntN(8) == 0 {
		return
	}
	outcomes := []claim.RunOutcome{claim.OutcomeSucceeded, claim.OutcomeSucceeded, claim.OutcomeFailed, claim.OutcomeRetrying, claim.OutcomeCancelled}
	finish := claim.FinishRequest{Run: claim.Run{Firing: f.Firing, Token: begun.Token}, Outcome: outcomes[random.IntN(len(outcomes))],
		RetryAfter: time.Second, Started: b.clock.Now(), Attempt: begun.Attempt, Worker: "w", KeepRuns: 100_000, HandBack: random.IntN(10) == 0}
	for range 2 { // the second one is refused, or repeats the first
		_, _ = b.Finish(ctx, finish)
	}
}

// drain completes every schedule and ends every firing; pauses end by
// themselves.
func (b *bench) drain(ids []schedule.ID) {
	b.t.Helper()
	random := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		b.toil(b.t.Context(), random, 0)
		b.clock.Add(2 * time.Second)
		stats, err := b.Stats(b.t.Context())
		if err != nil {
			b.t.Fatal(err)
		}
		if stats.Completed == int64(len(ids)) && stats.Open == 0 && stats.Buffered == 0 {
			return
		}
	}
	left := slices.DeleteFunc(slices.Clone(ids), func(id schedule.ID) bool { return b.get(id).Open == 0 })
	b.t.Fatalf("%v do not end", left)
}
