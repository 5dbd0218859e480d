package redisstore

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/schedule"
)

var _ schedule.EventLog = (*Store)(nil)

// maxEvents bounds what one call of Events reads from each shard.
const maxEvents = 1000

// Events returns the newest events, or those after a cursor.
func (s *Store) Events(ctx context.Context, cursor string, limit int) ([]schedule.Event, string, error) {
	if limit < 1 || limit > maxEvents {
		return nil, "", &schedule.FieldError{Field: "limit", Value: strconv.Itoa(limit), Allowed: "1 to " + strconv.Itoa(maxEvents)}
	}
	l, err := s.peek(ctx)
	if err != nil {
		return nil, "", err
	}
	last, err := parseCursor(cursor, len(l.keys))
	if err != nil {
		return nil, "", err
	}
	found, err := s.readEvents(ctx, l, last, cursor != "", limit)
	if err != nil {
		return nil, "", wrap("read events", err)
	}
	var all []schedule.Event
	for shard, messages := range found {
		for _, m := range messages {
			all, last[shard] = append(all, readEvent(m.Values)), m.ID
		}
	}
	// Each shard is in order; events of two shards are compared by the clock.
	slices.SortStableFunc(all, func(a, b schedule.Event) int { return a.At.Compare(b.At) })
	if cursor == "" && len(all) > limit {
		all = all[len(all)-limit:]
	}
	return all, strings.Join(last, ","), nil
}

// beforeAll stands before every entry of a stream.
const beforeAll = "0-0"

// parseCursor returns the last entry seen of each shard.
func parseCursor(cursor string, shards int) ([]string, error) {
	if cursor == "" {
		return slices.Repeat([]string{beforeAll}, shards), nil
	}
	last := strings.Split(cursor, ",")
	valid := len(last) == shards
	for _, id := range last {
		ms, seq, ok := strings.Cut(id, "-")
		_, err1 := strconv.ParseUint(ms, 10, 64)
		_, err2 := strconv.ParseUint(seq, 10, 64)
		valid = valid && ok && cmp.Or(err1, err2) == nil
	}
	if !valid {
		return nil, &schedule.FieldError{Field: "cursor", Value: cursor, Allowed: "one that Events returned for this namespace"}
	}
	return last, nil
}

// readEvents returns the entries of each shard, oldest first.
func (s *Store) readEvents(ctx context.Context, l *layout, last []string, follow bool, limit int) ([][]redis.XMessage, error) {
	found := make([][]redis.XMessage, len(l.keys))
	for shard, keys := range l.keys {
		var err error
		if follow {
			found[shard], err = s.client.XRangeN(ctx, keys[keyEvent], "("+last[shard], "+", int64(limit)).Result()
		} else {
			found[shard], err = s.client.XRevRangeN(ctx, keys[keyEvent], "+", "-", int64(limit)).Result()
			slices.Reverse(found[shard])
		}
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// readEvent decodes an entry of scripts/lua/lib/event.lua. What it cannot read
// stays empty: a log is no reason to fail.
func readEvent(values map[string]any) schedule.Event {
	text := func(name string) string {
		value, _ := values[name].(string)
		return value
	}
	ms, _ := strconv.ParseInt(text("at_ms"), 10, 64)
	generation, _ := strconv.ParseInt(text("generation"), 10, 64)
	e := schedule.Event{At: instant(ms), Kind: schedule.EventKind(text("event")), Schedule: schedule.ID(text("schedule")),
		Generation: generation, Detail: text("detail")}
	var note pauseNote
	if e.Kind == schedule.EventPaused && json.Unmarshal([]byte(e.Detail), &note) == nil {
		e.Detail = note.text()
	}
	if e.Kind == schedule.EventSkipAsked || e.Kind == schedule.EventSkipWithdrawn {
		if ms, err := strconv.ParseInt(e.Detail, 10, 64); err == nil {
			e.Detail = instant(ms).Format(eventTime)
		}
	}
	return e
}

// eventTime renders an instant in a detail.
const eventTime = "2006-01-02T15:04:05.999Z07:00"

// text renders who paused a schedule and why.
func (n pauseNote) text() string {
	switch {
	case n.By == "":
		return n.Reason
	case n.Reason == "":
		return "by " + n.By
	}
	return "by " + n.By + ": " + n.Reason
}
