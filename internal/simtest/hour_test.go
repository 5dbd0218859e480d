package simtest

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestAnHourOfWholeWorkers runs the same schedules with complete workers: the
// scheduling half, asynq servers, handlers, housekeeping. The hour is one that
// reaches every queue.
func TestAnHourOfWholeWorkers(t *testing.T) {
	t.Parallel()
	first, last := instant(t, "2026-10-29T11:00:00Z"), instant(t, "2026-10-29T12:00:00Z")
	if slow || testing.Short() {
		first = instant(t, "2026-10-29T11:25:00Z")
		last = instant(t, "2026-10-29T11:50:00Z")
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, first.Add(-30*time.Second), 3, append(readFleet(t), clockChanges()...))
		members := []*member{
			w.member("a", map[string]int{"default": 3, "ops": 1}, w.cable(1)),
			w.member("b", map[string]int{"default": 3, "low": 1}, w.cable(2)),
			w.member("c", map[string]int{"low": 3, "mailers": 1}, w.cable(3)),
		}
		time.Sleep(time.Until(last.Add(30 * time.Second)))
		for _, m := range members {
			m.halt()
		}
		w.judge(first, last, strictness{late: time.Second, run: 3 * time.Second})
		w.judgeShares(2, len(w.log.enqueued)/10)
		t.Logf("%d firings of %d schedules", len(w.log.enqueued), len(w.rows))
	})
}
