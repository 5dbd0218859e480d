package admincli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
)

// get tells the verdict of every scheduled time up to now, as ranges.
func TestGetHasTheVerdicts(t *testing.T) {
	r := newRig(t)
	r.must("schedule", "create", "tick", "--every", "1h", "--type", "log", "--tz", "Europe/Berlin")
	r.must("schedule", "pause", "tick", "--reason", "test")
	r.advance(3 * time.Hour)
	r.must("schedule", "resume", "tick", "--catch-up", "none")
	var got struct {
		Verdicts []struct {
			Verdict string `json:"verdict"`
			Count   int    `json:"count"`
			FirstAt string `json:"first_at"`
			LastAt  string `json:"last_at"`
		} `json:"verdicts"`
	}
	if err := json.Unmarshal([]byte(r.must("schedule", "get", "tick", "-o", "json").stdout), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Verdicts) != 1 || got.Verdicts[0].Verdict != "paused" || got.Verdicts[0].Count != 3 ||
		!strings.HasPrefix(got.Verdicts[0].FirstAt, "2026-11-30T") || got.Verdicts[0].FirstAt == got.Verdicts[0].LastAt {
		t.Errorf("%+v", got)
	}
	if list := r.must("schedule", "list", "-o", "json"); strings.Contains(list.stdout, "verdicts") {
		t.Error("a list carries the history of each")
	}
	// What get prints can be applied as it is.
	r.stdin = "schedules: [" + strings.TrimSpace(r.must("schedule", "get", "tick", "-o", "json").stdout) + "]"
	if again := r.must("apply", "-f", "-"); !strings.Contains(again.stdout+again.stderr, "1 unchanged") {
		t.Errorf("apply of get: %s%s", again.stdout, again.stderr)
	}
}

// A variable that looks like a setting and is none is told once, with the
// nearest that is one, also when that is why there is no store.
func TestMistypedVariablesAreTold(t *testing.T) {
	r := newRig(t)
	r.environ["BELFRY_NAMESPASE"] = "prod"
	r.environ["BELFRY_CONTEXT"] = ""
	got := r.must("schedule", "list", "-q")
	if want := "warning: BELFRY_NAMESPASE is not a setting and does nothing; did you mean BELFRY_NAMESPACE?\n"; got.stderr != want || strings.Contains(got.stdout, "NAMESPASE") {
		t.Errorf("%q", got.stderr)
	}
	delete(r.environ, "BELFRY_REDIS_URL")
	r.environ["BELFRY_REDIS_ULR"] = "redis://secret:secret@host"
	got = r.run("stats")
	if got.code != exitUsage || strings.Count(got.stderr, "BELFRY_REDIS_ULR") != 1 || !strings.Contains(got.stderr, "did you mean BELFRY_REDIS_URL?") || strings.Contains(got.stderr, "secret") {
		t.Errorf("exit %d, %q", got.code, got.stderr)
	}
	if got := r.must("version"); got.stderr != "" {
		t.Errorf("a command without a store: %q", got.stderr)
	}
}

func TestHistorySelects(t *testing.T) {
	r := newRig(t)
	r.must("schedule", "create", "tick", "--every", "1h", "--type", "log")
	for i, outcome := range []claim.RunOutcome{claim.OutcomeFailed, claim.OutcomeSucceeded, claim.OutcomeFailed} {
		r.runOnce(t, "tick", string(rune('a'+i)), outcome)
		r.advance(time.Hour)
	}
	for flags, want := range map[string]string{"": "c b a", "--since 90m": "c", "--since 150m": "c b", "--outcome failed": "c a", "--outcome failed -n 1": "c",
		"--outcome failed --since 150m": "c", "--outcome lost": ""} {
		got := r.must(append([]string{"schedule", "history", "tick", "-o", "name"}, strings.Fields(flags)...)...)
		var names []string
		for line := range strings.Lines(got.stdout) {
			names = append(names, strings.TrimSpace(line)[len(strings.TrimSpace(line))-1:])
		}
		if strings.Join(names, " ") != want {
			t.Errorf("history %s: %v, want %s", flags, names, want)
		}
	}
	for _, flags := range []string{"--since -1h", "--since yesterday", "--outcome good", "-n 0"} {
		if got := r.run(append([]string{"schedule", "history", "tick"}, strings.Fields(flags)...)...); got.code != exitUsage {
			t.Errorf("history %s: exit %d", flags, got.code)
		}
	}
}

func TestPauseAndResumeAll(t *testing.T) {
	r := newRig(t)
	for _, id := range []string{"a", "b", "c"} {
		r.must("schedule", "create", id, "--every", "1h", "--type", "log")
	}
	if got := r.must("schedule", "pause", "--all", "--reason", "maintenance", "-o", "name"); got.stdout != "a\nb\nc\n" {
		t.Errorf("pause --all: %q", got.stdout)
	}
	if got := r.must("schedule", "list", "--state", "active", "-o", "name"); got.stdout != "" {
		t.Errorf("still active: %q", got.stdout)
	}
	for _, args := range [][]string{{"a", "--all"}, {"--all", "-l", "team=x"}} {
		if got := r.run(append([]string{"schedule", "resume"}, args...)...); got.code != exitUsage {
			t.Errorf("resume %v: exit %d", args, got.code)
		}
	}
	r.must("schedule", "resume", "--all", "--catch-up", "none")
	if got := r.must("schedule", "list", "--state", "active", "-o", "name"); got.stdout != "a\nb\nc\n" {
		t.Errorf("resumed: %q", got.stdout)
	}
}
