package admincli

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
)

// Reports of people who ran other schedulers, by number.

// B129: each command honours what says where the store is: user, password and
// database. A wrong password is refused as such, and no command goes elsewhere.
func TestB129EveryCommandHonoursTheConnection(t *testing.T) {
	server := redistest.Start(t, redistest.ServerOptions{})
	options := redistest.Options(server.Addr())
	options.PoolSize = 1 // one connection, which logs in below
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	for _, line := range []string{
		"ACL SETUSER ops on >right ~* &* +@all",
		"ACL SETUSER default off",
	} {
		var args []any
		for _, word := range strings.Fields(line) {
			args = append(args, word)
		}
		if err := client.Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	target := func(user, password string) map[string]string {
		return map[string]string{"BELFRY_REDIS_URL": "redis://" + user + ":" + password + "@" + server.Addr() + "/5", "BELFRY_NAMESPACE": "b129"}
	}
	right := &rig{t: t, now: time.Now(), open: OpenRedis, environ: target("ops", "right")}
	wrong := &rig{t: t, now: time.Now(), open: OpenRedis, environ: target("ops", "wrong")}
	nobody := &rig{t: t, now: time.Now(), open: OpenRedis, environ: map[string]string{"BELFRY_REDIS_URL": "redis://" + server.Addr() + "/5"}}
	right.must("schedule", "create", "a", "--every", "1h", "--type", "log")
	for _, line := range []string{
		"schedule create b --every 1h --type log", "schedule list", "schedule get a", "schedule history a", "schedule preview a",
		"schedule pause a", "schedule resume a", "schedule trigger a", "schedule why a 09:00", "schedule update a --every 2h",
		"schedule backfill list", "schedule delete b --yes", "stats", "doctor", "events", "export", "run list",
		"worker list", "lease list", "periodic list", "calendar list", "queue list", "task list", "backup create --force " + t.TempDir() + "/b",
	} {
		args := strings.Fields(line)
		if got := right.run(args...); got.code == exitUsage || got.code == exitUnauthorised || got.code == exitUnreachable {
			t.Errorf("admin %s: exit %d: %s", line, got.code, got.stderr)
		}
		for what, r := range map[string]*rig{"a wrong password": wrong, "no password": nobody} {
			if got := r.run(args...); got.code != exitUnauthorised {
				t.Errorf("admin %s with %s: exit %d, want %d: %s", line, what, got.code, exitUnauthorised, got.stderr)
			}
		}
	}
	if err := client.Do(t.Context(), "AUTH", "ops", "right").Err(); err != nil {
		t.Fatal(err)
	}
	if keys, err := client.DBSize(t.Context()).Result(); err != nil || keys != 0 {
		t.Errorf("database 0 has %d keys, %v; want none", keys, err)
	}
}
