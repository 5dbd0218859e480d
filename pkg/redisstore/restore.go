package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// ErrNotEmpty reports that the namespace holds something: a backup is restored
// only where nothing is. Take another namespace, or another server.
var ErrNotEmpty = errors.New("redisstore: the namespace is not empty")

// ErrRestoring reports that a backup is being restored into the namespace, or
// that this was broken off. Wait, or restore again.
var ErrRestoring = errors.New("redisstore: the namespace is being restored")

// restoring stands in place of the format while a backup is restored, so that
// nobody takes half of it for all; restoringField holds whose restore it is.
const (
	restoring      = "restoring"
	restoringField = "restore"
)

// restoreMargin is how far tokens are raised above the clocks: the clock of
// the server that the backup was taken of may have been ahead by as much.
const restoreMargin = time.Minute

// restoreAtOnce bounds how many lines go to the server together.
const restoreAtOnce = 32

// RestoreOptions refine Restore.
type RestoreOptions struct {
	// Attempt tells restores apart; a nonce. It must not be empty.
	Attempt string
	// Progress is called now and then with how many lines were restored; nil
	// is nobody.
	Progress func(lines int)
}

// Restore writes a backup into the namespace, which must be empty and without
// workers, whatever namespace it was taken of. The file is read twice: first
// from start to end to see that it is sound, before anything is written.
// Nobody can use the namespace until it is complete; a restore that was broken
// off is simply repeated, from the start.
//
// All fencing tokens are raised above those of the backup and above the
// clocks, so that whoever held a claim or a lease before is refused. Leases
// come back free. Open firings come back open: the auditor looks for their
// tasks, and enqueues those again whose task is not there. Scheduled times
// that passed since the backup count as missed. See docs/OPERATIONS.md.
//
// It returns ErrNotEmpty, ErrBadBackup or ErrNewerFormat, with nothing written.
func (s *Store) Restore(ctx context.Context, file io.ReadSeeker, options RestoreOptions) (BackupInfo, error) {
	const doing = "restore"
	if options.Attempt == "" {
		return BackupInfo{}, &schedule.FieldError{Field: "attempt", Allowed: "a nonce for each restore"}
	}
	info, err := VerifyBackup(file)
	if err != nil {
		return info, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return info, wrap(doing, err)
	}
	if err := s.clearForRestore(ctx, info, options.Attempt); err != nil {
		return info, err
	}
	r := &restorer{store: s, attempt: options.Attempt, progress: options.Progress}
	if r.least, err = s.leastToken(ctx); err != nil {
		return info, wrap(doing, err)
	}
	again, err := readBackup(file, func(l backupLine) error { return r.add(ctx, l) })
	if err == nil && again.SHA256 != info.SHA256 {
		err = fmt.Errorf("%w: it changed while it was read", ErrBadBackup)
	}
	if err == nil {
		err = r.flush(ctx)
	}
	if err != nil {
		return info, wrap(doing, err)
	}
	return info, r.finish(ctx, info)
}

// leastToken is above every token that was granted until now by a server whose
// clock is not ahead by more than restoreMargin.
func (s *Store) leastToken(ctx context.Context) (int64, error) {
	now, err := s.serverTime(ctx)
	return max(now.UnixMicro(), s.options.Wall().UnixMicro()) + restoreMargin.Microseconds(), err
}

// serverTime is the server's clock.
func (s *Store) serverTime(ctx context.Context) (time.Time, error) {
	if s.options.Now != nil {
		return s.options.Now(), nil
	}
	return s.client.Time(ctx).Result()
}

// restoreKeys are those that an empty namespace does not have.
func (s *Store) restoreKeys(shards int) []string {
	all := []string{s.keys.workers(), s.keys.members()}
	for _, k := range controlKinds[1:] {
		all = append(all, s.keys.key(controlTag, k.key))
	}
	for shard := range shards {
		all = append(all, s.keys.shard(shard)...)
	}
	return all
}

