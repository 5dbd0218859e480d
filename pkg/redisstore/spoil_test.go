package redisstore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// recordFields are the fields of a schedule's record in their order, see
// scripts/lua/lib/schedule.lua.
var recordFields = strings.Fields(`state policy version next_ms not_before_ms high_water_ms token generation open buffered fired range queue
	failures max_failures cool_down_ms until_ms since_ms buffer_limit coalesced missed overlapped others runs failed_runs updated_ms
	delay_ms ends_ms limit ranges history`)

// spoiled are what a slip, a half restored backup or a vandal leaves in a field.
var spoiled = map[string]string{
	"empty": "", "one": "1", "dash": "-", "zero": "0", "zeros": "007", "minus": "-5", "plus": "+5", "word": "x", "list": "1,2", "list5": "1,0,x,4,5",
	"16digits": "9999999999999999", "year10000": "253402300800000", "int32": "99999999999", "26digits": "1" + strings.Repeat("0", 26),
	"random": "\xff\x00\xfe;\n,", "semicolons": ";;", "half": "1,0,1,", "far": "1,0,1,5,999999999999999", "uncounted": "3,0," + strings.Repeat("9", 26) + ",5,6",
}

// field spoils one field of a record.
func (b *bench) field(id schedule.ID, name, value string) {
	b.t.Helper()
	key := b.key(id, "st")
	parts := strings.Split(b.client.HGet(b.t.Context(), key, string(id)).Val(), "|")
	if len(parts) < len(recordFields) {
		parts = append(parts[:13], strings.Split(strings.Repeat("0|", 17)+"|", "|")...)
	}
	for i, field := range recordFields {
		if field == name {
			parts[i] = value
		}
	}
	b.client.HSet(b.t.Context(), key, string(id), strings.Join(parts, "|"))
}

// fired lets the fleet claim and complete for a while and returns how often
// each schedule was granted, and the schedules that were found damaged.
func (b *bench) fired(rounds int) (granted map[schedule.ID]int, damaged map[schedule.ID]bool) {
	b.t.Helper()
	granted, damaged = map[schedule.ID]int{}, map[schedule.ID]bool{}
	for range rounds {
		b.clock.Add(10 * time.Second)
		for shard := range 3 {
			batch, err := b.ClaimDue(b.t.Context(), claim.ClaimRequest{Shard: shard, Owner: "w", Limit: 1000, TTL: 5 * time.Second, AuditAfter: 15 * time.Second})
			if err != nil {
				b.t.Fatalf("ClaimDue(%d): %v", shard, err)
			}
			for _, id := range batch.Damaged {
				damaged[id] = true
			}
			request := claim.CompleteRequest{AuditBuffered: 5 * time.Second}
			for _, c := range batch.Claims {
				granted[c.Schedule]++
				decision := map[claim.ClaimKind]claim.Decision{claim.ClaimFire: claim.DecideEnqueued, claim.ClaimOverlap: claim.DecideOverlap,
					claim.ClaimAdvance: claim.DecideAdvance, claim.ClaimSkip: claim.DecideVerdict}[c.Kind]
				next := b.clock.Now().Truncate(10 * time.Second).Add(10 * time.Second)
				request.Completions = append(request.Completions, claim.Completion{Schedule: c.Schedule, Token: c.Token, ScheduledAt: c.ScheduledAt,
					Decision: decision, Verdict: schedule.VerdictSkipped, Next: next})
			}
			if len(request.Completions) == 0 {
				continue
			}
			if _, err := b.Complete(b.t.Context(), request); err != nil {
				b.t.Fatalf("Complete(%d): %v", shard, err)
			}
		}
	}
	return granted, damaged
}

// told are the schedules that Check names, by what it says of them.
func (b *bench) told() map[schedule.ID]string {
	b.t.Helper()
	violations, err := b.Check(b.t.Context())
	if err != nil {
		b.t.Fatalf("Check: %v", err)
	}
	told := map[schedule.ID]string{}
	for _, v := range violations {
		_, text, _ := strings.Cut(v.String(), ": ")
		id, _, _ := strings.Cut(text, " ")
		told[schedule.ID(strings.TrimSuffix(id, ":"))] += text + "\n"
	}
	return told
}

