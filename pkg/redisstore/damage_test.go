package redisstore_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// shard is the shard of a schedule: the one that holds its definition.
func (b *bench) shard(id schedule.ID) int {
	b.t.Helper()
	for shard := range 3 {
		if b.client.HExists(b.t.Context(), b.shardKey(shard, "def"), string(id)).Val() {
			return shard
		}
	}
	b.t.Fatalf("no shard holds %s", id)
	return 0
}

// key names a key of a schedule's shard.
func (b *bench) key(id schedule.ID, name string) string {
	b.t.Helper()
	return b.shardKey(b.shard(id), name)
}

// wipe empties the namespace, where Check would find what a test broke.
func (b *bench) wipe() {
	b.t.Helper()
	for shard := range 3 {
		for _, name := range strings.Fields("due def st fir aud out meta idem opn buf skp bf bfq lbl evt") {
			if err := b.client.Del(b.t.Context(), fmt.Sprintf("belfry:{%s:%02d}:%s", b.Namespace(), shard, name)).Err(); err != nil {
				b.t.Fatal(err)
			}
		}
	}
}

// claimDamaged is claimAll with the schedules that were found damaged.
func (b *bench) claimDamaged() (claimed, damaged []schedule.ID) {
	b.t.Helper()
	for shard := range 3 {
		batch, err := b.ClaimDue(b.t.Context(), claim.ClaimRequest{Shard: shard, Owner: "w", Limit: 100,
			TTL: 10 * time.Second, AuditAfter: 15 * time.Second})
		if err != nil {
			b.t.Fatalf("ClaimDue(%d): %v", shard, err)
		}
		for _, c := range batch.Claims {
			claimed = append(claimed, c.Schedule)
		}
		damaged = append(damaged, batch.Damaged...)
	}
	slices.Sort(claimed)
	slices.Sort(damaged)
	return claimed, damaged
}

// TestADamagedRecordStopsNoOther spoils records in several ways, as a slip in
// redis-cli or a half restored backup does.
func TestADamagedRecordStopsNoOther(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		defer b.wipe()
		spoiled := map[schedule.ID]func(text string) string{
			"garbage":   func(string) string { return "gar|bage" },
			"empty":     func(string) string { return "" },
			"letters":   func(text string) string { return strings.Replace(text, "|1|", "|x|", 1) },
			"cold-part": func(text string) string { return text + "1|2|x|" },
			"huge":      func(text string) string { return text + strings.Repeat("0|", 17) + strings.Repeat("x", 2<<20) + "|" },
		}
		b.put(every10("good"))
		b.put(every10("orphan"))
		for id, spoil := range spoiled {
			b.put(every10(id))
			text := b.client.HGet(t.Context(), b.key(id, "st"), string(id)).Val()
			b.client.HSet(t.Context(), b.key(id, "st"), string(id), spoil(text))
		}
		b.client.HDel(t.Context(), b.key("orphan", "st"), "orphan")
		b.clock.Add(10 * time.Second)

		want := []schedule.ID{"cold-part", "empty", "garbage", "huge", "letters"}
		claimed, damaged := b.claimDamaged()
		if !slices.Equal(claimed, []schedule.ID{"good"}) || !slices.Equal(damaged, want) {
			t.Fatalf("claimed %v, damaged %v; want good and %v", claimed, damaged, want)
		}
		if _, again := b.claimDamaged(); len(again) != 0 {
			t.Errorf("%v were handed out again at once", again)
		}
		page, err := b.List(t.Context(), schedule.ListOptions{})
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		var invalid []schedule.ID
		for _, entry := range page.Entries {
			if entry.Invalid != nil {
				invalid = append(invalid, entry.Schedule.ID)
			}
		}
		if !slices.Equal(invalid, []schedule.ID{"cold-part", "garbage", "huge", "letters"}) { // an empty record is none
			t.Errorf("invalid in the list: %v", invalid)
		}
		if _, err := b.Stats(t.Context()); err != nil {
			t.Errorf("Stats: %v", err)
		}
		for _, id := range append(want, "orphan") {
			if result := b.put(every10(id)); !result.Created {
				t.Errorf("Put over the damaged %s = %+v", id, result)
			}
		}
		b.clock.Add(20 * time.Second)
		claimed, damaged = b.claimDamaged()
		if len(claimed) != 7 || len(damaged) != 0 {
			t.Errorf("after the repair: claimed %v, damaged %v", claimed, damaged)
		}
	})
}

func TestADamagedFiringStopsNoOther(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		defer b.wipe()
		b.put(every10("a"))
		b.clock.Add(10 * time.Second)
		first := b.claimOne()
		b.complete(first, claim.DecideEnqueued, first.ScheduledAt.Add(10*time.Second))
		b.clock.Add(10 * time.Second)
		second := b.claimOne()
		b.complete(second, claim.DecideEnqueued, second.ScheduledAt.Add(10*time.Second))
		b.client.HSet(t.Context(), b.key("a", "fir"), string(first.Firing()), "gar|bage")
		b.clock.Add(20 * time.Second)
		var found []claim.FiringID
		for shard := range 3 {
			batch, err := b.Audit(t.Context(), claim.AuditRequest{Shard: shard, Limit: 10, Hide: time.Minute})
			if err != nil {
				t.Fatalf("Audit: %v", err)
			}
			for _, open := range batch.Firings {
				found = append(found, open.Firing)
			}
		}
		if !slices.Equal(found, []claim.FiringID{second.Firing()}) {
			t.Errorf("audited %v, want %v alone", found, second.Firing())
		}
		if begun := b.begin(first.Firing(), "me"); begun.Answer == claim.BeginRun {
			t.Errorf("Begin of the damaged firing = %+v", begun)
		}
	})
}

