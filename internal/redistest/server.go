package redistest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	serverProgram = "redis-server"
	startTimeout  = 15 * time.Second // of one attempt, generous for a busy machine
	stopTimeout   = 10 * time.Second // after SIGTERM, before SIGKILL
	portAttempts  = 5                // free ports are found by closing them, so another process may be faster
	busOffset     = 10000            // from the port of a cluster node to that of its bus
)

// errPortTaken reports that another process took the port first.
var errPortTaken = errors.New("redistest: port taken")

// ServerOptions choose how a server keeps its data. The zero value keeps
// nothing on disk.
type ServerOptions struct {
	AOF  bool     // append-only file, so that Kill loses at most what was not yet fsynced (1 s)
	Args []string // more arguments of redis-server, such as "--appendfsync", "always"
}

// A Server is a redis-server process that its test may stop, kill and restart.
// Methods may be called from several goroutines, one at a time takes effect.
type Server struct {
	t    testing.TB
	mu   sync.Mutex
	port int
	dir  string
	args []string
	proc *process // nil while stopped
}

// Start starts a server for this test alone. It ends with the test. Start
// skips as Backend.Dial does.
func Start(t testing.TB, options ServerOptions) *Server {
	t.Helper()
	require(t)
	dir := t.TempDir()
	args := append(persistence(options.AOF), options.Args...)
	port, proc, err := launchAnywhere(dir, false, args)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	s := &Server{t: t, port: port, dir: dir, args: args, proc: proc}
	t.Cleanup(s.Kill)
	return s
}

func persistence(aof bool) []string {
	if aof {
		return []string{"--save", "", "--appendonly", "yes"}
	}
	return []string{"--save", "", "--appendonly", "no"}
}

// Addr returns host:port; a restart keeps it.
func (s *Server) Addr() string { return address(s.port) }

// Client returns a client that is closed when the test ends.
func (s *Server) Client() *redis.Client {
	return closeWith(s.t, redis.NewClient(Options(s.Addr())))
}

// PID returns the process ID, or 0 while the server is stopped.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return 0
	}
	return s.proc.cmd.Process.Pid
}

// Dir returns the directory of the server's files.
func (s *Server) Dir() string { return s.dir }

// Stop asks the server to end and waits for it. Stopping a stopped server does
// nothing.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

// Kill ends the server as kill -9 does and waits until it is gone.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

func (s *Server) end(signal syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		s.proc.end(signal)
		s.proc = nil
	}
}

// Restart starts a stopped or killed server again on the same port with the
// same files, after killing it when it runs, and waits until it answers.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.mu.Lock()
	defer s.mu.Unlock()
	proc, err := launch(s.port, s.dir, s.args)
	if err != nil {
		s.t.Fatalf("redistest: restarting on port %d: %v", s.port, err)
	}
	s.proc = proc
}

// startShared starts a server that ends with the test binary.
func startShared() (*Server, error) {
	dir, err := os.MkdirTemp("", "belfry-redistest-")
	if err != nil {
		return nil, fmt.Errorf("making the server's directory: %w", err)
	}
	args := persistence(false)
	port, proc, err := launchAnywhere(dir, false, args)
	if err != nil {
		return nil, err
	}
	endLater(proc, dir)
	return &Server{port: port, dir: dir, args: args, proc: proc}, proc.ownDir(dir)
}

// launchAnywhere launches on a free port, and on another one when somebody
// takes it in between.
func launchAnywhere(dir string, bus bool, args []string) (int, *process, error) {
	var last error
	for range portAttempts {
		port, err := freePort(bus)
		if err != nil {
			return 0, nil, err
		}
		proc, err := launch(port, dir, args)
		if err == nil {
			return port, proc, nil
		}
		if !errors.Is(err, errPortTaken) {
			return 0, nil, err
		}
		last = err
	}
	return 0, nil, last
}

