package redisstore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// grown fills a record up to a length with a field that nobody knows yet.
func grown(record string, length int) string {
	return record + strings.Repeat("0", length-len(record)-1) + "|"
}

// A bounded is a kind of record and how each side reads one of a given length.
type bounded struct {
	longest int
	here    func(length int) bool // this package reads it
	scripts func(length int) bool // scripts read it
}

// TestBothSidesReadRecordsOfOneLength: what is longer than the bound counts as
// none to scripts and to this package, and what is as long is read by both. The
// bounds stand in lib/schedule.lua, lib/backfill.lua and lib/extra.lua as well.
func TestBothSidesReadRecordsOfOneLength(t *testing.T) {
	for _, backend := range redistest.Backends()[:2] {
		t.Run(backend.Name, func(t *testing.T) {
			for name, kind := range boundedKinds(t, backend) {
				for _, length := range []int{kind.longest - 1, kind.longest, kind.longest + 1} {
					want := length <= kind.longest
					if here, scripts := kind.here(length), kind.scripts(length); here != want || scripts != want {
						t.Errorf("a record of a %s of %d bytes: read here %v, by scripts %v, want %v", name, length, here, scripts, want)
					}
				}
			}
		})
	}
}

func boundedKinds(t *testing.T, backend redistest.Backend) map[string]bounded {
	client, ctx := backend.Dial(t), t.Context()
	store, err := New(client, Options{Namespace: redistest.Namespace(), Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	definition := schedule.Schedule{ID: "a", Expression: "10s", Type: "log"}
	put, err := store.Put(ctx, definition, schedule.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Add(-time.Minute)
	if _, err := store.StartBackfill(ctx, claim.BackfillRequest{Schedule: "a", ID: "b", From: now.Add(-time.Hour), To: now}); err != nil {
		t.Fatal(err)
	}
	keys := store.keys.shard(0)
	record := func(key int, field string) string { return client.HGet(ctx, keys[key], field).Val() }
	set := func(key int, field, text string) {
		if err := client.HSet(ctx, keys[key], field, text).Err(); err != nil {
			t.Fatal(err)
		}
	}
	schedules, backfills := record(keyState, "a")+strings.Repeat("0|", coldNumbers)+"|", record(keyBackfill, "a:b")
	firing := claim.ManualFiring("a", put.Generation, "x")
	carrying := func(length int) string {
		const head = "I|0|0|0|0|0|0|0|0|||default|"
		payload := length - len(head) - len("0||1000000||")
		return fmt.Sprintf("%s0||%07d|%s|", head, payload, strings.Repeat("x", payload))
	}
	return map[string]bounded{
		"schedule": {longestRecord,
			func(length int) bool { _, err := decodeRecord(grown(schedules, length)); return err == nil },
			func(length int) bool {
				set(keyState, "a", grown(schedules, length))
				defer set(keyState, "a", strings.TrimSuffix(schedules, strings.Repeat("0|", coldNumbers)+"|"))
				_, err := store.Pause(ctx, "a", schedule.PauseOptions{})
				return err == nil
			}},
		"backfill": {longestBackfill,
			func(length int) bool { _, err := readBackfill("a:b", grown(backfills, length)); return err == nil },
			func(length int) bool {
				set(keyBackfill, "a:b", grown(backfills, length))
				_, err := store.HaltBackfill(ctx, "a", "b")
				return err == nil || !strings.Contains(err.Error(), claim.ErrNoBackfill.Error())
			}},
		"firing": {longestFiring,
			func(length int) bool { _, _, _, err := readFiring(carrying(length)); return err == nil },
			func(length int) bool {
				set(keyFiring, string(firing), carrying(length))
				defer client.HDel(ctx, keys[keyFiring], string(firing))
				open, _, err := store.Firings(ctx, []claim.FiringID{firing})
				return err == nil && open[firing].Extra != nil
			}},
	}
}