// TestANumberOutOfBoundsStopsNoOther gives every number of a record a value
// that scripts cannot compute with and callers cannot read.
func TestANumberOutOfBoundsStopsNoOther(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		defer b.wipe()
		b.put(every10("good"))
		var want []schedule.ID
		for field := range 28 { // 11 before the range and the queue, 17 behind them
			for name, number := range map[string]string{"plus": "1" + strings.Repeat("0", 30), "minus": "-1" + strings.Repeat("0", 30), "huge": strings.Repeat("9", 400)} {
				id := schedule.ID(fmt.Sprintf("n%d.%s", field, name))
				b.put(every10(id))
				key := b.key(id, "st")
				numbers := strings.Split(b.client.HGet(t.Context(), key, string(id)).Val(), "|")
				numbers = append(numbers[:13], strings.Split(strings.Repeat("0|", 17)+"|", "|")...)
				if at := field; at < 11 {
					numbers[at] = number
				} else {
					numbers[at+2] = number
				}
				b.client.HSet(t.Context(), key, string(id), strings.Join(numbers, "|"))
				want = append(want, id)
			}
		}
		slices.Sort(want)
		b.clock.Add(10 * time.Second)
		claimed, damaged := b.claimDamaged()
		if !slices.Equal(claimed, []schedule.ID{"good"}) || !slices.Equal(damaged, want) {
			t.Fatalf("claimed %v, damaged %d %v; want good and all %d", claimed, len(damaged), damaged, len(want))
		}
		for _, id := range want {
			if entry, err := b.Get(t.Context(), id); err != nil || entry.Invalid == nil {
				t.Errorf("Get(%s) = %+v, %v; want an invalid entry", id, entry, err)
			}
			if result := b.put(every10(id)); !result.Created {
				t.Errorf("Put over the damaged %s = %+v", id, result)
			}
		}
	})
}

// TestTimesToSkipThatAreNoneStopNoRepair has a list of times to skip that holds
// none: it kept every schedule behind it from being repaired.
func TestTimesToSkipThatAreNoneStopNoRepair(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.put(every10("a"))
		b.put(every10("b"))
		for _, id := range []schedule.ID{"a", "b"} {
			b.client.ZRem(t.Context(), b.key(id, "due"), string(id))
			b.client.HSet(t.Context(), b.key(id, "skp"), string(id), "tomorrow,,99x,")
		}
		if _, err := b.RepairAll(t.Context()); err != nil {
			t.Fatalf("RepairAll: %v", err)
		}
		b.clock.Add(10 * time.Second)
		if claimed, _ := b.claimDamaged(); len(claimed) != 2 {
			t.Errorf("claimed %v, want both", claimed)
		}
	})
}

// TestAnInfiniteDueTimeIsNotSoon has nothing in the index of due times but a
// slip: workers took it for long ago and asked without a rest.
func TestAnInfiniteDueTimeIsNotSoon(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		defer b.wipe()
		b.put(every10("a"))
		if err := b.client.ZAdd(t.Context(), b.key("a", "due"), redis.Z{Score: math.Inf(1), Member: "a"}).Err(); err != nil {
			t.Fatal(err)
		}
		for shard := range 3 {
			batch, err := b.ClaimDue(t.Context(), claim.ClaimRequest{Shard: shard, Owner: "w", Limit: 10,
				TTL: 10 * time.Second, AuditAfter: 15 * time.Second})
			if err != nil || !batch.NextDue.IsZero() && !batch.NextDue.After(batch.Now) {
				t.Errorf("shard %d: next due %v at %v, %v", shard, batch.NextDue, batch.Now, err)
			}
		}
	})
}

// TestACounterThatIsNoneStopsNobody spoils the counters of a shard. They decide
// nothing, and stopped every claim halfway through what it wrote.
func TestACounterThatIsNoneStopsNobody(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.put(every10("a"))
		meta := b.key("a", "meta")
		for _, name := range []string{"active", "paused", "claimed", "buffered"} {
			for _, value := range []string{"", "x", "1.5", "1e5", strings.Repeat("9", 26), "9223372036854775807"} {
				b.client.HSet(t.Context(), meta, name, value)
				b.clock.Add(10 * time.Second)
				c := b.claimOne()
				b.client.HSet(t.Context(), meta, name, value)
				b.complete(c, claim.DecideEnqueued, c.ScheduledAt.Add(10*time.Second))
				b.client.HSet(t.Context(), meta, name, value)
				if _, err := b.Pause(t.Context(), "a", schedule.PauseOptions{}); err != nil {
					t.Errorf("%s = %.30q: Pause: %v", name, value, err)
				}
				if _, err := b.Resume(t.Context(), "a", schedule.ResumeOptions{}); err != nil {
					t.Errorf("%s = %.30q: Resume: %v", name, value, err)
				}
				b.client.HSet(t.Context(), meta, name, value)
				if _, err := b.Stats(t.Context()); err != nil {
					t.Errorf("%s = %.30q: Stats: %v", name, value, err)
				}
				if violations, err := b.Check(t.Context()); err != nil || len(violations) != 1 || !strings.Contains(violations[0].String(), " "+name+", ") {
					t.Errorf("%s = %.30q: Check = %q, %v", name, value, violations, err)
				}
				if _, err := b.RepairAll(t.Context()); err != nil {
					t.Errorf("%s = %.30q: RepairAll: %v", name, value, err)
				}
				b.check()
			}
		}
	})
}
