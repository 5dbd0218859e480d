package admincli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/belfryhq/belfry/pkg/schedule"
)

var errTest = errors.New("test fault")

func TestExitCodes(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	tests := []struct {
		name string
		err  error
		want int
		says string
	}{
		{"nothing", nil, 0, ""},
		{"anything else", errTest, 1, "test fault"},
		{"a field", fmt.Errorf("put: %w", &schedule.FieldError{Field: "queue", Value: "a b", Allowed: "letters"}), 2, `queue "a b": allowed: letters`},
		{"usage", usageErrorf("no"), 2, "no"},
		{"declined", codedErrorf(exitDeclined, "declined"), 3, "declined"},
		{"no login", fmt.Errorf("redisstore: list: %w", errors.New("NOAUTH Authentication required.")), 4, "check user, password"},
		{"no login for a script", errors.New("redisstore: run: ERR Protocol error: unauthenticated multibulk length"), 4, "it wants a login"},
		{"wrong login", errors.New("WRONGPASS invalid username-password pair or user is disabled."), 4, "WRONGPASS"},
		{"no permission", errors.New("NOPERM this user has no permissions to run the 'evalsha' command"), 4, "permissions"},
		{"not found", fmt.Errorf("redisstore: get: %w", schedule.ErrNotFound), 5, "not found"},
		{"conflict", fmt.Errorf("redisstore: put: %w", schedule.ErrConflict), 6, "version conflict"},
		{"refused connection", fmt.Errorf("redisstore: list: %w", refused), 7, "connection refused: check BELFRY_REDIS_URL"},
		{"closed connection", io.EOF, 7, "cannot be reached"},
		{"slow", fmt.Errorf("redisstore: list: %w", context.DeadlineExceeded), 7, "did not answer in time"},
		{"loading", errors.New("LOADING Redis is loading the dataset in memory"), 7, "LOADING"},
		{"full", fmt.Errorf("redisstore: put: %w", errors.New("OOM command not allowed when used memory > 'maxmemory'. script: 0294, on @user_script:4.")), 7, "is full: free memory"},
		{"replica", fmt.Errorf("redisstore: put: %w", errors.New("READONLY You can't write against a read only replica.")), 7, "name the master"},
		{"condition", codedErrorf(exitCondition, "refused"), 8, "refused"},
		{"interrupted", errInterrupted, 130, "interrupted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := exitCode(tt.err); got != tt.want {
				t.Errorf("exitCode(%v) = %d, want %d", tt.err, got, tt.want)
			}
			if tt.err == nil {
				return
			}
			if got := describe(tt.err, "host:6379"); !strings.Contains(got, tt.says) || strings.Contains(got, "\n") {
				t.Errorf("describe(%v) = %q, want it to say %q on one line", tt.err, got, tt.says)
			}
		})
	}
}

// A faulty catalog fails or panics on every call.
type faultyCatalog struct {
	schedule.Catalog
	err   error
	panic any
	block bool
}

func (f *faultyCatalog) List(ctx context.Context, _ schedule.ListOptions) (schedule.Page, error) {
	switch {
	case f.panic != nil:
		panic(f.panic)
	case f.block:
		<-ctx.Done()
		return schedule.Page{}, fmt.Errorf("redisstore: list: %w", ctx.Err())
	}
	return schedule.Page{}, f.err
}

func TestNoStackTraceReachesTheUser(t *testing.T) {
	r := newRig(t)
	r.stores.Catalog = &faultyCatalog{Catalog: r.stores.Catalog, panic: "boom\n\x1b[31mgoroutine 1"}
	got := r.run("schedule", "list")
	want := "error: internal fault: boom\\n\\x1b[31mgoroutine 1: please report it with the command line\n"
	if got.code != exitFailed || got.stderr != want {
		t.Errorf("exit %d, stderr %q, want 1 and %q", got.code, got.stderr, want)
	}
}

func TestStoreErrorsAreOneLine(t *testing.T) {
	r := newRig(t)
	r.openErr = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	got := r.run("schedule", "list", "-o", "json")
	if got.code != exitUnreachable || got.stdout != "" || strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("exit %d, stdout %q, stderr %q", got.code, got.stdout, got.stderr)
	}
	r.openErr = nil
	r.stores.Catalog = &faultyCatalog{Catalog: r.stores.Catalog, err: errors.New("NOPERM line one\r\nline two\x00")}
	got = r.run("schedule", "list")
	if got.code != exitUnauthorised || strings.Count(got.stderr, "\n") != 1 || strings.ContainsAny(got.stderr, "\r\x00") {
		t.Errorf("exit %d, stderr %q", got.code, got.stderr)
	}
}

