//go:build unix

package handler

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/schedule"
)

const shell = "/bin/sh" // tests may: the handler itself never starts one

// execFor returns a handler that may start the shell.
func execFor(t *testing.T, change ...func(*ExecOptions)) asynq.Handler {
	t.Helper()
	options := ExecOptions{Commands: []string{shell}, Grace: 300 * time.Millisecond}
	for _, f := range change {
		f(&options)
	}
	h, err := NewExec(options)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// script returns the payload that makes the shell run the text.
func script(text string, more ...any) map[string]any {
	p := map[string]any{"command": shell, "args": []string{"-c", text}}
	for i := 0; i+1 < len(more); i += 2 {
		p[more[i].(string)] = more[i+1]
	}
	return p
}

func TestExecRunsInACleanEnvironment(t *testing.T) {
	t.Setenv("CANARY", "leaked")
	t.Setenv("BELFRY_REDIS_URL", "leaked")
	root := t.TempDir()
	out := filepath.Join(root, "out")
	h := execFor(t, func(o *ExecOptions) { o.Env, o.Dirs = []string{"GREETING"}, []string{root} })
	err := h.ProcessTask(t.Context(), taskOf(t, script("pwd >"+out+"; env | sort >>"+out, "env", map[string]string{"GREETING": "a b;$(id)"}, "dir", root)))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if real, _ := filepath.EvalSymlinks(root); lines[0] != real {
		t.Errorf("ran in %s, want %s", lines[0], real)
	}
	want := map[string]bool{
		"BELFRY_FIRING=" + testFiring: true, "BELFRY_SCHEDULE=nightly": true, "BELFRY_GENERATION=7": true,
		"BELFRY_SCHEDULED_AT=2030-01-02T03:04:01.000Z": true, "GREETING=a b;$(id)": true,
	}
	for _, line := range lines[1:] {
		name, _, _ := strings.Cut(line, "=")
		if name == "PWD" || name == "PATH" || name == "_" || name == "SHLVL" || name == "OLDPWD" { // of the shell
			continue
		}
		if !want[line] {
			t.Errorf("unexpected variable %s", line)
		}
		delete(want, line)
	}
	if len(want) != 0 {
		t.Errorf("missing variables %v", want)
	}
}

func TestExecReportsFailure(t *testing.T) {
	h := execFor(t)
	err := h.ProcessTask(t.Context(), taskOf(t, script(`yes 0123456789 | head -c 300000; printf 'last\033[31m words\n' >&2; exit 3`)))
	if err == nil || errors.Is(err, asynq.SkipRetry) {
		t.Fatalf("error = %v, want one that is retried", err)
	}
	text := err.Error()
	if !strings.Contains(text, "exit status 3") || !strings.Contains(text, `last\x1b[31m words`) || len(text) > 3*maxText || strings.Contains(text, "\x1b") {
		t.Errorf("error of %d bytes = %q", len(text), text)
	}
	if err := h.ProcessTask(t.Context(), taskOf(t, script("exit 0"))); err != nil {
		t.Errorf("exit 0: %v", err)
	}
}

func TestExecRefuses(t *testing.T) {
	root := t.TempDir()
	inside := filepath.Join(root, "inside")
	if err := os.Mkdir(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(inside, "escape")); err != nil {
		t.Fatal(err)
	}
	h := execFor(t, func(o *ExecOptions) { o.Dirs, o.Env = []string{inside}, []string{"OK"} })
	many := make([]string, maxArgs+1)
	tests := []struct {
		name    string
		payload any
		field   string
	}{
		{"no JSON", []byte("rm -rf /"), ""},
		{"an unknown field", script("true", "shell", true), ""},
		{"no command", map[string]any{}, "payload.command"},
		{"another command", map[string]any{"command": "/bin/ls"}, "payload.command"},
		{"a name without a path", map[string]any{"command": "sh"}, "payload.command"},
		{"a way around", map[string]any{"command": "/bin/../bin/sh"}, "payload.command"},
		{"a command with arguments", map[string]any{"command": "/bin/sh -c id"}, "payload.command"},
		{"a NUL in the command", map[string]any{"command": "/bin/sh\x00"}, "payload.command"},
		{"a NUL in an argument", map[string]any{"command": shell, "args": []string{"a\x00b"}}, "payload.args"},
		{"too many arguments", map[string]any{"command": shell, "args": many}, "payload.args"},
		{"a variable that is not allowed", script("true", "env", map[string]string{"LD_PRELOAD": "/tmp/x.so"}), "payload.env"},
		{"one of ours", script("true", "env", map[string]string{"BELFRY_FIRING": "x"}), "payload.env"},
		{"a NUL in a value", script("true", "env", map[string]string{"OK": "a\x00LD_PRELOAD=x"}), "payload.env"},
		{"another directory", script("true", "dir", root), "payload.dir"},
		{"a directory with dots", script("true", "dir", inside+"/.."), "payload.dir"},
		{"a link out", script("true", "dir", inside+"/escape"), "payload.dir"},
		{"a relative directory", script("true", "dir", "."), "payload.dir"},
		{"a missing directory", script("true", "dir", inside+"/none"), "payload.dir"},
		{"a bad timeout", script("true", "timeout", "0s"), "payload.timeout"},
	}
	for _, tt := range tests {
		refused(t, tt.name, h.ProcessTask(t.Context(), taskOf(t, tt.payload)), tt.field)
	}
	refused(t, "off by default", execOff(t).ProcessTask(t.Context(), taskOf(t, script("true"))), "payload.command")
}

func execOff(t *testing.T) asynq.Handler {
	t.Helper()
	h, err := NewExec(ExecOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestNewExecRefuses(t *testing.T) {
	for _, options := range []ExecOptions{
		{Commands: []string{"sh"}}, {Commands: []string{"/bin/../bin/sh"}}, {Dirs: []string{"tmp"}}, {Env: []string{"A=B"}},
		{Env: []string{"belfry_x"}}, {Timeout: -1}, {Grace: -1},
	} {
		var field *schedule.FieldError
		if h, err := NewExec(options); !errors.As(err, &field) || h != nil {
			t.Errorf("NewExec(%+v) = %v, %v", options, h, err)
		}
	}
}

// alive reports whether the process exists and is no zombie.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

// The command and its children end with the run, those that ignore SIGTERM
// included.
func TestExecEndsTheWholeGroup(t *testing.T) {
	tests := []struct{ name, text string }{
		{"obedient", "sleep 1000 & echo $! >$PIDS; wait"},
		{"deaf", "trap '' TERM; sleep 1000 & echo $! >$PIDS; while :; do sleep 1000; done"},
		{"deaf child", "(trap '' TERM; sleep 1000) & echo $! >$PIDS; wait"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pids := filepath.Join(t.TempDir(), "pids")
			h := execFor(t, func(o *ExecOptions) { o.Env = []string{"PIDS"} })
			ctx, cancel := context.WithCancelCause(t.Context())
			cause := errors.New("lease lost")
			result := make(chan error, 1)
			go func() {
				result <- h.ProcessTask(ctx, taskOf(t, script(tt.text, "env", map[string]string{"PIDS": pids})))
			}()
			child := waitFor(t, func() (int, bool) {
				data, _ := os.ReadFile(pids)
				pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
				return pid, err == nil
			})
			if !alive(child) {
				t.Fatal("the child does not run")
			}
			cancel(cause)
			if err := <-result; !errors.Is(err, cause) || errors.Is(err, asynq.SkipRetry) {
				t.Errorf("error = %v, want the cause", err)
			}
			waitFor(t, func() (int, bool) { return 0, !alive(child) })
		})
	}
}

// waitFor polls for real processes.
func waitFor(t *testing.T, condition func() (int, bool)) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if value, ok := condition(); ok {
			return value
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("waited in vain")
		}
	}
}

