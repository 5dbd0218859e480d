// Package redistest gives tests the Redis deployments that Belfry supports:
// miniredis in the test's process, a redis-server and a cluster of three
// masters.
//
// Real servers are started on free loopback ports, keep nothing on disk and
// die with the test binary, however it ends. They are shared by all tests of
// the binary, so tests never flush: each takes a [Namespace] of its own and
// may run in parallel. A test that needs to stop, kill or restart its server
// has one to itself with [Start], and a Sentinel with [StartSentinel]. Tests inside a testing/synctest bubble use
// [InMemory], which opens no socket.
//
// The environment chooses servers that run already:
//
//	BELFRY_TEST_REDIS          host:port or redis:// URL of a single server
//	BELFRY_TEST_REDIS_CLUSTER  host:port of cluster nodes, separated by commas
//	BELFRY_TEST_REQUIRE_REDIS  1: fail where a test would be skipped because
//	                           there is no redis-server on this machine
package redistest

import (
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// A Backend is one way to run Redis.
type Backend struct {
	Name string // "miniredis", "redis" or "cluster"
	// Dial returns a client that is closed when the test ends. It skips the
	// test when the backend is not there, or fails it under
	// BELFRY_TEST_REQUIRE_REDIS=1.
	Dial func(t testing.TB) redis.UniversalClient
}

// Backends returns every backend, the fastest first.
func Backends() []Backend {
	return []Backend{
		{Name: "miniredis", Dial: dialMini},
		{Name: "redis", Dial: dialSingle},
		{Name: "cluster", Dial: dialCluster},
	}
}

// Namespace returns a random namespace, so that tests that share a server
// never meet.
func Namespace() string { return "t" + rand.Text()[:20] }

// Options returns client options for one server, as the product sets them.
func Options(addr string) *redis.Options {
	return &redis.Options{
		Addr:                     addr,
		ContextTimeoutEnabled:    true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// closeWith closes the client at the end of the test.
func closeWith[C redis.UniversalClient](t testing.TB, client C) C {
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Errorf("redistest: closing the client: %v", err)
		}
	})
	return client
}

func dialMini(t testing.TB) redis.UniversalClient {
	t.Helper()
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr("127.0.0.1:0"); err != nil {
		t.Fatalf("redistest: starting miniredis: %v", err)
	}
	t.Cleanup(server.Close)
	return closeWith(t, redis.NewClient(Options(server.Addr())))
}

// single starts the shared server once per test binary.
var single = sync.OnceValues(func() (string, error) {
	server, err := startShared()
	if err != nil {
		return "", err
	}
	return server.Addr(), nil
})

func dialSingle(t testing.TB) redis.UniversalClient {
	t.Helper()
	if given := os.Getenv("BELFRY_TEST_REDIS"); given != "" {
		return closeWith(t, redis.NewClient(givenOptions(t, given)))
	}
	require(t)
	addr, err := single()
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return closeWith(t, redis.NewClient(Options(addr)))
}

// givenOptions reads the value of BELFRY_TEST_REDIS.
func givenOptions(t testing.TB, given string) *redis.Options {
	t.Helper()
	options := Options(given)
	if !strings.Contains(given, "://") {
		return options
	}
	parsed, err := redis.ParseURL(given)
	if err != nil {
		t.Fatalf("redistest: BELFRY_TEST_REDIS: %v", err)
	}
	parsed.ContextTimeoutEnabled = options.ContextTimeoutEnabled
	parsed.MaintNotificationsConfig = options.MaintNotificationsConfig
	return parsed
}

// sharedCluster starts three masters once per test binary.
var sharedCluster = sync.OnceValues(startCluster)

func dialCluster(t testing.TB) redis.UniversalClient {
	t.Helper()
	var addrs []string
	if given := os.Getenv("BELFRY_TEST_REDIS_CLUSTER"); given != "" {
		addrs = strings.Split(given, ",")
	} else {
		require(t)
		var err error
		if addrs, err = sharedCluster(); err != nil {
			t.Fatalf("redistest: %v", err)
		}
	}
	return closeWith(t, redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:                    addrs,
		ContextTimeoutEnabled:    true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}))
}

var (
	sharedMu    sync.Mutex
	sharedProcs []*process
	sharedDirs  []string
)

// endLater notes a shared process and its directory for [Run].
func endLater(proc *process, dir string) {
	sharedMu.Lock()
	defer sharedMu.Unlock()
	sharedProcs, sharedDirs = append(sharedProcs, proc), append(sharedDirs, dir)
}

// Run runs the tests, ends the shared servers and returns the exit code. It
// belongs into TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }
//
// A test binary without it leaves the servers to their guards, which end them
// a moment after the binary.
func Run(m *testing.M) int {
	code := m.Run()
	sharedMu.Lock()
	defer sharedMu.Unlock()
	for _, proc := range sharedProcs {
		proc.end(syscall.SIGKILL)
	}
	for _, dir := range sharedDirs {
		_ = os.RemoveAll(dir)
	}
	return code
}

// require skips the test on a machine without redis-server, or fails it under
// BELFRY_TEST_REQUIRE_REDIS=1.
func require(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath(serverProgram); err == nil {
		return
	}
	if os.Getenv("BELFRY_TEST_REQUIRE_REDIS") == "1" {
		t.Fatal("redistest: no redis-server in PATH, and BELFRY_TEST_REQUIRE_REDIS=1 forbids to skip")
	}
	t.Skip("redistest: no redis-server in PATH; install Redis, or point BELFRY_TEST_REDIS and BELFRY_TEST_REDIS_CLUSTER at running ones")
}

// poll calls check every few milliseconds until it returns nil. When ctx ends
// before, it returns the last error of check.
func poll(ctx context.Context, check func(context.Context) error) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}