// TestNoFieldSilencesASchedule spoils every field of a schedule's record in many
// ways. Scripts and this program must agree on what they can read: otherwise no
// Put gets anywhere. Whatever does not go on firing by itself is told by Check,
// a Put brings it back, and the others never notice.
func TestNoFieldSilencesASchedule(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		defer b.wipe()
		good := []schedule.ID{"good1", "good2", "good3", "good4", "good5"}
		for _, id := range good {
			b.put(every10(id))
		}
		what := map[schedule.ID]string{}
		for _, field := range recordFields {
			for name := range spoiled {
				id := schedule.ID(field + "-" + name)
				what[id] = fmt.Sprintf("%s = %q", field, spoiled[name])
				b.put(every10(id))
			}
		}
		b.fired(3)
		for _, field := range recordFields {
			for name, value := range spoiled {
				b.field(schedule.ID(field+"-"+name), field, value)
			}
		}
		told := b.told()
		unreadable := map[schedule.ID]bool{}
		for id, spoil := range what {
			entry, err := b.Get(t.Context(), id)
			if err != nil {
				t.Errorf("Get after %s: %v", spoil, err)
			}
			if _, err := json.Marshal(entry.Status); err != nil {
				t.Errorf("after %s nobody can print a list of schedules: %v", spoil, err)
			}
			if unreadable[id] = entry.Invalid != nil; !unreadable[id] {
				continue
			}
			field, _, _ := strings.Cut(string(id), "-")
			if text := entry.Invalid.Error(); !strings.Contains(text, "field "+field+" is ") || !strings.Contains(text, fmt.Sprintf("put %q again", id)) {
				t.Errorf("after %s: %q does not name the field and what to do", spoil, text)
			}
		}
		granted, damaged := b.fired(2)
		for _, id := range good {
			if granted[id] != 2 {
				t.Errorf("%s was granted %d times beside the spoiled, want 2", id, granted[id])
			}
		}
		later := b.told()
		for id, spoil := range what {
			if damaged[id] && !unreadable[id] || unreadable[id] && granted[id] > 0 {
				t.Errorf("after %s: granted %d times, damaged to scripts %v, unreadable here %v", spoil, granted[id], damaged[id], unreadable[id])
			}
			if granted[id] == 0 && (told[id] == "" || later[id] == "") {
				if entry, err := b.Get(t.Context(), id); err != nil || entry.Status.State == schedule.StateActive {
					t.Errorf("after %s: it does not fire and nobody is told; %q, then %q", spoil, told[id], later[id])
				}
			}
		}
		if _, err := b.RepairAll(t.Context()); err != nil {
			t.Fatalf("RepairAll: %v", err)
		}
		for id, spoil := range what {
			d := every10(id)
			d.Description = "put again"
			if result, err := b.Put(t.Context(), d, schedule.PutOptions{}); err != nil || result.Created != unreadable[id] && granted[id] == 0 {
				t.Errorf("Put after %s = %+v, %v; unreadable %v", spoil, result, err, unreadable[id])
			}
		}
	})
}

// TestAnOperatorHearsWhatIsWrong: whoever acts on a schedule whose record cannot
// be read was told that there is none.
func TestAnOperatorHearsWhatIsWrong(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.put(every10("a"))
		b.put(every10("b"))
		if _, err := b.Pause(t.Context(), "b", schedule.PauseOptions{}); err != nil {
			t.Fatal(err)
		}
		b.field("a", "version", "x")
		b.field("b", "version", "x")
		violations, err := b.Check(t.Context())
		schedules := slices.DeleteFunc(slices.Clone(violations), func(v redisstore.Violation) bool { return v.Kind != redisstore.ViolationSchedule })
		if err != nil || len(schedules) != 2 || strings.Contains(fmt.Sprint(violations), "does not exist") {
			t.Errorf("Check = %v, %v; want two schedules", violations, err)
		}
		b.put(every10("b"))
		ctx := t.Context()
		acts := map[string]func() error{
			"pause":    func() error { _, err := b.Pause(ctx, "a", schedule.PauseOptions{}); return err },
			"resume":   func() error { _, err := b.Resume(ctx, "a", schedule.ResumeOptions{}); return err },
			"trigger":  func() error { _, err := b.Trigger(ctx, "a", schedule.TriggerOptions{}); return err },
			"remove":   func() error { _, err := b.Remove(ctx, "a", schedule.RemoveOptions{}); return err },
			"runs":     func() error { _, err := b.Runs(ctx, "a", 10); return err },
			"skip":     func() error { return b.Skip(ctx, "a", b.clock.Now().Truncate(10*time.Second).Add(time.Minute)) },
			"backfill": func() error { _, err := b.StartBackfill(ctx, claim.BackfillRequest{Schedule: "a"}); return err },
		}
		for name, act := range acts {
			err := act()
			if err == nil || errors.Is(err, schedule.ErrNotFound) || !strings.Contains(err.Error(), `its field version is x: put "a" again, which begins it anew`) {
				t.Errorf("%s = %v; want what is wrong and what to do", name, err)
			}
		}
		if result := b.put(every10("a")); !result.Created {
			t.Errorf("Put = %+v, want it created anew", result)
		}
	})
}

