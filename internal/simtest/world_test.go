package simtest

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A world is one bubble: a Redis, the schedules in it, and what was seen of
// their firings. Build it inside the bubble.
type world struct {
	t      *testing.T
	memory *redistest.Memory
	store  *redisstore.Store // for the test itself; members have their own
	rows   []row
	log    *chronicle
	work   time.Duration // how long handlers take; set before workers start
}

// newWorld moves the clock, which a bubble starts at 2000-01-01, to start, and
// stores the rows there.
func newWorld(t *testing.T, start time.Time, shards int, rows []row) *world {
	t.Helper()
	time.Sleep(time.Until(start))
	w := &world{t: t, memory: redistest.InMemory(t), rows: rows, log: newChronicle(t)}
	first, err := w.memory.Dial(t.Context(), "", "") // starts the server; only wires are used
	if err != nil {
		t.Fatal(err)
	}
	_ = first.Close() // nothing was said on it
	if w.store, err = redisstore.New(w.client(), redisstore.Options{Shards: shards}); err != nil {
		t.Fatal(err)
	}
	var definitions []schedule.Schedule
	for _, r := range rows {
		definitions = append(definitions, r.definition())
	}
	results, err := w.store.PutMany(t.Context(), definitions, schedule.PutOptions{})
	if err != nil {
		t.Fatalf("PutMany: %v", err)
	}
	for i, r := range results {
		if r.Err != nil || !r.Created {
			t.Fatalf("PutMany of %s = %+v, want created", rows[i].id, r)
		}
	}
	return w
}

// client returns a client with healthy connections of its own, closed when the
// test ends.
func (w *world) client() *redis.Client {
	client := w.clientOn(w.cable(0))
	w.t.Cleanup(func() { w.hangUp(client) })
	return client
}

// clientOn returns a client on a cable, to be hung up.
func (w *world) clientOn(c *cable) *redis.Client {
	options := w.memory.Options()
	options.Dialer = c.dial
	return redis.NewClient(options)
}

// hangUp closes a client.
func (w *world) hangUp(client redis.UniversalClient) {
	w.t.Helper()
	if err := client.Close(); err != nil {
		w.t.Errorf("closing a client: %v", err)
	}
}

// dial connects to the Redis of the world.
func (w *world) dial(context.Context, string, string) (net.Conn, error) {
	client, server := newWire()
	w.memory.Server().Server().ServeConn(server)
	return client, nil
}
