package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// BenchmarkFullBuffer is what a complete costs that looks through a buffer of
// 1,000 firings, the most there may be, beside one with an empty buffer.
func BenchmarkFullBuffer(b *testing.B) {
	for _, buffered := range []int{0, 1000} {
		b.Run(fmt.Sprintf("%d buffered", buffered), func(b *testing.B) {
			s := newBench(b, redistest.Backends()[1].Dial(b), 1)
			d := every10("a")
			d.Overlap, d.BufferLimit = schedule.OverlapBufferAll, max(1, buffered)
			s.put(d)
			if _, err := s.Trigger(b.Context(), "a", schedule.TriggerOptions{}); err != nil {
				b.Fatal(err)
			}
			for i := range max(1, buffered) {
				if _, err := s.Trigger(b.Context(), "a", schedule.TriggerOptions{ObeyOverlap: true, RequestID: fmt.Sprint(i)}); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				s.clock.Add(10 * time.Second)
				c := s.claimOne()
				s.complete(c, claim.DecideOverlap, c.ScheduledAt.Add(10*time.Second))
			}
		})
	}
}

// BenchmarkParallelBackfills is begin and finish of a firing of a backfill, on
// a schedule with as many backfills under way.
func BenchmarkParallelBackfills(b *testing.B) {
	for _, backfills := range []int{1, 500} {
		b.Run(fmt.Sprintf("%d backfills", backfills), func(b *testing.B) {
			s := newBench(b, redistest.Backends()[1].Dial(b), 1)
			s.put(every10("a"))
			from := s.clock.Now().Add(-24 * time.Hour)
			for i := range backfills {
				if _, err := s.StartBackfill(b.Context(), claim.BackfillRequest{Schedule: "a", ID: fmt.Sprintf("b%d", i), From: from,
					To: s.clock.Now(), Every: time.Millisecond, MaxOpen: 10, Overlap: schedule.OverlapAllow, Again: true}); err != nil {
					b.Fatal(err)
				}
			}
			n := 0
			for b.Loop() {
				name := fmt.Sprintf("b%d", n%backfills)
				n++
				back, err := s.Backfill(b.Context(), "a", name)
				if err != nil {
					b.Fatal(err)
				}
				at := back.Cursor.Truncate(10 * time.Second).Add(10 * time.Second)
				step, err := s.StepBackfill(b.Context(), claim.BackfillStep{Schedule: "a", ID: name, Expected: back.Cursor, Cursor: at, Open: []time.Time{at}})
				if err != nil || len(step.Released) != 1 {
					b.Fatalf("step: %+v, %v", step, err)
				}
				id := step.Released[0].Firing
				run := s.begin(id, fmt.Sprint(n))
				s.finish(id, run.Token, claim.OutcomeSucceeded)
				s.clock.Add(10 * time.Millisecond)
			}
		})
	}
}
