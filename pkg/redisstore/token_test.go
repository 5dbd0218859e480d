package redisstore_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A field token that is none, after a slip in redis-cli say, used to end every
// claim of its shard without a word.
func TestASpoiledTokenIsLoudAndRepaired(t *testing.T) {
	for _, spoiled := range []string{"1" + strings.Repeat("0", 26), "1e15", "letters", "", "-7", "9007199254740993", "9007199254740991"} {
		t.Run(spoiled, func(t *testing.T) {
			each(t, func(t *testing.T, b *bench) { spoilToken(t, b, spoiled) })
		})
	}
}

func spoilToken(t *testing.T, b *bench, spoiled string) {
	defer b.wipe()
	created := b.put(every10("a"))
	b.clock.Add(10 * time.Second)
	first := b.claimOne()
	b.complete(first, claim.DecideEnqueued, first.ScheduledAt.Add(10*time.Second))
	run := b.begin(first.Firing(), "one")
	meta := b.key("a", "meta")
	b.client.HSet(t.Context(), meta, "token", spoiled)
	b.clock.Add(10 * time.Second)

	var err error
	for shard := range 3 {
		_, one := b.ClaimDue(t.Context(), claim.ClaimRequest{Shard: shard, Owner: "w", Limit: 10, TTL: time.Second, AuditAfter: time.Second})
		err = errors.Join(err, one)
	}
	if err == nil || !strings.Contains(err.Error(), "field token of "+meta) {
		t.Errorf("ClaimDue = %v, want an error that names the field", err)
	}
	if got := b.client.HGet(t.Context(), meta, "token").Val(); got != spoiled {
		t.Errorf("token = %s after the claim, want it as it was", got)
	}
	if spoiled == "9007199254740991" {
		return // a token, the last one: nothing says that it was not granted
	}
	violations, err := b.Check(t.Context())
	if err != nil || len(violations) != 1 || !strings.Contains(violations[0].String(), "meta holds the token") {
		t.Errorf("Check = %v, %v; want the token", violations, err)
	}
	found, err := b.RepairAll(t.Context())
	if err != nil || !slices.Equal(found, []redisstore.Repaired{{Name: "token", Key: "meta"}}) {
		t.Errorf("RepairAll = %v, %v; want the token", found, err)
	}
	b.check()
	second := b.claimOne()
	if newest := max(first.Token, run.Token, claim.Token(created.Generation)); second.Token <= newest {
		t.Errorf("token %d after the repair, want more than %d", second.Token, newest)
	}
	if answer := b.finish(first.Firing(), run.Token, claim.OutcomeSucceeded).Answer; answer != claim.FinishOK {
		t.Errorf("the run that went on meanwhile: %s", answer)
	}
}

// A token that fell, or whose field is gone, is raised to what is in use, and
// an empty shard whose token is spoiled takes schedules again.
func TestATokenIsNeverLowered(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		defer b.wipe()
		b.put(every10("a"))
		meta := b.key("a", "meta")
		right := b.client.HGet(t.Context(), meta, "token").Val()
		for _, fallen := range []string{"5", ""} {
			if fallen == "" {
				b.client.HDel(t.Context(), meta, "token")
			} else {
				b.client.HSet(t.Context(), meta, "token", fallen)
			}
			found, err := b.RepairAll(t.Context())
			if got := b.client.HGet(t.Context(), meta, "token").Val(); err != nil || len(found) != 1 || got != right {
				t.Errorf("token = %s after %v, %v; want %s", got, found, err, right)
			}
		}
		const ahead = "4000000000000000" // of a clock that was wrong for a while: granted tokens are as large
		b.client.HSet(t.Context(), meta, "token", ahead)
		if found, err := b.RepairAll(t.Context()); err != nil || len(found) != 0 {
			t.Errorf("RepairAll = %v, %v; want nothing", found, err)
		}
		if _, err := b.Remove(t.Context(), "a", schedule.RemoveOptions{}); err != nil {
			t.Fatal(err)
		}
		b.client.HSet(t.Context(), meta, "token", "letters")
		if _, err := b.Put(t.Context(), every10("a"), schedule.PutOptions{}); err == nil {
			t.Error("Put with a spoiled token = nil, want an error")
		}
		if found, err := b.RepairAll(t.Context()); err != nil || len(found) != 1 {
			t.Errorf("RepairAll of an empty shard = %v, %v; want the token", found, err)
		}
		b.put(every10("a"))
	})
}

