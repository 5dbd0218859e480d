//go:build linux

package app

import (
	"context"
	"io"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAWorkerThatAllowsProgramsHidesFromThem looks at what the kernel keeps for
// the process; the handler's tests show that it works.
func TestAWorkerThatAllowsProgramsHidesFromThem(t *testing.T) {
	for _, tt := range []struct {
		allow    string
		dumpable int
	}{{"", 1}, {"/bin/true", 0}} {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
			t.Fatal(err)
		}
		var stderr buffer
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- Run(ctx, Options{Stdout: io.Discard, Stderr: &stderr, Environ: map[string]string{
				"BELFRY_REDIS_URL": "redis://127.0.0.1:1", "BELFRY_HTTP_ADDR": "off", "BELFRY_EXEC_ALLOW": tt.allow, "BELFRY_DRAIN": "1s"}})
		}()
		wait(t, func() bool { return strings.Contains(stderr.String(), "waiting for Redis") })
		if got, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); got != tt.dumpable || err != nil {
			t.Errorf("with the programs %q the process is dumpable: %d, %v; want %d", tt.allow, got, err, tt.dumpable)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
}
