package redisstore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// notFound wraps schedule.ErrNotFound with what was being done.
func notFound(doing string) error {
	return fmt.Errorf("redisstore: %s: %w", doing, schedule.ErrNotFound)
}

// absent reads why a script found no schedule.
func (s *Store) absent(ctx context.Context, doing string, l *layout, id schedule.ID) error {
	o, _, err := s.readOne(ctx, doing, l, id)
	if err != nil {
		return err
	}
	return o.absent(doing, id)
}

// Get returns a schedule.
func (s *Store) Get(ctx context.Context, id schedule.ID) (schedule.Entry, error) {
	doing := fmt.Sprintf("read %q", id)
	all, err := s.getMany(ctx, doing, []schedule.ID{id})
	if err != nil {
		return schedule.Entry{}, err
	}
	entry, ok := all[id]
	if !ok {
		return schedule.Entry{}, notFound(doing)
	}
	return entry, nil
}

// GetMany returns those that exist.
func (s *Store) GetMany(ctx context.Context, ids []schedule.ID) (map[schedule.ID]schedule.Entry, error) {
	return s.getMany(ctx, "read schedules", ids)
}

// GetUnchecked is GetMany for callers that compile the definitions themselves,
// such as workers: Invalid tells only of what cannot be read.
func (s *Store) GetUnchecked(ctx context.Context, ids []schedule.ID) (map[schedule.ID]schedule.Entry, error) {
	found, err := s.find(ctx, "read schedules", ids)
	if err != nil {
		return nil, err
	}
	entries := make(map[schedule.ID]schedule.Entry, len(found))
	for id, o := range found {
		entries[id] = o.unchecked(id)
	}
	return entries, nil
}

func (s *Store) getMany(ctx context.Context, doing string, ids []schedule.ID) (map[schedule.ID]schedule.Entry, error) {
	found, err := s.find(ctx, doing, ids)
	if err != nil {
		return nil, err
	}
	return s.entries(ctx, found)
}

// find reads those that exist.
func (s *Store) find(ctx context.Context, doing string, ids []schedule.ID) (map[schedule.ID]*observed, error) {
	l, err := s.peek(ctx)
	if err != nil {
		return nil, err
	}
	byShard := make([][]schedule.ID, len(l.keys))
	for _, id := range ids {
		byShard[l.shardOf(id)] = append(byShard[l.shardOf(id)], id)
	}
	found := make(map[schedule.ID]*observed, len(ids))
	for shard, ids := range byShard {
		all, _, err := s.read(ctx, doing, l, shard, ids)
		if err != nil {
			return nil, err
		}
		for i, id := range ids {
			if all[i].exists() || all[i].damaged != nil {
				found[id] = &all[i]
			}
		}
	}
	return found, nil
}

// entries turns what was read into entries, with the calendars they need.
func (s *Store) entries(ctx context.Context, found map[schedule.ID]*observed) (map[schedule.ID]schedule.Entry, error) {
	var calendars []schedule.Calendar
	for _, o := range found {
		if o.record.policy&policyCalendar != 0 {
			var err error
			if calendars, _, err = s.Calendars(ctx); err != nil {
				return nil, err
			}
			break
		}
	}
	entries := make(map[schedule.ID]schedule.Entry, len(found))
	for id, o := range found {
		entries[id] = o.entry(id, calendars)
	}
	return entries, nil
}

// definitionOf decodes a stored definition, as far as it goes.
func definitionOf(o *observed) schedule.Schedule {
	var definition schedule.Schedule
	_ = json.Unmarshal([]byte(o.definition), &definition) // what cannot be read has no labels
	return definition
}
