package admincli

import (
	"io"
	"strings"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/term"
)

// onTerminal runs a command line with all its streams in a pseudo-terminal of
// so many columns, and returns all that it shows.
func (r *rig) onTerminal(columns int, args ...string) (shown string, code int) {
	r.t.Helper()
	screen, tty, err := pty.Open()
	if err != nil {
		r.t.Skipf("no pseudo-terminal: %v", err)
	}
	defer func() { _ = screen.Close() }()
	if err := pty.Setsize(screen, &pty.Winsize{Rows: 24, Cols: uint16(columns)}); err != nil {
		r.t.Fatal(err)
	}
	read := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(screen) // ends with an error when the other side is closed
		read <- string(text)
	}()
	r.tty = tty
	got := r.run(args...)
	r.tty = nil
	if err := tty.Close(); err != nil {
		r.t.Fatal(err)
	}
	return strings.ReplaceAll(<-read, "\r\n", "\n"), got.code
}

func TestTheRigHasARealTerminal(t *testing.T) {
	r := newRig(t)
	screen, tty, err := pty.Open()
	if err != nil {
		t.Skipf("no pseudo-terminal: %v", err)
	}
	defer func() { _, _ = screen.Close(), tty.Close() }()
	if !term.IsTerminal(int(tty.Fd())) {
		t.Error("a pseudo-terminal is no terminal")
	}
	if got, code := r.onTerminal(80, "schedule", "gett"); code != exitUsage || !strings.HasPrefix(got, "\x1b[31merror:\x1b[0m ") {
		t.Errorf("exit %d, %q", code, got)
	}
}
