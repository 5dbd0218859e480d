package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// SentinelMaster is the name under which a Sentinel of [StartSentinel] knows
// its master.
const SentinelMaster = "belfry"

// StartSentinel starts a Sentinel that watches the server and its replicas and
// decides alone. A master that does not answer for a second is replaced. It
// ends with the test, and skips as Backend.Dial does.
func StartSentinel(t testing.TB, master *Server) *Server {
	t.Helper()
	require(t)
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "sentinel.conf") // a Sentinel writes to its file
	text := fmt.Sprintf(strings.Join([]string{"sentinel monitor %[1]s %[2]s %[3]s 1",
		"sentinel down-after-milliseconds %[1]s 1000", "sentinel failover-timeout %[1]s 5000", ""}, "\n"), SentinelMaster, host, port)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	args := []string{path, "--sentinel"}
	at, proc, err := launchAnywhere(dir, false, args)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	s := &Server{t: t, port: at, dir: dir, args: args, proc: proc}
	t.Cleanup(s.Kill)
	return s
}
