package redisstore_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/internal/storetest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// flush makes every node forget its scripts.
func flush(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	err := error(nil)
	if cluster, ok := client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error { return node.ScriptFlush(ctx).Err() })
	} else {
		err = client.ScriptFlush(t.Context()).Err()
	}
	if err != nil {
		t.Fatalf("flush the scripts: %v", err)
	}
}

// B043, B045: scripts live on each node and can vanish from one of them; every
// call sends its own again.
func TestB045EveryCallSurvivesAScriptFlush(t *testing.T) {
	for _, backend := range redistest.Backends() {
		t.Run(backend.Name, func(t *testing.T) {
			client := backend.Dial(t)
			now := storetest.Epoch
			again := backend
			again.Dial = func(testing.TB) redis.UniversalClient { return client }
			s := open(again)(t, func() time.Time { return now })
			ctx := t.Context()
			step := func(what string, call func() error) {
				t.Helper()
				flush(t, client)
				if err := call(); err != nil {
					t.Fatalf("%s after a flush: %v", what, err)
				}
			}
			var c claim.Claim
			step("Put", func() error {
				_, err := s.Catalog.Put(ctx, schedule.Schedule{ID: "a", Expression: "10s", Type: "t"}, schedule.PutOptions{})
				return err
			})
			now = now.Add(10 * time.Second)
			step("ClaimDue", func() error {
				shards, err := s.Claims.Shards(ctx)
				for shard := range shards {
					batch, claimErr := s.Claims.ClaimDue(ctx, claim.ClaimRequest{Shard: shard, Owner: "w", Limit: 10, TTL: time.Minute, AuditAfter: time.Minute})
					if claimErr != nil {
						return claimErr
					}
					for _, one := range batch.Claims {
						c = one
					}
				}
				return err
			})
			if c.Schedule != "a" {
				t.Fatalf("claimed %+v", c)
			}
			step("Complete", func() error {
				_, err := s.Claims.Complete(ctx, claim.CompleteRequest{Completions: []claim.Completion{{Schedule: "a", Token: c.Token,
					ScheduledAt: c.ScheduledAt, Decision: claim.DecideEnqueued, Next: c.ScheduledAt.Add(10 * time.Second)}}})
				return err
			})
			var grant claim.BeginResult
			step("Begin", func() (err error) {
				grant, err = s.Ledger.Begin(ctx, claim.BeginRequest{Firing: c.Firing(), Owner: "o", Worker: "w", Lease: time.Minute})
				return err
			})
			step("Finish", func() error {
				_, err := s.Ledger.Finish(ctx, claim.FinishRequest{Run: claim.Run{Firing: c.Firing(), Token: grant.Token}, Outcome: claim.OutcomeSucceeded, Attempt: 1})
				return err
			})
			step("StartBackfill", func() error {
				_, err := s.Backfills.StartBackfill(ctx, claim.BackfillRequest{Schedule: "a", From: storetest.Epoch, To: now})
				return err
			})
			entry, err := s.Catalog.Get(ctx, "a")
			if err != nil || entry.Status.Fired != 1 || entry.Status.RunCount != 1 {
				t.Errorf("in the end %+v, %v; want one fired and run", entry.Status, err)
			}
			if err := s.Check(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// B127: many look at the same claims that have run out; each is taken over
// once, and its old holder can do nothing with it.
func TestB127ManyTakeOverEachClaimOnce(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		const schedules, takers = 60, 20
		for i := range schedules {
			b.put(every10(schedule.ID("s" + strconv.Itoa(i))))
		}
		b.clock.Add(10 * time.Second)
		old := b.claimAll()
		if len(old) != schedules {
			t.Fatalf("%d claims of %d", len(old), schedules)
		}
		b.clock.Add(11 * time.Second) // the TTL is ten
		var mu sync.Mutex
		taken := map[schedule.ID]int{}
		var group sync.WaitGroup
		for range takers {
			group.Go(func() {
				mine := b.claimAll()
				mu.Lock()
				defer mu.Unlock()
				for _, c := range mine {
					taken[c.Schedule]++
				}
			})
		}
		group.Wait()
		for _, c := range old {
			if n := taken[c.Schedule]; n != 1 {
				t.Errorf("%s was taken over %d times, want once", c.Schedule, n)
			}
			if outcome := b.complete(c, claim.DecideEnqueued, c.ScheduledAt.Add(10*time.Second)); outcome != claim.CompleteStale {
				t.Errorf("%s: its old holder completes it: %s", c.Schedule, outcome)
			}
		}
	})
}
