package simtest

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestFaults, B092, hurts three complete workers: replies get lost and requests are
// refused, one worker dies in the middle of a batch, another stalls for three
// times its longest lease and comes back. Every scheduled time is finished
// once all the same.
func TestFaults(t *testing.T) {
	seeds := []uint64{1, 2}
	if slow || testing.Short() {
		seeds = seeds[:1]
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { testFaults(t, seed) })
		})
	}
}

func testFaults(t *testing.T, seed uint64) {
	first := instant(t, "2026-10-29T11:25:00Z")
	last := first.Add(14 * time.Minute)
	rows := readFleet(t)
	for i := range 12 {
		rows = append(rows, row{"minutely-" + strconv.Itoa(i), "* * * * *", "UTC", "default", "minutely"})
	}
	w := newWorld(t, first.Add(-30*time.Second), 2, rows)
	w.work = 1500 * time.Millisecond
	queues := map[string]int{"default": 3, "low": 1, "mailers": 1, "ops": 1}
	var members []*member
	for i, id := range []string{"a", "b", "c"} {
		m := w.member(id, queues, w.cable(seed*10+uint64(i)))
		m.cable.weather(0.02, 0.01)
		members = append(members, m)
	}
	a, b := members[0], members[1]

	time.Sleep(time.Until(first.Add(3*time.Minute - time.Second)))
	var killed atomic.Bool
	a.onEnqueue.Store(new(func() {
		if !killed.Swap(true) {
			a.cable.kill()
		}
	}))
	time.Sleep(time.Until(first.Add(5 * time.Minute)))
	b.cable.stall()
	time.Sleep(90 * time.Second)
	b.cable.resume()
	time.Sleep(time.Until(first.Add(10 * time.Minute)))
	for _, m := range members {
		m.cable.weather(0, 0)
	}
	time.Sleep(time.Until(last.Add(30 * time.Second)))
	for _, m := range members {
		m.halt()
		lost, refused := m.cable.faults()
		t.Logf("%s: %d replies lost, %d requests refused", m.ID(), lost, refused)
	}
	if !killed.Load() {
		t.Error("a was never killed: it enqueued nothing")
	}
	w.judge(first, last, strictness{hurt: true, late: 2 * time.Minute, run: 5 * time.Minute})
	t.Logf("%d firings, %d repairs by auditors", len(w.log.started), len(w.log.audited))
}
