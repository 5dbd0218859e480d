package claim_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var backfillDay = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func hourly(t *testing.T, change func(*schedule.Schedule)) *schedule.Compiled {
	t.Helper()
	s := schedule.Schedule{ID: "a", Expression: "0 * * * *", Type: "t"}
	if change != nil {
		change(&s)
	}
	c, err := schedule.Compile(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// hours are instants of the day.
func hours(n ...int) []time.Time {
	var all []time.Time
	for _, h := range n {
		all = append(all, backfillDay.Add(time.Duration(h)*time.Hour))
	}
	return all
}

func TestBackfillPlan(t *testing.T) {
	fired := schedule.VerdictRange{Verdict: schedule.VerdictFired, Count: 2, First: hours(2)[0], Last: hours(3)[0]}
	missed := schedule.VerdictRange{Verdict: schedule.VerdictMissed, Count: 2, First: hours(4)[0], Last: hours(5)[0]}
	status := &schedule.Status{NextAt: hours(6)[0], Verdicts: []schedule.VerdictRange{fired, missed}}
	base := claim.Backfill{From: hours(1)[0], To: hours(7)[0], Cursor: hours(1)[0].Add(-time.Millisecond), Every: 100 * time.Millisecond,
		Overlap: schedule.OverlapAllow, MaxOpen: 100}
	tests := []struct {
		name   string
		change func(*claim.Backfill)
		want   claim.BackfillStep
		idle   bool
	}{
		{"what did not fire", func(*claim.Backfill) {}, claim.BackfillStep{Open: hours(1, 4, 5), Passed: 4}, false},
		{"all again", func(b *claim.Backfill) { b.Again = true }, claim.BackfillStep{Open: hours(1, 2, 3, 4, 5, 6, 7)}, false},
		{"one at a time", func(b *claim.Backfill) { b.Overlap = schedule.OverlapBufferAll },
			claim.BackfillStep{Open: hours(1), Passed: 2, Cursor: hours(3)[0]}, false},
		{"the rate bounds a step", func(b *claim.Backfill) { b.Every, b.Again = 500*time.Millisecond, true },
			claim.BackfillStep{Open: hours(1, 2), Cursor: hours(2)[0]}, false},
		{"a slow rate opens one", func(b *claim.Backfill) { b.Every, b.Again = time.Hour, true },
			claim.BackfillStep{Open: hours(1), Cursor: hours(1)[0]}, false},
		{"no room", func(b *claim.Backfill) { b.MaxOpen, b.Open = 2, 2 }, claim.BackfillStep{Cursor: base.Cursor}, true},
		{"no room, but something to pass", func(b *claim.Backfill) { b.MaxOpen, b.Open, b.Cursor = 2, 2, hours(1)[0] },
			claim.BackfillStep{Passed: 2, Cursor: hours(3)[0]}, false},
		{"the limit", func(b *claim.Backfill) { b.Limit, b.Opened = 5, 4 }, claim.BackfillStep{Open: hours(1), Passed: 2, Cursor: hours(3)[0]}, false},
		{"the end", func(b *claim.Backfill) { b.Cursor = hours(7)[0] }, claim.BackfillStep{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := base
			tt.change(&b)
			got, ok := b.Plan(hourly(t, nil), status)
			if !slices.EqualFunc(got.Open, tt.want.Open, time.Time.Equal) || got.Passed != tt.want.Passed || !got.Cursor.Equal(tt.want.Cursor) || ok == tt.idle {
				t.Errorf("Plan = %+v, %t, want %+v, %t", got, ok, tt.want, !tt.idle)
			}
			if !got.Expected.Equal(b.Cursor) {
				t.Errorf("Expected = %s, want the cursor %s", got.Expected, b.Cursor)
			}
		})
	}
}

// A backfill over years of what has fired costs bounded steps.
func TestBackfillPlanIsBounded(t *testing.T) {
	from := backfillDay.AddDate(-5, 0, 0)
	status := &schedule.Status{NextAt: backfillDay.AddDate(1, 0, 0), Verdicts: []schedule.VerdictRange{
		{Verdict: schedule.VerdictFired, First: from.AddDate(-1, 0, 0), Last: backfillDay}}}
	b := claim.Backfill{From: from, To: backfillDay, Cursor: from, Every: time.Second, Overlap: schedule.OverlapAllow, MaxOpen: 100}
	c, steps := hourly(t, nil), 0
	for passed := int64(0); !b.Cursor.IsZero(); steps++ {
		step, ok := b.Plan(c, status)
		if !ok || len(step.Open) != 0 || step.Passed > 1000 {
			t.Fatalf("step %d = %+v, %t", steps, step, ok)
		}
		b.Cursor, passed = step.Cursor, passed+step.Passed
		if passed > 50_000 {
			t.Fatal("it does not end")
		}
	}
	if steps != 44 {
		t.Errorf("%d steps for 43,824 scheduled times, want 44", steps)
	}
}

func TestBackfillLeavesOutWindows(t *testing.T) {
	c := hourly(t, func(s *schedule.Schedule) { s.Except = []schedule.Window{{Dates: []string{"2026-03-01"}}} })
	b := claim.Backfill{From: hours(1)[0], To: hours(25)[0], Cursor: hours(1)[0].Add(-1), Every: time.Millisecond, Overlap: schedule.OverlapAllow, MaxOpen: 100}
	if step, _ := b.Plan(c, &schedule.Status{}); !slices.EqualFunc(step.Open, hours(24, 25), time.Time.Equal) {
		t.Errorf("Plan opens %v, want only the next day", step.Open)
	}
}

func TestBackfillFiringParses(t *testing.T) {
	id := claim.BackfillFiring("a", 7, "bf-1", hours(3)[0])
	f, err := claim.ParseFiringID(string(id))
	if err != nil || f.Kind != claim.KindBackfill || f.Request != "bf-1" || !f.ScheduledAt.Equal(hours(3)[0]) || f.ID() != id {
		t.Errorf("ParseFiringID(%s) = %+v, %v", id, f, err)
	}
	request := claim.BackfillRequest{Schedule: "a", ID: "b", From: hours(1)[0], To: hours(2)[0]}
	if err := request.Complete(hours(3)[0]); err != nil || request.Overlap != schedule.OverlapBufferAll || request.Every != time.Second || request.MaxOpen != 100 {
		t.Errorf("Complete = %+v, %v", request, err)
	}
	var field *schedule.FieldError
	if err := request.Complete(hours(1)[0]); !errors.As(err, &field) || field.Field != "to" {
		t.Errorf("Complete with an end in the future = %v, want a *FieldError of to", err)
	}
}
