package redisstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// Bounds of List.
const (
	defaultPage = 100
	maxPage     = 1000
	// maxRounds bounds how often one call of List goes on looking for entries
	// that match. A page may then be short and still name a next one.
	maxRounds = 20
)

// List returns one page in ascending order of ID. When few schedules match, a
// page may hold fewer than options.Limit entries and still have a Next.
func (s *Store) List(ctx context.Context, options schedule.ListOptions) (schedule.Page, error) {
	var err error
	if options.Limit, err = pageLimit(options.Limit); err != nil {
		return schedule.Page{}, err
	}
	l, err := s.peek(ctx)
	if err != nil {
		return schedule.Page{}, err
	}
	prefix, err := s.rarest(ctx, l, options.Labels)
	if err != nil {
		return schedule.Page{}, err
	}
	var page schedule.Page
	cursor, size := options.After, max(options.Limit+1, defaultPage)
	for range maxRounds {
		ids, err := s.listIDs(ctx, l, prefix, cursor, size)
		if err != nil {
			return schedule.Page{}, err
		}
		full, err := s.fill(ctx, &page, ids, options)
		if err != nil || full || len(ids) < size {
			return page, err
		}
		cursor = ids[len(ids)-1]
	}
	page.Next = cursor
	return page, nil
}

// fill adds the schedules that match to the page, and says that it is full
// and another begins.
func (s *Store) fill(ctx context.Context, page *schedule.Page, ids []schedule.ID, options schedule.ListOptions) (bool, error) {
	entries, err := s.getMany(ctx, "list schedules", ids)
	if err != nil {
		return false, err
	}
	for _, id := range ids {
		entry, ok := entries[id]
		if !ok || !matches(&entry, options) {
			continue
		}
		if len(page.Entries) == options.Limit {
			page.Next = page.Entries[options.Limit-1].Schedule.ID
			return true, nil
		}
		page.Entries = append(page.Entries, entry)
	}
	return false, nil
}

func matches(entry *schedule.Entry, options schedule.ListOptions) bool {
	for key, value := range options.Labels {
		if got, ok := entry.Schedule.Labels[key]; !ok || got != value {
			return false
		}
	}
	return (options.State == "" || entry.Status.State == options.State) &&
		(options.Queue == "" || entry.Schedule.Queue == options.Queue)
}

// rarest returns the prefix of the index that names the fewest schedules
// among those of the labels, or that of all schedules.
func (s *Store) rarest(ctx context.Context, l *layout, labels map[string]string) (string, error) {
	names := slices.Sorted(maps.Keys(labels))
	switch len(names) {
	case 0:
		return indexMark, nil
	case 1:
		return labelPrefix(names[0], labels[names[0]]), nil
	}
	pipe := s.client.Pipeline()
	counts := map[string][]*redis.IntCmd{}
	for _, name := range names {
		prefix := labelPrefix(name, labels[name])
		for shard := range l.keys {
			counts[prefix] = append(counts[prefix], pipe.ZLexCount(ctx, l.keys[shard][keyLabel], "["+prefix, beyond(prefix)))
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return "", wrap("count labels", err)
	}
	best, least := "", int64(-1)
	for _, prefix := range slices.Sorted(maps.Keys(counts)) {
		sum := int64(0)
		for _, count := range counts[prefix] {
			sum += count.Val()
		}
		if least < 0 || sum < least {
			best, least = prefix, sum
		}
	}
	return best, nil
}

// listIDs returns the first IDs after the cursor under a prefix of the index,
// merged over the shards.
func (s *Store) listIDs(ctx context.Context, l *layout, prefix string, cursor schedule.ID, size int) ([]schedule.ID, error) {
	pipe := s.client.Pipeline()
	pages := make([]*redis.StringSliceCmd, len(l.keys))
	for shard := range l.keys {
		pages[shard] = pipe.ZRangeByLex(ctx, l.keys[shard][keyLabel],
			&redis.ZRangeBy{Min: after(prefix, cursor), Max: beyond(prefix), Count: int64(size)})
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, wrap("list schedules", err)
	}
	var ids []schedule.ID
	for _, page := range pages {
		for _, text := range page.Val() {
			ids = append(ids, idOfMember(prefix, text))
		}
	}
	slices.Sort(ids)
	return ids[:min(len(ids), size)], nil
}

// Soonest returns the schedules that the index of due times names first, in the
// order of their next scheduled times: those that are due, are claimed or fire
// next. Paused and disabled ones and those that are completed or wait for a run
// are not among them, unless a pause ends by itself. Limit is as in
// [schedule.ListOptions]. The cost depends on the limit, not on how many
// schedules there are.
func (s *Store) Soonest(ctx context.Context, limit int) ([]schedule.Entry, error) {
	limit, err := pageLimit(limit)
	if err != nil {
		return nil, err
	}
	l, err := s.peek(ctx)
	if err != nil {
		return nil, err
	}
	pipe := s.client.Pipeline()
	firsts := make([]*redis.ZSliceCmd, len(l.keys))
	for shard := range l.keys {
		firsts[shard] = pipe.ZRangeWithScores(ctx, l.keys[shard][keyDue], 0, int64(limit)-1)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, wrap("list the soonest schedules", err)
	}
	var due []redis.Z
	for _, first := range firsts {
		due = append(due, first.Val()...)
	}
	slices.SortStableFunc(due, func(a, b redis.Z) int { return cmp.Compare(a.Score, b.Score) })
	var ids []schedule.ID
	for _, z := range due[:min(len(due), limit)] {
		if id, ok := z.Member.(string); ok {
			ids = append(ids, schedule.ID(id))
		}
	}
	found, err := s.getMany(ctx, "list the soonest schedules", ids)
	if err != nil {
		return nil, err
	}
	entries := slices.Collect(maps.Values(found))
	slices.SortFunc(entries, func(a, b schedule.Entry) int {
		return cmp.Or(a.Status.NextAt.Compare(b.Status.NextAt), cmp.Compare(a.Schedule.ID, b.Schedule.ID))
	})
	return entries, nil
}

// pageLimit checks a limit, 0 being the default.
func pageLimit(limit int) (int, error) {
	if limit < 0 || limit > maxPage {
		return 0, &schedule.FieldError{Field: "limit", Value: strconv.Itoa(limit),
			Allowed: "0 (" + strconv.Itoa(defaultPage) + ") to " + strconv.Itoa(maxPage)}
	}
	if limit == 0 {
		return defaultPage, nil
	}
	return limit, nil
}
