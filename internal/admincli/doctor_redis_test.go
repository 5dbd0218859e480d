package admincli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/doctor"
	"github.com/belfryhq/belfry/internal/redistest"
)

// TestDoctorRepairsIndexes breaks indexes as a slip with redis-cli does.
func TestDoctorRepairsIndexes(t *testing.T) {
	r, server := onRedis(t)
	client := redis.NewClient(redistest.Options(server.Addr()))
	t.Cleanup(func() { _ = client.Close() })
	for _, id := range []string{"a", "b", "c"} {
		r.must("schedule", "create", id, "--every", "1h", "--type", "log", "--label", "k=v")
	}
	prefix := "belfry:{" + r.environ["BELFRY_NAMESPACE"] + ":00}:"
	client.ZRem(t.Context(), prefix+"due", "a")
	client.ZAdd(t.Context(), prefix+"due", redis.Z{Score: 12, Member: "b"}, redis.Z{Score: 12, Member: "nobody"})
	client.Del(t.Context(), prefix+"lbl")
	client.HSet(t.Context(), prefix+"meta", "active", 50)
	invariants := func(line ...string) (broken, fixed int) {
		t.Helper()
		var v doctorJSON
		if err := json.Unmarshal([]byte(r.run(append(line, "-o", "json")...).stdout), &v); err != nil {
			t.Fatal(err)
		}
		for _, f := range v.Findings {
			if f.Check != "invariants" || f.Level == doctor.OK {
				continue
			}
			if broken++; f.Fixed {
				fixed++
			}
		}
		return broken, fixed
	}
	if broken, fixed := invariants("doctor"); broken < 8 || fixed != 0 {
		t.Errorf("doctor found %d, fixed %d; want all and none", broken, fixed)
	}
	if got := r.must("schedule", "list", "-o", "name").stdout; got != "" {
		t.Errorf("without the index of names, list says %q", got)
	}
	if broken, fixed := invariants("doctor", "--fix"); broken < 8 || fixed != broken {
		t.Errorf("doctor --fix found %d, fixed %d; want all", broken, fixed)
	}
	if broken, _ := invariants("doctor"); broken != 0 {
		t.Errorf("%d are broken still", broken)
	}
	if got := r.must("schedule", "list", "-l", "k=v", "-o", "name").stdout; strings.Fields(got)[2] != "c" {
		t.Errorf("list says %q", got)
	}
}

// TestDoctorHealsCalendars that went back without their shard.
func TestDoctorHealsCalendars(t *testing.T) {
	r, server := onRedis(t)
	client := redis.NewClient(redistest.Options(server.Addr()))
	t.Cleanup(func() { _ = client.Close() })
	prefix := "belfry:{" + r.environ["BELFRY_NAMESPACE"] + ":"
	r.must("calendar", "put", "free", "--date", "2030-01-01")
	r.must("schedule", "create", "a", "--every", "1h", "--type", "log", "--except", "free")
	client.HSet(t.Context(), prefix+"00}:meta", "cal", 3)
	for _, words := range []string{"shard 00: it insists on version 3 of the calendars, and 1 is stored", "admin calendar put"} {
		if got := r.run("doctor"); got.code != 8 || !strings.Contains(got.stdout, words) {
			t.Errorf("doctor ends with %d and does not say %q: %s", got.code, words, got.stdout)
		}
	}
	if got := r.run("doctor", "--fix"); !strings.Contains(got.stdout, "fixed    invariants   shard 00: it insists") {
		t.Errorf("doctor --fix: %s", got.stdout)
	}
	if got := client.HGet(t.Context(), prefix+"ctl}:conf", "calendars").Val(); got != "4" {
		t.Errorf("version %s is stored, want 4", got)
	}
	if got := r.run("doctor"); strings.Contains(got.stdout, "insists") {
		t.Errorf("doctor after --fix: %s", got.stdout)
	}
}

// One key of the wrong type hides nothing else from doctor, which names it and
// puts it aside; tokens that are ahead of the clock are a warning and stay.
func TestDoctorNamesKeysOfTheWrongTypeAndTokensAhead(t *testing.T) {
	r, server := onRedis(t)
	client := redis.NewClient(redistest.Options(server.Addr()))
	t.Cleanup(func() { _ = client.Close() })
	r.must("schedule", "create", "a", "--every", "1h", "--type", "log")
	prefix := "belfry:{" + r.environ["BELFRY_NAMESPACE"] + ":00}:"
	const ahead = "6000000000000000"
	client.HSet(t.Context(), prefix+"meta", "token", ahead)
	got := r.run("doctor")
	for _, words := range []string{"WARN     tokens", "shard 00", ahead, "2160-02-18", "nothing needs to be done", "index, ledger, verdicts and counters agree"} {
		if !strings.Contains(got.stdout, words) {
			t.Errorf("doctor does not say %q: %s", words, got.stdout)
		}
	}
	client.Del(t.Context(), prefix+"due", prefix+"lbl")
	client.Set(t.Context(), prefix+"due", "x\x1b[31m", 0)
	client.LPush(t.Context(), prefix+"lbl", "y")
	got = r.run("doctor")
	for _, words := range []string{"ERROR    reading", prefix + "due is of type string, not zset", prefix + "lbl is of type list, not zset", "WARN     tokens", "workers"} {
		if got.code != exitCondition || !strings.Contains(got.stdout, words) {
			t.Errorf("doctor ends with %d and does not say %q: %s", got.code, words, got.stdout)
		}
	}
	got = r.run("doctor", "--fix")
	if !strings.Contains(got.stdout, "fixed    invariants") || strings.Contains(got.stdout, "ERROR    invariants") || strings.Contains(got.stdout, "ERROR    reading") {
		t.Errorf("doctor --fix: %s", got.stdout)
	}
	if names := r.must("schedule", "list", "-o", "name").stdout; strings.TrimSpace(names) == "" {
		t.Error("the schedule is not listed after the repair")
	}
	if token := client.HGet(t.Context(), prefix+"meta", "token").Val(); token != ahead {
		t.Errorf("the token is %s, was %s", token, ahead)
	}
}