// clearForRestore checks that the namespace is empty, marks it, and deletes
// what an earlier restore left.
func (s *Store) clearForRestore(ctx context.Context, info BackupInfo, attempt string) error {
	const doing = "restore"
	broken := false
	key := s.keys.configuration()
	shards := info.Shards
	err := s.client.Watch(ctx, func(tx *redis.Tx) error {
		conf, err := tx.HGetAll(ctx, key).Result()
		if err != nil {
			return err
		}
		broken = conf["fmt"] == restoring
		if stored, _ := strconv.Atoi(conf["shards"]); stored > shards && stored <= maxShards {
			shards = stored
		}
		if !broken {
			if err := s.checkEmpty(ctx, shards); err != nil {
				return err
			}
		}
		commands, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Del(ctx, key)
			pipe.HSet(ctx, key, "fmt", restoring, "shards", info.Shards, restoringField, attempt)
			return nil
		})
		return cause(commands, err)
	}, key)
	switch {
	case errors.Is(err, ErrNotEmpty):
		return err
	case err != nil:
		return wrap(doing, err)
	case broken:
		return wrapped(doing, s.dropRestored(ctx, shards))
	}
	return nil
}

// checkEmpty looks at every key, one at a time: a Cluster has them apart.
func (s *Store) checkEmpty(ctx context.Context, shards int) error {
	if err := s.checkUnheard(ctx); err != nil {
		return err
	}
	for _, key := range s.restoreKeys(shards) {
		n, err := s.client.Exists(ctx, key).Result()
		if err != nil {
			return err
		}
		if n == 0 {
			continue
		}
		what := "it holds " + key
		if key == s.keys.workers() {
			what = "workers were seen in it; stop them and wait a minute"
		}
		return fmt.Errorf("redisstore: restore into %q: %s: %w", s.options.Namespace, what, ErrNotEmpty)
	}
	return nil
}

// checkUnheard looks whether somebody waits to be woken: workers that outlived a
// FLUSHALL are in no key for a while, and would act on half of a restore. A user
// who may not ask does without.
func (s *Store) checkUnheard(ctx context.Context) error {
	channels, heard := s.keys.wakeChannel()+"*", atomic.Bool{}
	ask := func(ctx context.Context, node *redis.Client) error {
		listened, err := node.PubSubChannels(ctx, channels).Result()
		if len(listened) > 0 {
			heard.Store(true)
		}
		if redis.IsPermissionError(err) {
			return nil
		}
		return err
	}
	var err error
	switch client := s.client.(type) {
	case *redis.ClusterClient: // each node knows its own listeners
		err = client.ForEachShard(ctx, ask)
	case *redis.Client:
		err = ask(ctx, client)
	}
	if err != nil || !heard.Load() {
		return err
	}
	return fmt.Errorf("redisstore: restore into %q: workers wait in it to be woken; stop them: %w", s.options.Namespace, ErrNotEmpty)
}

// dropRestored deletes what a broken restore wrote. Run logs are written after
// the records that name their schedules, and leases after their set.
func (s *Store) dropRestored(ctx context.Context, shards int) error {
	names, err := s.client.SMembers(ctx, s.keys.leases()).Result()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := s.client.Del(ctx, s.keys.lease(name)).Err(); err != nil {
			return err
		}
	}
	for shard := range shards {
		states := map[string]string{}
		if err := loadFields(ctx, s.client, s.keys.shard(shard)[keyState], &states); err != nil {
			return err
		}
		for id := range states {
			if err := s.client.Unlink(ctx, s.keys.runLog(shard, schedule.ID(id))).Err(); err != nil {
				return err
			}
		}
	}
	for _, key := range s.restoreKeys(shards) {
		if err := s.client.Unlink(ctx, key).Err(); err != nil {
			return err
		}
	}
	return nil
}

// A restorer writes lines in batches.
type restorer struct {
	store    *Store
	attempt  string
	least    int64 // every token is at least this
	conf     []datum
	batch    []backupLine
	lines    int
	progress func(int)
}

func (r *restorer) add(ctx context.Context, l backupLine) error {
	if err := l.check(); err != nil {
		return err
	}
	if l.Tag == controlTag && l.Key == "conf" {
		r.conf = append(r.conf, l.Items...) // written last
		return nil
	}
	r.raise(&l)
	r.batch = append(r.batch, l)
	if len(r.batch) < restoreAtOnce {
		return nil
	}
	return r.flush(ctx)
}

