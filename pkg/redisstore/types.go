package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// shardKeyTypes are the types of the keys of a shard, in their order.
var shardKeyTypes = [...]string{"zset", "hash", "hash", "hash", "zset", "hash", "hash", "zset",
	"hash", "hash", "hash", "hash", "zset", "zset", "stream"}

// A wrongType is a key that holds something else than scripts expect there.
type wrongType struct{ key, want, got string }

// wrongTypes looks for keys of other types than they must have. A key that
// does not exist has every type.
func (s *Store) wrongTypes(ctx context.Context, keys, want []string) ([]wrongType, error) {
	pipe := s.client.Pipeline()
	types := make([]*redis.StatusCmd, len(keys))
	for i, key := range keys {
		types[i] = pipe.Type(ctx, key)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	var wrong []wrongType
	for i, key := range keys {
		if got := types[i].Val(); got != want[i] && got != "none" {
			wrong = append(wrong, wrongType{key, want[i], got})
		}
	}
	return wrong, nil
}

// wrongRunLogs looks for run logs that are none.
func (s *Store) wrongRunLogs(ctx context.Context, shard int, ids []schedule.ID) ([]wrongType, error) {
	var wrong []wrongType
	for len(ids) > 0 {
		page := ids[:min(len(ids), checkPage)]
		ids = ids[len(page):]
		keys, want := make([]string, len(page)), make([]string, len(page))
		for i, id := range page {
			keys[i], want[i] = s.keys.runLog(shard, id), "list"
		}
		found, err := s.wrongTypes(ctx, keys, want)
		if err != nil {
			return nil, err
		}
		wrong = append(wrong, found...)
	}
	return wrong, nil
}

// look reads a shard once and checks it. Keys of the wrong type are all that
// can be told of a shard: no script runs there.
func (s *Store) look(ctx context.Context, c *checker, keys []string) error {
	wrong, err := s.wrongTypes(ctx, keys, shardKeyTypes[:])
	if err != nil {
		return err
	}
	for _, w := range wrong {
		c.add(ViolationShard, w.key, fmt.Sprintf("%s is of type %s, not %s: nothing of this shard works until doctor --fix puts it aside", w.key, w.got, w.want))
	}
	if len(wrong) > 0 {
		return nil
	}
	if err := c.load(ctx, s.client, keys); err != nil {
		return err
	}
	c.check()
	logs, err := s.wrongRunLogs(ctx, c.shard, slices.Collect(maps.Keys(c.records)))
	for _, w := range logs {
		c.add(ViolationRunLog, w.key, fmt.Sprintf("%s is of type %s, not %s: runs of its schedule are not logged until doctor --fix puts it aside", w.key, w.got, w.want))
	}
	return err
}

// isWrongType reports whether a key of another type stopped a command.
func isWrongType(err error) bool {
	var refused redis.Error
	return errors.As(err, &refused) && strings.Contains(refused.Error(), "WRONGTYPE")
}

// putAside renames the keys of all shards, and the run logs, that are of the
// wrong type: they stop their shard, and nothing can be read from them. What
// they held before is lost already. The new name says what it was, and no
// program reads it.
func (s *Store) putAside(ctx context.Context, l *layout) ([]Repaired, error) {
	var all []Repaired
	for shard, keys := range l.keys {
		wrong, err := s.wrongTypes(ctx, keys, shardKeyTypes[:])
		if err != nil {
			return all, wrap("repair", err)
		}
		if !slices.ContainsFunc(wrong, func(w wrongType) bool { return w.key == keys[keyState] }) {
			ids, err := s.client.HKeys(ctx, keys[keyState]).Result()
			if err != nil {
				return all, wrap("repair", err)
			}
			logs, err := s.wrongRunLogs(ctx, shard, idsOf(ids))
			if err != nil {
				return all, wrap("repair", err)
			}
			wrong = append(wrong, logs...)
		}
		for _, w := range wrong {
			aside := w.key + ":aside:" + time.Now().UTC().Format("20060102T150405.000000000")
			if err := s.client.RenameNX(ctx, w.key, aside).Err(); err != nil {
				return all, wrap("repair", err)
			}
			all = append(all, Repaired{Name: w.key, Key: aside, Was: w.got})
		}
	}
	return all, nil
}

func idsOf(texts []string) []schedule.ID {
	ids := make([]schedule.ID, len(texts))
	for i, text := range texts {
		ids[i] = schedule.ID(text)
	}
	return ids
}
