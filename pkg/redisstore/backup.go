package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// ErrEmptyNamespace reports that there is nothing to back up: the namespace was
// never used. Check its name.
var ErrEmptyNamespace = errors.New("redisstore: the namespace is empty")

// ErrMoved reports that calendars changed while the backup was taken, so that
// its parts do not fit together. Take it again.
var ErrMoved = errors.New("redisstore: calendars changed meanwhile")

// shardKinds says what each key of a shard is, in the order of shardKeyNames.
var shardKinds = [len(shardKeyNames)]string{
	keyDue: kindZSet, keyDefinition: kindHash, keyState: kindHash, keyFiring: kindHash, keyAudit: kindZSet, keyOutcome: kindHash,
	keyMeta: kindHash, keyRequest: kindZSet, keyOpen: kindHash, keyBuffer: kindHash, keySkip: kindHash, keyBackfill: kindHash,
	keyBackfillDue: kindZSet, keyLabel: kindZSet, keyEvent: kindStream,
}

// controlKinds are the keys that a namespace has once. Workers say by
// themselves that they live, so they are not backed up; leases are named by
// the set.
var controlKinds = []struct{ key, kind string }{
	{"conf", kindHash}, {"cal", kindHash}, {"calq", kindHash}, {"periodic", kindHash}, {"leases", kindSet},
}

const (
	runLogMark = "run:"
	leaseMark  = "lease:"
)

// Backup writes everything that the namespace holds of schedules: definitions,
// records, open firings, run logs, calendars, backfills, events, periodic tasks
// and leases. Queues and tasks are asynq's and are not in it. Each shard is as
// it was in one moment, read in one transaction: it holds the server for about
// as long as reading its keys takes, and this process keeps one shard in
// memory. Run logs are read after it. Progress is called after each shard; nil
// is nobody.
func (s *Store) Backup(ctx context.Context, w io.Writer, progress func(done, shards int)) (BackupInfo, error) {
	const doing = "back up"
	conf, err := s.client.HGetAll(ctx, s.keys.configuration()).Result()
	if err != nil {
		return BackupInfo{}, wrap(doing, err)
	}
	if len(conf) == 0 {
		return BackupInfo{}, fmt.Errorf("redisstore: back up %q: %w", s.options.Namespace, ErrEmptyNamespace)
	}
	l, err := s.open(ctx)
	if err != nil {
		return BackupInfo{}, err
	}
	now, err := s.serverTime(ctx)
	if err != nil {
		return BackupInfo{}, wrap(doing, err)
	}
	stored, _ := strconv.Atoi(conf["fmt"]) // open has refused what is no number
	b, err := newBackupWriter(w, BackupInfo{Namespace: s.options.Namespace, Format: stored, Shards: len(l.keys), TakenAt: now})
	if err != nil {
		return BackupInfo{}, wrap(doing, err)
	}
	if err := s.backupControl(ctx, b, conf); err != nil {
		return BackupInfo{}, wrap(doing, err)
	}
	for shard := range l.keys {
		if err := s.backupShard(ctx, b, shard, l.keys[shard]); err != nil {
			return BackupInfo{}, wrap(fmt.Sprintf("back up shard %d", shard), err)
		}
		if progress != nil {
			progress(shard+1, len(l.keys))
		}
	}
	version, err := s.client.HGet(ctx, s.keys.configuration(), calendarVersionField).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return BackupInfo{}, wrap(doing, err)
	}
	if version != conf[calendarVersionField] {
		return BackupInfo{}, ErrMoved
	}
	return b.info, wrapped(doing, b.close())
}

// wrapped is wrap that lets nil pass.
func wrapped(doing string, err error) error {
	if err == nil {
		return nil
	}
	return wrap(doing, err)
}

func (s *Store) backupControl(ctx context.Context, b *backupWriter, conf map[string]string) error {
	if err := b.part(controlTag, "conf", kindHash, pairs(conf)); err != nil {
		return err
	}
	for _, k := range controlKinds[1:] {
		items, err := readKey(ctx, s.client, s.keys.key(controlTag, k.key), k.kind)()
		if err != nil {
			return err
		}
		b.info.count(backupLine{Tag: controlTag, Key: k.key, Items: items})
		if err := b.part(controlTag, k.key, k.kind, items); err != nil {
			return err
		}
		if k.key != "leases" {
			continue
		}
		for _, name := range items {
			lease, err := s.client.HGetAll(ctx, s.keys.lease(string(name))).Result()
			if err != nil {
				return err
			}
			if err := b.part(controlTag, leaseMark+string(name), kindHash, pairs(lease)); err != nil {
				return err
			}
		}
	}
	return nil
}