func (r *restorer) flush(ctx context.Context) error {
	if len(r.batch) == 0 {
		return nil
	}
	pipe := r.store.client.Pipeline()
	for _, l := range r.batch {
		key := r.store.keys.key(l.Tag, l.Key)
		args := make([]any, len(l.Items))
		for i, d := range l.Items {
			args[i] = string(d)
		}
		switch l.Kind {
		case kindHash:
			pipe.HSet(ctx, key, args...)
		case kindSet:
			pipe.SAdd(ctx, key, args...)
		case kindList:
			pipe.RPush(ctx, key, args...)
		case kindStream:
			pipe.XAdd(ctx, &redis.XAddArgs{Stream: key, ID: l.ID, Values: args})
		case kindZSet:
			command := []any{"ZADD", key}
			for i := 0; i+1 < len(args); i += 2 {
				command = append(command, args[i+1], args[i])
			}
			pipe.Do(ctx, command...)
		}
	}
	_, err := pipe.Exec(ctx)
	r.lines += len(r.batch)
	r.batch = r.batch[:0]
	if err == nil && r.progress != nil {
		r.progress(r.lines)
	}
	return err
}

// raise lifts the tokens of a part, and frees leases.
func (r *restorer) raise(l *backupLine) {
	switch {
	case l.Tag != controlTag && l.Key == shardKeyNames[keyMeta]:
		l.set("token", r.atLeast(l.get("token")))
	case l.Tag == controlTag && strings.HasPrefix(l.Key, leaseMark):
		l.set("token", r.atLeast(l.get("token")))
		l.set("until_ms", "0")
	case l.Tag == controlTag && l.Key == "periodic":
		for i := 0; i+1 < len(l.Items); i += 2 {
			// A record is "next_ms|token|..."; its texts have a suffix.
			parts := strings.SplitN(string(l.Items[i+1]), "|", 3)
			if !strings.Contains(string(l.Items[i]), ":") && len(parts) == 3 {
				parts[1] = string(r.atLeast(datum(parts[1])))
				l.Items[i+1] = datum(strings.Join(parts, "|"))
			}
		}
	}
}

func (r *restorer) atLeast(token datum) datum {
	n, _ := strconv.ParseInt(string(token), 10, 64) // what is no number is replaced
	return datum(strconv.FormatInt(max(n, r.least), 10))
}

func (l *backupLine) get(field string) datum {
	for i := 0; i+1 < len(l.Items); i += 2 {
		if string(l.Items[i]) == field {
			return l.Items[i+1]
		}
	}
	return ""
}

func (l *backupLine) set(field string, value datum) {
	for i := 0; i+1 < len(l.Items); i += 2 {
		if string(l.Items[i]) == field {
			l.Items[i+1] = value
			return
		}
	}
	l.Items = append(l.Items, datum(field), value)
}

// finish opens the namespace, unless another restore took over, and wakes
// workers.
func (r *restorer) finish(ctx context.Context, info BackupInfo) error {
	const doing = "finish the restore"
	s, key := r.store, r.store.keys.configuration()
	args := make([]any, len(r.conf))
	for i, d := range r.conf {
		args[i] = string(d)
	}
	conf := backupLine{Items: r.conf}
	if string(conf.get("shards")) != strconv.Itoa(info.Shards) || string(conf.get("fmt")) != strconv.Itoa(info.Format) {
		return fmt.Errorf("%w: its configuration contradicts its header", ErrBadBackup)
	}
	err := s.client.Watch(ctx, func(tx *redis.Tx) error {
		mine, err := tx.HGet(ctx, key, restoringField).Result()
		if err != nil || mine != r.attempt {
			return errors.Join(ErrRestoring, err)
		}
		commands, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Del(ctx, key)
			pipe.HSet(ctx, key, args...)
			return nil
		})
		return cause(commands, err)
	}, key)
	if err != nil {
		return wrap(doing, err)
	}
	return wrapped(doing, s.client.Publish(ctx, s.keys.wakeChannel(), "restored").Err())
}
