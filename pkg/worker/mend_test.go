package worker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// TestWorkersMendIndexes loses a schedule's place in the index of due times:
// it would never fire again. A worker finds that by itself.
func TestWorkersMendIndexes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.put("tick", "10s", "test")
		r.put("lost", "10s", "test")
		n := r.node("a", nil).start()
		time.Sleep(25 * time.Second)
		server, prefix := r.memory.Server(), "belfry:{default:00}:"
		if gone, err := server.ZRem(prefix+"due", "lost"); err != nil || !gone {
			t.Fatalf("ZRem = %t, %v", gone, err)
		}
		if _, err := server.ZAdd(prefix+"due", 1, "nobody"); err != nil {
			t.Fatal(err)
		}
		server.HIncrBy(prefix+"meta", "active", 7)
		broken := time.Now()
		time.Sleep(3 * time.Minute)
		entry, err := r.store.Get(t.Context(), "lost")
		if err != nil || !entry.Status.LastRunAt.After(broken.Add(2*time.Minute)) || entry.Status.LastStatus != schedule.LastCompleted {
			t.Errorf("lost: %+v, %v; want it to fire again", entry.Status, err)
		}
		stats, err := r.store.Stats(t.Context())
		if err != nil || stats.Active != 2 || stats.Total != 2 {
			t.Errorf("Stats = %+v, %v, want 2 active", stats, err)
		}
		n.halt()
		if violations, err := r.store.Check(t.Context()); err != nil || len(violations) > 0 {
			t.Errorf("Check = %q, %v", violations, err)
		}
	})
}
