package redisstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// shardKey names a key of a shard.
func (b *bench) shardKey(shard int, name string) string {
	return fmt.Sprintf("belfry:{%s:%02d}:%s", b.Namespace(), shard, name)
}

// furnish opens firings of all kinds on schedules of all policies.
func (b *bench) furnish() {
	b.t.Helper()
	for i, overlap := range []schedule.Overlap{schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapBufferOne,
		schedule.OverlapBufferAll, schedule.OverlapCancelOther} {
		for n := range 6 {
			d := every10(schedule.ID(fmt.Sprintf("s%d-%d", i, n)))
			d.Overlap, d.Labels = overlap, map[string]string{"team": fmt.Sprint(n % 3)}
			if overlap == schedule.OverlapBufferAll {
				d.BufferLimit = 5
			}
			b.put(d)
		}
	}
	for range 3 {
		b.clock.Add(10 * time.Second)
		for _, c := range b.claimAll() {
			decision := claim.DecideEnqueued
			if c.Kind == claim.ClaimOverlap {
				decision = claim.DecideOverlap
			}
			b.complete(c, decision, c.ScheduledAt.Add(10*time.Second))
		}
	}
	b.clock.Add(10 * time.Second)
	b.claimAll() // and left so
	for _, id := range []schedule.ID{"s0-0", "s1-1"} {
		if err := b.Skip(b.t.Context(), id, b.get(id).NextAt.Add(20*time.Second)); err != nil {
			b.t.Fatal(err)
		}
		if _, err := b.StartBackfill(b.t.Context(), claim.BackfillRequest{Schedule: id, ID: "b", From: b.clock.Now().Add(-30 * time.Second),
			To: b.clock.Now(), MaxOpen: 3}); err != nil {
			b.t.Fatal(err)
		}
		at := b.clock.Now().Add(-20 * time.Second)
		back, err := b.Backfill(b.t.Context(), id, "b")
		if err != nil {
			b.t.Fatal(err)
		}
		if _, err := b.StepBackfill(b.t.Context(), claim.BackfillStep{Schedule: id, ID: "b", Expected: back.Cursor, Cursor: at,
			Open: []time.Time{at}}); err != nil {
			b.t.Fatal(err)
		}
	}
	if _, err := b.Pause(b.t.Context(), "s0-1", schedule.PauseOptions{Until: b.clock.Now().Add(time.Hour)}); err != nil {
		b.t.Fatal(err)
	}
}

// A vandal breaks indexes, never records.
type vandal struct {
	client redis.UniversalClient
	random *rand.Rand
	key    func(shard int, name string) string
	shards int
}

// strike breaks something and says what.
func (v *vandal) strike(ctx context.Context) string {
	shard := v.random.IntN(v.shards)
	key := func(name string) string { return v.key(shard, name) }
	member := func(name string) string {
		all := v.client.ZRange(ctx, key(name), 0, -1).Val()
		if len(all) == 0 {
			return "nobody"
		}
		return all[v.random.IntN(len(all))]
	}
	field := func(name string) string {
		all := v.client.HKeys(ctx, key(name)).Val()
		if len(all) == 0 {
			return "nobody"
		}
		return all[v.random.IntN(len(all))]
	}
	sets := []string{"due", "aud", "bfq", "lbl"}
	set := sets[v.random.IntN(len(sets))]
	scores := []float64{1, 1893456000000, 1e18, 4.5e15}
	switch v.random.IntN(9) {
	case 0:
		who := member(set)
		v.client.ZRem(ctx, key(set), who)
		return "removed " + who + " from " + set
	case 1:
		who := member(set)
		if set == "lbl" {
			return v.strike(ctx)
		}
		v.client.ZAdd(ctx, key(set), redis.Z{Score: scores[v.random.IntN(len(scores))], Member: who})
		return "moved " + who + " in " + set
	case 2:
		alien := map[string]string{"due": "alien", "aud": "alien:1:m1", "bfq": "alien:b", "lbl": "team=9\x01s0-0"}[set]
		v.client.ZAdd(ctx, key(set), redis.Z{Member: alien})
		return "added " + alien + " to " + set
	case 3:
		v.client.Del(ctx, key(set))
		return "emptied " + set
	case 4:
		lists := []string{"opn", "buf"}
		list := lists[v.random.IntN(len(lists))]
		who := field(list)
		v.client.HDel(ctx, key(list), who)
		return "removed " + who + " from " + list
	case 5:
		lists := []string{"opn", "buf"}
		list := lists[v.random.IntN(len(lists))]
		who := field("st")
		v.client.HSet(ctx, key(list), who, v.client.HGet(ctx, key(list), who).Val()+"1:m7,")
		return "added to " + list + " of " + who
	case 6:
		counters := []string{"active", "paused", "disabled", "completed", "claimed", "buffered"}
		name := counters[v.random.IntN(len(counters))]
		v.client.HIncrBy(ctx, key("meta"), name, int64(v.random.IntN(9)-4))
		return "changed counter " + name
	case 7:
		v.client.HSet(ctx, key("out"), ":forgotten", "1|2|3|4", "alien:r", "running|1|x|1|")
		return "added to out"
	default:
		v.client.HSet(ctx, key("buf"), "alien", "1:2,")
		v.client.HSet(ctx, key("skp"), "alien", "1,")
		return "added aliens to buf and skp"
	}
}

