package admincli

import (
	"strings"
	"testing"
	"time"
)

// The variable of a script that is not set is refused, and drops nothing
// without a word: a repeat without its request ID would open a second firing.
func TestTriggerRefusesEmptyValues(t *testing.T) {
	r := newRig(t)
	r.must("schedule", "create", "a", "--every", "1h", "--type", "log")
	for _, flag := range []string{"--request-id", "--overlap", "--at-instant", "--payload"} {
		got := r.run("schedule", "trigger", "a", flag, "")
		if got.code != exitUsage || !strings.Contains(got.stderr, strings.TrimLeft(flag, "-")) {
			t.Errorf("trigger %s '': exit %d, %s", flag, got.code, got.stderr)
		}
	}
	if open := r.must("schedule", "get", "a").stdout; !strings.Contains(open, "0 open") {
		t.Errorf("a refused trigger opened something: %s", open)
	}
}

// What is said of a payload that is too long is the bound of a trigger, however
// long it is.
func TestTriggerNamesItsBoundOfAPayload(t *testing.T) {
	r := newRig(t)
	r.must("schedule", "create", "a", "--every", "1h", "--type", "log")
	for _, n := range []int{64<<10 + 1, 1 << 20} {
		r.stdin = strings.Repeat("7", n)
		if got := r.run("schedule", "trigger", "a", "--payload", "-"); got.code != exitUsage || !strings.Contains(got.stderr, "at most 65536 bytes") {
			t.Errorf("trigger with %d bytes: exit %d, %s", n, got.code, got.stderr)
		}
	}
	r.stdin = strings.Repeat("7", 64<<10)
	r.must("schedule", "trigger", "a", "--payload", "-")
}

// Nothing leaves the buffer of a schedule that is paused, and that is said.
func TestTriggerSaysThatAPausedBufferWaits(t *testing.T) {
	r := newRig(t)
	r.must("schedule", "create", "a", "--every", "1h", "--type", "log")
	r.must("schedule", "trigger", "a")
	has(t, "trigger", r.must("schedule", "trigger", "a", "--overlap", "buffer_all").stdout, "it runs when the open firing has ended\n")
	r.must("schedule", "pause", "a")
	has(t, "trigger", r.must("schedule", "trigger", "a", "--overlap", "buffer_all").stdout, "which is paused, was resumed")
}

// A reason has the bound that that of a pause has: it is shown in tables, and
// the health endpoint of a worker that is drained says it.
func TestReasonsAreBounded(t *testing.T) {
	r := newRig(t)
	r.must("schedule", "create", "a", "--every", "1h", "--type", "log")
	firing := strings.TrimSpace(r.must("schedule", "trigger", "a", "-o", "name").stdout)
	for _, args := range [][]string{{"schedule", "pause", "a"}, {"run", "cancel", firing, "--yes", "--wait", "0s"}, {"worker", "drain", "w1", "--yes"}} {
		got := r.run(append(args, "--reason", strings.Repeat("x", maxReason+1))...)
		if got.code != exitUsage || !strings.Contains(got.stderr, "at most 1024 bytes") {
			t.Errorf("admin %s with a long reason: exit %d, %s", strings.Join(args, " "), got.code, got.stderr)
		}
		r.must(append(args, "--reason", strings.Repeat("x", maxReason))...)
	}
}

// A duration holds 292 years, instants lie further apart.
func TestRelativeBeyondADuration(t *testing.T) {
	now := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{"9999-12-31T00:00:00Z": "in 7973y", "0001-01-01T00:00:00Z": "2025y ago", "2226-11-30T00:00:00Z": "in 200y 1mo"} {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		if got := relative(at, now); got != want {
			t.Errorf("relative(%s) = %q, want %q", text, got, want)
		}
	}
}
