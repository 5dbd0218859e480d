package worker_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/pkg/worker"
)

// A backRig is a rig whose calendars can go back without its shards, as after a
// failover of one node of several.
type backRig struct {
	*rig
	client *redis.Client
	before map[string]map[string]string
}

// newBackRig changes the calendar "halves" twice. Then it excludes secondHalf;
// the store goes back to where it excluded firstHalf.
func newBackRig(t *testing.T) *backRig {
	r := &backRig{rig: newRig(t), before: map[string]map[string]string{}}
	r.client = r.memory.Client()
	r.halves(firstHalf)
	for _, key := range []string{"belfry:{default:ctl}:conf", "belfry:{default:ctl}:cal"} {
		r.before[key] = r.client.HGetAll(t.Context(), key).Val()
	}
	for _, name := range names(3) {
		r.change(name, "1s", func(s *schedule.Schedule) { s.Except = []schedule.Window{{Calendar: "halves"}} })
	}
	r.halves("* * * * * *")
	r.halves(secondHalf)
	return r
}

func (r *backRig) halves(cron string) {
	r.t.Helper()
	_, err := r.store.PutCalendars(r.t.Context(), []schedule.Calendar{{Name: "halves", Cron: []string{cron}}}, schedule.CalendarOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *backRig) sound() {
	r.t.Helper()
	if broken, err := r.store.Check(r.t.Context()); err != nil || len(broken) > 0 {
		r.t.Errorf("Check = %v, %v; want nothing", broken, err)
	}
}

// TestCalendarsThatWentBackStopNobody: the calendars that are stored count, and
// the log says what happened.
func TestCalendarsThatWentBackStopNobody(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		r := newBackRig(t)
		var log strings.Builder
		handler := slog.NewTextHandler(&log, nil)
		logged := func(o *worker.Options) { o.Logger = slog.New(handler) }
		start := time.Now().Round(0).UTC()
		nodes := []*node{r.node("a", logged).start(), r.node("b", logged).start()}
		time.Sleep(70 * time.Second)
		for key, fields := range r.before {
			r.client.Del(t.Context(), key)
			r.client.HSet(t.Context(), key, fields)
		}
		time.Sleep(80 * time.Second)
		for _, n := range nodes {
			n.halt()
		}
		for _, name := range names(3) {
			times := r.times(name)
			for _, second := range []int{60, 69, 95, 119} {
				if at := start.Add(time.Duration(second) * time.Second); times[at] != 1 {
					t.Errorf("%s ran %d times for %s, want 1", name, times[at], at)
				}
			}
			for at := range times {
				if at.After(start.Add(90*time.Second)) && at.Second() < 30 {
					t.Errorf("%s ran for %s, which the calendar that is stored now excludes", name, at)
				}
			}
		}
		r.sound()
		// Both may have asked at one millisecond, and go on then as one that asked twice.
		if n := strings.Count(log.String(), "the store went back in parts"); n < 1 || n > 2 {
			t.Errorf("told %d times:\n%s", n, &log)
		}
	})
}

// TestAllCalendarsForgotten: their users say which one is missing, and come back
// with it.
func TestAllCalendarsForgotten(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		r := newBackRig(t)
		start := time.Now().Round(0).UTC()
		n := r.node("a", nil).start()
		time.Sleep(10 * time.Second)
		r.client.Del(t.Context(), "belfry:{default:ctl}:cal")
		r.client.HDel(t.Context(), "belfry:{default:ctl}:conf", "calendars")
		time.Sleep(80 * time.Second)
		r.sound()
		entry, err := r.store.Get(t.Context(), "s00")
		if err != nil || !strings.Contains(entry.Status.LastError, `"halves"`) {
			t.Errorf("last error %q, %v, want the calendar that is missing", entry.Status.LastError, err)
		}
		r.halves(secondHalf)
		time.Sleep(2 * time.Minute) // up to 3:30
		n.halt()
		if at := start.Add(3*time.Minute + 20*time.Second); r.times("s00")[at] != 1 {
			t.Errorf("a user of the calendar ran %d times for %s, want 1", r.times("s00")[at], at)
		}
		r.sound()
	})
}

// TestALostConfigurationIsWrittenAgain before somebody creates another, with
// which nobody would find a schedule.
func TestALostConfigurationIsWrittenAgain(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		r := newBackRig(t)
		const conf = "belfry:{default:ctl}:conf"
		var log strings.Builder
		n := r.node("a", func(o *worker.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) }).start()
		time.Sleep(time.Second)
		r.client.Del(t.Context(), conf)
		time.Sleep(11 * time.Second)
		other, err := redisstore.New(r.client, redisstore.Options{Shards: 5})
		if err != nil {
			t.Fatal(err)
		}
		if shards, err := other.Shards(t.Context()); err != nil || shards != 1 {
			t.Errorf("a store that is opened now has %d shards, %v, want the 1 that is in use", shards, err)
		}
		if _, err := other.Get(t.Context(), "s00"); err != nil {
			t.Errorf("Get = %v", err)
		}
		r.client.HSet(t.Context(), conf, "shards", 5) // somebody was faster
		time.Sleep(11 * time.Second)
		r.client.HSet(t.Context(), conf, "shards", 1)
		time.Sleep(11 * time.Second)
		n.halt()
		r.sound()
		for _, words := range []string{"it is written again", "namespace \\\"default\\\" has 5, and 1 are in use"} {
			if n := strings.Count(log.String(), words); n != 1 {
				t.Errorf("the log says %d times %q:\n%s", n, words, &log)
			}
		}
	})
}
