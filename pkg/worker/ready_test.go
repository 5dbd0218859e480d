package worker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/pkg/worker"
)

// readyWithin returns how long it takes until the worker is ready.
func (n *node) readyWithin(limit time.Duration) time.Duration {
	n.rig.t.Helper()
	began := time.Now()
	var last error
	for time.Since(began) < limit {
		err := n.Ready(n.rig.t.Context())
		if took := time.Since(began); err == nil {
			if took > soonReady {
				n.rig.t.Errorf("ready after %s, want %s at most; it waited for: %v", took, soonReady, last)
			}
			return took
		}
		last = err
		time.Sleep(50 * time.Millisecond)
	}
	n.rig.t.Errorf("not ready %s after Redis is back: %v", limit, last)
	return limit
}

// soonReady is how long after Redis is back a worker may say that it is not.
const soonReady = 2*time.Second + 100*time.Millisecond

// TestReadySoonAfterAnOutage lets Redis go away in three ways, at every second
// between two announcements and for one that fails: the worker is ready again
// soon, not after its next announcement.
func TestReadySoonAfterAnOutage(t *testing.T) {
	for name, fault := range map[string]func(n *node, on bool){
		"connections refused": func(n *node, on bool) { n.cable.set(on) },
		"loading": func(n *node, on bool) {
			text := ""
			if on {
				text = "LOADING Redis is loading the dataset in memory"
			}
			n.rig.memory.Server().SetError(text)
		},
	} {
		for _, schedules := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t)
					n := r.node("a", func(o *worker.Options) { o.NoSchedules = !schedules }).start()
					time.Sleep(10 * time.Second)
					worst := time.Duration(0)
					for i := range 12 {
						time.Sleep(8*time.Second + time.Duration(i)*900*time.Millisecond)
						fault(n, true)
						time.Sleep(11 * time.Second)
						if err := n.Ready(t.Context()); err == nil {
							t.Error("ready without Redis")
						}
						fault(n, false)
						worst = max(worst, n.readyWithin(30*time.Second))
					}
					t.Logf("ready after %s at most", worst)
					n.halt()
					time.Sleep(time.Second) // a subscription of asynq's ends
				})
			})
		}
	}
}
