package redisstore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// strikeType makes a string of a key of the wrong type, as SET does.
func (b *bench) strikeType(key string) {
	b.t.Helper()
	if err := b.client.Set(b.t.Context(), key, "\x00gar|bage\n", 0).Err(); err != nil {
		b.t.Fatal(err)
	}
}

// A key of the wrong type stops every script of its shard. The others go on and
// are repaired, Check names the key, and RepairAll puts it aside.
func TestAKeyOfTheWrongTypeStopsItsShardOnly(t *testing.T) {
	for _, name := range strings.Fields("due def st fir aud out meta idem opn buf skp bf bfq lbl evt") {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, b *bench) { wrongTypeOf(t, b, name) })
		})
	}
}

func wrongTypeOf(t *testing.T, b *bench, name string) {
	defer b.wipe()
	b.furnish()
	key := b.shardKey(1, name)
	b.strikeType(key)
	b.client.ZRem(t.Context(), b.shardKey(2, "due"), b.client.ZRange(t.Context(), b.shardKey(2, "due"), 0, 0).Val())
	b.clock.Add(time.Minute)
	for _, shard := range []int{0, 2} {
		batch, err := b.ClaimDue(t.Context(), claim.ClaimRequest{Shard: shard, Owner: "w", Limit: 5, TTL: 10 * time.Second, AuditAfter: 5 * time.Second})
		if err != nil || len(batch.Claims) == 0 {
			t.Errorf("shard %d: %d claims, %v", shard, len(batch.Claims), err)
		}
	}
	r, err := b.NewRepair(redisstore.RepairOptions{Limit: 50})
	if err != nil {
		t.Fatal(err)
	}
	var found []redisstore.Repaired
	for done, steps := false, 0; !done && steps < 300; steps++ {
		step, err := r.Step(t.Context())
		if err != nil && !strings.Contains(err.Error(), "a key is not of the type that it must be, admin doctor names it") {
			t.Fatalf("Step: %v", err)
		}
		found, done = append(found, step.Repaired...), step.Done
	}
	if !slices.ContainsFunc(found, func(one redisstore.Repaired) bool { return one.Key == "due" }) {
		t.Errorf("repaired were %v: not what was broken in another shard", found)
	}
	violations, err := b.Check(t.Context())
	if err != nil || len(violations) != 1 || violations[0].Kind != redisstore.ViolationShard || !strings.Contains(violations[0].String(), key+" is of type string") {
		t.Fatalf("Check = %v, %v; want %s alone", violations, err, key)
	}
	if found, err = b.RepairAll(t.Context()); err != nil || found[0].Name != key || found[0].Was != "string" {
		t.Fatalf("RepairAll = %v, %v; want %s first", found, err, key)
	}
	if got := b.client.Get(t.Context(), found[0].Key).Val(); !strings.Contains(got, "gar|bage") {
		t.Errorf("%s holds %q, want what was there", found[0].Key, got)
	}
	b.client.Del(t.Context(), found[0].Key)
	for i := range 5 {
		for n := range 6 {
			d := every10(schedule.ID(fmt.Sprintf("s%d-%d", i, n)))
			d.Labels = map[string]string{"again": "yes"}
			b.put(d)
		}
	}
	if _, err := b.RepairAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.clock.Add(time.Minute)
	if batch, err := b.ClaimDue(t.Context(), claim.ClaimRequest{Shard: 1, Owner: "w", Limit: 100, TTL: 10 * time.Second, AuditAfter: 5 * time.Second}); err != nil || len(batch.Claims) == 0 {
		t.Errorf("shard 1 after the repair: %d claims, %v", len(batch.Claims), err)
	}
	b.check()
}

// A run log of the wrong type is named and put aside.
func TestARunLogOfTheWrongTypeIsPutAside(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.put(every10("a"))
		key := b.key("a", "run:a")
		b.strikeType(key)
		violations, err := b.Check(t.Context())
		if err != nil || len(violations) != 1 || violations[0].Kind != redisstore.ViolationRunLog || !strings.Contains(violations[0].String(), key+" is of type string") {
			t.Errorf("Check = %v, %v; want %s alone", violations, err, key)
		}
		found, err := b.RepairAll(t.Context())
		if err != nil || len(found) != 1 || found[0].Name != key {
			t.Errorf("RepairAll = %v, %v; want %s", found, err, key)
		}
		b.check()
	})
}
