package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/scripts/lua"
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
	client *redis.Client     // that one
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
	r.client = mortal
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

// An overtaken client has something done by another just before it runs a
// script for the first time.
type overtaken struct {
	hash string
	once sync.Once
	by   func()
}

func (o *overtaken) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (o *overtaken) meets(cmd redis.Cmder) {
	if len(cmd.Args()) > 1 && cmd.Args()[1] == o.hash {
		o.once.Do(o.by)
	}
}

func (o *overtaken) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		o.meets(cmd)
		return next(ctx, cmd)
	}
}

func (o *overtaken) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			o.meets(cmd)
		}
		return next(ctx, cmds)
	}
}

// TestAPlanWithCalendarsThatJustChangedIsMadeAgain changes a calendar, or
// deletes it, between the plan and the write of whoever plans.
func TestAPlanWithCalendarsThatJustChangedIsMadeAgain(t *testing.T) {
	late := schedule.Schedule{ID: "late", Expression: "0 12 * * *", Type: "t", Missed: schedule.MissedSkip, Except: []schedule.Window{{Calendar: "c"}}}
	second := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	change := func(r *calendarRig) {
		if _, err := r.put(r.store, "2030-01-01"); err != nil {
			r.t.Error(err)
		}
	}
	run := func(t *testing.T, script *redis.Script, by func(*calendarRig), act func(*calendarRig) (time.Time, error)) (time.Time, error) {
		r := newCalendarRig(t)
		for _, id := range r.users[1:] {
			if _, err := r.store.Remove(t.Context(), id, schedule.RemoveOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		r.dying.left.Store(1 << 30)
		hook := &overtaken{hash: script.Hash(), by: func() { by(r) }}
		r.client.AddHook(hook)
		return act(r)
	}
	put := func(r *calendarRig) (time.Time, error) {
		result, err := r.mortal.Put(r.t.Context(), late, schedule.PutOptions{})
		return result.NextAt, err
	}
	t.Run("put", func(t *testing.T) {
		if next, err := run(t, lua.Put, change, put); err != nil || !next.Equal(second) {
			t.Errorf("Put gave %s, %v, want %s", next, err, second)
		}
	})
	t.Run("put many", func(t *testing.T) {
		next, err := run(t, lua.Put, change, func(r *calendarRig) (time.Time, error) {
			results, err := r.mortal.PutMany(r.t.Context(), []schedule.Schedule{late}, schedule.PutOptions{})
			if err == nil {
				err = results[0].Err
			}
			return results[0].NextAt, err
		})
		if err != nil || !next.Equal(second) {
			t.Errorf("PutMany gave %s, %v, want %s", next, err, second)
		}
	})
	t.Run("put after a deletion", func(t *testing.T) {
		next, err := run(t, lua.Put, func(r *calendarRig) {
			if _, err := r.store.Remove(r.t.Context(), r.users[0], schedule.RemoveOptions{}); err != nil {
				r.t.Error(err)
			}
			if _, err := r.store.DeleteCalendar(r.t.Context(), "c", schedule.CalendarOptions{}); err != nil {
				r.t.Error(err)
			}
		}, put)
		var refused *schedule.FieldError
		if !errors.As(err, &refused) {
			t.Errorf("Put gave %s, %v, want a FieldError: the calendar is gone", next, err)
		}
	})
	t.Run("resume", func(t *testing.T) {
		next, err := run(t, lua.Resume, func(r *calendarRig) {
			if _, err := r.put(r.store, "2030-01-03"); err != nil {
				r.t.Error(err)
			}
		}, func(r *calendarRig) (time.Time, error) {
			if _, err := r.store.Put(r.t.Context(), late, schedule.PutOptions{}); err != nil {
				return time.Time{}, err
			}
			if _, err := r.store.Pause(r.t.Context(), "late", schedule.PauseOptions{}); err != nil {
				return time.Time{}, err
			}
			r.now = second.Add(time.Hour) // both first noons are past
			result, err := r.mortal.Resume(r.t.Context(), "late", schedule.ResumeOptions{})
			return result.NextAt, err
		})
		if want := second.AddDate(0, 0, 2); err != nil || !next.Equal(want) {
			t.Errorf("Resume gave %s, %v, want %s", next, err, want)
		}
	})
}
