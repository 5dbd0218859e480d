// Package proctest runs parts of a test in processes of their own, so that a
// test can kill one or let it stand still.
//
// A process is the test binary started again: [Run] in TestMain sees from the
// environment which role it has to play. It ends with the test binary, however
// that ends, because its standard input does.
package proctest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// roleVariable names the role in the environment of a process.
const roleVariable = "BELFRY_TEST_ROLE"

// A Role is what a process does until ctx ends, which is when it gets SIGTERM.
// Say sends a line to the test, with the time.
type Role func(ctx context.Context, say Say) error

// Say sends a line to the test. The time is the caller's, so that a process
// that was stopped in between does not change it.
type Say func(at time.Time, format string, args ...any)

// Run plays a role when this process was started to, and returns its exit
// code; otherwise it calls tests.
func Run(roles map[string]Role, tests func() int) int {
	name := os.Getenv(roleVariable)
	if name == "" {
		return tests()
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3) // the test is gone
	}()
	role := roles[name]
	if role == nil {
		fmt.Fprintln(os.Stderr, "proctest: no role", name)
		return 2
	}
	var mu sync.Mutex
	err := role(ctx, func(at time.Time, format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf("%d %s\n", at.UnixNano(), fmt.Sprintf(format, args...))
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "proctest:", err)
		return 1
	}
	return 0
}

// NoLeak calls tests and fails, after they have passed, when a goroutine is
// left behind.
func NoLeak(tests func() int) int {
	code := tests()
	if code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, "proctest: goroutines are left behind:", err)
		return 1
	}
	return 0
}

// A Line is one that a process said.
type Line struct {
	At   time.Time
	Text string
}

// A Process plays a role.
type Process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.Closer
	ended  chan struct{}
	mu     sync.Mutex
	lines  []Line
	stderr strings.Builder
}

// Start starts a process, with more variables as NAME=VALUE. It is killed when
// the test ends.
func Start(t *testing.T, role string, environ ...string) *Process {
	t.Helper()
	p := &Process{t: t, ended: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(append(os.Environ(), roleVariable+"="+role), environ...)
	p.cmd.Stderr = &p.stderr
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.stdin = stdin
	go p.read(stdout)
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("process %d said on standard error:\n%s", p.cmd.Process.Pid, p.stderr.String())
		}
	})
	return p
}

// read collects the lines and waits for the process.
func (p *Process) read(stdout io.Reader) {
	defer close(p.ended)
	scanner := bufio.NewScanner(stdout)
	for scanner.Scan() {
		stamp, text, _ := strings.Cut(scanner.Text(), " ")
		nanos, err := strconv.ParseInt(stamp, 10, 64)
		if err != nil {
			continue
		}
		p.mu.Lock()
		p.lines = append(p.lines, Line{At: time.Unix(0, nanos), Text: text})
		p.mu.Unlock()
	}
	_ = p.cmd.Wait() // a killed process has no other status to tell
}

// Lines returns what was said that begins with the prefix.
func (p *Process) Lines(prefix string) []Line {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := slices.Clone(p.lines)
	return slices.DeleteFunc(lines, func(l Line) bool { return !strings.HasPrefix(l.Text, prefix) })
}

// AwaitAny waits until one of the processes has said more lines with the
// prefix than skip says for it, and returns which, and the line. It fails the
// test after bound.
func AwaitAny(t *testing.T, bound time.Duration, prefix string, skip map[*Process]int, processes ...*Process) (*Process, Line) {
	t.Helper()
	timeout := time.NewTimer(bound)
	defer timeout.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, p := range processes {
			if lines := p.Lines(prefix); len(lines) > skip[p] {
				return p, lines[skip[p]]
			}
		}
		select {
		case <-timeout.C:
			t.Fatalf("no process said %q within %s", prefix, bound)
		case <-tick.C:
		}
	}
}

// Await waits for the first line with the prefix.
func (p *Process) Await(bound time.Duration, prefix string) Line {
	p.t.Helper()
	_, line := AwaitAny(p.t, bound, prefix, nil, p)
	return line
}

// Freeze stops the process where it stands, Thaw lets it go on.
func (p *Process) Freeze() { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen process go on.
func (p *Process) Thaw() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// Kill ends the process with SIGKILL and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // gone already is as good
	<-p.ended
	_ = p.stdin.Close()
}

// Stop asks the process to end, and fails the test unless it does so with exit
// code 0 within bound.
func (p *Process) Stop(bound time.Duration) {
	p.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(bound):
		p.t.Errorf("process %d did not end within %s", p.cmd.Process.Pid, bound)
		return
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Errorf("process %d ended with %d", p.cmd.Process.Pid, code)
	}
}
