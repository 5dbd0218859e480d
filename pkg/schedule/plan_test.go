package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestPlan(t *testing.T) {
	at := func(clock string) time.Time { return utc(t, "2026-06-01T"+clock+"Z") }
	ranged := func(v Verdict, n int64, first, last string) *VerdictRange {
		return &VerdictRange{Verdict: v, Count: n, First: at(first), Last: at(last)}
	}
	push := func(next string) Planned {
		return Planned{Push: true, Verdict: VerdictFired, Next: at(next), NotBefore: at(next)}
	}
	verdict := func(v Verdict, r *VerdictRange, next string) Planned {
		return Planned{Verdict: v, Range: r, Next: at(next), NotBefore: at(next)}
	}
	all := func(catchUp time.Duration) Schedule {
		return Schedule{Expression: "10m", Missed: MissedAll, CatchUp: catchUp}
	}
	every := Schedule{Expression: "10m"}
	skip := Schedule{Expression: "10m", Missed: MissedSkip}
	tests := []struct {
		name string
		s    Schedule
		now  string // the claimed scheduled time is 10:00
		in   PlanInput
		want Planned
	}{
		{"on time", every, "10:00:00", PlanInput{}, push("10:10:00")},
		{"late, but nothing later is due", every, "10:09:59.999", PlanInput{}, push("10:10:00")},
		{"late with skip, but nothing later is due", skip, "10:09:59.999", PlanInput{}, push("10:10:00")},
		{"latest: one later is due", every, "10:10:00", PlanInput{}, verdict(VerdictCoalesced, nil, "10:10:00")},
		{"latest: two later are due", every, "10:29:00", PlanInput{}, verdict(VerdictCoalesced, ranged(VerdictCoalesced, 1, "10:10:00", "10:10:00"), "10:20:00")},
		{"latest: many later are due", every, "12:00:00", PlanInput{}, verdict(VerdictCoalesced, ranged(VerdictCoalesced, 11, "10:10:00", "11:50:00"), "12:00:00")},
		{"skip: many later are due", skip, "12:00:00", PlanInput{}, verdict(VerdictMissed, ranged(VerdictMissed, 11, "10:10:00", "11:50:00"), "12:00:00")},
		{"latest with catch_up: the newest is inside", Schedule{Expression: "10m", CatchUp: 5 * time.Minute}, "10:24:00", PlanInput{},
			verdict(VerdictCoalesced, ranged(VerdictCoalesced, 1, "10:10:00", "10:10:00"), "10:20:00")},
		{"latest with catch_up: the newest is late too", Schedule{Expression: "10m", CatchUp: 5 * time.Minute}, "10:26:00", PlanInput{},
			verdict(VerdictMissed, ranged(VerdictMissed, 2, "10:10:00", "10:20:00"), "10:30:00")},
		{"latest with catch_up: alone and late", Schedule{Expression: "10m", CatchUp: 5 * time.Minute}, "10:05:00.001", PlanInput{}, verdict(VerdictMissed, nil, "10:10:00")},
		{"latest with catch_up: alone and just inside", Schedule{Expression: "10m", CatchUp: 5 * time.Minute}, "10:05:00", PlanInput{}, push("10:10:00")},
		{"skip with catch_up: the newest is late too", Schedule{Expression: "10m", Missed: MissedSkip, CatchUp: 5 * time.Minute}, "10:16:00", PlanInput{},
			verdict(VerdictMissed, ranged(VerdictMissed, 1, "10:10:00", "10:10:00"), "10:20:00")},
		{"all: inside catch_up, oldest first", all(time.Hour), "10:59:00", PlanInput{}, push("10:10:00")},
		{"all: on the edge of catch_up", all(time.Hour), "11:00:00", PlanInput{}, push("10:10:00")},
		{"all: one is late", all(time.Hour), "11:05:00", PlanInput{}, verdict(VerdictMissed, nil, "10:10:00")},
		{"all: many are late", all(time.Hour), "12:05:00", PlanInput{}, verdict(VerdictMissed, ranged(VerdictMissed, 6, "10:10:00", "11:00:00"), "11:10:00")},
		{"all: every one is late", all(time.Minute), "10:25:00", PlanInput{}, verdict(VerdictMissed, ranged(VerdictMissed, 2, "10:10:00", "10:20:00"), "10:30:00")},
		{"settled: only moves on", every, "12:00:00", PlanInput{Settled: true}, Planned{Advance: true, Next: at("10:10:00"), NotBefore: at("10:10:00")}},
		{"claimed before: must fire, however late", every, "12:00:00", PlanInput{Again: true}, push("10:10:00")},
		{"claimed before: must fire, though it overlaps", every, "10:00:00", PlanInput{Again: true, Overlaps: true}, push("10:10:00")},
		{"claimed before: must fire, though a skip was asked for", every, "10:00:00", PlanInput{Again: true, SkipAsked: true}, push("10:10:00")},
		{"claimed before: must fire, though excluded since", Schedule{Expression: "10m", Except: []Window{{Cron: "0 10 * * *"}}}, "10:00:00", PlanInput{Again: true}, push("10:10:00")},
		{"skip asked for", every, "10:00:00", PlanInput{SkipAsked: true}, verdict(VerdictSkipped, nil, "10:10:00")},
		{"skip asked for and overlapping", every, "10:00:00", PlanInput{SkipAsked: true, Overlaps: true}, verdict(VerdictSkipped, nil, "10:10:00")},
		{"excluded since it was placed", Schedule{Expression: "10m", Except: []Window{{Cron: "0-29 10 * * *"}}}, "10:00:00", PlanInput{}, verdict(VerdictExcluded, nil, "10:30:00")},
		{"overlap", every, "10:00:00", PlanInput{Overlaps: true}, Planned{Overlap: true, Next: at("10:10:00"), NotBefore: at("10:10:00")}},
		{"overlap after missed", every, "10:10:00", PlanInput{Overlaps: true}, verdict(VerdictCoalesced, nil, "10:10:00")},
		{"the limit is not reached", Schedule{Expression: "10m", Limit: 3}, "10:00:00", PlanInput{Fired: 1}, push("10:10:00")},
		{"the limit is reached by this one", Schedule{Expression: "10m", Limit: 3}, "10:00:00", PlanInput{Fired: 2}, Planned{Push: true, Verdict: VerdictFired}},
		{"the limit may be reached by one that is buffered: the store decides", Schedule{Expression: "10m", Limit: 3, Overlap: OverlapBufferOne}, "10:00:00", PlanInput{Fired: 2, Overlaps: true},
			Planned{Overlap: true, Next: at("10:10:00"), NotBefore: at("10:10:00")}},
		{"the limit is not reached by one that overlap skips", Schedule{Expression: "10m", Limit: 3, Overlap: OverlapSkip}, "10:00:00", PlanInput{Fired: 2, Overlaps: true},
			Planned{Overlap: true, Next: at("10:10:00"), NotBefore: at("10:10:00")}},
		{"the limit is reached by one that is settled", Schedule{Expression: "10m", Limit: 3}, "10:00:00", PlanInput{Fired: 3, Settled: true}, Planned{Advance: true}},
		{"the limit is not reached by one that is settled and counted", Schedule{Expression: "10m", Limit: 3}, "10:00:00", PlanInput{Fired: 2, Settled: true},
			Planned{Advance: true, Next: at("10:10:00"), NotBefore: at("10:10:00")}},
		{"the limit does not count what does not fire", Schedule{Expression: "10m", Limit: 3}, "10:00:00", PlanInput{Fired: 2, SkipAsked: true}, verdict(VerdictSkipped, nil, "10:10:00")},
		{"the limit was lowered", Schedule{Expression: "10m", Limit: 3}, "10:00:00", PlanInput{Fired: 3}, Planned{Verdict: VerdictSuperseded}},
		{"a one-shot", Schedule{Expression: "once:2026-06-01T10:00:00Z"}, "10:00:00", PlanInput{}, Planned{Push: true, Verdict: VerdictFired}},
		{"a one-shot after an outage fires", Schedule{Expression: "once:2026-06-01T10:00:00Z"}, "23:00:00", PlanInput{}, Planned{Push: true, Verdict: VerdictFired}},
		{"a one-shot that is late", Schedule{Expression: "once:2026-06-01T10:00:00Z", CatchUp: time.Hour}, "23:00:00", PlanInput{}, Planned{Verdict: VerdictMissed}},
		{"the last before the end", Schedule{Expression: "10m", Ends: at("10:10:00")}, "10:00:00", PlanInput{}, Planned{Push: true, Verdict: VerdictFired}},
		{"the newest before the end", Schedule{Expression: "10m", Ends: at("10:20:00")}, "12:00:00", PlanInput{}, verdict(VerdictCoalesced, nil, "10:10:00")},
		{"excluded ones are not counted as missed", Schedule{Expression: "10m", Except: []Window{{Cron: "10-39 * * * *"}}}, "11:00:00", PlanInput{},
			verdict(VerdictCoalesced, ranged(VerdictCoalesced, 2, "10:40:00", "10:50:00"), "11:00:00")},
		{"a fixed delay counts from now", Schedule{Expression: "@after 10m"}, "10:03:00", PlanInput{}, push("10:13:00")},
		{"a fixed delay misses nothing", Schedule{Expression: "@after 10m"}, "23:03:00", PlanInput{}, push("23:13:00")},
		{"a fixed delay that was skipped", Schedule{Expression: "@after 10m"}, "10:03:00", PlanInput{SkipAsked: true}, verdict(VerdictSkipped, nil, "10:13:00")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.ScheduledAt, tt.in.Now = at("10:00:00"), at(tt.now)
			if diff := cmp.Diff(tt.want, Plan(compile(t, tt.s), tt.in)); diff != "" {
				t.Errorf("Plan at %s (-want +got):\n%s", tt.now, diff)
			}
		})
	}
}

