package worker_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// firstHalf and secondHalf are calendars of one half of every minute.
const (
	firstHalf  = "0-29 * * * * *"
	secondHalf = "30-59 * * * * *"
)

// calendar stores the calendar "halves".
func (f *fleet) calendar(cron string) schedule.CalendarResult {
	f.t.Helper()
	result, err := f.store.PutCalendars(f.t.Context(), []schedule.Calendar{{Name: "halves", Cron: []string{cron}}}, schedule.CalendarOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return result
}

func except(name string) func(*schedule.Schedule) {
	return func(s *schedule.Schedule) { s.Except = []schedule.Window{{Calendar: name}} }
}

// times returns the scheduled times that were enqueued.
func (f *fleet) times(id string) []time.Time {
	f.t.Helper()
	var all []time.Time
	for _, p := range f.of(id) {
		firing, err := claim.ParseFiringID(string(p.firing))
		if err != nil {
			f.t.Fatal(err)
		}
		all = append(all, firing.ScheduledAt)
	}
	return all
}

// TestACalendarIsObeyedFromItsChangeOn changes a calendar every few minutes
// under two workers. Each second of the allowed half fires once, and none of
// the other half, from one change to the next.
func TestACalendarIsObeyedFromItsChangeOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 4)
		start := time.Now()
		f.calendar(firstHalf)
		for _, name := range names(6) {
			f.put(name, "1s", except("halves"))
		}
		members := []*member{f.member("a", nil).start(), f.member("b", nil).start()}
		allowed := func(at time.Time) bool { // the calendar changes every 3 min and 15 s
			changes := int(at.Sub(start) / (195 * time.Second))
			return (at.Second() >= 30) == (changes%2 == 0)
		}
		for round := range 5 {
			time.Sleep(start.Add(time.Duration(round+1)*195*time.Second + time.Millisecond).Sub(time.Now()))
			f.calendar([]string{secondHalf, firstHalf}[round%2])
		}
		time.Sleep(time.Minute)
		end := time.Now()
		for _, m := range members {
			m.halt()
		}
		for _, name := range names(6) {
			fired := map[time.Time]int{}
			for _, at := range f.times(name) {
				fired[at.UTC()]++
			}
			for at := start.Add(time.Second); at.Before(end.Add(-time.Second)); at = at.Add(time.Second) {
				want := 0
				if allowed(at) {
					want = 1
				}
				// At the instant of a change either calendar may decide.
				if n := fired[at.UTC()]; n != want && at.Sub(start)%(195*time.Second) > time.Second {
					t.Errorf("%s at %s fired %d times, want %d", name, at.UTC().Format("15:04:05"), n, want)
				}
			}
		}
	})
}

// TestAChangeInTheMiddleOfAClaimPlansAgain changes the calendar after a claim.
// The claimed firing is a promise and happens once; what follows it goes by
// the new calendar.
func TestAChangeInTheMiddleOfAClaimPlansAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		f.calendar(firstHalf)
		f.put("s", "10s", except("halves")) // 30, 40, 50 s
		m := f.member("a", nil)
		changed := false
		m.after = func(batch claim.Batch) {
			if len(batch.Claims) == 1 && batch.Claims[0].ScheduledAt.Second() == 40 && !changed {
				changed = true
				f.calendar(secondHalf)
			}
		}
		m.start()
		time.Sleep(90 * time.Second)
		m.halt()
		var got []string
		for _, at := range f.times("s") {
			got = append(got, at.UTC().Format("04:05"))
		}
		// 40 s is enqueued twice: to enqueue again is harmless, the ID is the same.
		if want := "00:30 00:40 00:40 01:00 01:10 01:20"; strings.Join(got, " ") != want {
			t.Errorf("enqueued %v, want %s", got, want)
		}
		entry, err := f.store.Get(t.Context(), "s")
		if err != nil || entry.Status.Fired != 5 {
			t.Errorf("fired %d times, %v, want 5", entry.Status.Fired, err)
		}
		if c := m.Counts(); c.Isolated != 0 || c.Released != 0 {
			t.Errorf("counts %+v, want nothing put aside or handed back", c)
		}
	})
}

// TestAStoreThatAlwaysAnswersCALIsNotAskedForEver wants that a claim is
// decided a few times and then waits.
func TestAStoreThatAlwaysAnswersCALIsNotAskedForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		f.calendar(firstHalf)
		f.put("s", "once:2000-01-01T00:00:40Z", except("halves"))
		m := f.member("a", nil)
		var calls atomic.Int64
		var relents atomic.Bool
		m.answer = func(_ claim.CompleteRequest, out *claim.CompleteResult) {
			if calls.Add(1); !relents.Load() {
				out.Outcomes = []claim.Outcome{claim.CompleteCalendar}
			}
		}
		m.start()
		time.Sleep(41 * time.Second)
		if n := calls.Load(); n < 4 || n > 150 {
			t.Errorf("%d completions in a second, want 4 to 150", n)
		}
		relents.Store(true)
		time.Sleep(30 * time.Second)
		m.halt()
		if n := m.Counts().Completed; n != 1 {
			t.Errorf("completed %d, want 1", n)
		}
	})
}

// TestAMissingCalendarPutsItsUserAside wants a clear reason, work that goes on
// for all others, and the user back once the calendar is there.
func TestAMissingCalendarPutsItsUserAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		f.calendar(firstHalf)
		f.put("broken", "1s", nil)
		f.put("fine", "1s", nil)
		f.put("user", "1s", except("halves"))
		m := f.member("a", nil)
		var mended atomic.Bool
		m.entry = func(id schedule.ID, e schedule.Entry) schedule.Entry {
			if id == "broken" && !mended.Load() {
				except("halvs")(&e.Schedule)
			}
			return e
		}
		m.start()
		time.Sleep(20 * time.Second)
		if n := len(f.of("broken")); n != 0 {
			t.Errorf("the schedule without its calendar fired %d times", n)
		}
		entry, err := f.store.Get(t.Context(), "broken")
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"broken", "except[0].calendar", `"halvs"`, `did you mean "halves"`} {
			if !strings.Contains(entry.Status.LastError, part) {
				t.Errorf("last error %q does not say %q", entry.Status.LastError, part)
			}
		}
		mended.Store(true)
		time.Sleep(70 * time.Second)
		m.halt()
		if n := len(f.of("broken")); n == 0 {
			t.Error("the schedule did not come back after its calendar did")
		}
		if n := len(f.of("fine")); n < 89 {
			t.Errorf("another schedule fired %d times in 90 s, want 89 and more", n)
		}
		if n := len(f.of("user")); n < 29 || n > 31 {
			t.Errorf("another user of calendars fired %d times in 90 s, want 30", n)
		}
	})
}
