package schedule

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPlanPut(t *testing.T) {
	at := func(clock string) time.Time { return utc(t, "2026-06-01T"+clock+"Z") }
	now := at("10:05:00")
	placed := func(changed bool, next string) PutPlan {
		return PutPlan{SpecChanged: changed, Next: at(next), NotBefore: at(next)}
	}
	superseded := func(next string, n int64, first, last string) PutPlan {
		p := placed(true, next)
		p.Superseded = &VerdictRange{Verdict: VerdictSuperseded, Count: n, First: at(first), Last: at(last)}
		return p
	}
	every := Schedule{Expression: "10m"}
	tests := []struct {
		name         string
		old, updated Schedule
		pending      string // "": none
		want         PutPlan
	}{
		{"created", Schedule{}, every, "", placed(true, "10:10:00")},
		{"created with nothing to fire", Schedule{}, Schedule{Expression: "0 0 30 2 *"}, "", PutPlan{SpecChanged: true}},
		{"created with a delay", Schedule{}, Schedule{Expression: "@after 7m"}, "", placed(true, "10:12:00")},
		{"the same", every, every, "10:10:00", placed(false, "10:10:00")},
		{"the same, pending in the past", every, every, "09:00:00", placed(false, "09:00:00")},
		{"the same in other words", every, Schedule{Specs: []SpecDefinition{{Every: 600 * time.Second}}, Timezone: "Europe/Berlin"}, "09:00:00", placed(false, "09:00:00")},
		{"the same cron in other words", Schedule{Expression: "@daily"}, Schedule{Specs: []SpecDefinition{{Cron: "0 0 * * *", Timezone: "UTC"}}}, "09:00:00", placed(false, "09:00:00")},
		{"another payload and other policies", every, Schedule{Expression: "10m", Payload: []byte("x"), Missed: MissedSkip, Priority: 3}, "09:00:00", placed(false, "09:00:00")},
		{"another interval", every, Schedule{Expression: "6m"}, "10:10:00", placed(true, "10:06:00")},
		{"another interval, one past", every, Schedule{Expression: "1h"}, "10:00:00", superseded("11:00:00", 1, "10:00:00", "10:00:00")},
		{"another interval, pending just now", Schedule{Expression: "5m"}, Schedule{Expression: "1h"}, "10:05:00", superseded("11:00:00", 1, "10:05:00", "10:05:00")},
		{"another interval, many past", every, Schedule{Expression: "1h"}, "09:00:00", superseded("11:00:00", 7, "09:00:00", "10:00:00")},
		{"another anchor", every, Schedule{Specs: []SpecDefinition{{Every: 10 * time.Minute, Anchor: at("00:07:00")}}}, "10:10:00", placed(true, "10:07:00")},
		{"another zone of a cron line", Schedule{Expression: "0 9 * * *"}, Schedule{Expression: "0 9 * * *", Timezone: "America/New_York"}, "10:10:00", placed(true, "13:00:00")},
		{"an end", every, Schedule{Expression: "10m", Ends: at("10:08:00")}, "10:10:00", PutPlan{SpecChanged: true}},
		{"a start", every, Schedule{Expression: "10m", Starts: at("12:00:00")}, "10:10:00", placed(true, "12:00:00")},
		{"a window", every, Schedule{Expression: "10m", Except: []Window{{Cron: "* 10 * * *"}}}, "10:10:00", placed(true, "11:00:00")},
		{"windows in another order", Schedule{Expression: "10m", Except: []Window{{Cron: "* 3 * * *"}, {Dates: []string{"2026-12-25", "2026-12-26"}}}},
			Schedule{Expression: "10m", Except: []Window{{Dates: []string{"2026-12-25..2026-12-26"}}, {Cron: "* 3 * * *"}}}, "09:00:00", placed(false, "09:00:00")},
		{"a union in another order", Schedule{Expression: "0 9 * * * | 10m"}, Schedule{Specs: []SpecDefinition{{Every: 10 * time.Minute}, {Cron: "0  9 * * *"}}}, "09:00:00", placed(false, "09:00:00")},
		{"a union with a part in another zone", Schedule{Expression: "0 9 * * * | 10m"}, Schedule{Specs: []SpecDefinition{{Every: 10 * time.Minute}, {Cron: "0 9 * * *", Timezone: "Asia/Tokyo"}}}, "10:10:00", placed(true, "10:10:00")},
		{"a weekly window in another zone", Schedule{Expression: "10m", Except: []Window{{Weekly: "Sat 00:00-Mon 00:00"}}},
			Schedule{Expression: "10m", Except: []Window{{Weekly: "Sat 00:00-Mon 00:00", Timezone: "Asia/Tokyo"}}}, "10:10:00", placed(true, "10:10:00")},
		{"completed, and the same again", every, every, "", PutPlan{}},
		{"completed, and the limit raised", Schedule{Expression: "10m", Limit: 3}, Schedule{Expression: "10m", Limit: 4}, "", placed(true, "10:10:00")},
		{"completed, and the limit taken away", Schedule{Expression: "10m", Limit: 3}, every, "", placed(true, "10:10:00")},
		{"completed, and the limit lowered", Schedule{Expression: "10m", Limit: 3}, Schedule{Expression: "10m", Limit: 2}, "", PutPlan{}},
		{"a delay that waits", Schedule{Expression: "@after 7m"}, Schedule{Expression: "@after 7m", Priority: 1}, "", PutPlan{}},
		{"a delay that waits, and the limit raised", Schedule{Expression: "@after 7m", Limit: 3}, Schedule{Expression: "@after 7m", Limit: 4}, "", PutPlan{}},
		{"another delay while pending", Schedule{Expression: "@after 7m"}, Schedule{Expression: "@after 1m"}, "10:00:00", superseded("10:06:00", 1, "10:00:00", "10:00:00")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var old *Compiled
			if tt.old.Expression != "" {
				old = compile(t, tt.old)
			}
			var pending time.Time
			if tt.pending != "" {
				pending = at(tt.pending)
			}
			if diff := cmp.Diff(tt.want, PlanPut(old, pending, compile(t, tt.updated), now)); diff != "" {
				t.Errorf("PlanPut (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPutTakesTheNewJitter(t *testing.T) {
	now, pending := utc(t, "2026-06-01T10:05:00Z"), utc(t, "2026-06-01T11:00:00Z")
	updated := compile(t, Schedule{Expression: "1h", Jitter: time.Minute})
	p := PlanPut(compile(t, Schedule{Expression: "1h"}), pending, updated, now)
	if p.SpecChanged || !p.Next.Equal(pending) || !p.NotBefore.Equal(updated.NotBefore(pending)) || !p.NotBefore.After(pending) {
		t.Errorf("PlanPut = %+v, want the pending time with an offset", p)
	}
}

func TestPutAfterACalendarChanged(t *testing.T) {
	s := Schedule{Expression: "@daily", Except: []Window{{Calendar: "holidays"}}}
	before := compile(t, s, Calendar{Name: "holidays", Dates: []string{"2026-06-02"}})
	after := compile(t, s, Calendar{Name: "holidays", Dates: []string{"2026-06-03"}})
	now := utc(t, "2026-06-01T10:00:00Z")
	p := PlanPut(before, utc(t, "2026-06-03T00:00:00Z"), after, now)
	if !p.SpecChanged || !p.Next.Equal(utc(t, "2026-06-02T00:00:00Z")) || p.Superseded != nil {
		t.Errorf("pending in the future: %+v, want the day that is free now", p)
	}
	if p := PlanPut(after, utc(t, "2026-06-02T00:00:00Z"), after, now); p.SpecChanged {
		t.Errorf("the same calendar: %+v, want no change", p)
	}
	past := utc(t, "2026-05-28T00:00:00Z")
	if p := PlanPut(before, past, after, now); p.SpecChanged || !p.Next.Equal(past) || p.Superseded != nil {
		t.Errorf("pending in the past: %+v, want it kept for the missed policy", p)
	}
}

// What only a calendar ended goes on when the calendar lets it; what a limit may
// have ended does not.
func TestPutAfterACalendarGivesNewTimes(t *testing.T) {
	launches := func(dates ...string) Calendar { return Calendar{Name: "launches", Dates: dates} }
	now := utc(t, "2026-06-01T10:00:00Z")
	for _, tt := range []struct {
		name  string
		s     Schedule
		dates []string
		want  string // "" is none
	}{
		{"a new date", Schedule{Expression: "@daily"}, []string{"2026-05-01", "2026-06-05"}, "2026-06-05T00:00:00Z"},
		{"no new date", Schedule{Expression: "@daily"}, []string{"2026-05-01", "2026-05-02"}, ""},
		{"past its end", Schedule{Expression: "@daily", Ends: utc(t, "2026-06-02T00:00:00Z")}, []string{"2026-06-05"}, ""},
		{"with a limit", Schedule{Expression: "@daily", Limit: 1}, []string{"2026-06-05"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.s.Only = []Window{{Calendar: "launches"}}
			p := PlanPut(compile(t, tt.s, launches("2026-05-01")), time.Time{}, compile(t, tt.s, launches(tt.dates...)), now)
			if tt.want == "" {
				if !p.Next.IsZero() || p.SpecChanged {
					t.Errorf("PlanPut = %+v, want nothing", p)
				}
				return
			}
			if want := utc(t, tt.want); !p.Next.Equal(want) || !p.NotBefore.Equal(want) || !p.SpecChanged || p.Superseded != nil {
				t.Errorf("PlanPut = %+v, want %s", p, tt.want)
			}
		})
	}
}

func TestPlanResume(t *testing.T) {
	at := func(clock string) time.Time { return utc(t, "2026-06-01T"+clock+"Z") }
	now := at("10:05:00")
	tests := []struct {
		name    string
		s       Schedule
		pending time.Time
		want    PutPlan
	}{
		{"nothing pending", Schedule{Expression: "10m"}, time.Time{}, PutPlan{}},
		{"pending in the future", Schedule{Expression: "10m", Missed: MissedSkip}, at("10:10:00"), PutPlan{Next: at("10:10:00"), NotBefore: at("10:10:00")}},
		{"latest keeps what passed", Schedule{Expression: "10m"}, at("09:00:00"), PutPlan{Next: at("09:00:00"), NotBefore: at("09:00:00")}},
		{"all keeps what passed", Schedule{Expression: "10m", Missed: MissedAll, CatchUp: time.Hour}, at("09:00:00"), PutPlan{Next: at("09:00:00"), NotBefore: at("09:00:00")}},
		{"skip fires nothing that passed", Schedule{Expression: "10m", Missed: MissedSkip}, at("09:00:00"),
			PutPlan{Next: at("10:10:00"), NotBefore: at("10:10:00"), Superseded: &VerdictRange{Verdict: VerdictPaused, Count: 7, First: at("09:00:00"), Last: at("10:00:00")}}},
		{"skip of a one-shot that passed", Schedule{Expression: "once:2026-06-01T10:00:00Z", Missed: MissedSkip}, at("10:00:00"),
			PutPlan{Superseded: &VerdictRange{Verdict: VerdictPaused, Count: 1, First: at("10:00:00"), Last: at("10:00:00")}}},
		{"a fixed delay keeps what passed", Schedule{Expression: "@after 10m"}, at("09:00:00"), PutPlan{Next: at("09:00:00"), NotBefore: at("09:00:00")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, PlanResume(compile(t, tt.s), tt.pending, now, ResumeOptions{})); diff != "" {
				t.Errorf("PlanResume (-want +got):\n%s", diff)
			}
		})
	}
}

// The option passes over what the policy would fire, and nothing else.
func TestPlanResumeSkipsWhenAsked(t *testing.T) {
	pending, now := utc(t, "2026-06-01T09:00:00Z"), utc(t, "2026-06-01T10:05:00Z")
	skip := ResumeOptions{SkipMissed: true}
	for _, s := range []Schedule{{Expression: "10m"}, {Expression: "10m", Missed: MissedAll, CatchUp: time.Hour}} {
		skipping := s
		skipping.Missed, skipping.CatchUp = MissedSkip, 0
		got, want := PlanResume(compile(t, s), pending, now, skip), PlanResume(compile(t, skipping), pending, now, ResumeOptions{})
		if diff := cmp.Diff(want, got); diff != "" || got.Superseded == nil {
			t.Errorf("%s (-missed skip +asked to skip):\n%s", s.Missed, diff)
		}
	}
	later := now.Add(time.Hour)
	if got := PlanResume(compile(t, Schedule{Expression: "10m"}), later, now, skip); got.Superseded != nil || !got.Next.Equal(later) {
		t.Errorf("what is not due yet: %+v", got)
	}
	if got := PlanResume(compile(t, Schedule{Expression: "@after 10m"}), pending, now, skip); got.Superseded != nil || !got.Next.Equal(pending) {
		t.Errorf("a fixed delay: %+v", got)
	}
}

func TestResumeKeepsWhatIsNotDueYet(t *testing.T) {
	c := compile(t, Schedule{Expression: "1h", Missed: MissedSkip, Jitter: 59 * time.Minute})
	pending := utc(t, "2026-06-01T10:00:00Z")
	p := PlanResume(c, pending, c.NotBefore(pending).Add(-time.Millisecond), ResumeOptions{})
	if !p.Next.Equal(pending) || p.Superseded != nil {
		t.Errorf("just before it is due: %+v, want it kept", p)
	}
	p = PlanResume(c, pending, c.NotBefore(pending), ResumeOptions{})
	if !p.Next.Equal(pending.Add(time.Hour)) || p.Superseded == nil || p.Superseded.Count != 1 {
		t.Errorf("once it is due: %+v, want it paused", p)
	}
}
