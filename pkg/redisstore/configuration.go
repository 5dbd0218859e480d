package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/belfryhq/belfry/scripts/lua"
)

// ErrOtherShards reports that the configuration of a namespace says another
// number of shards than the one that the Store works with: somebody created it
// anew after the store had lost it. Schedules are in the shards of the number
// before. Write it back (the field shards of the key conf), and start anew what
// was started since.
var ErrOtherShards = errors.New("redisstore: the namespace has another number of shards now")

// KeepConfiguration writes the configuration of the namespace again, and returns
// true, when the store has lost it, as a node of a Cluster does that comes back
// empty: whoever creates it next may choose another number of shards, and would
// find nothing. It returns ErrOtherShards when that has happened. It does nothing
// before the first use of the Store.
func (s *Store) KeepConfiguration(ctx context.Context) (lost bool, err error) {
	const doing = "keep the configuration"
	l := s.layout.Load()
	if l == nil {
		return false, nil
	}
	fields, err := s.client.HMGet(ctx, s.keys.configuration(), "fmt", "shards").Result()
	if err != nil {
		return false, wrap(doing, err)
	}
	stored := newReply(fields)
	if lost = fields[0] == nil || fields[1] == nil; lost {
		if stored, err = s.run(ctx, doing, lua.Configure, []string{s.keys.configuration()}, format, len(l.keys)); err != nil {
			return false, err
		}
	}
	if shards := stored.number(1); stored.err == nil && int(shards) != len(l.keys) {
		return false, fmt.Errorf("redisstore: %s: namespace %q has %d, and %d are in use: %w", doing, s.options.Namespace, shards, len(l.keys), ErrOtherShards)
	}
	return lost, stored.err
}