// TestRepair breaks a store in many ways at once; a pass of bounded steps makes
// it whole.
func TestRepair(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.furnish()
		b.check()
		before := b.stored()
		for seed := range uint64(12) {
			v := &vandal{client: b.client, random: rand.New(rand.NewPCG(seed, 7)), key: b.shardKey, shards: 3}
			var done []string
			for range 1 + seed {
				done = append(done, v.strike(t.Context()))
			}
			r, err := b.NewRepair(redisstore.RepairOptions{Limit: 20, Shard: int(seed)})
			if err != nil {
				t.Fatal(err)
			}
			steps, rounds := 0, 0
			for rounds < 2 { // a list that was lost is counted in the next round
				step, err := r.Step(t.Context())
				if err != nil {
					t.Fatalf("seed %d, after %q: %v", seed, done, err)
				}
				if steps++; steps > 400 {
					t.Fatalf("seed %d: %d steps and no end", seed, steps)
				}
				if step.Done {
					rounds++
				}
			}
			if violations, err := b.Check(t.Context()); err != nil || len(violations) > 0 {
				t.Fatalf("seed %d, after %q: %q, %v", seed, done, violations, err)
			}
		}
		if after := b.stored(); !slices.Equal(before, after) {
			for i := range before {
				if before[i] != after[i] {
					t.Errorf("a repair changed a record:\n%s\n%s", before[i], after[i])
				}
			}
		}
		again, err := b.RepairAll(t.Context())
		if err != nil || len(again) > 0 {
			t.Errorf("what is whole was repaired: %v, %v", again, err)
		}
	})
}

// stored is every record and every definition.
func (b *bench) stored() []string {
	var all []string
	for shard := range 3 {
		for _, name := range []string{"def", "st", "fir", "bf"} {
			for field, text := range b.client.HGetAll(b.t.Context(), b.shardKey(shard, name)).Val() {
				all = append(all, name+" "+field+" "+text)
			}
		}
	}
	slices.Sort(all)
	return all
}

// spoilCounts spoils the counts inside records, which no index tells, and a
// verdict.
func (b *bench) spoilCounts() {
	b.t.Helper()
	spoil := func(id, name, field string, at int, to string) {
		key := b.key(schedule.ID(id), name)
		parts := strings.Split(b.client.HGet(b.t.Context(), key, field).Val(), "|")
		parts[at] = to
		b.client.HSet(b.t.Context(), key, field, strings.Join(parts, "|"))
	}
	const open, buffered = 8, 9
	spoil("s0-0", "st", "s0-0", open, "17")
	spoil("s1-0", "st", "s1-0", open, "0")
	spoil("s2-0", "st", "s2-0", buffered, "0")
	spoil("s3-0", "st", "s3-0", buffered, "9")
	spoil("s1-1", "bf", "s1-1:b", 13, "2")
	b.field("s2-1", "range", "1")
}

// TestRepairCountsAnew finds counts that the ledger contradicts.
func TestRepairCountsAnew(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.furnish()
		b.spoilCounts()
		if violations, err := b.Check(t.Context()); err != nil || len(violations) < 5 {
			t.Fatalf("Check found only %q, %v", violations, err)
		}
		if _, err := b.RepairAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.check()
	})
}

// TestRepairReadsAnew spoils records of firings: they are open still, and the
// auditor gets them.
func TestRepairReadsAnew(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.furnish()
		key := b.key("s0-2", "fir")
		var id string
		for _, field := range b.client.HKeys(t.Context(), key).Val() {
			if strings.HasPrefix(field, "s0-2:") {
				id = field
			}
		}
		b.client.HSet(t.Context(), key, id, "gar|bage", "no firing", "E|0|0")
		b.client.ZAdd(t.Context(), b.key("s0-2", "aud"), redis.Z{Score: 1, Member: "no firing"})
		if _, err := b.RepairAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.check()
		found, _, err := b.Firings(t.Context(), []claim.FiringID{claim.FiringID(id)})
		if err != nil || found[claim.FiringID(id)].State != claim.FiringIntent {
			t.Errorf("%s = %+v, %v, want an intent", id, found[claim.FiringID(id)], err)
		}
	})
}

