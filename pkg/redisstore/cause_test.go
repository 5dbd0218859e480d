package redisstore_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A transaction that Redis refuses says why, and not only that it was
// discarded.
func TestARefusedTransactionSaysWhy(t *testing.T) {
	server := redistest.Start(t, redistest.ServerOptions{})
	client, ctx := server.Client(), t.Context()
	open := func() *redisstore.Store {
		s, err := redisstore.New(client, redisstore.Options{Namespace: redistest.Namespace()})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	store := open()
	if _, err := store.Put(ctx, schedule.Schedule{ID: "a", Expression: "1h", Type: "log"}, schedule.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Announce(ctx, claim.Member{ID: "w"}); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if _, err := store.Backup(ctx, &text, nil); err != nil {
		t.Fatal(err)
	}
	refused := func(what, word string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), "EXECABORT") || !redisstore.IsUnavailable(err) {
			t.Errorf("%s = %v, want %s", what, err, word)
		}
	}
	restore := func() error {
		_, err := open().Restore(ctx, bytes.NewReader(text.Bytes()), redisstore.RestoreOptions{Attempt: "a"})
		return err
	}
	if err := client.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	refused("Restore without memory", "OOM", restore())
	if err := client.ConfigSet(ctx, "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.Do(ctx, "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	refused("Restore on a replica", "READONLY", restore())
	refused("Withdraw on a replica", "READONLY", store.Withdraw(ctx, "w"))
}