// Tokens that the clock does not explain are named, and neither broken nor
// lowered: claims, runs and IDs go on until the last token there can be.
func TestTokensAheadOfTheClockAreNamedAndKept(t *testing.T) {
	const last = int64(1<<53 - 1)
	each(t, func(t *testing.T, b *bench) {
		defer b.wipe()
		b.put(every10("a"))
		if found, err := b.TokensAhead(t.Context()); err != nil || len(found) != 0 {
			t.Fatalf("TokensAhead of a right clock = %+v, %v", found, err)
		}
		meta := b.key("a", "meta")
		for _, ahead := range []time.Duration{23 * time.Hour, 25 * time.Hour, 100 * 365 * 24 * time.Hour} {
			at := b.clock.Now().Add(ahead)
			b.client.HSet(t.Context(), meta, "token", at.UnixMicro())
			found, err := b.TokensAhead(t.Context())
			if ahead < 24*time.Hour {
				if err != nil || len(found) != 0 {
					t.Errorf("TokensAhead %s ahead = %+v, %v; want nothing", ahead, found, err)
				}
				continue
			}
			if err != nil || len(found) != 1 || found[0].Token != claim.Token(at.UnixMicro()) || !found[0].At.Equal(at) ||
				found[0].Ahead != ahead || found[0].Left != last-at.UnixMicro() {
				t.Errorf("TokensAhead %s ahead = %+v, %v", ahead, found, err)
			}
			b.check()
		}
		created := b.put(every10("late"))
		if found, err := b.RepairAll(t.Context()); err != nil || len(found) != 0 {
			t.Errorf("RepairAll = %v, %v; want nothing", found, err)
		}
		b.client.HSet(t.Context(), meta, "token", last-2)
		b.clock.Add(10 * time.Second)
		var tokens []claim.Token
		for _, c := range b.claimAll() {
			if c.Schedule == "a" {
				tokens = append(tokens, c.Token)
				b.complete(c, claim.DecideEnqueued, c.ScheduledAt.Add(10*time.Second))
				tokens = append(tokens, b.begin(c.Firing(), "one").Token)
			}
		}
		if !slices.Equal(tokens, []claim.Token{claim.Token(last - 1), claim.Token(last)}) {
			t.Errorf("granted %v, want the last two", tokens)
		}
		if _, err := claim.ParseFiringID(string(claim.ManualFiring("late", created.Generation, "r"))); err != nil {
			t.Errorf("a firing of a schedule with such a generation: %v", err)
		}
		found, err := b.TokensAhead(t.Context())
		if err != nil || len(found) != 1 || found[0].Left != 0 {
			t.Errorf("TokensAhead at the end = %+v, %v; want none left", found, err)
		}
		if _, err := b.Put(t.Context(), every10("a"), schedule.PutOptions{}); err != nil {
			t.Errorf("Put of what is there: %v", err)
		}
		for shard := range 3 {
			if b.shardKey(shard, "meta") != meta {
				continue
			}
			b.clock.Add(10 * time.Second)
			_, err := b.ClaimDue(t.Context(), claim.ClaimRequest{Shard: shard, Owner: "w", Limit: 10, TTL: time.Second, AuditAfter: time.Second})
			if err == nil || !strings.Contains(err.Error(), "lets no token follow; doctor says what to do") {
				t.Errorf("ClaimDue with no token left = %v", err)
			}
		}
	})
}