func TestALaterScheduledTimeIsDueWithItsJitter(t *testing.T) {
	c := compile(t, Schedule{Expression: "10m", Jitter: 9 * time.Minute})
	claimed := utc(t, "2026-06-01T10:00:00Z")
	next, _ := c.Next(claimed)
	due := c.NotBefore(next)
	if !due.After(next) {
		t.Fatal("this test needs a scheduled time with an offset")
	}
	before := Plan(c, PlanInput{ScheduledAt: claimed, Now: due.Add(-time.Millisecond)})
	if !before.Push || !before.Next.Equal(next) || !before.NotBefore.Equal(due) {
		t.Errorf("before the next one is due: %+v, want a push", before)
	}
	after := Plan(c, PlanInput{ScheduledAt: claimed, Now: due})
	if after.Verdict != VerdictCoalesced || !after.Next.Equal(next) || !after.NotBefore.Equal(due) {
		t.Errorf("once the next one is due: %+v, want it coalesced", after)
	}
}

func TestCatchUpCountsFromWhenAScheduledTimeWasDue(t *testing.T) {
	c := compile(t, Schedule{Expression: "1d", Jitter: 12 * time.Hour, CatchUp: time.Minute})
	claimed := utc(t, "2026-06-01T00:00:00Z")
	if p := Plan(c, PlanInput{ScheduledAt: claimed, Now: c.NotBefore(claimed).Add(time.Second)}); !p.Push {
		t.Errorf("a second after it was due: %+v, want a push", p)
	}
}

