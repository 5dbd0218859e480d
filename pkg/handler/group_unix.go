//go:build unix

package handler

import (
	"os/exec"
	"syscall"
)

// groupsSupported tells whether a command and its children can be ended.
const groupsSupported = true

// ownGroup puts the command into a process group of its own.
func ownGroup(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// terminate asks all processes of the group to end. The group may be gone.
func terminate(command *exec.Cmd) { _ = syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }

// kill ends all processes of the group. The group may be gone.
func kill(command *exec.Cmd) { _ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
