package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/scripts/lua"
)

// A kept is what some keys held. Hashes and sorted sets are enough here.
type kept struct {
	client redis.UniversalClient
	hashes map[string]map[string]string
	sets   map[string][]redis.Z
}

func keep(t *testing.T, client redis.UniversalClient, keys ...string) *kept {
	t.Helper()
	k := &kept{client: client, hashes: map[string]map[string]string{}, sets: map[string][]redis.Z{}}
	for _, key := range keys {
		if client.Type(t.Context(), key).Val() == "zset" {
			k.sets[key] = client.ZRangeWithScores(t.Context(), key, 0, -1).Val()
		} else {
			k.hashes[key] = client.HGetAll(t.Context(), key).Val()
		}
	}
	return k
}

// restore lets the keys go back, as a failover to a replica that lagged does.
func (k *kept) restore(t *testing.T) {
	t.Helper()
	var err error
	for key, fields := range k.hashes {
		err = errors.Join(err, k.client.Del(t.Context(), key).Err())
		if len(fields) > 0 {
			err = errors.Join(err, k.client.HSet(t.Context(), key, fields).Err())
		}
	}
	for key, members := range k.sets {
		err = errors.Join(err, k.client.Del(t.Context(), key).Err(), k.client.ZAdd(t.Context(), key, members...).Err())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A backRig is a namespace with users of the calendars "c" and "d" in each
// shard, and with what its calendars were before they changed twice.
type backRig struct {
	*bench
	control *kept
	users   []schedule.ID
}

func newBackRig(t *testing.T, b *bench) *backRig {
	r := &backRig{bench: b}
	r.calendar("c", 1)
	r.calendar("d", 1)
	for i := range 12 {
		id := schedule.ID(fmt.Sprintf("user-%02d", i))
		r.users = append(r.users, id)
		r.put(r.user(id, []string{"c", "d"}[i%2]))
	}
	r.control = keep(t, b.client, r.ctl("conf"), r.ctl("cal"), r.ctl("calq"))
	r.calendar("c", 1, 2, 3)
	r.calendar("d", 1, 2, 3)
	return r
}

func (r *backRig) ctl(name string) string { return "belfry:{" + r.Namespace() + ":ctl}:" + name }

func (r *backRig) user(id schedule.ID, calendar string) schedule.Schedule {
	return schedule.Schedule{ID: id, Expression: "0 12 * * *", Type: "t", Except: []schedule.Window{{Calendar: calendar}}}
}

// noon is that of a day; 1 is the one that the clock stands in.
func (r *backRig) noon(day int) time.Time {
	return r.clock.Now().Truncate(24*time.Hour).AddDate(0, 0, day-1).Add(12 * time.Hour)
}

func (r *backRig) holding(name string, days ...int) schedule.Calendar {
	c := schedule.Calendar{Name: name}
	for _, day := range days {
		c.Dates = append(c.Dates, r.noon(day).Format(time.DateOnly))
	}
	return c
}

func (r *backRig) calendar(name string, days ...int) schedule.CalendarResult {
	r.t.Helper()
	result, err := r.PutCalendars(r.t.Context(), []schedule.Calendar{r.holding(name, days...)}, schedule.CalendarOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return result
}

// heal wants that so many users move.
func (r *backRig) heal(moved int) redisstore.CalendarsHealed {
	r.t.Helper()
	healed, err := r.HealCalendars(r.t.Context())
	if err != nil || healed.Moved != moved {
		r.t.Errorf("HealCalendars = %+v, %v, want %d moved", healed, err, moved)
	}
	return healed
}

// sound wants that the store and all shards agree, and that nothing is left to
// do.
func (r *backRig) sound() {
	r.t.Helper()
	r.check()
	if left := r.client.HLen(r.t.Context(), r.ctl("calq")).Val(); left != 0 {
		r.t.Errorf("%d changes are noted yet", left)
	}
	if healed, err := r.HealCalendars(r.t.Context()); err != nil || healed != (redisstore.CalendarsHealed{}) {
		r.t.Errorf("HealCalendars again = %+v, %v, want nothing", healed, err)
	}
}

// waits wants that all users of a calendar wait for the noon of a day.
func (r *backRig) waits(calendar string, day int) {
	r.t.Helper()
	ids, err := r.CalendarUsers(r.t.Context(), calendar)
	if err != nil || len(ids) != 6 {
		r.t.Fatalf("CalendarUsers(%s) = %v, %v", calendar, ids, err)
	}
	for _, id := range ids {
		if entry, err := r.Get(r.t.Context(), id); err != nil || !entry.Status.NextAt.Equal(r.noon(day)) {
			r.t.Errorf("%s waits for %s, %v, want %s", id, entry.Status.NextAt, err, r.noon(day))
		}
	}
}

// violations are those of calendars, by shard.
func (r *backRig) violations() []string {
	r.t.Helper()
	found, err := r.Check(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	var all []string
	for _, v := range found {
		if v.Kind != redisstore.ViolationCalendars {
			r.t.Errorf("another violation: %s", v)
		}
		all = append(all, v.String())
	}
	return all
}

func backEach(t *testing.T, run func(t *testing.T, r *backRig)) {
	each(t, func(t *testing.T, b *bench) { run(t, newBackRig(t, b)) })
}

// TestCalendarsThatWentBack: what is stored counts, with a version above what
// any shard insists on.
func TestCalendarsThatWentBack(t *testing.T) {
	backEach(t, func(t *testing.T, r *backRig) {
		r.waits("c", 4)
		r.control.restore(t)
		found := r.violations()
		if len(found) != 3 || !strings.Contains(found[1], "shard 01: it insists on version 4 of the calendars, and 2 is stored") {
			t.Errorf("Check = %q", found)
		}
		healed := r.heal(12)
		if want := (redisstore.CalendarsHealed{Before: 2, Insisted: 4, Version: 5, Users: 12, Moved: 12}); healed != want {
			t.Errorf("healed %+v, want %+v", healed, want)
		}
		r.waits("c", 2)
		r.waits("d", 2)
		r.sound()
		// A claim of a user can be completed again, with these calendars only.
		r.clock.Add(r.noon(2).Sub(r.clock.Now()))
		for shard := range 3 {
			batch, err := r.ClaimDue(t.Context(), claim.ClaimRequest{Shard: shard, Limit: 1, TTL: time.Minute, AuditAfter: time.Minute})
			if err != nil || len(batch.Claims) != 1 || batch.Calendars != 5 {
				t.Fatalf("ClaimDue(%d) = %+v, %v", shard, batch, err)
			}
			c := batch.Claims[0]
			for calendars, want := range []claim.Outcome{4: claim.CompleteCalendar, 5: claim.CompleteOK} {
				if calendars < 4 {
					continue
				}
				result, err := r.Complete(t.Context(), claim.CompleteRequest{Calendars: int64(calendars), Completions: []claim.Completion{{
					Schedule: c.Schedule, Token: c.Token, ScheduledAt: c.ScheduledAt, Decision: claim.DecideEnqueued, Next: r.noon(2)}}})
				if err != nil || result.Outcomes[0] != want {
					t.Errorf("Complete with version %d = %v, %v, want %v", calendars, result.Outcomes, err, want)
				}
			}
		}
	})
}

// TestAShardThatWentBack to before a change waits for times of the old
// calendars until it is healed.
func TestAShardThatWentBack(t *testing.T) {
	backEach(t, func(t *testing.T, r *backRig) {
		before := keep(t, r.client, r.shardKey(1, "st"), r.shardKey(1, "due"), r.shardKey(1, "meta"))
		r.calendar("c", 1, 2)
		r.calendar("d", 1, 2)
		r.waits("c", 3)
		before.restore(t)
		if found := r.violations(); len(found) != 1 || !strings.Contains(found[0], "shard 01: it knows version 4 of the calendars, and 6 is stored") {
			t.Errorf("Check = %q", found)
		}
		if healed := r.heal(len(before.hashes[r.shardKey(1, "st")])); healed.Version != 7 || healed.Users != 12 {
			t.Errorf("healed %+v", healed)
		}
		r.waits("c", 3)
		r.waits("d", 3)
		r.sound()
	})
}

// TestAPutHealsCalendarsThatWentBack: its version is above what shards insist
// on, and users of other calendars are planned again too.
func TestAPutHealsCalendarsThatWentBack(t *testing.T) {
	backEach(t, func(t *testing.T, r *backRig) {
		r.control.restore(t)
		stored, wrong := int64(2), int64(4)
		change := []schedule.Calendar{r.holding("c", 1, 2)}
		if _, err := r.PutCalendars(t.Context(), change, schedule.CalendarOptions{IfVersion: &wrong}); !errors.Is(err, schedule.ErrConflict) {
			t.Errorf("PutCalendars for the forgotten version = %v, want ErrConflict", err)
		}
		if found := r.violations(); len(found) != 3 {
			t.Errorf("a put that was refused changed something: %q", found)
		}
		result, err := r.PutCalendars(t.Context(), change, schedule.CalendarOptions{IfVersion: &stored})
		if err != nil || result.Version != 6 || result.Users != 12 || result.Moved != 12 || result.Actions[0] != schedule.CalendarUpdated {
			t.Errorf("PutCalendars = %+v, %v", result, err)
		}
		r.waits("c", 3)
		r.waits("d", 2)
		r.sound()
	})
}

// TestWritersHealCalendarsThatWentBack where no worker is: no plan of theirs would
// be accepted.
func TestWritersHealCalendarsThatWentBack(t *testing.T) {
	for name, write := range map[string]func(r *backRig) error{
		"put": func(r *backRig) error {
			_, err := r.Put(r.t.Context(), r.user("late", "c"), schedule.PutOptions{})
			return err
		},
		"put many": func(r *backRig) error {
			results, err := r.PutMany(r.t.Context(), []schedule.Schedule{r.user("late", "c")}, schedule.PutOptions{})
			return errors.Join(err, results[0].Err)
		},
		"resume": func(r *backRig) error {
			_, err := r.Resume(r.t.Context(), r.users[0], schedule.ResumeOptions{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			backEach(t, func(t *testing.T, r *backRig) {
				if _, err := r.Pause(t.Context(), r.users[0], schedule.PauseOptions{}); err != nil {
					t.Fatal(err)
				}
				r.control.restore(t)
				if err := write(r); err != nil {
					t.Errorf("%s = %v", name, err)
				}
				r.waits("d", 2)
				r.sound()
			})
		})
	}
}

// TestADeletionHealsCalendarsThatWentBack, too.
func TestADeletionHealsCalendarsThatWentBack(t *testing.T) {
	backEach(t, func(t *testing.T, r *backRig) {
		for _, id := range r.users {
			if entry, err := r.Get(t.Context(), id); err != nil {
				t.Fatal(err)
			} else if entry.Schedule.Except[0].Calendar == "c" {
				if _, err := r.Remove(t.Context(), id, schedule.RemoveOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		r.control.restore(t)
		result, err := r.DeleteCalendar(t.Context(), "c", schedule.CalendarOptions{})
		if err != nil || result.Version != 6 {
			t.Errorf("DeleteCalendar = %+v, %v", result, err)
		}
		r.waits("d", 2)
		r.sound()
	})
}

// TestADeletionThatCameBack: a mark of a calendar that is to go stands in what
// the store went back to.
func TestADeletionThatCameBack(t *testing.T) {
	backEach(t, func(t *testing.T, r *backRig) {
		r.control.restore(t)
		unused := `{"name":"gone","dates":["2030-01-01"]}`
		err := errors.Join(r.client.HSet(t.Context(), r.ctl("cal"), "gone", unused).Err(),
			r.client.HSet(t.Context(), r.ctl("calq"), "gone", fmt.Sprintf("2|%d|delete", r.clock.Now().UnixMilli()),
				"c", fmt.Sprintf("1|%d|delete", r.clock.Now().UnixMilli())).Err())
		if err != nil {
			t.Fatal(err)
		}
		r.heal(12)
		all, version, err := r.Calendars(t.Context())
		if err != nil || len(all) != 2 || all[0].Name != "c" || all[1].Name != "d" || version != 5 {
			t.Errorf("Calendars = %+v, %d, %v, want c, which has users, and d", all, version, err)
		}
		r.waits("c", 2)
		r.put(r.user("late", "c")) // the mark is gone
		r.sound()
	})
}

// TestAllCalendarsForgotten: their users wait for somebody who puts them again,
// and nothing else stands still.
func TestAllCalendarsForgotten(t *testing.T) {
	backEach(t, func(t *testing.T, r *backRig) {
		r.client.Del(t.Context(), r.ctl("cal"))
		r.client.HDel(t.Context(), r.ctl("conf"), "calendars")
		if found := r.violations(); len(found) != 3 {
			t.Errorf("Check = %q", found)
		}
		if healed := r.heal(0); healed.Version != 5 || healed.Before != 0 {
			t.Errorf("healed %+v", healed)
		}
		r.sound()
		r.waits("c", 4)
		// One that died after it raised the version is followed.
		r.client.HSet(t.Context(), r.ctl("conf"), "calendars", 6)
		if healed := r.heal(0); healed.Version != 6 {
			t.Errorf("healed %+v", healed)
		}
		r.sound()
		result, err := r.PutCalendars(t.Context(), []schedule.Calendar{r.holding("c", 1), r.holding("d", 1)}, schedule.CalendarOptions{})
		if err != nil || result.Version != 7 || result.Moved != 12 {
			t.Errorf("PutCalendars = %+v, %v", result, err)
		}
		r.waits("c", 2)
		r.sound()
	})
}

// TestAVersionOfCalendarsThatIsNone is dropped: no script can compare it.
func TestAVersionOfCalendarsThatIsNone(t *testing.T) {
	backEach(t, func(t *testing.T, r *backRig) {
		for i, text := range []string{"x", "-1", "9007199254740993"} {
			r.client.HSet(t.Context(), r.shardKey(1, "meta"), "cal", text)
			if found := r.violations(); len(found) != 1 || !strings.Contains(found[0], "shard 01: meta holds a version of the calendars that is none") {
				t.Errorf("Check = %q", found)
			}
			found, err := r.RepairAll(t.Context())
			if err != nil || len(found) != 1 || found[0].String() != "calendars in conf" {
				t.Errorf("RepairAll = %v, %v", found, err)
			}
			if _, version, err := r.Calendars(t.Context()); err != nil || version != int64(5+i) {
				t.Errorf("version %d, %v", version, err)
			}
			r.sound()
		}
	})
}

// TestManyHealAtOnce, beside puts. Whoever is overtaken leaves the rest to the
// others.
func TestManyHealAtOnce(t *testing.T) {
	backEach(t, func(t *testing.T, r *backRig) {
		for round := range 5 {
			r.control.restore(t)
			var group sync.WaitGroup
			for range 4 {
				group.Go(func() {
					if _, err := r.HealCalendars(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			for _, name := range []string{"c", "d"} {
				group.Go(func() {
					if _, err := r.PutCalendars(t.Context(), []schedule.Calendar{r.holding(name, 1, 2)}, schedule.CalendarOptions{}); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			r.clock.Add(11 * time.Second) // a note that another wrote is left to whoever finds it old
			if err := r.FinishCalendars(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, version, err := r.Calendars(t.Context())
			if least := int64(5); err != nil || version < least {
				t.Errorf("round %d: version %d, %v, want %d at least", round, version, err, least)
			}
			r.waits("c", 3)
			r.waits("d", 3)
			r.sound()
		}
	})
}

// TestAHealSurvivesItsDeath lets a healer die after each of its calls.
func TestAHealSurvivesItsDeath(t *testing.T) {
	for after := int64(0); ; after++ {
		r := newCalendarRig(t)
		key := func(name string) string { return "belfry:{" + r.store.Namespace() + ":ctl}:" + name }
		r.dying.left.Store(1 << 30)
		before := keep(t, r.client, key("conf"), key("cal"))
		if _, err := r.put(r.store, "2030-01-01"); err != nil || r.moved() != len(r.users) {
			t.Fatalf("%d moved, %v", r.moved(), err)
		}
		before.restore(t)
		r.dying.left.Store(after)
		_, err := r.mortal.HealCalendars(t.Context())
		if err == nil && after < 8 {
			t.Fatalf("a heal took %d calls: too few to show anything", after)
		}
		r.now = r.now.Add(11 * time.Second)
		_, err1 := r.store.HealCalendars(t.Context())
		if err := errors.Join(err1, r.store.FinishCalendars(t.Context())); err != nil {
			t.Fatal(err)
		}
		if n := r.moved(); n != 0 {
			t.Errorf("death after %d calls: %d users wait as the forgotten calendar had it", after, n)
		}
		found, checkErr := r.store.Check(t.Context())
		if checkErr != nil || len(found) > 0 {
			t.Errorf("death after %d calls: Check = %v, %v", after, found, checkErr)
		}
		if err == nil {
			break
		}
	}
}

// TestCalendarsThatGoBackDuringAChange are healed by the change itself, as soon
// as it tells the shards.
func TestCalendarsThatGoBackDuringAChange(t *testing.T) {
	backEach(t, func(t *testing.T, r *backRig) {
		forgotten := &interjection{script: lua.Insist, act: func() {
			r.client.HSet(t.Context(), r.shardKey(2, "meta"), "cal", 9)
		}}
		r.client.(interface{ AddHook(hook redis.Hook) }).AddHook(forgotten)
		result := r.calendar("c", 1)
		if result.Version != 10 || result.Users != 12 || result.Moved != 6 {
			t.Errorf("PutCalendars = %+v", result)
		}
		r.waits("c", 2)
		r.waits("d", 4)
		r.sound()
	})
}

// TestKeepConfiguration: a store in use knows how many shards there are, also
// when the namespace forgot it.
func TestKeepConfiguration(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		conf := "belfry:{" + b.Namespace() + ":ctl}:conf"
		keeps := func(want bool, wantErr error) {
			t.Helper()
			if lost, err := b.KeepConfiguration(t.Context()); lost != want || !errors.Is(err, wantErr) {
				t.Errorf("KeepConfiguration = %t, %v, want %t, %v", lost, err, want, wantErr)
			}
		}
		keeps(false, nil)
		if n := b.client.Exists(t.Context(), conf).Val(); n != 0 {
			t.Error("it created a namespace that nobody uses")
		}
		b.put(every10("a"))
		keeps(false, nil)
		b.client.Del(t.Context(), conf)
		keeps(true, nil)
		if shards := b.client.HGet(t.Context(), conf, "shards").Val(); shards != "3" {
			t.Errorf("%s shards are stored, want 3", shards)
		}
		keeps(false, nil)
		b.client.HSet(t.Context(), conf, "shards", 8)
		keeps(false, redisstore.ErrOtherShards)
		b.client.HSet(t.Context(), conf, "shards", 3)
	})
}
