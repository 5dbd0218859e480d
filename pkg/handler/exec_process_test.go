//go:build linux

package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/internal/proctest"
)

func TestMain(m *testing.M) {
	os.Exit(proctest.Run(map[string]proctest.Role{"exec": playExec}, m.Run))
}

// playExec is a program that allows exec tasks: it runs one, with the shell.
func playExec(ctx context.Context, _ proctest.Say) error {
	if os.Getenv("HIDE") != "" {
		if err := HideProcess(); err != nil {
			return err
		}
	}
	h, err := NewExec(ExecOptions{Commands: []string{shell}})
	if err != nil {
		return err
	}
	payload, err := json.Marshal(script(os.Getenv("SCRIPT")))
	if err != nil {
		return err
	}
	return h.ProcessTask(ctx, asynq.NewTask("exec", payload))
}

// A command cannot read the environment of the program that started it, which
// holds passwords. Without HideProcess it can: that is the control.
func TestACommandCannotReadTheProcessThatStartedIt(t *testing.T) {
	binary := forEverybody(t)
	for _, tt := range []struct {
		hide string
		want bool
	}{{"", true}, {"1", false}} {
		out := filepath.Join(filepath.Dir(binary), "out"+tt.hide)
		read := "(tr '\\0' '\\n' </proc/$PPID/environ; ls -l /proc/$PPID/fd /proc/$PPID/cwd; cat /proc/$PPID/maps) >" + out + " 2>&1; chmod a+r " + out
		command := exec.Command(binary)
		command.Env = []string{"BELFRY_TEST_ROLE=exec", "CANARY=hunter2canary", "HIDE=" + tt.hide, "SCRIPT=" + read}
		if os.Getuid() == 0 { // whom nothing is hidden from
			command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		run(t, command)
		told, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(told), "hunter2canary") != tt.want {
			t.Errorf("HIDE=%q: the command read %.500q, want the canary in it: %t", tt.hide, told, tt.want)
		}
		if hidden := !bytes.Contains(told, []byte("[stack]")); hidden == tt.want {
			t.Errorf("HIDE=%q: the command read where the memory of its parent is: %t, want %t", tt.hide, !hidden, tt.want)
		}
	}
}

// forEverybody returns a copy of the test binary that any user may start, in a
// directory that any user may write to.
func forEverybody(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "belfry-exec")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(dir, "program"), os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(to, from)
	if closed := to.Close(); err != nil || closed != nil {
		t.Fatal(err, closed)
	}
	return to.Name()
}

// run runs the program with an open standard input: it ends with that.
func run(t *testing.T, command *exec.Cmd) {
	t.Helper()
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
}

// A program that is killed takes its command along, whichever of its threads
// started it: without that the command goes on beside its own repetition.
func TestACommandEndsWithAKilledProcess(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pid")
	p := proctest.Start(t, "exec", fmt.Sprintf("SCRIPT=echo $$ >%s; exec sleep 1000", pids))
	command := waitForPID(t, pids)
	if !alive(command) {
		t.Fatal("the command does not run")
	}
	p.Kill()
	waitFor(t, func() (int, bool) { return 0, !alive(command) })
}

// The signal at the death of a parent comes when the thread dies that started
// the child: a command must outlive the thread that asked for it.
func TestACommandOutlivesTheThreadThatAskedForIt(t *testing.T) {
	command := exec.Command(shell, "-c", "read line; exit 7")
	ownGroup(command)
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan int)
	ask := func() {
		runtime.LockOSThread() // never undone: the thread ends with the goroutine
		if thread := syscall.Gettid(); thread != os.Getpid() {
			if err := startBound(command); err != nil {
				t.Error(err)
			}
			asked <- thread
			return
		}
		asked <- 0 // the first thread never ends
	}
	thread := 0
	for thread == 0 {
		go ask()
		thread = <-asked
	}
	waitFor(t, func() (int, bool) {
		_, err := os.Stat("/proc/self/task/" + strconv.Itoa(thread))
		return 0, os.IsNotExist(err)
	})
	_ = input.Close()
	if err := command.Wait(); command.ProcessState.ExitCode() != 7 {
		t.Errorf("the command ended with %v, want its own exit code 7", err)
	}
}

// waitForPID waits for a file with the number of a process.
func waitForPID(t *testing.T, file string) int {
	t.Helper()
	return waitFor(t, func() (int, bool) {
		data, _ := os.ReadFile(file)
		pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
		return pid, err == nil
	})
}
