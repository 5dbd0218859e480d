package worker

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
)

// A store that answers the reads of one loop and refuses the writes of another
// is away, steadily; a connection that works again is back at the first answer.
func TestARefusingStoreIsAwayUntilItServesWhatItRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		o := &outage{logger: slog.New(slog.NewTextHandler(&log, nil)), observer: NopObserver{}, now: time.Now,
			draw: func(d time.Duration) time.Duration { return d }}
		memory := redistest.InMemory(t)
		memory.Server().SetError("READONLY You can't write against a read only replica.")
		refusal := memory.Client().Set(t.Context(), "a", "b", 0).Err()
		if !redis.HasErrorPrefix(refusal, "READONLY") {
			t.Fatalf("the refusal is %v", refusal)
		}
		for range 5 {
			o.failed(t.Context(), "sweep", refusal, 0)
			o.recovered("claim")
			if o.err() == nil {
				t.Fatal("the reads of another loop hide that writes are refused")
			}
		}
		o.failed(t.Context(), "claim", errors.New("connection refused"), 0)
		o.recovered("claim")
		if o.err() == nil {
			t.Error("back though the sweep is refused still")
		}
		o.recovered("sweep")
		if o.err() != nil {
			t.Errorf("away after all of it was served: %v", o.err())
		}
		o.failed(t.Context(), "sweep", errors.New("connection refused"), 0)
		o.recovered("claim")
		if o.err() != nil {
			t.Errorf("away though the connection works: %v", o.err())
		}
		if waits, backs := strings.Count(log.String(), "waiting for Redis"), strings.Count(log.String(), "Redis is back"); waits != 2 || backs != 2 {
			t.Errorf("%d waits, %d backs in\n%s", waits, backs, log.String())
		}
	})
}
