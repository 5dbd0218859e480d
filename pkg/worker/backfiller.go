package worker

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A backfiller makes the steps of backfills. Every worker has one; which of
// them makes a step does not matter, since the store takes each step once.
type backfiller struct {
	bell *claim.Bell
	rounds
	warned map[string]bool
}

// How backfills are looked for.
const (
	backfillBatch = 50              // steps of one look
	backfillHide  = time.Second     // how long a step may take before another worker makes it
	backfillTime  = 5 * time.Second // bounds one call to the store
)

func newBackfiller(s *Scheduler, shards int, bell *claim.Bell) *backfiller {
	return &backfiller{bell: bell, rounds: newRounds(s, shards, bell.Rope(shards+1), nil), warned: map[string]bool{}}
}

func (w *backfiller) run(ctx context.Context) {
	w.rounds.run(ctx, w.s.watch.loop("backfill", w.s.stall()+w.longest()), w.look)
}

// longest is the time between two looks at a shard without backfills.
func (w *backfiller) longest() time.Duration {
	return max(w.s.options.AuditAfter, w.s.options.IdleSleep)
}

// look makes the steps that are due in a shard and returns when it wants to be
// looked at again.
func (w *backfiller) look(ctx context.Context, shard int) (time.Time, error) {
	call, cancel := context.WithTimeout(ctx, backfillTime)
	defer cancel()
	started := time.Now()
	batch, err := w.s.options.Backfills.DueBackfills(call, claim.DueBackfillsRequest{Shard: shard, Limit: backfillBatch, Hide: backfillHide})
	if err != nil {
		return time.Time{}, err
	}
	next := started.Add(w.longest())
	if !w.bell.Healthy() {
		next = started.Add(w.s.options.IdleSleep) // nobody would tell of a new one
	}
	if !batch.NextDue.IsZero() {
		if at := w.s.local(batch.NextDue).Add(w.s.ranking.wait(shard)); at.Before(next) {
			next = at
		}
	}
	for _, b := range batch.Backfills {
		soon, err := w.step(ctx, b)
		if err != nil {
			return next, err
		}
		if !soon.IsZero() && soon.Before(next) {
			next = soon
		}
	}
	return next, nil
}

// step makes one step of a backfill and returns when, on our clock, the next
// one may run; zero: not before the store says so. A schedule that cannot be
// computed keeps its backfill waiting, and no other.
func (w *backfiller) step(ctx context.Context, b claim.Backfill) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, backfillTime)
	defer cancel()
	step, ok, err := w.plan(ctx, &b)
	if err != nil || !ok {
		return time.Time{}, err
	}
	result, err := w.s.options.Backfills.StepBackfill(ctx, step)
	if err != nil {
		return time.Time{}, err
	}
	if len(result.Released) > 0 {
		if err := w.s.options.Auditor.Release(ctx, result.Released); err != nil {
			w.s.logger.Warn("firings of a backfill wait for their audit", "schedule", b.Schedule, "backfill", b.ID,
				"firings", len(result.Released), "error", err)
		}
	}
	if result.Answer != claim.StepOK || result.Backfill.Cursor.IsZero() {
		return time.Time{}, nil
	}
	return time.Now().Add(time.Duration(len(step.Open)) * b.Every), nil
}

// plan computes the next step; false: there is none now.
func (w *backfiller) plan(ctx context.Context, b *claim.Backfill) (claim.BackfillStep, bool, error) {
	entries, err := w.s.options.Definitions.GetMany(ctx, []schedule.ID{b.Schedule})
	if err != nil {
		return claim.BackfillStep{}, false, fmt.Errorf("worker: read the definition of a backfill: %w", err)
	}
	entry, ok := entries[b.Schedule]
	if !ok || entry.Status.Generation != b.Generation {
		return claim.BackfillStep{}, false, nil
	}
	var calendars calendarSet
	if len(entry.Schedule.CalendarNames()) > 0 { // a step states no version: read them anew
		if calendars, err = w.s.cache.almanac.read(ctx, math.MaxInt64); err != nil {
			return claim.BackfillStep{}, false, err
		}
	}
	d := compile(entry, calendars)
	name := string(b.Schedule) + ":" + b.ID
	if d.err != nil {
		if !w.warned[name] {
			w.warned[name] = true
			w.s.logger.Error("a backfill waits for a definition that can be used", "schedule", b.Schedule, "backfill", b.ID, "error", d.err)
		}
		return claim.BackfillStep{}, false, nil
	}
	delete(w.warned, name)
	step, ok := b.Plan(d.compiled, &entry.Status)
	return step, ok, nil
}