// TestVerdictsThatAreNoneStopNothing spoils what a record says of scheduled
// times that are past. Scripts read on, and no Put came to an end. Nothing that
// decides what fires is lost by the repair: the mark, the pending time, what is
// open.
func TestVerdictsThatAreNoneStopNothing(t *testing.T) {
	for name, spoil := range map[string]map[string]string{
		"one":               {"range": "1"},
		"empty":             {"range": ""},
		"no numbers":        {"range": "1,0,x,y,z"},
		"random":            {"range": "\xff\x00;\n,"},
		"too many digits":   {"range": "1,0," + strings.Repeat("9", 26) + ",5,6"},
		"history":           {"history": "1"},
		"all":               {"range": "1", "history": "\xff;;1,"},
		"count":             {"ranges": "9999999999999999"},
		"count below none":  {"ranges": "-5"},
		"times for display": {"updated_ms": "9999999999999999", "since_ms": "253402300800000"},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, b *bench) {
				d := every10("a")
				d.Overlap = schedule.OverlapBufferOne
				put := b.put(d)
				b.put(every10("other"))
				b.fired(4) // one is open, one waits, two overlapped
				before := b.get("a")
				if before.Open != 1 || before.Buffered != 1 || len(before.Verdicts) != 3 {
					t.Fatalf("before: %+v", before)
				}
				for field, value := range spoil {
					b.field("a", field, value)
				}
				entry, err := b.Get(t.Context(), "a")
				if err != nil || entry.Invalid != nil || !entry.Status.NextAt.Equal(before.NextAt) || entry.Status.Open != 1 {
					t.Fatalf("Get = %+v, %v", entry, err)
				}
				if told := b.told(); told["a"] == "" || told["other"] != "" {
					t.Errorf("Check tells %q", told)
				}
				d.Description = "edited"
				if result := b.put(d); result.Created || result.Generation != put.Generation || result.Version != 2 {
					t.Errorf("Put = %+v, want version 2 of generation %d", result, put.Generation)
				}
				record := b.client.HGet(t.Context(), b.key("a", "st"), "a").Val()
				repaired, err := b.RepairAll(t.Context())
				if len(repaired) != 1 || err != nil || repaired[0].Key != "st" || repaired[0].Was != record[:min(len(record), 250)] {
					t.Errorf("RepairAll = %+v, %v; want the record of a, which was %q", repaired, err, record)
				}
				b.check()
				after := b.get("a")
				if !after.NextAt.Equal(before.NextAt) || after.Open != 1 || after.Buffered != 1 || after.Fired != before.Fired ||
					!after.Verdicts[len(after.Verdicts)-1].Last.Equal(before.Verdicts[2].Last) {
					t.Errorf("after: %+v\nbefore: %+v", after, before)
				}
				if granted, _ := b.fired(2); granted["a"] != 2 || granted["other"] != 2 {
					t.Errorf("granted %v afterwards, want 2 of each", granted)
				}
			})
		})
	}
}

