package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// oddPayload holds all that could confuse the record that it stands in.
const oddPayload = "|\x00,\xff|-1|\n"

// carrying opens a firing that carries something.
func (b *bench) carrying(id schedule.ID) claim.FiringID {
	b.t.Helper()
	result, err := b.Trigger(b.t.Context(), id, schedule.TriggerOptions{Payload: []byte(oddPayload), ScheduledAt: time.UnixMilli(1234)})
	if err != nil {
		b.t.Fatal(err)
	}
	return claim.FiringID(result.FiringID)
}

func (b *bench) wantCarried(id claim.FiringID) {
	b.t.Helper()
	found, _, err := b.Firings(b.t.Context(), []claim.FiringID{id})
	if extra := found[id].Extra; err != nil || extra == nil || string(extra.Payload) != oddPayload || !extra.ScheduledAt.Equal(time.UnixMilli(1234)) {
		b.t.Errorf("%s carries %+v, %v", id, extra, err)
	}
}

func TestAPayloadIsBackedUp(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.put(every10("a"))
		id := b.carrying("a")
		file, _ := b.backup()
		copied := restoredTo(t, b, file)
		copied.check()
		copied.wantCarried(id)
	})
}

// A record that cannot be read becomes an intent again, with its payload as
// long as that can be read; Check sees the damage before.
func TestAPayloadOutlivesADamagedRecord(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.put(every10("a"))
		id := b.carrying("a")
		key := b.key("a", "fir")
		sound := b.client.HGet(t.Context(), key, string(id)).Val()
		b.client.HSet(t.Context(), key, string(id), strings.Replace(sound, "I|0|", "I|x|", 1))
		if _, err := b.RepairAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.check()
		b.wantCarried(id)
		b.client.HSet(t.Context(), key, string(id), strings.TrimSuffix(sound, "|"))
		if found, err := b.Check(t.Context()); err != nil || !strings.Contains(fmt.Sprint(found), "is not the record of a firing") {
			t.Errorf("Check of a payload that is cut off = %v, %v", found, err)
		}
		if _, err := b.RepairAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.check()
	})
}

// What does not ask for anything costs nothing: the record is what it was.
func TestAPlainTriggerCarriesNothing(t *testing.T) {
	b := newBench(t, redistest.Backends()[0].Dial(t), 1)
	b.put(every10("a"))
	result, err := b.Trigger(t.Context(), "a", schedule.TriggerOptions{RequestID: "r", Overlap: schedule.OverlapSkip})
	if err != nil {
		t.Fatal(err)
	}
	text := b.client.HGet(t.Context(), b.key("a", "fir"), result.FiringID).Val()
	if strings.Count(text, "|") != 12 || !strings.HasSuffix(text, "|") {
		t.Errorf("its record is %q, want twelve fields", text)
	}
	if kept := b.client.HKeys(t.Context(), b.key("a", "out")).Val(); len(kept) != 0 {
		t.Errorf("out holds %q", kept)
	}
}

// cancel_other names what is open, so more than a reply can hold is refused.
func TestMoreThanCanBeCancelled(t *testing.T) {
	b := newBench(t, redistest.Backends()[0].Dial(t), 1)
	b.put(every10("a"))
	for range 1001 {
		if _, err := b.Trigger(t.Context(), "a", schedule.TriggerOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := b.Trigger(t.Context(), "a", schedule.TriggerOptions{Overlap: schedule.OverlapCancelOther})
	if !errors.Is(err, redisstore.ErrTooManyOpen) {
		t.Errorf("Trigger = %v, want ErrTooManyOpen", err)
	}
	b.check()
}
