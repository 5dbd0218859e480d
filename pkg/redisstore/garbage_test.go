package redisstore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// plant writes an entry into the ledger of a shard, which is audited now.
func (b *bench) plant(shard int, name, record string) {
	b.t.Helper()
	b.client.HSet(b.t.Context(), b.shardKey(shard, "fir"), name, record)
	b.client.ZAdd(b.t.Context(), b.shardKey(shard, "aud"), redis.Z{Score: 1, Member: name})
}

const soundFiring = "I|0|0|0|0|0|0|0|0|||default|"

// A firing of a schedule that lives elsewhere was counted nowhere, audited for
// ever and repaired never: who settles it looks into the right shard.
func TestAFiringInTheWrongShardIsRemoved(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.put(every10("a"))
		b.clock.Add(10 * time.Second)
		c := b.claimOne()
		b.complete(c, claim.DecideEnqueued, c.ScheduledAt.Add(10*time.Second))
		id, home := string(c.Firing()), 0
		for shard := range 3 {
			if b.client.HExists(t.Context(), b.shardKey(shard, "st"), "a").Val() {
				home = shard
			}
		}
		want := 0
		for shard := range 3 {
			if shard == home {
				continue
			}
			b.plant(shard, id, soundFiring)
			b.client.ZAdd(t.Context(), b.shardKey(shard, "aud"), redis.Z{Score: 1, Member: id + "5"})
			want += 2
		}
		violations, err := b.Check(t.Context())
		if err != nil || !strings.Contains(fmt.Sprint(violations), fmt.Sprintf("the ledger holds %s, which belongs into shard %02d", id, home)) {
			t.Errorf("Check = %v, %v; want the strays", violations, err)
		}
		found, err := b.RepairAll(t.Context())
		if err != nil || len(found) != want {
			t.Errorf("RepairAll = %v, %v; want %d repairs", found, err, want)
		}
		for _, one := range found {
			if one.Key == "fir" && one.Was != soundFiring {
				t.Errorf("%+v does not say what was removed", one)
			}
		}
		b.check()
		if status := b.get("a"); status.Open != 1 {
			t.Errorf("Open = %d, want the firing at home", status.Open)
		}
	})
}

// What is told of a removed entry is one line of printable text, however large
// the entry was.
func TestARemovedEntryIsToldInShort(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.put(every10("a"))
		b.plant(0, "\x1b[2Jclear "+strings.Repeat("x", 70_000), "I|\x00\xff\n"+strings.Repeat("y", 3<<20))
		violations, err := b.Check(t.Context())
		if err != nil || len(violations) != 1 {
			t.Fatalf("Check = %d violations, %v; want 1", len(violations), err)
		}
		found, err := b.RepairAll(t.Context())
		if err != nil || len(found) != 1 {
			t.Fatalf("RepairAll = %d, %v; want 1", len(found), err)
		}
		for _, text := range []string{violations[0].String(), found[0].String()} {
			odd := strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
			if odd || len(text) > 2048 || !strings.Contains(text, `\x1b[2Jclear xxx`) || !strings.Contains(text, "bytes more") {
				t.Errorf("it is told as %.300q of %d bytes", text, len(text))
			}
		}
		if len(found[0].Was) > 1024 {
			t.Errorf("%d bytes of the record are kept", len(found[0].Was))
		}
		b.check()
	})
}

// A record that holds the last token there can be would leave none to grant
// when it was believed.
func TestNobodyBelievesATokenThatWasNeverGranted(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.put(every10("a"))
		b.clock.Add(10 * time.Second)
		c := b.claimOne()
		b.complete(c, claim.DecideEnqueued, c.ScheduledAt.Add(10*time.Second))
		shard := b.shard("a")
		meta := b.shardKey(shard, "meta")
		granted := b.client.HGet(t.Context(), meta, "token").Val()
		const last = "R|1|9007199254740991|1|0|0|0|1|1|o|w|default|"
		b.plant(shard, "a:1:garbage", last)
		b.plant(shard, string(c.Firing()), last)
		for range 2 {
			if _, err := b.RepairAll(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if got := b.client.HGet(t.Context(), meta, "token").Val(); got != granted {
			t.Errorf("the last granted token is %s, was %s", got, granted)
		}
		b.clock.Add(time.Minute)
		if again := b.claimOne(); again.Token <= c.Token {
			t.Errorf("token %d after %d", again.Token, c.Token)
		}
		b.check()
	})
}

// What a deleted schedule left open is not counted for one of the same name.
func TestRecountTellsGenerationsApart(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.put(every10("a"))
		b.clock.Add(10 * time.Second)
		c := b.claimOne()
		b.complete(c, claim.DecideEnqueued, c.ScheduledAt.Add(10*time.Second))
		if _, err := b.Remove(t.Context(), "a", schedule.RemoveOptions{}); err != nil {
			t.Fatal(err)
		}
		b.put(every10("a"))
		key := b.key("a", "st")
		parts := strings.Split(b.client.HGet(t.Context(), key, "a").Val(), "|")
		parts[8] = "1" // open
		b.client.HSet(t.Context(), key, "a", strings.Join(parts, "|"))
		found, err := b.RepairAll(t.Context())
		if err != nil || !slices.Contains(found, redisstore.Repaired{Name: "a", Key: "st"}) {
			t.Errorf("RepairAll = %v, %v; want the count of a", found, err)
		}
		b.check()
		if status := b.get("a"); status.Open != 0 {
			t.Errorf("Open = %d, want 0", status.Open)
		}
	})
}

