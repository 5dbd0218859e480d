package handler

import (
	"errors"
	"os/exec"
	"sync"
)

// errEnding is what a command gets that would start after [KillCommands].
var errEnding = errors.New("the program is ending")

// running holds the commands of this process, so that one that ends at once
// leaves none behind: a process group outlives the process that made it.
var running = struct {
	sync.Mutex
	ended    bool
	commands map[*exec.Cmd]struct{}
}{commands: map[*exec.Cmd]struct{}{}}

// KillCommands ends, with SIGKILL, every command that an exec handler of this
// process has started, with its process group, and lets none start any more. It
// is for a program that is about to exit without waiting for its handlers.
func KillCommands() {
	running.Lock()
	defer running.Unlock()
	running.ended = true
	for command := range running.commands {
		kill(command)
	}
}

// start starts the command and notes it until forget.
func start(command *exec.Cmd, output *pipe) error {
	running.Lock()
	defer running.Unlock()
	if running.ended {
		return errEnding
	}
	err := startBound(command)
	output.started()
	if err != nil {
		return err
	}
	running.commands[command] = struct{}{}
	return nil
}

func forget(command *exec.Cmd) {
	running.Lock()
	defer running.Unlock()
	delete(running.commands, command)
}