// TestPlanWorkDoesNotGrowWithTheGap is B052 for a schedule of every second
// that slept for a year, with a spec that has no closed form.
func TestPlanWorkDoesNotGrowWithTheGap(t *testing.T) {
	from := utc(t, "2025-06-04T12:00:00Z")
	for _, s := range []Schedule{
		{Expression: "* * * * * *"},
		{Expression: "* * * * * *", Missed: MissedSkip},
		{Expression: "* * * * * *", Missed: MissedAll, CatchUp: time.Hour},
		{Expression: "* * * * * *", Jitter: time.Hour},
		{Expression: "1s | @daily"},
		{Expression: "* * * * * *", Except: []Window{{Cron: "* 2-4 * * *"}, {Weekly: "Sat 00:00-Mon 06:00"}}},
	} {
		for _, gap := range []time.Duration{time.Hour, 365 * 24 * time.Hour} {
			t.Run(fmt.Sprintf("%s %s %s", s.Expression, s.Missed, gap), func(t *testing.T) {
				c := compile(t, s)
				calls := countCalls(c)
				p := Plan(c, PlanInput{ScheduledAt: from, Now: from.Add(gap)})
				if *calls > maxCounted+1000 {
					t.Errorf("%d calls of the spec", *calls)
				}
				if p.Next.Before(from.Add(gap-2*time.Hour)) && !p.Push {
					t.Errorf("Plan = %+v, want to be done with the gap", p)
				}
			})
		}
	}
}

