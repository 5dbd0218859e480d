package redisstore

import (
	"testing"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// Programs of before escaped <, > and & in what they stored. Such a definition
// reads the same, and putting it again, alone or with others, is no change.
func TestDefinitionsInTheOldSpellingAreNoChange(t *testing.T) {
	client := redistest.InMemory(t).Client()
	store, err := New(client, Options{Namespace: "spelling", Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	definition := schedule.Schedule{ID: "a", Description: "a < b", Expression: "10s", Type: "log", Payload: []byte(`{"a":"<"}`), Metadata: []byte(`{"k":"&"}`)}
	if _, err := store.Put(ctx, definition, schedule.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	const key = "belfry:{spelling:00}:def"
	written := client.HGet(ctx, key, "a").Val()
	old := `{"id":"a","description":"a \u003c b","metadata":{"k":"\u0026"},"expression":"10s","type":"log","queue":"default","payload":{"a":"\u003c"}` +
		written[len(`{"id":"a","description":"a < b","metadata":{"k":"&"},"expression":"10s","type":"log","queue":"default","payload":{"a":"<"}`):]
	client.HSet(ctx, key, "a", old)
	entry, err := store.Get(ctx, "a")
	if err != nil || entry.Schedule.Description != "a < b" || string(entry.Schedule.Payload) != `{"a":"\u003c"}` {
		t.Fatalf("the old spelling is read as %+v, %v", entry.Schedule, err)
	}
	for name, dry := range map[string]bool{"dry run": true, "put": false} {
		one, err := store.Put(ctx, entry.Schedule, schedule.PutOptions{DryRun: dry})
		if err != nil || !one.Unchanged || one.Version != 1 {
			t.Errorf("%s: %+v, %v", name, one, err)
		}
		many, err := store.PutMany(ctx, []schedule.Schedule{entry.Schedule}, schedule.PutOptions{DryRun: dry})
		if err != nil || !many[0].Unchanged || many[0].Version != 1 {
			t.Errorf("%s of many: %+v, %v", name, many, err)
		}
	}
	if after := client.HGet(ctx, key, "a").Val(); after != old {
		t.Errorf("the stored text became %s", after)
	}
	changed, err := store.Put(ctx, definition, schedule.PutOptions{}) // its payload has other bytes
	if after := client.HGet(ctx, key, "a").Val(); err != nil || changed.Unchanged || after != written {
		t.Errorf("another payload: %+v, %v, stored %s", changed, err, after)
	}
}
