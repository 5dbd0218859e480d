package redisstore

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// TestStoredRecordsKeepTheirFormat compares what a few transitions at a fixed
// time store with what the first version of the format stored. Old and new
// workers share a namespace during a roll-out: one that reads the fields of
// another in the wrong places fires twice and refuses reports, which was seen.
// A change of a record therefore adds at its end what old workers keep and new
// ones can do without; any other raises format, and the name of the file here.
func TestStoredRecordsKeepTheirFormat(t *testing.T) {
	client := redistest.InMemory(t).Client()
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	store, err := New(client, Options{Namespace: "format", Shards: 1, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	_, err = store.Put(ctx, schedule.Schedule{ID: "a", Expression: "10s", Type: "log", Queue: "q", Overlap: schedule.OverlapBufferOne}, schedule.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(10 * time.Second)
	batch, err := store.ClaimDue(ctx, claim.ClaimRequest{Owner: "w", TTL: 10 * time.Second, Limit: 1})
	if err != nil || len(batch.Claims) != 1 {
		t.Fatalf("ClaimDue = %+v, %v", batch, err)
	}
	if _, err := store.Begin(ctx, claim.BeginRequest{Firing: batch.Claims[0].Firing(), Owner: "nonce", Worker: "w", Lease: 30 * time.Second}); err != nil {
		t.Fatal(err)
	}
	var stored strings.Builder
	for _, key := range slices.Sorted(slices.Values(client.Keys(ctx, "*").Val())) {
		if client.Type(ctx, key).Val() != "hash" {
			continue
		}
		record := client.HGetAll(ctx, key).Val()
		for _, field := range slices.Sorted(maps.Keys(record)) {
			fmt.Fprintf(&stored, "%s %s %q\n", key, field, record[field])
		}
	}
	file := fmt.Sprintf("testdata/format-%d.txt", format)
	if os.Getenv("BELFRY_TEST_UPDATE_FORMAT") != "" {
		if err := os.WriteFile(file, []byte(stored.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if stored.String() != string(want) {
		t.Errorf("the records changed; see above what that takes. Stored:\n%s\nformat %d:\n%s", stored.String(), format, want)
	}
}
