package admincli

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/top"
	"github.com/belfryhq/belfry/pkg/claim"
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
	if err := r.stores.Roster.Announce(t.Context(), claim.Member{ID: hostile, Host: hostile, Version: hostile, Queues: map[string]int{hostile: 1}, Started: r.now, Seen: r.now}); err != nil {
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
