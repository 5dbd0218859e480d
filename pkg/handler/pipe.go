package handler

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// A pipe copies the output of a command and of all that it started.
//
// The pipes of os/exec would do, but for one thing: only Wait waits for them,
// and it releases the number of the process first, which is the name of the
// group that is then to be ended.
type pipe struct {
	read, write *os.File
	done        chan struct{} // closed when all was copied
}

// capture makes the command write to output once it is started.
func capture(command *exec.Cmd, output io.Writer) (*pipe, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("a pipe for its output: %w", err)
	}
	command.Stdout, command.Stderr = write, write
	p := &pipe{read: read, write: write, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_, _ = io.Copy(output, read) // ends with the last writer, or by stop
	}()
	return p, nil
}

// started closes this process's end, so that the copy ends with the command's.
func (p *pipe) started() { _ = p.write.Close() }

// settle waits until all was copied, for that long at most.
func (p *pipe) settle(atMost time.Duration) {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
	}
}

// stop ends the copy, even of a process that holds the output open.
func (p *pipe) stop() {
	_ = p.write.Close()
	_ = p.read.Close()
	<-p.done
}
