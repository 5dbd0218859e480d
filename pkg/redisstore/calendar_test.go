package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// errDied is what a dying client answers.
var errDied = errors.New("the writer died")

// A dying client lets through some calls and refuses all that follow.
type dying struct {
	left  atomic.Int64
	calls atomic.Int64
}

func (d *dying) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (d *dying) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		d.calls.Add(1)
		if d.left.Add(-1) < 0 {
			cmd.SetErr(errDied)
			return errDied
		}
		return next(ctx, cmd)
	}
}

func (d *dying) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		d.calls.Add(1)
		if d.left.Add(-1) < 0 {
			for _, cmd := range cmds {
				cmd.SetErr(errDied)
			}
			return errDied
		}
		return next(ctx, cmds)
	}
}

// A calendarRig is a namespace of four shards with users of one calendar in
// each, on a clock that stands.
type calendarRig struct {
	t      *testing.T
	now    time.Time
	store  *redisstore.Store
	dying  *dying
	mortal *redisstore.Store // the same through the dying client
	users  []schedule.ID
}

func newCalendarRig(t *testing.T) *calendarRig {
	t.Helper()
	server := miniredis.RunT(t)
	r := &calendarRig{t: t, now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), dying: &dying{}}
	namespace := redistest.Namespace()
	open := func(client redis.UniversalClient) *redisstore.Store {
		s, err := redisstore.New(client, redisstore.Options{Namespace: namespace, Now: func() time.Time { return r.now }, Shards: 4})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	dial := func() *redis.Client {
		client := redis.NewClient(redistest.Options(server.Addr()))
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	r.store = open(dial())
	mortal := dial()
	mortal.AddHook(r.dying)
	r.mortal = open(mortal)
	r.put(r.store, "2030-01-09")
	for i := range 12 {
		id := schedule.ID(fmt.Sprintf("user-%d", i))
		r.users = append(r.users, id)
		s := schedule.Schedule{ID: id, Expression: "0 12 * * *", Type: "t", Except: []schedule.Window{{Calendar: "c"}}}
		if _, err := r.store.Put(t.Context(), s, schedule.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *calendarRig) put(s *redisstore.Store, date string) (schedule.CalendarResult, error) {
	return s.PutCalendars(r.t.Context(), []schedule.Calendar{{Name: "c", Dates: []string{date}}}, schedule.CalendarOptions{})
}

// moved counts the users that wait for the second day.
func (r *calendarRig) moved() (n int) {
	r.t.Helper()
	all, err := r.store.GetMany(r.t.Context(), r.users)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, entry := range all {
		if entry.Status.NextAt.Equal(r.now.Truncate(24 * time.Hour).Add(36 * time.Hour)) {
			n++
		}
	}
	return n
}

// TestAChangeOfCalendarsSurvivesItsWriter lets the writer die after each of
// its calls. Others find the note and finish what it began, once it is old;
// until then nobody interferes.
func TestAChangeOfCalendarsSurvivesItsWriter(t *testing.T) {
	for after := int64(0); ; after++ {
		r := newCalendarRig(t)
		r.dying.left.Store(after)
		_, err := r.put(r.mortal, "2030-01-01")
		if err == nil {
			if after < 8 {
				t.Fatalf("a change took %d calls: too few to show anything", after)
			}
			if n := r.moved(); n != len(r.users) {
				t.Fatalf("%d of %d users moved by a change that succeeded", n, len(r.users))
			}
			break
		}
		before := r.moved()
		if err := r.store.FinishCalendars(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := r.moved(); n != before {
			t.Errorf("death after %d calls: %d users moved while the writer may be alive", after, n-before)
		}
		calendars, _, err := r.store.Calendars(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		stored := calendars[0].Dates[0] == "2030-01-01"
		r.now = r.now.Add(11 * time.Second)
		if err := r.store.FinishCalendars(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := 0
		if stored {
			want = len(r.users)
		}
		if n := r.moved(); n != want {
			t.Errorf("death after %d calls: %d users moved in the end, want %d", after, n, want)
		}
	}
}

// TestAnInterruptedChangeIsRepeated wants that the same call again finishes,
// and says what it still moved.
func TestAnInterruptedChangeIsRepeated(t *testing.T) {
	for after := int64(3); after < 8; after++ {
		r := newCalendarRig(t)
		r.dying.left.Store(after)
		if _, err := r.put(r.mortal, "2030-01-01"); !errors.Is(err, errDied) {
			t.Fatalf("PutCalendars = %v, want it to die", err)
		}
		result, err := r.put(r.store, "2030-01-01")
		if err != nil || result.Actions[0] != schedule.CalendarUpdated {
			t.Errorf("the same again = %+v, %v", result, err)
		}
		if n := r.moved(); n != len(r.users) {
			t.Errorf("death after %d calls: %d users moved, want %d", after, n, len(r.users))
		}
		result, err = r.put(r.store, "2030-01-01")
		if err != nil || result.Actions[0] != schedule.CalendarUnchanged || result.Users != 0 {
			t.Errorf("a third time = %+v, %v, want nothing to do", result, err)
		}
	}
}

// TestAnInterruptedDeletionIsFinished wants that a calendar whose deletion was
// interrupted can be named by nobody, and goes in the end.
func TestAnInterruptedDeletionIsFinished(t *testing.T) {
	died := 0
	for after := int64(0); ; after++ {
		r := newCalendarRig(t)
		for _, id := range r.users {
			if _, err := r.store.Remove(t.Context(), id, schedule.RemoveOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		r.dying.left.Store(after)
		_, err := r.mortal.DeleteCalendar(t.Context(), "c", schedule.CalendarOptions{})
		if err == nil {
			break
		}
		died++
		s := schedule.Schedule{ID: "late", Expression: "0 12 * * *", Type: "t", Except: []schedule.Window{{Calendar: "c"}}}
		_, putErr := r.store.Put(t.Context(), s, schedule.PutOptions{})
		r.now = r.now.Add(11 * time.Second)
		if err := r.store.FinishCalendars(t.Context()); err != nil {
			t.Fatal(err)
		}
		calendars, _, err := r.store.Calendars(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if there := len(calendars) == 1; there != (putErr == nil) {
			t.Errorf("death after %d calls: the put of a user answered %v, the calendar is there: %t", after, putErr, there)
		}
	}
	if died < 8 {
		t.Errorf("a deletion took %d calls: too few to show anything", died)
	}
}
