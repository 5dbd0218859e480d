package admincli

import (
	"bufio"
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
		text, _ := bufio.NewReader(screen).ReadString(lastWord)
		read <- strings.TrimSuffix(text, string(lastWord))
	}()
	r.tty = tty
	got := r.run(args...)
	r.tty = nil
	defer func() { _ = tty.Close() }()
	if _, err := tty.Write([]byte{lastWord}); err != nil {
		r.t.Fatal(err)
	}
	return strings.ReplaceAll(<-read, "\r\n", "\n"), got.code
}

// lastWord ends what is shown. The end of the stream would not do: on closing
// the terminal the system may drop what it has not handed over yet.
const lastWord = '\x00'

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
