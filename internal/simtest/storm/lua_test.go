package storm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/memstore"
	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/redisstore"
)

// A scripted store is the product's own: redisstore, whose Lua scripts run on a
// miniredis in the bubble.
type scripted struct {
	*redisstore.Store
	sim *sim
}

// checkEvery thins out the checks of the whole store, which read every key.
const checkEvery = 100

// Check implements backend: every hundredth call, and at the end.
func (s *scripted) Check(ctx context.Context) error {
	s.sim.counts["check"]++
	if s.sim.counts["check"]%checkEvery != 0 && time.Now().Before(s.sim.faultEnd) {
		return nil
	}
	violations, err := s.Store.Check(ctx)
	if err == nil && len(violations) > 0 {
		err = fmt.Errorf("%d violations, the first: %s", len(violations), violations[0])
	}
	return err
}

// Wake implements claim.Waker: every wake-up is lost, which the contract
// allows. The subscriptions of a real one would be most of what happens.
func (s *scripted) Wake(ctx context.Context) (<-chan struct{}, func() bool, error) {
	wake := make(chan struct{})
	context.AfterFunc(ctx, func() { close(wake) })
	return wake, func() bool { return true }, nil
}

// open makes the store of the simulation: the reference model in memory, or the
// scripts.
func (s *sim) open(scripts bool) error {
	if !scripts {
		store, err := memstore.New(memstore.Options{Now: s.storeNow, Wall: time.Now})
		if err != nil {
			return err
		}
		s.store, s.snapshot = store, store.Snapshot
		s.peer = func(wall func() time.Time) backend { return store.Peer(wall) }
		return nil
	}
	memory := redistest.InMemory(s.t)
	first, err := memory.Dial(s.ctx, "", "") // starts the server
	if err != nil {
		return err
	}
	_ = first.Close() // nothing was said on it
	client := redis.NewClient(memory.Options())
	s.closing = append(s.closing, client)
	s.snapshot = func() func() { return photograph(memory.Server()) }
	s.peer = func(wall func() time.Time) backend {
		store, err := redisstore.New(client, redisstore.Options{Shards: 1, Now: s.storeNow, Wall: wall})
		if err != nil {
			s.t.Error(err) // the options are constant
		}
		return &scripted{Store: store, sim: s}
	}
	s.store = s.peer(time.Now)
	return nil
}

// photograph copies every key of a miniredis and returns a function that puts
// them back, as often as it is called.
func photograph(server *miniredis.Miniredis) (restore func()) {
	var puts []func()
	for _, key := range server.Keys() {
		ttl := server.TTL(key)
		puts = append(puts, keep(server, key))
		if ttl > 0 {
			puts = append(puts, func() { server.SetTTL(key, ttl) })
		}
	}
	return func() {
		server.FlushAll()
		for _, put := range puts {
			put()
		}
	}
}

// keep copies one key. Errors of reading it cannot be: it is there and has that
// type.
func keep(server *miniredis.Miniredis, key string) (put func()) {
	switch server.Type(key) {
	case "hash":
		fields, _ := server.HKeys(key)
		var pairs []string
		for _, field := range fields {
			pairs = append(pairs, field, server.HGet(key, field))
		}
		return func() { server.HSet(key, pairs...) }
	case "zset":
		live, _ := server.SortedSet(key)
		members := maps.Clone(live)
		return func() {
			for member, score := range members {
				_, _ = server.ZAdd(key, score, member)
			}
		}
	case "list":
		live, _ := server.List(key)
		items := slices.Clone(live)
		return func() { _, _ = server.Push(key, items...) }
	case "stream":
		live, _ := server.Stream(key)
		entries := slices.Clone(live)
		return func() {
			for _, entry := range entries {
				_, _ = server.XAdd(key, entry.ID, entry.Values)
			}
		}
	case "set":
		members, _ := server.Members(key)
		return func() { _, _ = server.SAdd(key, members...) }
	default:
		text, _ := server.Get(key)
		return func() { _ = server.Set(key, text) }
	}
}
