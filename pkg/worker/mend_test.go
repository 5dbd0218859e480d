package worker_test

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/pkg/worker"
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

// TestWorkersRemoveWhatIsNoFiring writes into the ledger what no worker can
// write. The schedule goes on, and the log says what was removed, in words that
// no terminal obeys.
func TestWorkersRemoveWhatIsNoFiring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d := newRig(t), &diary{}
		r.put("tick", "10s", "test")
		n := r.node("a", func(o *worker.Options) { o.Logger = slog.New(slog.NewTextHandler(d, nil)) }).start()
		time.Sleep(25 * time.Second)
		server, prefix := r.memory.Server(), "belfry:{default:00}:"
		for i := range 50 {
			server.HSet(prefix+"fir", fmt.Sprintf("tick:%d:garbage\x1b[%dm", time.Now().UnixMicro(), i), "I|0|0|0|0|0|0|0|0|||default|")
		}
		time.Sleep(3 * time.Minute)
		if left, _ := server.HKeys(prefix + "fir"); len(left) > 1 { // an error: the key is gone, with its last field
			t.Errorf("the ledger holds %q; want what is open at most", left)
		}
		entry, err := r.store.Get(t.Context(), "tick")
		if err != nil || time.Since(entry.Status.LastRunAt) > 15*time.Second || entry.Status.Open > 1 {
			t.Errorf("tick: %+v, %v; want it to fire on", entry.Status, err)
		}
		told, more := d.logged("a record was none of a firing"), d.logged("more records were none")
		if told < 20 || told+more > 55 || d.logged(`garbage`) < 20 || d.logged("\x1b") != 0 {
			t.Errorf("%d entries were told one by one, and %d times that there were more", told, more)
		}
		n.halt()
		if violations, err := r.store.Check(t.Context()); err != nil || len(violations) > 0 {
			t.Errorf("Check = %q, %v", violations, err)
		}
	})
}
