package redisstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// The schedules that fire next are found over all shards, whatever they are
// called; what does not fire is not among them.
func TestSoonest(t *testing.T) {
	for _, backend := range redistest.Backends() {
		t.Run(backend.Name, func(t *testing.T) {
			ctx := t.Context()
			store, err := redisstore.New(backend.Dial(t), redisstore.Options{Namespace: redistest.Namespace(), Shards: 4})
			if err != nil {
				t.Fatal(err)
			}
			var all []schedule.Schedule
			for i := range 40 { // the last by name fires first
				every := time.Duration(100-i) * time.Hour
				all = append(all, schedule.Schedule{ID: schedule.ID(fmt.Sprintf("s%02d", i)), Type: "log",
					Specs: []schedule.SpecDefinition{{Every: every, Anchor: time.Now().Truncate(time.Second)}}})
			}
			if _, err := store.PutMany(ctx, all, schedule.PutOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := store.Pause(ctx, "s38", schedule.PauseOptions{}); err != nil {
				t.Fatal(err)
			}
			got, err := store.Soonest(ctx, 3)
			if err != nil || len(got) != 3 || got[0].Schedule.ID != "s39" || got[1].Schedule.ID != "s37" || got[2].Schedule.ID != "s36" {
				t.Errorf("Soonest(3) = %v, %v", got, err)
			}
			if got, err := store.Soonest(ctx, 0); err != nil || len(got) != 39 {
				t.Errorf("Soonest(0) has %d, %v", len(got), err)
			}
			var field *schedule.FieldError
			if _, err := store.Soonest(ctx, 1001); !errors.As(err, &field) {
				t.Errorf("Soonest(1001) = %v", err)
			}
		})
	}
}
