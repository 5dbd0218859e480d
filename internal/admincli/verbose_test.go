package admincli

import (
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/redistest"
)

// --verbose shows where the store is and each call, by script, with its time; it
// shows no password and no payload, and standard output stays as it is.
func TestVerboseTellsOfCallsAndNoSecret(t *testing.T) {
	const password, payload = "hunter2canary", "payloadcanary"
	server := redistest.Start(t, redistest.ServerOptions{})
	if err := server.Client().Do(t.Context(), "ACL", "SETUSER", "ana", "on", ">"+password, "~*", "&*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	r.open = OpenRedis
	r.environ["BELFRY_REDIS_URL"] = "redis://ana:" + password + "@" + server.Addr()
	got := r.must("schedule", "create", "a", "--every", "1h", "--type", "log", "--payload", `{"k": "`+payload+`"}`, "-v")
	for _, want := range []string{"store redis://" + server.Addr() + ", namespace default", "connect and ping", "script put belfry:{default:", "ms  "} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("%q is not in\n%s", want, got.stderr)
		}
	}
	if all := got.stdout + got.stderr; strings.Contains(all, password) || strings.Contains(got.stderr, payload) {
		t.Errorf("a secret is shown:\n%s", all)
	}
	loud, calm := r.must("schedule", "get", "a", "-o", "name", "--verbose"), r.must("schedule", "get", "a", "-o", "name")
	if loud.stdout != calm.stdout || calm.stderr != "" || !strings.Contains(loud.stderr, "script ") {
		t.Errorf("with -v %+v, without %+v", loud, calm)
	}
	r.environ["BELFRY_REDIS_URL"] = "redis://ana:" + password + "wrong@" + server.Addr()
	if got := r.run("schedule", "list", "-v"); got.code != exitUnauthorised || strings.Contains(got.stderr, password) {
		t.Errorf("%+v", got)
	}
}
