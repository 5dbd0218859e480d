package admincli

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// A watch prints every round as a table, and only what changed as lines of
// JSON, until it is interrupted.
func TestWatchRepeatsUntilInterrupted(t *testing.T) {
	for _, tt := range []struct {
		format, then string
		terminal     bool
		want         int // times that the unchanged schedule appears in three rounds
		changed      int // times that the one changed after the first round appears
	}{
		{"table", "", false, 3, 3}, {"wide", "", false, 3, 3}, {"name", "", false, 1, 1}, {"jsonl", "", false, 1, 2},
		{"table", "", true, 3, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.must("schedule", "create", "alpha", "--every", "1h", "--type", "log")
			r.must("schedule", "create", "beta", "--every", "1h", "--type", "log")
			r.terminal = Terminal{Stdout: tt.terminal}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan result)
			go func() { done <- r.runContext(ctx, "schedule", "list", "--watch", "--interval", "1s", "-o", tt.format) }()
			time.Sleep(500 * time.Millisecond)
			if _, err := r.stores.Catalog.Resume(ctx, "beta", schedule.ResumeOptions{}); err != nil {
				t.Error(err)
			}
			r.must("schedule", "update", "beta", "--description", "changed")
			time.Sleep(2 * time.Second)
			cancel()
			got := <-done
			if got.code != exitInterrupted {
				t.Errorf("%s: exit %d, stderr %q", tt.format, got.code, got.stderr)
			}
			if n := strings.Count(got.stdout, "alpha"); n != tt.want {
				t.Errorf("%s: alpha %d times, want %d\n%s", tt.format, n, tt.want, got.stdout)
			}
			if n := strings.Count(got.stdout, "beta"); n != tt.changed {
				t.Errorf("%s: beta %d times, want %d\n%s", tt.format, n, tt.changed, got.stdout)
			}
			if frames := strings.Count(got.stdout, "\x1b[H"); tt.terminal && frames != 3 || !tt.terminal && frames != 0 {
				t.Errorf("%s: %d frames", tt.format, frames)
			}
		})
	}
}

// Every list of something that changes by itself can be watched.
func TestEveryListCanBeWatched(t *testing.T) {
	seen := 0
	walkCommands(newRoot(&session{}), func(cmd *cobra.Command) {
		if cmd.Name() != "list" || cmd.Parent().Name() == "context" { // a file of this user's
			return
		}
		seen++
		if cmd.Flags().Lookup("watch") == nil {
			t.Errorf("%s has no --watch: wrap it by watched", cmd.CommandPath())
		}
	})
	if seen < 8 {
		t.Errorf("only %d lists", seen)
	}
}

// A document cannot be repeated, and the store is not asked without pause.
func TestWatchRefusesWhatItCannotDo(t *testing.T) {
	r := newRig(t)
	for _, args := range [][]string{{"-o", "json"}, {"-o", "yaml"}, {"--interval", "1ms"}, {"--interval", "soon"}} {
		got := r.run(append([]string{"schedule", "list", "--watch"}, args...)...)
		if got.code != exitUsage || got.stdout != "" || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%v: exit %d, stdout %q, stderr %q", args, got.code, got.stdout, got.stderr)
		}
	}
	if r.opened != 0 {
		t.Errorf("opened the store %d times", r.opened)
	}
}