// TestPlanCountsAYearInClosedForm checks that a closed form is used.
func TestPlanCountsAYearInClosedForm(t *testing.T) {
	from := utc(t, "2025-06-04T12:00:00Z")
	for _, expression := range []string{"* * * * * *", "1s"} {
		p := Plan(compile(t, Schedule{Expression: expression}), PlanInput{ScheduledAt: from, Now: from.Add(365 * 24 * time.Hour)})
		if p.Range == nil || p.Range.Count != 365*24*3600-1 {
			t.Errorf("%s: range %+v", expression, p.Range)
		}
	}
}

// TestPlansPartitionTime claims one scheduled time after the other, with pauses
// between, and checks that every scheduled time gets exactly one verdict.
func TestPlansPartitionTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Schedule{ID: "p", Type: "t", Timezone: "Europe/Berlin",
			Expression: rapid.SampledFrom([]string{"*/5 * * * *", "7m", "0 * * * *", "13,43 1-5 * * *", "11m | @hourly"}).Draw(t, "expression"),
			Missed:     rapid.SampledFrom([]Missed{MissedLatest, MissedSkip, MissedAll}).Draw(t, "missed"),
			Jitter:     rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour}).Draw(t, "jitter"),
			CatchUp:    rapid.SampledFrom([]time.Duration{time.Minute, time.Hour, 24 * time.Hour}).Draw(t, "catch_up"),
		}
		if rapid.Bool().Draw(t, "except") {
			s.Except = []Window{{Cron: "* 2 * * *"}, {Weekly: "Sun 12:00-Sun 13:00"}}
		}
		c, err := Compile(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		now := around(t).Truncate(time.Millisecond)
		expect, _ := c.First(now)
		pending := expect
		given := func(first, last time.Time, n int64) {
			for ; n > 0; n-- {
				if expect.Before(first) || expect.After(last) {
					t.Fatalf("verdict for %v to %v, but %v is next without one", first, last, expect)
				}
				expect, _ = c.Next(expect)
			}
			if !expect.After(last) {
				t.Fatalf("verdicts end before %v, but %v has none", last, expect)
			}
		}
		for range 20 {
			now = maxTime(now, c.NotBefore(pending)).Add(time.Duration(rapid.IntRange(0, 7_200_000).Draw(t, "pause")) * time.Millisecond)
			in := PlanInput{ScheduledAt: pending, Now: now, SkipAsked: rapid.IntRange(0, 9).Draw(t, "skip") == 0}
			p := Plan(c, in)
			given(pending, pending, 1)
			if r := p.Range; r != nil {
				given(r.First, r.Last, r.Count)
			}
			if !p.Next.Equal(expect) || !p.NotBefore.Equal(c.NotBefore(p.Next)) {
				t.Fatalf("Next = %v due %v, want %v", p.Next, p.NotBefore, expect)
			}
			if again := Plan(c, in); !cmp.Equal(again, p) {
				t.Fatalf("the same input gives %+v and %+v", p, again)
			}
			pending = p.Next
		}
	})
}
