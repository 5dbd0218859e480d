package chaos

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// bin holds the binaries under test, built once.
var bin struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if bin.dir != "" {
		os.RemoveAll(bin.dir)
	}
	os.Exit(code)
}

// binary returns the path of cmd/worker or cmd/admin.
func binary(t *testing.T, name string) string {
	t.Helper()
	bin.once.Do(func() {
		bin.dir, bin.err = os.MkdirTemp("", "belfry-chaos-")
		if bin.err != nil {
			return
		}
		cmd := exec.Command("go", "build", "-o", bin.dir+string(filepath.Separator), "../../cmd/worker", "../../cmd/admin")
		if out, err := cmd.CombinedOutput(); err != nil {
			bin.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	if bin.err != nil {
		t.Fatalf("building the binaries: %v", bin.err)
	}
	return filepath.Join(bin.dir, name)
}

// A process is a running worker.
type process struct {
	name string
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{}
	err  error
}

// startWorker starts cmd/worker with the given settings and kills it, by its
// process ID, when the test ends.
func startWorker(t *testing.T, name string, env map[string]string) *process {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	p := &process{name: name, cmd: exec.Command(binary(t, "worker")), log: log, done: make(chan struct{})}
	p.cmd.Env = environ(env)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.signal(syscall.SIGCONT)
		p.signal(syscall.SIGKILL)
		<-p.done
		if t.Failed() {
			t.Logf("%s said:\n%s", name, p.tail(40))
		}
		log.Close()
	})
	return p
}

func environ(env map[string]string) []string {
	out := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	return out
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// text returns everything that the process printed.
func (p *process) text() string {
	b, err := os.ReadFile(p.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func (p *process) tail(lines int) string {
	all := strings.Split(strings.TrimRight(p.text(), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// wait returns the exit code, or fails the test after the bound.
func (p *process) wait(t *testing.T, bound time.Duration) int {
	t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(bound):
		t.Fatalf("%s still runs %s after it was told to stop:\n%s", p.name, bound, p.tail(20))
		return -1
	}
}

// A result is what an admin command printed and returned.
type result struct {
	stdout, stderr string
	code           int
}

// admin runs cmd/admin as a process of its own.
func admin(t *testing.T, env map[string]string, stdin string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary(t, "admin"), args...)
	cmd.Env = environ(env)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatalf("admin %s: %v", strings.Join(args, " "), err)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// mustAdmin is admin for commands that must succeed.
func mustAdmin(t *testing.T, env map[string]string, stdin string, args ...string) string {
	t.Helper()
	r := admin(t, env, stdin, args...)
	if r.code != 0 {
		t.Fatalf("admin %s: exit %d\n%s%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
	}
	return r.stdout
}

// eventually polls until ok or until the deadline, and says whether it was ok.
func eventually(t *testing.T, deadline time.Time, ok func() bool) bool {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		<-tick.C
	}
}