// TestRepairBesideAFleet breaks indexes while workers claim, run and edit, and
// repairs meanwhile. When all have stopped, one more pass leaves nothing
// broken, and every scheduled time has its verdict and its run.
func TestRepairBesideAFleet(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.furnish()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		var group sync.WaitGroup
		for n := range 3 {
			group.Go(func() { b.labour(ctx, rand.New(rand.NewPCG(uint64(n), 1))) })
		}
		group.Go(func() { b.edit(ctx, rand.New(rand.NewPCG(9, 1))) })
		group.Go(func() {
			v := &vandal{client: b.client, random: rand.New(rand.NewPCG(3, 3)), key: b.shardKey, shards: 3}
			for ctx.Err() == nil {
				v.strike(ctx)
				pausedFor(ctx, 20*time.Millisecond)
			}
		})
		var repairs atomic.Int64
		for range 2 {
			group.Go(func() {
				r, err := b.NewRepair(redisstore.RepairOptions{Limit: 10})
				for err == nil && ctx.Err() == nil {
					var step redisstore.RepairStep
					step, err = r.Step(ctx)
					repairs.Add(int64(len(step.Repaired)))
				}
				if err != nil && ctx.Err() == nil {
					t.Errorf("Step: %v", err)
				}
			})
		}
		group.Wait()
		if repairs.Load() == 0 {
			t.Error("nothing was repaired beside the fleet")
		}
		for range 2 {
			if _, err := b.RepairAll(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		b.check()
	})
}

// pausedFor waits, or until ctx ends.
func pausedFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// labour is a worker: it claims, completes, begins and finishes, at random and
// with little care.
func (b *bench) labour(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		shard := random.IntN(3)
		batch, err := b.ClaimDue(ctx, claim.ClaimRequest{Shard: shard, Owner: "w", Limit: 5, TTL: 10 * time.Second, AuditAfter: 5 * time.Second})
		if err != nil {
			return
		}
		for _, c := range batch.Claims {
			if random.IntN(8) == 0 {
				continue // this one is forgotten
			}
			decision := map[claim.ClaimKind]claim.Decision{claim.ClaimFire: claim.DecideEnqueued, claim.ClaimOverlap: claim.DecideOverlap,
				claim.ClaimAdvance: claim.DecideAdvance, claim.ClaimSkip: claim.DecideVerdict}[c.Kind]
			_, _ = b.Complete(ctx, claim.CompleteRequest{AuditBuffered: 5 * time.Second, Completions: []claim.Completion{{Schedule: c.Schedule,
				Token: c.Token, ScheduledAt: c.ScheduledAt, Decision: decision, Verdict: schedule.VerdictSkipped, Next: c.ScheduledAt.Add(10 * time.Second)}}})
		}
		audit, err := b.Audit(ctx, claim.AuditRequest{Shard: shard, Limit: 10, Hide: time.Second})
		if err != nil {
			return
		}
		for _, f := range audit.Firings {
			begun, err := b.Begin(ctx, claim.BeginRequest{Firing: f.Firing, Owner: fmt.Sprint(random.Uint64()), Worker: "w", Lease: 5 * time.Second})
			if err != nil || begun.Answer != claim.BeginRun || random.IntN(10) == 0 {
				continue
			}
			_, _ = b.Finish(ctx, claim.FinishRequest{Run: claim.Run{Firing: f.Firing, Token: begun.Token}, Outcome: claim.OutcomeSucceeded,
				Started: b.clock.Now(), Attempt: 1, KeepRuns: 3})
		}
		b.clock.Add(200 * time.Millisecond)
	}
}

// edit is an operator in a hurry.
func (b *bench) edit(ctx context.Context, random *rand.Rand) {
	for n := 0; ctx.Err() == nil; n++ {
		id := schedule.ID(fmt.Sprintf("s0-%d", random.IntN(6)))
		switch random.IntN(4) {
		case 0:
			_, _ = b.Pause(ctx, id, schedule.PauseOptions{})
		case 1:
			_, _ = b.Resume(ctx, id, schedule.ResumeOptions{})
		case 2:
			_, _ = b.Trigger(ctx, id, schedule.TriggerOptions{RequestID: fmt.Sprint(n)})
		default:
			d := every10(id)
			d.Labels = map[string]string{"team": fmt.Sprint(n % 5)}
			_, _ = b.Put(ctx, d, schedule.PutOptions{})
		}
		pausedFor(ctx, 5*time.Millisecond)
	}
}
