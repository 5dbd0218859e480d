package chaos

import (
	"debug/elf"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/redistest"
)

// emptyRoot makes a directory that holds the two binaries, what they are linked
// with, and nothing else.
func emptyRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range []string{"admin", "worker"} {
		path := binary(t, name)
		copyInto(t, path, filepath.Join(root, name))
		for _, library := range linkedWith(t, path) {
			copyInto(t, library, filepath.Join(root, library))
		}
	}
	return root
}

func copyInto(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// linkedWith returns the files that a program loads before it starts: a static
// one has none. To link it statically for this test would build the standard
// library anew.
func linkedWith(t *testing.T, path string) []string {
	t.Helper()
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if libraries, err := file.ImportedLibraries(); err != nil || len(libraries) == 0 {
		return nil
	}
	out, err := exec.Command("ldd", path).Output()
	if err != nil {
		if os.Getenv("BELFRY_TEST_REQUIRE_ROOT") == "1" {
			t.Fatalf("ldd does not say what %s is linked with: %v", path, err)
		}
		t.Skipf("ldd does not say what %s is linked with: %v", path, err)
	}
	return regexp.MustCompile(`/[^ ]+`).FindAllString(string(out), -1)
}

// B057: the published container has no time zone data. Both programs run in an
// empty root and know a named zone.
func TestB057ZonesAreKnownInAnEmptyRoot(t *testing.T) {
	if os.Getuid() != 0 {
		if os.Getenv("BELFRY_TEST_REQUIRE_ROOT") == "1" {
			t.Fatal("BELFRY_TEST_REQUIRE_ROOT=1 and this is not root, who alone can change the root")
		}
		t.Skip("changing the root needs root")
	}
	t.Parallel()
	f := newFleet(t, redistest.ServerOptions{})
	root := emptyRoot(t)
	if found, _ := filepath.Glob(filepath.Join(root, "usr/share/zoneinfo")); len(found) > 0 {
		t.Fatal("the root holds time zone data")
	}
	inside := func(program string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "/"+program, args...)
		cmd.Dir, cmd.Env = "/", environ(f.env)
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Pdeathsig: syscall.SIGKILL}
		return cmd
	}
	admin := func(args ...string) string {
		t.Helper()
		out, err := inside("admin", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("admin %s in an empty root: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	admin("schedule", "create", "nightly", "--cron", "0 2 * * *", "--tz", "Europe/Berlin", "--type", "log")
	admin("schedule", "create", "tick", "--cron", "* * * * * *", "--tz", "America/Nuuk", "--type", "log")
	if out := admin("schedule", "preview", "nightly"); !strings.Contains(out, "02:00") {
		t.Errorf("preview of two at night in Berlin:\n%s", out)
	}
	worker := inside("worker")
	var said strings.Builder
	worker.Stdout, worker.Stderr = &said, &said
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	ran := eventually(t, time.Now().Add(20*time.Second), func() bool {
		entry, err := f.store.Get(t.Context(), "tick")
		return err == nil && entry.Status.RunCount > 0
	})
	_ = worker.Process.Signal(syscall.SIGTERM)
	if err := worker.Wait(); err != nil || !ran {
		t.Errorf("a worker in an empty root: ran %t, ended with %v\n%s", ran, err, said.String())
	}
}