// freePort returns a loopback port that was free a moment ago. With bus, the
// port of a cluster node's bus was free as well.
func freePort(bus bool) (int, error) {
	for range 100 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, fmt.Errorf("looking for a free port: %w", err)
		}
		port := listener.Addr().(*net.TCPAddr).Port
		free := !bus
		if bus && port+busOffset < 1<<16 {
			other, err := net.Listen("tcp", address(port+busOffset))
			if free = err == nil; free {
				_ = other.Close()
			}
		}
		_ = listener.Close()
		if free {
			return port, nil
		}
	}
	return 0, errors.New("no free pair of ports for a cluster node")
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// A process is a running redis-server and the guard that kills it when the
// test binary ends without doing so.
type process struct {
	cmd   *exec.Cmd
	guard *guard
}

// launch starts redis-server and waits until it answers.
func launch(port int, dir string, args []string) (*process, error) {
	logPath := filepath.Join(dir, "redis-server.log")
	logFile, err := os.Create(logPath)
	if err != nil {
		return nil, fmt.Errorf("creating the server's log: %w", err)
	}
	defer logFile.Close()
	var file []string // the file of settings of a Sentinel, which must come first
	if len(args) > 0 && !strings.HasPrefix(args[0], "--") {
		file, args = args[:1], args[1:]
	}
	all := slices.Concat(file, []string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir,
		"--daemonize", "no", "--loglevel", "notice"}, args)
	cmd := exec.Command(serverProgram, all...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting redis-server: %w", err)
	}
	p := &process{cmd: cmd}
	if p.guard, err = newGuard(cmd.Process.Pid); err == nil {
		err = p.waitReady(port, logPath)
	}
	if err != nil {
		p.end(syscall.SIGKILL)
		return nil, err
	}
	return p, nil
}

// waitReady waits until this very process answers on the port.
func (p *process) waitReady(port int, logPath string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	options := Options(address(port))
	options.MaxRetries = -1
	client := redis.NewClient(options)
	defer client.Close()
	want := "process_id:" + strconv.Itoa(p.cmd.Process.Pid) + "\r\n"
	taken := false
	err := poll(ctx, func(ctx context.Context) error {
		info, err := client.Info(ctx, "server").Result()
		text, _ := os.ReadFile(logPath)
		if strings.Contains(string(text), "Failed listening") || err == nil && !strings.Contains(info, want) {
			taken = true
			return nil
		}
		if err != nil {
			return fmt.Errorf("redis-server on port %d does not answer: %w; its log:\n%s", port, err, text)
		}
		return client.Ping(ctx).Err() // answers LOADING while the append-only file is read
	})
	if taken {
		return fmt.Errorf("%w: %d", errPortTaken, port)
	}
	return err
}

// end signals the process and waits until it is gone; one that ignores the
// signal is killed.
func (p *process) end(signal syscall.Signal) {
	if p.guard != nil {
		p.guard.dismiss()
	}
	_ = p.cmd.Process.Signal(signal)
	if signal != syscall.SIGKILL {
		killer := time.AfterFunc(stopTimeout, func() { _ = p.cmd.Process.Kill() })
		defer killer.Stop()
	}
	_ = p.cmd.Wait() // the exit status of a killed server says nothing
}

// ownDir makes the guard delete the directory when the test binary ends.
func (p *process) ownDir(dir string) error {
	if _, err := io.WriteString(p.guard.stdin, dir+"\n"); err != nil {
		return fmt.Errorf("telling the guard its directory: %w", err)
	}
	return nil
}

// A guard is a shell that reads from this process and, when this process is
// gone, kills the server. It needs no goroutine here, and works after a panic,
// a test timeout or kill -9.
type guard struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

func newGuard(pid int) (*guard, error) {
	const script = `dir=; while read -r line; do dir=$line; done; kill -9 "$1"; test -n "$dir" && rm -rf "$dir"`
	cmd := exec.Command("/bin/sh", "-c", script, "redistest-guard", strconv.Itoa(pid))
	// Its own process group: an interrupt from the keyboard must not end it first.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("making the guard's pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the guard: %w", err)
	}
	return &guard{cmd: cmd, stdin: stdin}, nil
}

// dismiss ends the guard before its server is ended, so that it can never kill
// another process that got the same ID.
func (g *guard) dismiss() {
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait() // closes the pipe too
}
