package redisstore

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/scripts/lua"
)

// putAtOnce bounds how many definitions one pipeline carries.
const putAtOnce = 500

// PutMany is Put for many, in pipelines; each takes effect on its own.
func (s *Store) PutMany(ctx context.Context, definitions []schedule.Schedule, options schedule.PutOptions) ([]schedule.PutResult, error) {
	l, err := s.openToPut(ctx, options)
	if err != nil {
		return nil, err
	}
	calendars, err := s.calendarsFor(ctx, definitions...)
	if err != nil {
		return nil, err
	}
	results := make([]schedule.PutResult, len(definitions))
	byShard := make([][]item, len(l.keys))
	for i, definition := range definitions {
		p, err := s.preparePut(definition, options, calendars)
		if err != nil {
			results[i].Err = err
			continue
		}
		shard := l.shardOf(definition.ID)
		byShard[shard] = append(byShard[shard], item{putting: p, result: &results[i]})
	}
	for shard, items := range byShard {
		for len(items) > 0 {
			chunk := items[:min(len(items), putAtOnce)]
			items = items[len(chunk):]
			if err := s.putChunk(ctx, l, shard, chunk); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}

// An item is a definition of a PutMany and where its result goes.
type item struct {
	*putting
	result *schedule.PutResult
	found  observed
	sent   *redis.Cmd
}

// putChunk reads, plans and writes definitions of one shard together. What
// lost a race, or was answered by a server that had lost the script, is put
// again alone.
func (s *Store) putChunk(ctx context.Context, l *layout, shard int, items []item) error {
	const doing = "put schedules"
	ids := make([]schedule.ID, len(items))
	for i := range items {
		ids[i] = items[i].definition.ID
	}
	found, now, err := s.read(ctx, doing, l, shard, ids)
	if err != nil {
		return err
	}
	if err := lua.Put.Load(ctx, s.client).Err(); err != nil {
		return wrap(doing, err)
	}
	pipe := s.client.Pipeline()
	for i := range items {
		it := &items[i]
		it.found = found[i]
		if it.found.exists() && it.found.definition == it.bytes && it.options.IfVersion == nil && it.options.RequestID == "" {
			r := &it.found.record
			*it.result = schedule.PutResult{Unchanged: true, Version: r.version, Generation: r.generation, NextAt: r.next}
			continue
		}
		if err := s.knowCalendars(ctx, it.putting, &it.found); err != nil {
			return err
		}
		it.adopt(&it.found)
		plan, err := it.plan(&it.found, now)
		if err != nil {
			it.result.Err = err
			continue
		}
		if it.options.DryRun {
			*it.result, it.result.Err = it.foresee(&it.found, plan)
			continue
		}
		it.sent = lua.Put.EvalSha(ctx, pipe, l.keys[shard], s.clock(s.putArguments(l, it.putting, &it.found, plan)...)...)
	}
	if pipe.Len() == 0 {
		return nil
	}
	// The error of Exec is that of the first command that failed: each is
	// looked at below.
	_, _ = pipe.Exec(ctx)
	for i := range items {
		if err := s.putOutcome(ctx, l, &items[i]); err != nil {
			return err
		}
	}
	return nil
}

// putOutcome reads the answer to one definition of a pipeline.
func (s *Store) putOutcome(ctx context.Context, l *layout, it *item) error {
	if it.sent == nil {
		return nil
	}
	answer, err := it.sent.Result()
	switch {
	case err != nil && redis.HasErrorPrefix(err, "NOSCRIPT"):
		*it.result, err = s.put(ctx, l, it.putting)
	case err != nil:
		return wrap("put schedules", err)
	default:
		*it.result, err = it.putting.result(newReply(answer), &it.found)
		if errors.Is(err, errRace) {
			*it.result, err = s.put(ctx, l, it.putting)
		}
	}
	if err != nil && ctx.Err() != nil {
		return err
	}
	it.result.Err = err
	return nil
}
