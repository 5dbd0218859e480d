package admincli

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/belfryhq/belfry/internal/top"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A topSource reads the stores of a session.
type topSource struct {
	s *session
	// Reading and acting may overlap: top calls each from a goroutine.
	mu sync.Mutex
	// The list of schedules is the costly part: it is read less often the
	// longer it takes.
	schedules []top.Schedule
	entries   map[schedule.ID]schedule.Entry
	left      map[schedule.ID]schedule.Entry // fired and are not among the soonest any more
	fired     int64                          // by those that were listed, since the first look
	partial   bool
	listed    time.Time // when; zero: never
	listing   time.Duration
}

// How many schedules top lists: all of a few, or those that fire next of many.
const (
	maxTop     = 2000
	maxSoonest = 1000
)

// list reads the schedules, unless that was done a short while ago.
func (t *topSource) list(ctx context.Context, stats schedule.Stats) error {
	started := t.s.env.Now()
	if !t.listed.IsZero() && started.Sub(t.listed) < 10*t.listing {
		return nil
	}
	many := stats.Total > maxTop
	listed, err := t.find(ctx, many)
	if err != nil {
		return err
	}
	schedules, entries := make([]top.Schedule, 0, len(listed)), make(map[schedule.ID]schedule.Entry, len(listed))
	for _, e := range listed {
		schedules = append(schedules, t.row(e, stats.Now))
		e.Schedule.Payload, e.Schedule.Metadata = nil, nil
		entries[e.Schedule.ID] = e
	}
	if err := t.count(ctx, entries, many); err != nil {
		return err
	}
	t.schedules, t.entries, t.partial = schedules, entries, int64(len(listed)) < stats.Total
	t.listed = t.s.env.Now()
	t.listing = t.listed.Sub(started)
	return nil
}

// find reads all schedules, or of many those that fire next.
func (t *topSource) find(ctx context.Context, many bool) ([]schedule.Entry, error) {
	if many && t.s.stores.Due != nil {
		return t.s.stores.Due.Soonest(ctx, maxSoonest)
	}
	var all []schedule.Entry
	err := t.s.pages(schedule.ListOptions{}, func(page []schedule.Entry) (bool, error) {
		all = append(all, page[:min(len(page), maxTop-len(all))]...)
		return len(all) < maxTop, nil
	})
	return all, err
}

// count adds what fired since the last look. Of many schedules, those that fired
// have left the soonest: they are read once more, and kept for the view of runs.
func (t *topSource) count(ctx context.Context, entries map[schedule.ID]schedule.Entry, many bool) error {
	if t.entries == nil {
		return nil
	}
	now := maps.Clone(entries)
	if many {
		var gone []schedule.ID
		for id := range t.entries {
			if _, still := entries[id]; !still {
				gone = append(gone, id)
			}
		}
		found, err := t.s.stores.Catalog.GetMany(ctx, gone)
		if err != nil {
			return err
		}
		maps.Copy(now, found)
		t.leave(found, entries)
	}
	for id, e := range now {
		before, known := t.entries[id]
		if known && before.Status.Generation == e.Status.Generation {
			t.fired += e.Status.Fired - before.Status.Fired
		}
	}
	return nil
}

// leave remembers those that left the soonest and ran last.
func (t *topSource) leave(found, entries map[schedule.ID]schedule.Entry) {
	var ran []schedule.Entry
	for id, e := range t.left {
		if _, back := entries[id]; !back {
			ran = append(ran, e)
		}
	}
	for _, e := range found {
		e.Schedule.Payload, e.Schedule.Metadata = nil, nil
		ran = append(ran, e)
	}
	t.left = map[schedule.ID]schedule.Entry{}
	for _, e := range newestRan(ran, topRuns) {
		t.left[e.Schedule.ID] = e
	}
}