// A repair goes through garbage a step of Limit entries at a time.
func TestGarbageIsRemovedLittleByLittle(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.furnish()
		before := b.stored()
		for i := range 700 {
			b.plant(i%3, fmt.Sprintf("s0-0:%d:garbage%d", i, i), soundFiring)
		}
		r, err := b.NewRepair(redisstore.RepairOptions{Limit: 25})
		if err != nil {
			t.Fatal(err)
		}
		removed := 0
		for done := false; !done; {
			step, err := r.Step(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(step.Repaired) > 50 {
				t.Errorf("%d entries in a step of 25", len(step.Repaired))
			}
			removed, done = removed+len(step.Repaired), step.Done
		}
		if removed != 700 {
			t.Errorf("%d repairs, want 700", removed)
		}
		b.check()
		if after := b.stored(); !slices.Equal(before, after) {
			t.Error("a repair of garbage changed a record")
		}
	})
}

// A record of a backfill that cannot be read stopped every backfill of its
// shard, and the end of each of its own firings.
func TestADamagedBackfillStopsNoOther(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.furnish()
		for i, record := range []string{"", "gar|bage", "1|2|3|", strings.Repeat("9", 5000), strings.Repeat("1|", 16), strings.Repeat("x|", 17),
			strings.Repeat("12345678901234567|", 17), strings.Repeat("1", 1<<20)} {
			for _, id := range []string{"s0-0", "s1-1"} {
				key := b.key(schedule.ID(id), "bf")
				b.client.HSet(t.Context(), key, fmt.Sprintf("%s:x%d", id, i), record)
				b.client.ZAdd(t.Context(), key+"q", redis.Z{Score: 1, Member: fmt.Sprintf("%s:x%d", id, i)})
			}
		}
		b.clock.Add(time.Minute)
		due := map[string]bool{}
		for shard := range 3 {
			batch, err := b.DueBackfills(t.Context(), claim.DueBackfillsRequest{Shard: shard, Limit: 100, Hide: time.Second})
			if err != nil {
				t.Fatalf("DueBackfills(%d): %v", shard, err)
			}
			for _, one := range batch.Backfills {
				due[backfillName(one)] = true
			}
		}
		if len(due) != 2 || !due["s0-0:b"] || !due["s1-1:b"] {
			t.Errorf("due are %v, want s0-0:b and s1-1:b", due)
		}
		b.client.HSet(t.Context(), b.key("s0-0", "bf"), "s0-0:b", "gar|bage")
		for _, id := range b.client.HKeys(t.Context(), b.key("s0-0", "fir")).Val() {
			if strings.Contains(id, "s0-0:") && strings.Contains(id, ":bb.") {
				if run := b.begin(claim.FiringID(id), "one"); b.finish(claim.FiringID(id), run.Token, claim.OutcomeSucceeded).Answer != claim.FinishOK {
					t.Errorf("%s does not end", id)
				}
			}
		}
		violations, err := b.Check(t.Context())
		if err != nil || strings.Count(fmt.Sprint(violations), "is not the record of a backfill") != 17 {
			t.Errorf("Check = %.600v, %v; want 17 backfills", violations, err)
		}
		found, err := b.RepairAll(t.Context())
		if err != nil || !slices.Contains(found, redisstore.Repaired{Name: "s0-0:b", Key: "bf", Was: "gar|bage"}) {
			t.Errorf("RepairAll = %.600v, %v; want s0-0:b among them", found, err)
		}
		b.check()
	})
}

func backfillName(b claim.Backfill) string { return string(b.Schedule) + ":" + b.ID }

// A record under a name that no schedule can have, which no Put replaces, and
// sums that are no numbers: the first stayed for ever, the second ended every
// repair.
func TestARepairIsStoppedByNothingInItsWay(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.furnish()
		before := b.stored()
		for shard := range 3 {
			b.client.HSet(t.Context(), b.shardKey(shard, "st"), "a b", "gar|bage", "", "", "\xff\x00", strings.Repeat("1|", 40), strings.Repeat("x", 129), "1")
			b.client.HSet(t.Context(), b.shardKey(shard, "def"), "a b", "{}")
			b.client.HSet(t.Context(), b.shardKey(shard, "meta"), "recount", "", "recount_active", "many", "recount_claimed", "")
		}
		r, err := b.NewRepair(redisstore.RepairOptions{Limit: 50})
		if err != nil {
			t.Fatal(err)
		}
		failed, rounds := 0, 0
		for steps := 0; rounds < 2; steps++ {
			step, err := r.Step(t.Context())
			if err != nil {
				failed++
			}
			if step.Done {
				rounds++
			}
			if steps > 500 {
				t.Fatalf("no end after %d errors, the last %v", failed, err)
			}
		}
		if failed > 3 {
			t.Errorf("%d steps failed, want one a shard at most", failed)
		}
		b.check()
		if after := b.stored(); !slices.Equal(before, after) {
			t.Error("a repair of garbage changed a record")
		}
	})
}
