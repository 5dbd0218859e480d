package admincli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// roleVariable makes the test binary the admin program: it is what a terminal
// can send a Ctrl-C to.
const roleVariable = "BELFRY_TEST_ADMIN"

// asProgram runs one command line in this process, with the streams that it
// has. In the role "wait" the third batch waits for an interrupt first.
func asProgram(role string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	environ := map[string]string{}
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		environ[name] = value
	}
	open := func(c context.Context, target Target) (*Stores, error) {
		stores, err := OpenRedis(c, target)
		if err == nil && role == "wait" {
			stores.Catalog = &haltedCatalog{Catalog: stores.Catalog, until: ctx.Done()}
		}
		return stores, err
	}
	return Run(ctx, Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Terminal: Terminal{Stdin: true, Stdout: true, Stderr: true},
		Now: time.Now, Environ: environ, Open: open, User: "ana"}, os.Args[1:])
}

// thirdBegun is printed when the third batch has begun: an interrupt that comes
// before, once the bar tells of the second, would find it not begun.
const thirdBegun = "<the third batch has begun>"

// A haltedCatalog lets the third batch wait, and says so. The second takes long
// enough for the bar to be drawn after it.
type haltedCatalog struct {
	schedule.Catalog
	until <-chan struct{}
	calls atomic.Int32
}

func (w *haltedCatalog) PutMany(ctx context.Context, all []schedule.Schedule, o schedule.PutOptions) ([]schedule.PutResult, error) {
	switch w.calls.Add(1) {
	case 2:
		<-time.After(2 * progressEvery)
	case 3:
		fmt.Fprint(os.Stderr, thirdBegun)
		<-w.until
	}
	return w.Catalog.PutMany(ctx, all, o)
}

