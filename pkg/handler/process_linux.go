package handler

import (
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// HideProcess keeps processes of the same user, such as the commands of exec
// tasks, from reading this one in /proc: its environment, which may hold
// passwords, its memory and its open files. It holds until the process ends.
// The superuser is not kept out. It also means that this process leaves no core
// dump, and that a debugger or profiler of the same user cannot attach to it.
//
// Call it at the start of a program that allows exec tasks. Elsewhere than on
// Linux it does nothing.
func HideProcess() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("handler: hide the process: %w", err)
	}
	return nil
}

// starter starts commands on a thread that lives as long as the process: the
// signal at the death of a parent is sent when the thread dies that started the
// child, and Go ends idle threads.
var starter = sync.OnceValue(func() chan<- func() {
	starts := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range starts {
			start()
		}
	}()
	return starts
})

// startBound starts the command so that it gets SIGKILL when this process dies,
// however it dies.
func startBound(command *exec.Cmd) error {
	command.SysProcAttr.Pdeathsig = syscall.SIGKILL
	result := make(chan error, 1)
	starter() <- func() { result <- command.Start() }
	return <-result
}

// ended waits until the command has ended and returns what releases it. Until
// then its process group cannot be mistaken for another: the number is not
// given out again.
func ended(command *exec.Cmd) (release func() error) {
	for {
		err := unix.Waitid(unix.P_PID, command.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return command.Wait // after another error it waits itself
		}
	}
}