func TestTimeoutAndInterrupt(t *testing.T) {
	r := newRig(t)
	r.stores.Catalog = &faultyCatalog{Catalog: r.stores.Catalog, block: true}
	if got := r.run("schedule", "list", "--timeout", "10ms"); got.code != exitUnreachable {
		t.Errorf("after the timeout: exit %d, stderr %q", got.code, got.stderr)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	got := r.runContext(ctx, "schedule", "list")
	if got.code != exitInterrupted || got.stderr != "error: interrupted\n" {
		t.Errorf("interrupted: exit %d, stderr %q", got.code, got.stderr)
	}
}

// Ctrl-C ends a command that waits for its standard input.
func TestInterruptWhileAsking(t *testing.T) {
	r := newRig(t)
	r.must("schedule", "create", "x", "--every", "1h", "--type", "log")
	r.terminal = Terminal{Stdin: true, Stdout: true, Stderr: true}
	for _, args := range [][]string{{"schedule", "delete", "x"}, {"apply", "-f", "-"},
		{"schedule", "create", "y", "--every", "1h", "--type", "log", "--payload", "-"}} {
		ctx, cancel := context.WithCancel(context.Background())
		quiet, keep := io.Pipe()
		r.input = &onRead{Reader: quiet, then: cancel}
		if got := r.runContext(ctx, args...); got.code != exitInterrupted || !strings.HasSuffix(got.stderr, " interrupted\n") {
			t.Errorf("%v: exit %d, stderr %q", args, got.code, got.stderr)
		}
		_ = keep.Close() // lets the abandoned read end
	}
	r.input = nil
	r.must("schedule", "get", "x")
}

// An onRead does something when it is first read.
type onRead struct {
	io.Reader
	then func()
}

func (o *onRead) Read(p []byte) (int, error) {
	o.then()
	return o.Reader.Read(p)
}

// A full disk is a failure, not a success that printed half.
func TestOutputThatCannotBeWrittenFails(t *testing.T) {
	r := newRig(t)
	var stderr bytes.Buffer
	env := Env{Stdin: strings.NewReader(""), Stdout: fullDisk{}, Stderr: &stderr, Now: r.clock, Environ: r.environ,
		TimeZoneData: func() string { return "" }}
	if code := Run(context.Background(), env, []string{"version"}); code != exitFailed || !strings.Contains(stderr.String(), "no space left") {
		t.Errorf("exit %d, stderr %q", code, stderr.String())
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// What files call timezone is a flag of another name.
func TestTheFlagForTheTimezoneIsNamed(t *testing.T) {
	got := newRig(t).run("schedule", "create", "x", "--cron", "0 2 * * *", "--type", "log", "--timezone", "UTC")
	if got.code != exitUsage || !strings.Contains(got.stderr, "did you mean --tz?") {
		t.Errorf("exit %d, stderr %q; want %d and --tz named", got.code, got.stderr, exitUsage)
	}
}

// A look at events that finds nothing says how far it looked.
func TestNoEventsSaysOfWhat(t *testing.T) {
	r := newRig(t)
	for line, want := range map[string]string{
		"events":                     "no events\n",
		"events nobody":              "no such event of nobody among the newest 50; --limit looks at more\n",
		"events nobody --limit 1000": "no such event of nobody among the newest 1000\n",
		"events --type paused":       "no such event among the newest 50; --limit looks at more\n",
	} {
		if got := r.must(strings.Fields(line)...); got.stderr != want {
			t.Errorf("admin %s says %q, want %q", line, got.stderr, want)
		}
	}
}

// What a clock change does to a schedule is wider than a cell, and is shown whole.
func TestApplyShowsTheClockChangeWhole(t *testing.T) {
	r := newRig(t)
	r.stdin = `{"schedules": [{"id": "nightly", "expression": "0 2 * * *", "timezone": "Europe/Berlin", "type": "log"}]}`
	got := r.must("apply", "-f", "-").stdout
	if !strings.Contains(got, "clocks go forward from 02:00 to 03:00\n") || !strings.Contains(got, "does not exist; fired once, at 03:00\n") {
		t.Errorf("apply printed\n%s", got)
	}
}

// A word that resembles nothing gets no suggestion.
func TestNoSuggestionFarFromTheWord(t *testing.T) {
	r := newRig(t)
	r.stdin = "schedules:\n  - {id: a, expression: 5m, type: log, nope: 1}\n"
	for _, args := range [][]string{{"validate", "-f", "-"}, {"schedule", "list", "--nope"}, {"nope"}, {"schedule", "nope"}, {"schedule", "list", "--sort", "nope"}} {
		got := r.run(args...)
		if got.code != exitUsage || !strings.Contains(got.stderr, "nope") || strings.Contains(got.stderr, "did you mean") {
			t.Errorf("%v: exit %d, %s", args, got.code, got.stderr)
		}
	}
	for flag, want := range map[string]string{"--queu": "--queue?", "--namespase": "--namespace?"} {
		if got := r.run("schedule", "list", flag); !strings.Contains(got.stderr, "did you mean "+want) {
			t.Errorf("%s: %s", flag, got.stderr)
		}
	}
}
