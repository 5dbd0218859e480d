package worker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/worker"
)

// TestAWorkerThatStopsStaysInTheRoster ends a periodic task over most of a minute. The
// roster forgets whom it has not heard of for 25 s; one that stops is no lost
// one, be it drained before or not, until it takes itself out.
func TestAWorkerThatStopsStaysInTheRoster(t *testing.T) {
	const ending = 55 * time.Second
	for name, drained := range map[string]bool{"working": false, "drained": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, release := newRig(t), make(chan struct{})
				n := r.node("a", func(o *worker.Options) {
					o.Drain = 2 * ending
					o.Periodic = []claim.Periodic{{Name: "sweep", Every: func() time.Duration { return time.Second }, Jitter: 1,
						Run: func(context.Context, func() claim.PeriodicClaim) error {
							<-release
							return nil
						}}}
				}).start()
				time.Sleep(10*time.Second - time.Millisecond) // just before an announcement
				if drained {
					r.drain("a")
					time.Sleep(time.Second)
				}
				stopped := make(chan time.Duration)
				go func() { stopped <- n.halt() }()
				longest := time.Duration(0)
				for range int(ending.Seconds()) {
					time.Sleep(time.Second)
					m := memberOf(t, r.store, "a")
					longest = max(longest, time.Since(m.Seen))
				}
				if m := memberOf(t, r.store, "a"); m.State != claim.MemberDraining || m.Running == 0 {
					t.Errorf("the roster says %+v, want a worker that drains and runs something", m)
				}
				if longest > 20*time.Second {
					t.Errorf("no sign of life for %s: the roster forgets after 25s", longest)
				}
				close(release)
				if took := <-stopped; took < ending || took > ending+5*time.Second {
					t.Fatalf("stopped after %s: want as soon as the task ends after %s", took, ending)
				}
				if members, err := r.store.Members(t.Context(), time.Minute); err != nil || len(members) != 0 {
					t.Errorf("roster after the stop: %+v, %v; want nobody", members, err)
				}
				time.Sleep(time.Minute)
				if members, err := r.store.Members(t.Context(), time.Minute); err != nil || len(members) != 0 {
					t.Errorf("roster a minute after the stop: %+v, %v; want nobody", members, err)
				}
			})
		})
	}
}