func TestExecTimeout(t *testing.T) {
	h := execFor(t)
	start := time.Now()
	err := h.ProcessTask(t.Context(), taskOf(t, script("exec sleep 1000", "timeout", "100ms")))
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 5*time.Second {
		t.Errorf("after %s: %v", time.Since(start), err)
	}
}

// What a command leaves behind in its group ends with it, whether it holds the
// output open or not, and does not hold the run.
func TestExecEndsWhatACommandLeavesBehind(t *testing.T) {
	tests := []struct {
		name, text string
		ok         bool
	}{
		{"with the output", "sleep 1000 & echo $! >$PIDS", true},
		{"without it", "sleep 1000 >/dev/null 2>&1 & echo $! >$PIDS", true},
		{"deaf", "(trap '' TERM; exec sleep 1000) >/dev/null 2>&1 & echo $! >$PIDS", true},
		{"of a failure", "sleep 1000 >/dev/null 2>&1 & echo $! >$PIDS; exit 3", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pids := filepath.Join(t.TempDir(), "pids")
			h := execFor(t, func(o *ExecOptions) { o.Env = []string{"PIDS"} })
			start := time.Now()
			err := h.ProcessTask(t.Context(), taskOf(t, script(tt.text, "env", map[string]string{"PIDS": pids})))
			if (err == nil) != tt.ok {
				t.Errorf("ProcessTask = %v, want success: %t", err, tt.ok)
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("took %s", took)
			}
			data, _ := os.ReadFile(pids)
			child, err := strconv.Atoi(strings.TrimSpace(string(data)))
			if err != nil {
				t.Fatal(err)
			}
			waitFor(t, func() (int, bool) { return 0, !alive(child) })
		})
	}
}

// What writes the output of a command through may finish it after the command.
func TestExecKeepsOutputThatComesLast(t *testing.T) {
	err := execFor(t).ProcessTask(t.Context(), taskOf(t, script("(sleep 0.2; echo last words) & exit 3")))
	if err == nil || !strings.Contains(err.Error(), "last words") {
		t.Errorf("ProcessTask = %v, want the last words", err)
	}
}