// onTerminal runs the program on a terminal of its own, and presses Ctrl-C once
// it has printed a text. It returns everything that was printed.
func onTerminal(t *testing.T, environ []string, interruptAt string, args ...string) (string, int) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), environ...)
	terminal, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = terminal.Close(), tty.Close() }()
	if err := pty.Setsize(terminal, &pty.Winsize{Rows: 24, Cols: 100}); err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		_, _ = tty.Write([]byte{lastWord}) // a reader that it does not reach fails by the limit of the test
		ended <- err
	}()
	var printed bytes.Buffer
	buffer := make([]byte, 4096)
	for {
		n, err := terminal.Read(buffer)
		printed.Write(buffer[:n])
		if interruptAt != "" && strings.Contains(printed.String(), interruptAt) {
			interruptAt = ""
			if _, err := terminal.Write([]byte{3}); err != nil {
				t.Fatal(err)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if bytes.IndexByte(buffer[:n], lastWord) >= 0 {
			break
		}
	}
	err = <-ended
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return strings.TrimSuffix(printed.String(), string(lastWord)), cmd.ProcessState.ExitCode()
}

// storeForProgram returns the environment that leads a program to a namespace
// on a redis-server, and that namespace.
func storeForProgram(t *testing.T) ([]string, *redisstore.Store) {
	t.Helper()
	client, ok := redistest.Backends()[1].Dial(t).(*redis.Client)
	if !ok {
		t.Fatal("the second backend is not a single server")
	}
	namespace := redistest.Namespace()
	store, err := redisstore.New(client, redisstore.Options{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	return []string{"BELFRY_REDIS_URL=redis://" + client.Options().Addr, "BELFRY_NAMESPACE=" + namespace}, store
}

func countStored(t *testing.T, store *redisstore.Store) int64 {
	t.Helper()
	stats, err := store.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return stats.Total
}

// Ctrl-C lets the batch under way end, keeps what was done, says how to go on,
// and going on does the rest.
func TestAnInterruptedApplyGoesOn(t *testing.T) {
	environ, store := storeForProgram(t)
	var file strings.Builder
	file.WriteString("schedules:\n")
	for i := range 5 * applyBatch {
		fmt.Fprintf(&file, "  - {id: s%04d, expression: 1h, type: log}\n", i)
	}
	path := filepath.Join(t.TempDir(), "many of them.yaml")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	text, code := onTerminal(t, append(environ, roleVariable+"=wait"), thirdBegun, "apply", "-f", path, "-o", "name")
	if code != exitInterrupted {
		t.Errorf("exit %d", code)
	}
	if !strings.Contains(text, "1000 of 2500 schedules") {
		t.Errorf("no bar in\n%s", tail(text))
	}
	if want := "interrupted with 1500 of 2500 schedules done (1500 created)"; !strings.Contains(text, want) || !strings.Contains(text, "admin apply -f '"+path+"' -o name") {
		t.Errorf("no %q with the command in\n%s", want, tail(text))
	}
	if n := countStored(t, store); n != 1500 {
		t.Fatalf("%d schedules are stored", n)
	}
	text, code = onTerminal(t, append(environ, roleVariable+"=free"), "", "apply", "-f", path, "-o", "name")
	if n := countStored(t, store); code != exitDone || n != 2500 || !strings.Contains(text, "1000 created, 1500 unchanged") {
		t.Errorf("again: exit %d, %d stored\n%s", code, n, tail(text))
	}
}

func TestAnInterruptedImportGoesOn(t *testing.T) {
	environ, store := storeForProgram(t)
	var file strings.Builder
	for i := range 5 * applyBatch {
		fmt.Fprintf(&file, "%d %d * * * /usr/bin/job %d\n", i%60, i/60%24, i)
	}
	path := filepath.Join(t.TempDir(), "crontab")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"import", "crontab", path, "--tz", "UTC"}
	text, code := onTerminal(t, append(environ, roleVariable+"=wait"), thirdBegun, args...)
	if n := countStored(t, store); code != exitInterrupted || n != 1500 || !strings.Contains(text, "interrupted with 1500 of 2500 schedules done") {
		t.Errorf("exit %d, %d stored\n%s", code, n, tail(text))
	}
	text, code = onTerminal(t, append(environ, roleVariable+"=free"), "", args...)
	if n := countStored(t, store); code != exitDone || n != 2500 || !strings.Contains(text, "1000 created, 1500 unchanged") {
		t.Errorf("again: exit %d, %d stored\n%s", code, n, tail(text))
	}
}

func tail(text string) string { return text[max(0, len(text)-1500):] }

// The bar tells rate and time left, and is taken away without a trace.
func TestTheBar(t *testing.T) {
	now := epoch
	var out bytes.Buffer
	s := &session{env: Env{Now: func() time.Time { return now }, Terminal: Terminal{Stderr: true}}, err: &out}
	bar := s.progress("schedules")
	now = now.Add(10 * time.Second)
	bar.show(500, 2000)
	if want := "\r[=====               ] 500 of 2000 schedules, 50/s, 30s left"; out.String() != want {
		t.Errorf("%q", out.String())
	}
	bar.show(501, 2000) // too soon
	bar.end()
	blank := strings.Repeat(" ", len("[=====               ] 500 of 2000 schedules, 50/s, 30s left"))
	if want := "\r" + blank + "\r"; !strings.HasSuffix(out.String(), want) || strings.Contains(out.String(), "501") {
		t.Errorf("%q", out.String())
	}
	out.Reset()
	s.env.Terminal.Stderr = false
	bar.show(1000, 2000)
	bar.end()
	s.env.Terminal.Stderr, s.flags.quiet = true, true
	bar.show(2000, 2000)
	bar.end()
	if out.Len() > 0 {
		t.Errorf("without a terminal or with --quiet: %q", out.String())
	}
}

// An interrupted backup leaves no file, not even a part of one.
func TestAnInterruptedBackupLeavesNothing(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	r.stores.Archive = &interruptedArchive{cancel: cancel}
	dir := t.TempDir()
	got := r.runContext(ctx, "backup", "create", filepath.Join(dir, "it's.backup"))
	left, err := os.ReadDir(dir)
	if err != nil || got.code != exitInterrupted || len(left) > 0 {
		t.Errorf("exit %d, files %v, %v", got.code, left, err)
	}
	if want := `admin backup create '` + dir + `/it'\''s.backup'`; !strings.Contains(got.stderr, want) {
		t.Errorf("no %s in %s", want, got.stderr)
	}
}

// An interruptedArchive is interrupted in the middle of everything.
type interruptedArchive struct {
	Archive
	cancel context.CancelFunc
}

func (a *interruptedArchive) Backup(ctx context.Context, w io.Writer, progress func(done, shards int)) (redisstore.BackupInfo, error) {
	progress(1, 8)
	a.cancel()
	_, err := w.Write([]byte("a part"))
	return redisstore.BackupInfo{}, errors.Join(err, ctx.Err())
}
