package simtest

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestEightDaysOfRealSchedules lets three workers work through the schedules
// of public applications over the autumn clock changes and a first of the
// month. They begin as strangers who race for every claim; then they know one
// another, and three times the busiest is replaced in the middle of its work.
// A consumer takes what they enqueued every few minutes.
func TestEightDaysOfRealSchedules(t *testing.T) {
	t.Parallel()
	first, last := instant(t, "2026-10-25T00:00:00Z"), instant(t, "2026-11-02T00:00:00Z")
	if slow || testing.Short() {
		last = first.AddDate(0, 0, 1)
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, first.Add(-30*time.Second), 1, append(readFleet(t), clockChanges()...))
		c := w.consumer("consumer", 4*time.Minute)
		f := newCrew(w, c.ring, "a", "b", "c")
		quarter := last.Sub(first) / 4
		for i, id := range []string{"d", "e", "f"} {
			time.Sleep(time.Until(first.Add(quarter * time.Duration(i+1))))
			f.replaceBusiest(id)
		}
		time.Sleep(time.Until(last.Add(30 * time.Second)))
		f.halt()
		c.halt()
		w.judge(first, last, strictness{late: time.Second, run: 5 * time.Minute})
		w.judgeShares(3, len(w.log.enqueued)/10)
		t.Logf("%d firings of %d schedules", len(w.log.enqueued), len(w.rows))
	})
}
