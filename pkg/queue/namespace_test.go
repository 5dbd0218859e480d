package queue

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/claim"
)

// pushFrom enqueues the firing as a worker of the namespace does.
func (b *bench) pushFrom(namespace string, id claim.FiringID) error {
	b.t.Helper()
	enqueuer, err := NewEnqueuer(EnqueuerOptions{Redis: b.redis, Namespace: namespace})
	if err != nil {
		b.t.Fatal(err)
	}
	return enqueuer.Push(b.t.Context(), Push{Firing: id, Definition: b.definition})
}

// Two namespaces share a queue: a task that the other one's worker gets is
// handed back, where its ledger would have called the schedule deleted.
func TestTasksOfAnotherNamespaceAreHandedBack(t *testing.T) {
	for from, state := range map[string]string{"theirs": "retry pending", "ours": "completed", "": "completed"} {
		t.Run("from "+from, func(t *testing.T) {
			inBubble(t, definition(), func(b *bench) {
				id := firingAt(1)
				b.ledger.add(id, claim.FiringEnqueued, b.definition.Queue)
				if err := b.pushFrom(from, id); err != nil {
					b.t.Fatal(err)
				}
				var log strings.Builder
				stop := b.serve(b.middleware(func(o *MiddlewareOptions) {
					o.Namespace, o.Logger = "ours", slog.New(slog.NewTextHandler(&log, nil))
				}), func(context.Context, *asynq.Task) error { return nil })
				time.Sleep(10 * time.Second)
				stop()
				if got := b.state(string(id)); !strings.Contains(state, got) {
					b.t.Errorf("the task is %s, want %s", got, state)
				}
				if info := b.task(string(id)); info != nil && info.Retried != 0 {
					b.t.Errorf("asynq counts %d retries", info.Retried)
				}
				want := 0
				if from == "theirs" {
					want = 1
				}
				if n := strings.Count(log.String(), "another namespace"); n != want || len(b.recorder.ended) != 1-want {
					b.t.Errorf("told %d times, %d runs; log: %s", n, len(b.recorder.ended), log.String())
				}
			})
		})
	}
}

// A copy of a namespace has the same firing IDs. What the other one enqueued is
// no earlier push of one's own.
func TestATaskOfAnotherNamespaceIsForeign(t *testing.T) {
	onRedis(t, definition(), func(b *bench) {
		for i, tt := range []struct {
			first, second string
			foreign       bool
		}{{"one", "two", true}, {"one", "one", false}, {"", "two", false}, {"one", "", false}} {
			id := firingAt(i + 1)
			if err := b.pushFrom(tt.first, id); err != nil {
				b.t.Fatal(err)
			}
			if err := b.pushFrom(tt.second, id); errors.Is(err, ErrForeignTask) != tt.foreign {
				b.t.Errorf("%q after %q: %v, want foreign %t", tt.second, tt.first, err, tt.foreign)
			}
		}
	})
}
