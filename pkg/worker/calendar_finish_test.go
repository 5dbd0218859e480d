package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A mortal client answers so many calls and then dies with its process.
type mortal struct{ left atomic.Int64 }

var errDead = errors.New("the process is gone")

func (m *mortal) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m *mortal) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if m.left.Add(-1) < 0 {
			cmd.SetErr(errDead)
			return errDead
		}
		return next(ctx, cmd)
	}
}

func (m *mortal) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if m.left.Add(-1) < 0 {
			return errDead
		}
		return next(ctx, cmds)
	}
}

// TestHousekeepingFinishesAChangeOfCalendars kills the writer of a change after
// each of its calls. When the change was stored, a worker that only happens to
// be there moves its users within 20 s.
func TestHousekeepingFinishesAChangeOfCalendars(t *testing.T) {
	long(t)
	finished := 0
	for after := int64(0); ; after++ {
		ended := false
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			calendar := func(store *redisstore.Store, date string) error {
				_, err := store.PutCalendars(t.Context(), []schedule.Calendar{{Name: "free", Dates: []string{date}}}, schedule.CalendarOptions{})
				return err
			}
			if err := calendar(r.store, "2000-02-01"); err != nil {
				t.Fatal(err)
			}
			for _, name := range names(5) {
				r.change(name, "0 12 * * *", func(s *schedule.Schedule) { s.Except = []schedule.Window{{Calendar: "free"}} })
			}
			client := r.memory.Client()
			hook := &mortal{}
			client.AddHook(hook)
			writer, err := redisstore.New(client, redisstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			hook.left.Store(after)
			ended = calendar(writer, "2000-01-01") == nil
			n := r.node("a", nil).start()
			time.Sleep(22 * time.Second)
			n.halt()
			calendars, _, err := r.store.Calendars(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC)
			if calendars[0].Dates[0] == "2000-01-01" {
				want = want.AddDate(0, 0, 1)
				finished++
			}
			for _, name := range names(5) {
				entry, err := r.store.Get(t.Context(), schedule.ID(name))
				if err != nil || !entry.Status.NextAt.Equal(want) {
					t.Errorf("death after %d calls: %s fires next at %s, %v; want %s", after, name, entry.Status.NextAt, err, want)
				}
			}
		})
		if ended {
			break
		}
	}
	if finished < 2 {
		t.Errorf("only %d deaths left a stored change: they show nothing", finished)
	}
}
