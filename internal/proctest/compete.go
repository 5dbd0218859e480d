package proctest

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
)

// readyTime is how long processes may take until they say "ready".
const readyTime = 20 * time.Second

// Compete starts n processes of a role that compete in a namespace of their
// own on the shared redis-server, and waits until all have said "ready". They
// find the server in BELFRY_TEST_ADDR, the namespace in BELFRY_TEST_NAMESPACE,
// and how long the body of their task takes in BELFRY_TEST_BODY.
func Compete(t *testing.T, role string, n int, body time.Duration) []*Process {
	t.Helper()
	client, ok := redistest.Backends()[1].Dial(t).(*redis.Client)
	if !ok {
		t.Fatal("the second backend is not a single server")
	}
	namespace := redistest.Namespace()
	var processes []*Process
	for range n {
		processes = append(processes, Start(t, role, "BELFRY_TEST_ADDR="+client.Options().Addr,
			"BELFRY_TEST_NAMESPACE="+namespace, "BELFRY_TEST_BODY="+body.String()))
	}
	for _, p := range processes {
		p.Await(readyTime, "ready")
	}
	return processes
}
