package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/redistest"
)

// alive reports whether a process runs; one that nobody has waited for yet does
// not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) == nil && !os.IsNotExist(err)
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

// A command of an exec task ignores SIGTERM and has a child. The second signal
// ends the worker at once, and both of them; so does a drain that is over.
func TestNoCommandOutlivesItsWorker(t *testing.T) {
	for name, signals := range map[string]int{"a second signal": 2, "the end of the drain": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, redistest.ServerOptions{})
			file := filepath.Join(t.TempDir(), "pids")
			script := fmt.Sprintf(`trap "" TERM; sleep 300 & echo $$ $! > %[1]s.new; mv %[1]s.new %[1]s; wait`, file)
			w := f.worker(t, "one", map[string]string{"BELFRY_EXEC_ALLOW": "/bin/sh", "BELFRY_DRAIN": "2s"})
			mustAdmin(t, f.env, "", "schedule", "create", "stubborn", "--every", "1h", "--type", "exec",
				"--payload", fmt.Sprintf(`{"command": "/bin/sh", "args": ["-c", %q]}`, script))
			mustAdmin(t, f.env, "", "schedule", "trigger", "stubborn")
			var pids []int
			if !eventually(t, time.Now().Add(30*time.Second), func() bool {
				text, err := os.ReadFile(file)
				if err != nil {
					return false
				}
				for _, word := range strings.Fields(string(text)) {
					pid, err := strconv.Atoi(word)
					if err != nil {
						t.Fatalf("%q is no process ID", word)
					}
					pids = append(pids, pid)
				}
				return true
			}) || len(pids) != 2 {
				t.Fatalf("the command did not start: %v", pids)
			}
			t.Cleanup(func() {
				if t.Failed() {
					_ = syscall.Kill(-pids[0], syscall.SIGKILL)
				}
			})
			asked, code := time.Now(), 0
			w.signal(syscall.SIGTERM)
			if signals == 2 {
				at(asked, 500*time.Millisecond)
				w.signal(syscall.SIGTERM)
				code = 130
			}
			if got := w.wait(t, 30*time.Second); got != code {
				t.Errorf("the worker ended with %d, want %d", got, code)
			}
			if took := time.Since(asked); signals == 2 && took > 2*time.Second {
				t.Errorf("the second signal took %s", took)
			}
			for _, pid := range pids {
				if !eventually(t, time.Now().Add(2*time.Second), func() bool { return !alive(pid) }) {
					t.Errorf("process %d of the command outlives its worker", pid)
				}
			}
		})
	}
}