// TestARepairCoversWhatItDrops wants every scheduled time up to the mark to have
// one verdict still, and those that can be read to stay.
func TestARepairCoversWhatItDrops(t *testing.T) {
	b := newBench(t, redistest.Backends()[1].Dial(t), 3)
	d := every10("a")
	d.Overlap = schedule.OverlapSkip
	b.put(d)
	b.fired(2)
	before := b.get("a").Verdicts
	fired, overlapped := before[0], before[1]
	b.field("a", "history", "x;y")
	if _, err := b.RepairAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := b.get("a").Verdicts
	if len(got) != 2 || got[0].Verdict != schedule.VerdictUnreadable || got[0].First.After(fired.First) || !got[0].Last.Equal(overlapped.First.Add(-time.Millisecond)) ||
		got[1] != overlapped {
		t.Errorf("verdicts %+v of %+v", got, before)
	}
	b.field("a", "range", "1")
	if _, err := b.RepairAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	got = b.get("a").Verdicts
	if len(got) != 2 || got[1] != (schedule.VerdictRange{Verdict: schedule.VerdictUnreadable, First: overlapped.First, Last: overlapped.Last}) {
		t.Errorf("verdicts %+v of %+v", got, before)
	}
	b.fired(1)
	if got = b.get("a").Verdicts; len(got) != 3 || got[2].Verdict != schedule.VerdictOverlap {
		t.Errorf("verdicts %+v after another", got)
	}
	b.check()

	const ahead = "253402300000000" // a mark that no clock explains is told, and nothing is built on it
	b.field("a", "high_water_ms", ahead)
	b.field("a", "range", "1")
	if repaired, err := b.RepairAll(t.Context()); err != nil || len(repaired) != 0 {
		t.Errorf("RepairAll = %v, %v; want nothing", repaired, err)
	}
	if told := b.told()["a"]; !strings.Contains(told, "the high-water mark is "+ahead) {
		t.Errorf("Check = %q", told)
	}
	b.wipe()
}

// TestARecordRepeatsItsDefinition spoils what a record repeats of its
// definition: such a schedule fired into another queue, in a storm, or let its
// runs overlap, and putting the same definition again changed nothing.
func TestARecordRepeatsItsDefinition(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		if _, err := b.PutCalendars(t.Context(), []schedule.Calendar{{Name: "holidays", Dates: []string{"2031-01-01"}}}, schedule.CalendarOptions{}); err != nil {
			t.Fatal(err)
		}
		grid := every10("grid")
		grid.Overlap, grid.MaxFailures, grid.CoolDown, grid.Limit = schedule.OverlapBufferAll, 3, time.Minute, 50
		grid.Except = []schedule.Window{{Calendar: "holidays"}}
		delay := schedule.Schedule{ID: "delay", Specs: []schedule.SpecDefinition{{After: time.Minute}}, Type: "work", Queue: "low",
			Ends: b.clock.Now().Add(24 * time.Hour)}
		for _, d := range []schedule.Schedule{grid, delay} {
			b.put(d)
		}
		if err := b.Skip(t.Context(), "grid", b.get("grid").NextAt.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		sound := b.stored()
		for _, field := range strings.Fields("queue policy buffer_limit max_failures cool_down_ms delay_ms ends_ms limit") {
			for name, value := range spoiled {
				b.field("grid", field, value)
				b.field("delay", field, value)
				if entry, err := b.Get(t.Context(), "grid"); err != nil || entry.Invalid != nil {
					b.restore(sound) // TestNoFieldSilencesASchedule has those
					continue
				}
				told := b.told()
				repaired, err := b.RepairAll(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if after := b.stored(); !slices.Equal(after, sound) {
					t.Errorf("%s = %s: the repair left %q of %q", field, name, after, sound)
				}
				if len(repaired) > 0 && !strings.Contains(told["grid"]+told["delay"], field+" ") {
					t.Errorf("%s = %s: repaired as %v, told as %q", field, name, repaired, told)
				}
				b.check()
			}
		}
	})
}

// restore writes records of schedules as stored tells of them.
func (b *bench) restore(all []string) {
	b.t.Helper()
	for _, one := range all {
		if parts := strings.SplitN(one, " ", 3); parts[0] == "st" {
			b.client.HSet(b.t.Context(), b.key(schedule.ID(parts[1]), "st"), parts[1], parts[2])
		}
	}
}
