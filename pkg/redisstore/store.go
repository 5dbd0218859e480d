package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/scripts/lua"
)

// Defaults of Options.
const (
	DefaultNamespace     = "default"
	DefaultSkewAllowance = 500 * time.Millisecond
	DefaultClusterShards = 8
)

// maxShards bounds the number of shards; every one is polled by every worker.
const maxShards = 256

// format is the version of everything that is stored. A store with a newer one
// is left alone.
const format = 1

// requestTerm is how long request IDs that callers choose are remembered;
// those that were drawn only have to outlive a delayed duplicate of the call.
const (
	requestTerm      = 24 * time.Hour
	drawnRequestTerm = 10 * time.Minute
)

// Options configure a Store. The zero value is the default namespace.
type Options struct {
	Namespace string // keeps users of one Redis apart; "" is DefaultNamespace
	// Shards is the number of shards that a new namespace gets: 0 is 1, or
	// DefaultClusterShards on a cluster. An existing one keeps its own.
	Shards int
	// SkewAllowance is how far the server's clock may be ahead of this host's
	// before this host's decides what is due; 0 is DefaultSkewAllowance.
	SkewAllowance time.Duration
	// Now, for simulation only, is the server's clock instead of its own; nil
	// in production.
	Now func() time.Time
	// Wall, for simulation only, is this host's clock; nil is Now, or the
	// clock of the process.
	Wall func() time.Time
}

// A Store keeps everything in Redis. All methods are safe for concurrent use.
type Store struct {
	client  redis.UniversalClient
	options Options
	keys    keys
	layout  atomic.Pointer[layout] // nil until the first use

	begins, finishes gathered
}

// A layout is the configuration of a namespace.
type layout struct {
	keys [][]string // of each shard
}

var (
	_ schedule.Catalog = (*Store)(nil)
	_ claim.Store      = (*Store)(nil)
	_ claim.Ledger     = (*Store)(nil)
	_ claim.Waker      = (*Store)(nil)
	_ claim.Roster     = (*Store)(nil)
	_ claim.Leases     = (*Leases)(nil)
)

// New returns a store. It talks to nobody: the configuration of the namespace
// is read, or created, on first use. The client stays the caller's, who closes
// it. It returns a *schedule.FieldError for options out of their bounds.
func New(client redis.UniversalClient, options Options) (*Store, error) {
	if options.Namespace == "" {
		options.Namespace = DefaultNamespace
	}
	if options.SkewAllowance == 0 {
		options.SkewAllowance = DefaultSkewAllowance
	}
	if err := schedule.ValidateNamespace(options.Namespace); err != nil {
		return nil, err
	}
	if options.Shards < 0 || options.Shards > maxShards {
		return nil, &schedule.FieldError{Field: "shards", Value: strconv.Itoa(options.Shards), Allowed: "0 (automatic) to " + strconv.Itoa(maxShards)}
	}
	if options.SkewAllowance < 0 {
		return nil, &schedule.FieldError{Field: "skew_allowance", Value: options.SkewAllowance.String(),
			Allowed: "0 (" + DefaultSkewAllowance.String() + ") or more"}
	}
	if options.Shards == 0 {
		options.Shards = 1
		if _, isCluster := client.(*redis.ClusterClient); isCluster {
			options.Shards = DefaultClusterShards
		}
	}
	if options.Wall == nil {
		options.Wall = time.Now
		if options.Now != nil {
			options.Wall = options.Now
		}
	}
	return &Store{client: client, options: options, keys: keys{namespace: options.Namespace},
		begins: gathered{script: lua.Begin}, finishes: gathered{script: lua.Finish}}, nil
}

// Namespace returns the namespace.
func (s *Store) Namespace() string { return s.options.Namespace }

// Shards returns the number of shards of the namespace, and creates that when it
// is not there: it is what a worker begins with.
func (s *Store) Shards(ctx context.Context) (int, error) {
	l, err := s.open(ctx)
	if err != nil {
		return 0, err
	}
	return len(l.keys), nil
}

// open returns the configuration, and reads or creates it the first time. It is
// for those who are about to put something into the namespace: workers, and
// writers of schedules and calendars.
func (s *Store) open(ctx context.Context) (*layout, error) {
	if l := s.layout.Load(); l != nil {
		return l, nil
	}
	stored, err := s.run(ctx, readingConfiguration, lua.Configure, []string{s.keys.configuration()}, format, s.options.Shards)
	if err != nil {
		return nil, err
	}
	return s.configured(stored)
}

