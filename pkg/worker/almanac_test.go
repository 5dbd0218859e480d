package worker

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A shelf is a source of calendars and of one definition, which counts.
type shelf struct {
	mu        sync.Mutex
	version   int64
	calendar  schedule.Calendar
	takes     time.Duration
	calendars int
	edit      int64
	every     time.Duration
	entries   int
}

func (s *shelf) Calendars(ctx context.Context) ([]schedule.Calendar, int64, error) {
	time.Sleep(s.takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calendars++
	return []schedule.Calendar{s.calendar}, s.version, ctx.Err()
}

func (s *shelf) GetMany(_ context.Context, ids []schedule.ID) (map[schedule.ID]schedule.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries++
	definition := schedule.Schedule{ID: ids[0], Type: "x", Specs: []schedule.SpecDefinition{{Every: s.every}},
		Except: []schedule.Window{{Calendar: "c"}}}
	entry := schedule.Entry{Schedule: definition}
	entry.Status.Generation, entry.Status.Version = 1, s.edit
	return map[schedule.ID]schedule.Entry{ids[0]: entry}, nil
}

// set is a change of the calendar, or a store that goes back.
func (s *shelf) set(version int64, date string) {
	s.version, s.calendar = version, schedule.Calendar{Name: "c", Dates: []string{date}}
}

// What a worker knows of the calendars is what the store holds, whether that
// went on or back.
func TestAlmanacFollowsTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		a := newCache(s, s).almanac
		read := func(wanted, version int64, date string, reads int) {
			t.Helper()
			time.Sleep(time.Millisecond)
			got, err := a.read(t.Context(), wanted)
			if err != nil || got.version != version || date != "" && got.all[0].Dates[0] != date {
				t.Errorf("read(%d) = %+v, %v, want version %d and %s", wanted, got, err, version, date)
			}
			if s.calendars != reads {
				t.Errorf("%d reads, want %d", s.calendars, reads)
			}
		}
		s.set(6, "2030-01-01")
		read(0, 0, "", 0)
		read(6, 6, "2030-01-01", 1)
		read(6, 6, "2030-01-01", 1)
		s.set(5, "2030-01-05") // it went back
		read(0, 6, "2030-01-01", 1)
		read(5, 5, "2030-01-05", 2)
		s.set(7, "2030-01-07") // shards are not told yet
		read(math.MaxInt64, 7, "2030-01-07", 3)
		read(5, 7, "2030-01-07", 4)
		s.set(7, "2030-01-08") // it went back, and another change got the version
		read(7, 7, "2030-01-07", 4)
		time.Sleep(almanacAge)
		read(7, 7, "2030-01-08", 5)
	})
}

// Loops that need newer calendars at one time wait for one answer.
func TestAlmanacReadsOnceForMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{takes: time.Second}
		s.set(3, "2030-01-01")
		a := newCache(s, s).almanac
		var group sync.WaitGroup
		for i := range 5 {
			group.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				if got, err := a.read(t.Context(), 4); err != nil || got.version != 3 {
					t.Errorf("read = %+v, %v", got, err)
				}
			})
		}
		group.Wait()
		// The first one; and one for all who came while it was under way, since
		// that may have been answered before they came.
		if s.calendars != 2 {
			t.Errorf("%d reads, want 2", s.calendars)
		}
	})
}

// A worker does not go on with an edit that the store has forgotten.
func TestDefinitionsFollowTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{edit: 6, every: time.Minute}
		s.set(1, "2030-01-01")
		c := newCache(s, s)
		load := func(version int64, every time.Duration, reads int) {
			t.Helper()
			claims := []claim.Claim{{Schedule: "a", Generation: 1, Version: version}}
			got, _, err := c.load(t.Context(), claims, s.version)
			if err != nil || got[0] == nil || got[0].err != nil {
				t.Fatalf("load = %+v, %v", got, err)
			}
			first, _ := got[0].compiled.Next(time.Now())
			if second, ok := got[0].compiled.Next(first); !ok || second.Sub(first) != every {
				t.Errorf("the times are %s and %s, want %s between", first, second, every)
			}
			if s.entries != reads {
				t.Errorf("%d reads, want %d", s.entries, reads)
			}
		}
		load(6, time.Minute, 1)
		load(6, time.Minute, 1)
		s.edit, s.every = 5, time.Second // it went back
		load(5, time.Second, 2)
		load(5, time.Second, 2)
		s.edit, s.every = 6, time.Hour // edited again
		load(6, time.Hour, 3)
		load(5, time.Hour, 4) // claimed before, and not what is known
		load(6, time.Hour, 4)
		s.every = 2 * time.Second // it went back, and another edit got the version
		load(6, time.Hour, 4)
		time.Sleep(definitionAge)
		load(6, 2*time.Second, 5)
		s.set(2, "2030-02-01") // a calendar is edited
		load(6, 2*time.Second, 6)
	})
}
