package admincli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/top"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

func topSourceOf(r *rig) *topSource {
	s := &session{env: Env{Now: r.clock, User: "ana"}, ctx: context.Background(), stores: r.stores, address: r.stores.Address, timeout: time.Minute}
	return &topSource{s: s}
}

// What others wrote is shown, and does nothing to the terminal.
func TestTopEscapesWhatOthersWrote(t *testing.T) {
	r := newRig(t)
	r.must("schedule", "create", "tick", "--every", "1m", "--type", "log")
	hostile := "evil\x1b[31m\x1b]0;owned\a\nline\u202e"
	if _, err := r.stores.Roster.Announce(t.Context(), claim.Member{ID: hostile, Host: hostile, Version: hostile, Queues: map[string]int{hostile: 1}, Started: r.now, Seen: r.now}); err != nil {
		t.Fatal(err)
	}
	snapshot, err := topSourceOf(r).Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := top.New(top.Options{Width: width})
	m.Resize(200, 20)
	m.Set(snapshot, "", r.clock())
	m.Key("2")
	frame := m.Frame()
	if !strings.Contains(frame, `evil\x1b[31m\x1b]0;owned\x07\nline\u202e`) {
		t.Errorf("the worker is not shown:\n%s", frame)
	}
	if lines := strings.Split(frame, "\n"); len(lines) != 20 || strings.ContainsAny(frame, "\x1b\a\u202e") {
		t.Errorf("%d lines, or a control character: %q", len(lines), frame)
	}
}

// A key is handled while a snapshot is read.
func TestTopReadsAndActsAtOnce(t *testing.T) {
	r := newRig(t)
	r.must("schedule", "create", "tick", "--every", "1m", "--type", "log")
	source := topSourceOf(r)
	var both sync.WaitGroup
	for range 20 {
		both.Go(func() {
			if _, err := source.Read(t.Context()); err != nil {
				t.Error(err)
			}
		})
		both.Go(func() {
			if _, err := source.Act(t.Context(), top.ActPause, "tick"); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	text, err := source.Act(t.Context(), top.ActResume, "tick")
	if err != nil || !strings.HasPrefix(text, "resumed tick, next ") {
		t.Errorf("resume: %q, %v", text, err)
	}
	if _, err := source.Act(t.Context(), top.ActTrigger, "gone"); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("trigger of what is not there: %v", err)
	}
	snapshot, err := source.Read(t.Context())
	if err != nil || len(snapshot.Schedules) != 1 || snapshot.Schedules[0].Paused {
		t.Errorf("afterwards: %+v, %v", snapshot.Schedules, err)
	}
}

// Of more schedules than top lists, those that fire next are shown, whatever
// they are called; counts are of all, and what fired is counted and shown though
// it is not among the next any more.
func TestTopOfManySchedules(t *testing.T) {
	r, _ := onRedis(t)
	stores, err := OpenRedis(t.Context(), Target{Environ: r.environ, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stores.Close() })
	var all []schedule.Schedule
	for i := range 10_500 {
		all = append(all, schedule.Schedule{ID: schedule.ID(fmt.Sprintf("s%05d", i)), Expression: "1d", Type: "log"})
	}
	soon := r.now.Add(30 * time.Second).UTC()
	all = append(all, schedule.Schedule{ID: "z", Type: "log", Specs: []schedule.SpecDefinition{{Every: 12 * time.Hour, Anchor: soon}}})
	if _, err := stores.Catalog.PutMany(t.Context(), all, schedule.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := stores.Catalog.Pause(t.Context(), "s00007", schedule.PauseOptions{}); err != nil {
		t.Fatal(err)
	}
	var v topJSON
	if err := json.Unmarshal([]byte(r.must("top", "--once", "-o", "json").stdout), &v); err != nil {
		t.Fatal(err)
	}
	if !v.Partial || v.Total != 10_501 || v.Paused != 1 || v.Active != 10_500 || len(v.Schedules) != maxSoonest || v.Schedules[0].ID != "z" {
		t.Errorf("partial %v, total %d, paused %d, active %d, %d listed, first %s", v.Partial, v.Total, v.Paused, v.Active, len(v.Schedules), v.Schedules[0].ID)
	}
	frame := r.must("top", "--once").stdout
	if !strings.Contains(frame, "next 1000 of 10501") || !strings.Contains(frame, "10500 active  1 paused") {
		t.Errorf("%s", frame)
	}
}

// What fired since the last look is counted though it has left those that fire
// next.
func TestTopCountsWhatLeavesTheNext(t *testing.T) {
	r := newRig(t)
	due := &dueNext{}
	r.stores.Due = due
	for _, id := range []string{"a", "b"} {
		r.must("schedule", "create", id, "--every", "5m", "--type", "log")
	}
	source := topSourceOf(r)
	look := func(ids ...schedule.ID) int64 {
		t.Helper()
		due.entries = nil
		for _, id := range ids {
			e, err := r.stores.Catalog.Get(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			due.entries = append(due.entries, e)
		}
		source.listed = time.Time{}
		if err := source.list(t.Context(), schedule.Stats{Total: maxTop + 1, Now: r.clock()}); err != nil {
			t.Fatal(err)
		}
		return source.fired
	}
	look("a")
	r.advance(3 * time.Minute)
	f := &fleet{r: r, word: map[string]string{}}
	f.work()
	f.run()
	if n := look("b"); n != 1 || !source.partial {
		t.Errorf("%d fired", n)
	}
	if n := look("b"); n != 1 {
		t.Errorf("counted again: %d", n)
	}
	runs, err := source.runs()
	if err != nil || len(runs) != 2 || runs[0].Schedule == runs[1].Schedule {
		t.Errorf("runs of a, which left, and b: %+v, %v", runs, err)
	}
}

// A dueNext says what fires next.
type dueNext struct{ entries []schedule.Entry }

func (d *dueNext) Soonest(context.Context, int) ([]schedule.Entry, error) { return d.entries, nil }
