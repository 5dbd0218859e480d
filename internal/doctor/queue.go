package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A RawQueue is a queue of asynq as its keys are, read without asynq's scripts,
// which end with an error where one task has lost its record.
type RawQueue struct {
	Paused bool
	// Counts has the entries by state: pending, active, scheduled, retry,
	// archived and completed.
	Counts map[string]int
	// Oldest is how long the oldest pending task with a record waits.
	Oldest time.Duration
	// Orphans are entries whose task has no record, at most maxOrphans of them.
	Orphans []Orphan
	// Cut says that not every entry was looked at, or that there are more
	// orphans than are named.
	Cut bool
	// Strange are keys that hold another type than asynq's.
	Strange []string
}

// An Orphan is an entry of a queue whose task has no record: its type and its
// payload are lost.
type Orphan struct{ State, ID string }

// What one look at a queue may cost: entries of each state, from the end that is
// worked off first, and orphans that are named.
const (
	maxEntries = 1000
	maxOrphans = 100
)

// queueStates are asynq's states in the order of a task's life.
var queueStates = []string{"pending", "active", "scheduled", "retry", "archived", "completed"}

func isList(state string) bool { return state == "pending" || state == "active" }

// queueKey is a key of a queue of asynq.
func queueKey(queue, name string) string { return "asynq:{" + queue + "}:" + name }

// Torn says in one line what is wrong with the queue; "" is nothing.
func (q RawQueue) Torn() string {
	var parts []string
	for _, state := range queueStates {
		var ids []string
		for _, o := range q.Orphans {
			if o.State == state {
				ids = append(ids, o.ID)
			}
		}
		if len(ids) == 0 {
			continue
		}
		noun := "entries have"
		if len(ids) == 1 {
			noun = "entry has"
		}
		named := strings.Join(ids[:min(len(ids), 3)], ", ")
		if len(ids) > 3 {
			named += ", ..."
		}
		parts = append(parts, fmt.Sprintf("%d %s %s no task record (%s)", len(ids), state, noun, named))
	}
	if q.Cut && len(q.Orphans) > 0 {
		parts = append(parts, "there may be more")
	}
	for _, key := range q.Strange {
		parts = append(parts, "the key "+key+" holds what is not asynq's")
	}
	return strings.Join(parts, "; ")
}

// ReadQueue looks at the keys of a queue. A key of another type is part of the
// answer; an error means that the server did not answer.
func ReadQueue(ctx context.Context, client redis.UniversalClient, name string, now time.Time) (RawQueue, error) {
	q := RawQueue{Counts: map[string]int{}}
	paused, err := client.Exists(ctx, queueKey(name, "paused")).Result()
	if err != nil {
		return q, err
	}
	q.Paused = paused > 0
	for _, state := range queueStates {
		if err := q.look(ctx, client, name, state, now); err != nil {
			return q, err
		}
	}
	return q, nil
}

// look reads the entries of one state.
func (q *RawQueue) look(ctx context.Context, client redis.UniversalClient, name, state string, now time.Time) error {
	key := queueKey(name, state)
	var n int64
	var ids []string
	var err error
	if isList(state) {
		if n, err = client.LLen(ctx, key).Result(); err == nil {
			ids, err = client.LRange(ctx, key, -maxEntries, -1).Result()
			slices.Reverse(ids) // the right end is taken first
		}
	} else if n, err = client.ZCard(ctx, key).Result(); err == nil {
		ids, err = client.ZRange(ctx, key, 0, maxEntries-1).Result()
	}
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		q.Strange = append(q.Strange, key)
		return nil
	}
	if err != nil {
		return err
	}
	q.Counts[state] = int(n)
	q.Cut = q.Cut || n > maxEntries
	return q.records(ctx, client, name, state, ids, now)
}

// records looks for the records of entries, in one round trip.
func (q *RawQueue) records(ctx context.Context, client redis.UniversalClient, name, state string, ids []string, now time.Time) error {
	if len(ids) == 0 {
		return nil
	}
	pipe := client.Pipeline()
	fields := make([]*redis.SliceCmd, len(ids))
	for i, id := range ids {
		fields[i] = pipe.HMGet(ctx, queueKey(name, "t:"+id), "msg", "pending_since")
	}
	_, err := pipe.Exec(ctx)
	if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return err
	}
	for i, id := range ids {
		values, err := fields[i].Result()
		switch {
		case redis.HasErrorPrefix(err, "WRONGTYPE"):
			q.Strange = append(q.Strange, queueKey(name, "t:"+id))
			continue
		case err != nil:
			return err
		case values[0] != nil:
			q.wait(state, values[1], now)
			continue
		case len(q.Orphans) == maxOrphans:
			q.Cut = true
			continue
		}
		q.Orphans = append(q.Orphans, Orphan{state, id})
	}
	return nil
}

// wait takes the time since when a pending task waits into account.
func (q *RawQueue) wait(state string, since any, now time.Time) {
	text, _ := since.(string)
	ns, err := strconv.ParseInt(text, 10, 64)
	if state == "pending" && err == nil && ns > 0 {
		q.Oldest = max(q.Oldest, now.Sub(time.Unix(0, ns)))
	}
}

// DropOrphans removes the entries of a queue whose task has no record. Nothing
// can run them: asynq's servers pass over them. An entry that gets a record
// meanwhile stays, and so does one that a server may still have in its hands. A
// firing whose task is gone is enqueued again by the auditor.
func DropOrphans(ctx context.Context, client redis.UniversalClient, name string, now time.Time) error {
	for {
		q, err := ReadQueue(ctx, client, name, now)
		if err != nil {
			return err
		}
		dropped := 0
		for _, o := range q.Orphans {
			gone, err := dropOrphan(ctx, client, name, o, now)
			if err != nil {
				return fmt.Errorf("remove the %s entry %q of queue %q: %w", o.State, o.ID, name, err)
			}
			dropped += gone
		}
		if !q.Cut || dropped == 0 {
			return nil
		}
	}
}

// dropOrphan removes one entry unless its record appears or its lease holds.
func dropOrphan(ctx context.Context, client redis.UniversalClient, name string, o Orphan, now time.Time) (int, error) {
	list, record, lease := queueKey(name, o.State), queueKey(name, "t:"+o.ID), queueKey(name, "lease")
	dropped := 0
	err := client.Watch(ctx, func(tx *redis.Tx) error {
		there, err := tx.HExists(ctx, record, "msg").Result()
		if err != nil || there {
			return err
		}
		until, err := tx.ZScore(ctx, lease, o.ID).Result()
		if err != nil && !errors.Is(err, redis.Nil) || err == nil && until > float64(now.Unix()) {
			return err
		}
		commands, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			if isList(o.State) {
				pipe.LRem(ctx, list, 0, o.ID)
			} else {
				pipe.ZRem(ctx, list, o.ID)
			}
			pipe.ZRem(ctx, lease, o.ID)
			pipe.Del(ctx, record) // what asynq leaves of a task that it could not read
			return nil
		})
		for _, command := range commands { // EXEC says only that it was discarded
			if one := command.Err(); one != nil && !redis.HasErrorPrefix(one, "EXECABORT") {
				return one
			}
		}
		if err == nil {
			dropped = 1
		}
		return err
	}, record, lease)
	if errors.Is(err, redis.TxFailedErr) {
		return 0, nil // somebody put a record there: no orphan any more
	}
	return dropped, err
}