// backupShard reads a shard in one transaction, then its run logs.
func (s *Store) backupShard(ctx context.Context, b *backupWriter, shard int, keys []string) error {
	tag := shardTag(shard)
	pipe := s.client.TxPipeline()
	results := make([]func() ([]datum, error), len(keys))
	var events *redis.XMessageSliceCmd
	for i, key := range keys {
		if shardKinds[i] == kindStream {
			events = pipe.XRange(ctx, key, "-", "+")
			continue
		}
		results[i] = readKey(ctx, pipe, key, shardKinds[i])
	}
	if commands, err := pipe.Exec(ctx); err != nil {
		return cause(commands, err)
	}
	var ids []string
	for i, result := range results {
		if result == nil {
			continue
		}
		items, err := result()
		if err != nil {
			return err
		}
		if i == keyState {
			for j := 0; j < len(items); j += 2 {
				ids = append(ids, string(items[j]))
			}
		}
		b.info.count(backupLine{Tag: tag, Key: shardKeyNames[i], Items: items})
		if err := b.part(tag, shardKeyNames[i], shardKinds[i], items); err != nil {
			return err
		}
	}
	for _, e := range events.Val() {
		fields := map[string]string{}
		for name, value := range e.Values {
			fields[name], _ = value.(string)
		}
		if err := b.line(backupLine{Tag: tag, Key: shardKeyNames[keyEvent], Kind: kindStream, ID: e.ID, Items: pairs(fields)}); err != nil {
			return err
		}
	}
	return s.backupRuns(ctx, b, shard, ids)
}

// readKey reads a key at once on a client, or queues that on a pipeline; the
// result returns what was read once that was executed.
func readKey(ctx context.Context, client redis.Cmdable, key, kind string) func() ([]datum, error) {
	switch kind {
	case kindHash:
		cmd := client.HGetAll(ctx, key)
		return func() ([]datum, error) { return pairs(cmd.Val()), cmd.Err() }
	case kindSet:
		cmd := client.SMembers(ctx, key)
		return func() ([]datum, error) {
			members := cmd.Val()
			slices.Sort(members)
			return dataOf(members), cmd.Err()
		}
	default: // a sorted set
		cmd := client.ZRangeWithScores(ctx, key, 0, -1)
		return func() ([]datum, error) {
			items := make([]datum, 0, 2*len(cmd.Val()))
			for _, z := range cmd.Val() {
				member, _ := z.Member.(string)
				items = append(items, datum(member), datum(strconv.FormatFloat(z.Score, 'f', -1, 64)))
			}
			return items, cmd.Err()
		}
	}
}

// pairs flattens a hash, by field.
func pairs(hash map[string]string) []datum {
	items := make([]datum, 0, 2*len(hash))
	for field := range hash {
		items = append(items, datum(field))
	}
	slices.Sort(items)
	out := make([]datum, 0, 2*len(hash))
	for _, field := range items {
		out = append(out, field, datum(hash[string(field)]))
	}
	return out
}

func dataOf(texts []string) []datum {
	items := make([]datum, len(texts))
	for i, text := range texts {
		items[i] = datum(text)
	}
	return items
}

// runLogsAtOnce bounds how many run logs one pipeline reads.
const runLogsAtOnce = 200

func (s *Store) backupRuns(ctx context.Context, b *backupWriter, shard int, ids []string) error {
	for len(ids) > 0 {
		chunk := ids[:min(len(ids), runLogsAtOnce)]
		ids = ids[len(chunk):]
		pipe := s.client.Pipeline()
		logs := make([]*redis.StringSliceCmd, len(chunk))
		for i, id := range chunk {
			logs[i] = pipe.LRange(ctx, s.keys.runLog(shard, schedule.ID(id)), 0, -1)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		for i, id := range chunk {
			b.info.Runs += len(logs[i].Val())
			if err := b.part(shardTag(shard), runLogMark+id, kindList, dataOf(logs[i].Val())); err != nil {
				return err
			}
		}
	}
	return nil
}

// check refuses a part that a backup of ours does not hold, so that nobody's
// file writes to other keys.
func (l backupLine) check() error {
	refuse := func() error {
		return fmt.Errorf("%w: it holds key %q of %q as %q", ErrBadBackup, l.Key, l.Tag, l.Kind)
	}
	if (l.Kind == kindHash || l.Kind == kindZSet || l.Kind == kindStream) && len(l.Items)%2 != 0 {
		return refuse()
	}
	if l.Tag == controlTag {
		for _, k := range controlKinds {
			if k.key == l.Key && k.kind == l.Kind {
				return nil
			}
		}
		if strings.HasPrefix(l.Key, leaseMark) && l.Kind == kindHash {
			return nil
		}
		return refuse()
	}
	if n, err := strconv.Atoi(l.Tag); err != nil || n < 0 || n >= maxShards || shardTag(n) != l.Tag {
		return refuse()
	}
	if id, ok := strings.CutPrefix(l.Key, runLogMark); ok && l.Kind == kindList && schedule.ID(id).Validate() == nil {
		return nil
	}
	if i := slices.Index(shardKeyNames[:], l.Key); i >= 0 && shardKinds[i] == l.Kind {
		return nil
	}
	return refuse()
}
