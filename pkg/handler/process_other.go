//go:build !linux

package handler

import "os/exec"

// HideProcess does nothing here. On Linux it keeps processes of the same user
// from reading this one; elsewhere run programs that must not do so as another
// user.
func HideProcess() error { return nil }

// startBound starts the command. It outlives this process when that is killed:
// only Linux can prevent it.
func startBound(command *exec.Cmd) error { return command.Start() }

// ended waits until the command has ended. Its number may be given out again
// afterwards, which takes thousands of new processes.
func ended(command *exec.Cmd) (release func() error) {
	err := command.Wait()
	return func() error { return err }
}
