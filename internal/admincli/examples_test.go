package admincli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/pkg/claim"
)

// TestExamplesInHelpWork runs every line of every example, in order, against
// a store that holds what they name.
func TestExamplesInHelpWork(t *testing.T) {
	inFiles(t)
	ran := 0
	walkCommands(newRoot(&session{}), func(cmd *cobra.Command) {
		if cmd.RunE != nil && cmd.Example == "" {
			t.Errorf("%s has no example in its help", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Example) {
			line = strings.TrimSpace(line)
			command, found := strings.CutPrefix(line, "admin ")
			if !found {
				t.Errorf("%s: example %q does not start with admin", cmd.CommandPath(), line)
				continue
			}
			args, err := splitLine(command)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			ran++
			r := newRig(t)
			r.environ["EDITOR"] = "sed -i s:America/New_York:Europe/Berlin:"
			if cmd.Name() != "create" {
				r.must("apply", "-f", "schedules.yaml", "-q")
				if strings.Contains(line, " calendar ") {
					r.must("apply", "-f", "calendars.yaml", "-q")
					r.must("calendar", "put", "holidays-fr", "--date", "2026-12-25")
				}
			}
			if strings.Contains(cmd.CommandPath(), "admin backup") && !strings.Contains(line, "create") {
				r.must("backup", "create", "belfry.backup", "--force", "-q")
			}
			if strings.Contains(cmd.CommandPath(), "admin context") {
				r.must("context", "save", "prod", "-q")
				r.must("context", "save", "dev", "--redis", "redis://localhost", "-q")
				r.must("context", "use", "dev")
				r.must("context", "use", "prod")
			}
			if strings.Contains(cmd.CommandPath(), "admin run") {
				r.seedRun(t, "cache-warm", claim.OutcomeFailed)
			}
			got := r.run(args...)
			if strings.Contains(line, "context edit") {
				r.environ["EDITOR"] = "true"
			}
			want := exitDone
			if strings.Contains(line, "admin wait") {
				want = exitCondition // no worker of the rig fires anything
			}
			if strings.Contains(line, "run logs -f") {
				want = exitCondition // the run that is followed failed
			}
			if strings.Contains(line, "--exit-code") {
				want = r.run(append(args, "--plan")...).code
			}
			if cmd.Name() == "diff" {
				want = 1 // the file differs
			}
			if strings.HasPrefix(cmd.CommandPath(), "admin import") && got.code == exitFailed {
				want = exitFailed // the files hold entries that have to be left out
			}
			if got.code != want || strings.Contains(got.stderr, "error") {
				t.Errorf("%s: exit %d, want %d\n%s", line, got.code, want, got.stderr)
			}
			if got.stdout == "" && !strings.Contains(line, "history") && !strings.Contains(line, "--state paused") {
				t.Errorf("%s printed nothing; stderr %q", line, got.stderr)
			}
		}
	})
	if ran < 30 {
		t.Errorf("ran %d examples; there must be more", ran)
	}
}

func walkCommands(cmd *cobra.Command, visit func(*cobra.Command)) {
	if cmd.Name() == "completion" || cmd.Name() == "help" {
		return
	}
	visit(cmd)
	for _, sub := range cmd.Commands() {
		walkCommands(sub, visit)
	}
}

func TestHelpGoesToStandardOutputAndEndsWithZero(t *testing.T) {
	r := newRig(t)
	for _, args := range [][]string{{}, {"--help"}, {"schedule"}, {"schedule", "create", "--help"}, {"help", "apply"}} {
		got := r.run(args...)
		if got.code != exitDone || got.stdout == "" || got.stderr != "" {
			t.Errorf("%v: exit %d, stdout %d bytes, stderr %q", args, got.code, len(got.stdout), got.stderr)
		}
	}
	if r.opened != 0 {
		t.Errorf("help opened the store %d times", r.opened)
	}
}

func TestOfflineCommandsNeedNoStore(t *testing.T) {
	r := newRig(t)
	r.environ = map[string]string{}
	for _, line := range []string{"cron next @daily", "cron prev @daily", "cron explain @daily", "cron lint @daily",
		"schedule preview --every 1h", "version"} {
		r.must(strings.Fields(line)...)
	}
	if r.opened != 0 {
		t.Errorf("opened the store %d times", r.opened)
	}
}

func TestIDsComplete(t *testing.T) {
	r := newRig(t)
	r.must("schedule", "create", "nightly-report", "--expression", "@daily", "--type", "log")
	r.must("schedule", "create", "cache-warm", "--every", "5m", "--type", "log")
	got := r.must("__complete", "schedule", "get", "ni")
	if !strings.Contains(got.stdout, "nightly-report\tAt 00:00 every day") || strings.Contains(got.stdout, "cache-warm") {
		t.Errorf("completion of ni: %q", got.stdout)
	}
	// A store that does not answer costs the names, not the shell.
	r.openErr = errTest
	if got := r.must("__complete", "schedule", "get", "ni"); strings.Contains(got.stdout, "nightly") {
		t.Errorf("completion without a store: %q", got.stdout)
	}
}
