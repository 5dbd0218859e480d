package redisstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/scripts/lua"
)

// A walk plans the users of changed calendars again. It may be interrupted and
// repeated: what has moved already moves no more.
type walk struct {
	store   *Store
	layout  *layout
	almanac almanac
	dryRun  bool
	seen    map[schedule.ID]bool
	result  *schedule.CalendarResult
}

// newWalk returns a walk that adds up what it does in result. What is marked
// for deletion still counts for those who name it.
func newWalk(s *Store, l *layout, all almanac, result *schedule.CalendarResult) *walk {
	all.leaving = nil
	return &walk{store: s, layout: l, almanac: all, seen: map[schedule.ID]bool{}, result: result}
}

// users plans the users of one calendar again.
func (w *walk) users(ctx context.Context, name string) error {
	for shard := range w.layout.keys {
		err := w.store.calendarUsers(ctx, w.layout, shard, name, func(ids []schedule.ID) error {
			ids = slices.DeleteFunc(ids, func(id schedule.ID) bool { return w.seen[id] })
			return w.page(ctx, shard, ids)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// A moving is a schedule whose pending time a calendar moves.
type moving struct {
	*putting
	found observed
	plan  schedule.PutPlan
	sent  *redis.Cmd
}

// page reads schedules of a shard together and writes those that move in one
// pipeline.
func (w *walk) page(ctx context.Context, shard int, ids []schedule.ID) error {
	const doing = "plan the users of calendars again"
	for _, id := range ids {
		w.seen[id] = true
	}
	w.result.Users += len(ids)
	found, now, err := w.store.read(ctx, doing, w.layout, shard, ids)
	if err != nil {
		return err
	}
	var moves []moving
	for i := range found {
		m, ok, err := w.plan(&found[i], now)
		if err != nil {
			return err
		}
		if ok {
			moves = append(moves, m)
		}
	}
	if len(moves) == 0 {
		return nil
	}
	if w.dryRun {
		for i := range moves {
			w.moved(&moves[i], instant(millis(moves[i].plan.Next)))
		}
		return nil
	}
	return w.write(ctx, doing, shard, moves)
}

// plan says where the pending time of a schedule goes, and false when it
// stays. One that was deleted or cannot be used is left alone.
func (w *walk) plan(o *observed, now time.Time) (moving, bool, error) {
	if !o.exists() {
		return moving{}, false, nil
	}
	version := o.record.version
	p, err := w.store.preparePut(definitionOf(o), schedule.PutOptions{IfVersion: &version}, w.almanac)
	var refused *schedule.FieldError
	if errors.As(err, &refused) {
		return moving{}, false, nil
	}
	if err != nil {
		return moving{}, false, err
	}
	plan, err := p.plan(o, now)
	if err != nil {
		return moving{}, false, err
	}
	return moving{putting: p, found: *o, plan: plan}, p.replaces(o, plan), nil
}

// write moves schedules of a shard. One that changed in between is planned and
// written again alone.
func (w *walk) write(ctx context.Context, doing string, shard int, moves []moving) error {
	s := w.store
	if err := lua.Put.Load(ctx, s.client).Err(); err != nil {
		return wrap(doing, err)
	}
	pipe := s.client.Pipeline()
	for i := range moves {
		m := &moves[i]
		m.sent = lua.Put.EvalSha(ctx, pipe, w.layout.keys[shard], s.clock(s.putArguments(w.layout, m.putting, &m.found, m.plan)...)...)
	}
	_, _ = pipe.Exec(ctx) // each answer is looked at below
	for i := range moves {
		answer, err := moves[i].sent.Result()
		if err != nil && !redis.HasErrorPrefix(err, "NOSCRIPT") {
			return wrap(doing, err)
		}
		var result schedule.PutResult
		if err == nil {
			result, err = moves[i].putting.result(newReply(answer), &moves[i].found)
		}
		if err == nil {
			w.moved(&moves[i], result.NextAt)
		} else if err := w.again(ctx, &moves[i]); err != nil {
			return err
		}
	}
	return nil
}

// again moves one schedule that was changed between reading and writing.
func (w *walk) again(ctx context.Context, m *moving) error {
	id := m.definition.ID
	o, now, err := w.store.readOne(ctx, "plan a user of a calendar again", w.layout, id)
	if err != nil {
		return err
	}
	fresh, ok, err := w.plan(&o, now)
	if err != nil || !ok {
		return err
	}
	result, err := w.store.put(ctx, w.layout, fresh.putting)
	switch {
	case errors.Is(err, schedule.ErrConflict):
		return nil // somebody put it meanwhile, with calendars that are new enough
	case err != nil:
		return err
	}
	w.moved(&fresh, result.NextAt)
	return nil
}

func (w *walk) moved(m *moving, to time.Time) {
	w.result.Moved++
	w.result.Moves = append(w.result.Moves, schedule.CalendarMove{Schedule: m.definition.ID, From: m.found.record.next, To: to})
	if len(w.result.Moves) > 4*schedule.MaxCalendarMoves {
		w.finish()
	}
}

// finish leaves the first moves in order of ID.
func (w *walk) finish() {
	moves := w.result.Moves
	slices.SortFunc(moves, func(a, b schedule.CalendarMove) int { return strings.Compare(string(a.Schedule), string(b.Schedule)) })
	w.result.Moves = moves[:min(len(moves), schedule.MaxCalendarMoves)]
}