// peek is open for everybody else: it creates nothing. A namespace that is not
// there, such as one that was mistyped, looks like an empty one, until somebody
// creates it.
func (s *Store) peek(ctx context.Context) (*layout, error) {
	if l := s.layout.Load(); l != nil {
		return l, nil
	}
	fields, err := s.client.HMGet(ctx, s.keys.configuration(), "fmt", "shards").Result()
	if err != nil {
		return nil, wrap(readingConfiguration, err)
	}
	if fields[0] == nil && fields[1] == nil {
		return s.layoutOf(int64(s.options.Shards)), nil
	}
	return s.configured(newReply(fields))
}

const readingConfiguration = "read the configuration"

// configured reads a stored configuration and keeps it.
func (s *Store) configured(stored reply) (*layout, error) {
	const doing = readingConfiguration
	if name, _ := stored.at(0).(string); name == restoring {
		return nil, fmt.Errorf("redisstore: %s: namespace %q: wait, or run the restore again: %w", doing, s.options.Namespace, ErrRestoring)
	}
	storedFormat, shards := stored.number(0), stored.number(1)
	if stored.err != nil || shards < 1 || shards > maxShards {
		return nil, fmt.Errorf("redisstore: %s: namespace %q holds something else than a Belfry configuration", doing, s.options.Namespace)
	}
	if storedFormat > format {
		return nil, fmt.Errorf("redisstore: %s: namespace %q has format %d, this program knows %d: %w",
			doing, s.options.Namespace, storedFormat, format, ErrNewerFormat)
	}
	s.layout.CompareAndSwap(nil, s.layoutOf(shards))
	return s.layout.Load(), nil
}

func (s *Store) layoutOf(shards int64) *layout {
	l := &layout{}
	for shard := range int(shards) {
		l.keys = append(l.keys, s.keys.shard(shard))
	}
	return l
}

func (l *layout) shardOf(id schedule.ID) int { return shardOf(id, len(l.keys)) }

// checkShard returns a *schedule.FieldError for a shard that is not there.
func (l *layout) checkShard(shard int) error {
	if shard < 0 || shard >= len(l.keys) {
		return &schedule.FieldError{Field: "shard", Value: strconv.Itoa(shard), Allowed: "0 to " + strconv.Itoa(len(l.keys)-1)}
	}
	return nil
}

// clock returns the first three arguments of every script that knows time.
func (s *Store) clock(args ...any) []any {
	virtual := ""
	if s.options.Now != nil {
		virtual = strconv.FormatInt(s.options.Now().UnixMilli(), 10)
	}
	return append([]any{s.options.Wall().UnixMilli(), s.options.SkewAllowance.Milliseconds(), virtual}, args...)
}

// run executes a script and wraps what went wrong.
func (s *Store) run(ctx context.Context, doing string, script *redis.Script, keys []string, args ...any) (reply, error) {
	result, err := script.Run(ctx, s.client, keys, args...).Result()
	if err != nil {
		return reply{}, wrap(doing, err)
	}
	return newReply(result), nil
}

// runShard is run with the keys of a shard and the clock.
func (s *Store) runShard(ctx context.Context, doing string, script *redis.Script, l *layout, shard int, args ...any) (reply, error) {
	answer, err := s.run(ctx, doing, script, l.keys[shard], s.clock(args...)...)
	if isWrongType(err) {
		err = fmt.Errorf("%w (shard %02d)", err, shard)
	}
	return answer, err
}

// withRunLog adds the run log of a schedule to the keys of its shard.
func (s *Store) withRunLog(l *layout, id schedule.ID) []string {
	shard := l.shardOf(id)
	return append(append([]string{}, l.keys[shard]...), s.keys.runLog(shard, id))
}

// millis cuts to whole milliseconds; the zero time is 0.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// delayed is when a scheduled time is due if that is later than itself,
// otherwise 0, which takes less room.
func delayed(next, notBefore time.Time) int64 {
	if !notBefore.After(next) {
		return 0
	}
	return millis(notBefore)
}

// instant is the reverse of millis, in UTC.
func instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}
