package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/scripts/lua"
)

// lastCalendars bounds versions of the calendars: no store sees so many
// changes, and scripts can count above it.
const lastCalendars = 1 << 52

// calendarField is the field of a shard's meta that holds the version that the
// shard insists on.
const calendarField = "cal"

// A standing is what the shards know of the calendars beside what is stored.
type standing struct {
	settled   int64   // a version that all shards were told of; unknown while a change is under way
	stored    int64   // the version, looked at after the shards
	calendars int64   // how many are stored
	insisted  []int64 // by shard: the version that it insists on; unknown when that cannot be read
	unusable  []int   // shards that insist on what is no version
}

// unknown stands for the version of a shard that cannot be read.
const unknown = -1

// ahead returns the greatest version that a shard insists on.
func (st *standing) ahead() int64 { return slices.Max(st.insisted) }

// forgot reports whether a shard that insists on a version was told of a later
// one: it went back.
func (st *standing) forgot(insisted int64) bool { return insisted != unknown && insisted < st.settled }

func (st *standing) sound() bool {
	return st.ahead() <= st.stored && !slices.ContainsFunc(st.insisted, st.forgot)
}

// calendarStanding looks at the calendars and all shards. The order is what
// makes it right beside a change, which stores the version first, then tells
// the shards, and strikes its note out last.
func (s *Store) calendarStanding(ctx context.Context, l *layout) (standing, error) {
	st := standing{insisted: make([]int64, len(l.keys))}
	pipe := s.client.Pipeline()
	stored := pipe.HGet(ctx, s.keys.configuration(), calendarVersionField)
	changes := pipe.HLen(ctx, s.keys.calendarChanges())
	calendars := pipe.HLen(ctx, s.keys.calendars())
	if _, err := pipe.Exec(ctx); err != nil && stored.Err() != redis.Nil {
		return standing{}, err
	}
	st.stored, st.settled, st.calendars = calendarVersion(stored.Val()), unknown, calendars.Val()
	if changes.Val() == 0 {
		st.settled = st.stored
	}
	if err := changes.Err(); err != nil {
		return standing{}, err
	}
	pipe = s.client.Pipeline()
	told := make([]*redis.StringCmd, len(l.keys))
	for shard := range l.keys {
		told[shard] = pipe.HGet(ctx, l.keys[shard][keyMeta], calendarField)
	}
	_, _ = pipe.Exec(ctx) // each answer is looked at below
	for shard, cmd := range told {
		text, err := cmd.Result()
		switch {
		case err == redis.Nil:
		case isWrongType(err):
			st.insisted[shard] = unknown
		case err != nil:
			return standing{}, err
		default:
			st.insisted[shard] = calendarVersion(text)
			if st.insisted[shard] == unknown {
				st.unusable = append(st.unusable, shard)
			}
		}
	}
	if st.ahead() > st.stored { // a change may have begun since
		text, err := s.client.HGet(ctx, s.keys.configuration(), calendarVersionField).Result()
		if err != nil && err != redis.Nil {
			return standing{}, err
		}
		st.stored = calendarVersion(text)
	}
	return st, nil
}

// calendarVersion reads a version; absent is 0.
func calendarVersion(text string) int64 {
	if text == "" {
		return 0
	}
	version, err := strconv.ParseInt(text, 10, 64)
	if err != nil || version < 0 || version > lastCalendars {
		return unknown
	}
	return version
}

// CalendarsHealed says what HealCalendars did. The zero value is nothing.
type CalendarsHealed struct {
	Before   int64 // the version that was stored
	Insisted int64 // the greatest that a shard insisted on
	Version  int64 // what is stored now; 0: nothing was wrong
	Users    int   // schedules that were looked at
	Moved    int   // of those, whose pending scheduled time is another now
}

// HealCalendars puts right what a failover of one node of several leaves: the
// calendars went back to before a change that shards on other nodes know of, and
// these refuse whatever is planned with the calendars that are stored; or a shard
// went back, whose schedules wait for times of older calendars. The stored
// calendars get a version above what any shard knows, and all their users are
// planned again. It costs one command for each shard when nothing is wrong.
// Several may heal at once. What a forgotten change held is lost: put the
// calendars again.
func (s *Store) HealCalendars(ctx context.Context) (CalendarsHealed, error) {
	l, err := s.peek(ctx)
	if err != nil {
		return CalendarsHealed{}, err
	}
	st, err := s.calendarStanding(ctx, l)
	if err != nil {
		return CalendarsHealed{}, wrap("compare what shards know of calendars", err)
	}
	if err := s.dropUnusable(ctx, l, st.unusable); err != nil {
		return CalendarsHealed{}, err
	}
	if st.sound() && len(st.unusable) == 0 {
		return CalendarsHealed{}, nil
	}
	healed := CalendarsHealed{Before: st.stored, Insisted: st.ahead(), Version: st.stored}
	if st.calendars == 0 && healed.Insisted <= st.stored { // nobody to plan again
		_, err := s.tellShards(ctx, l, st.stored)
		return healed, err
	}
	notes, version, err := s.raiseCalendars(ctx, st.stored, max(st.stored, healed.Insisted))
	if err != nil {
		return CalendarsHealed{}, err
	}
	if len(notes) == 0 && (st.calendars > 0 || version <= healed.Insisted) {
		return CalendarsHealed{}, nil // another was first, and goes on
	}
	result := schedule.CalendarResult{Version: version}
	if len(notes) == 0 {
		_, err = s.tellShards(ctx, l, version)
	} else {
		_, err = s.carryOut(ctx, notes, &result)
	}
	healed.Version, healed.Users, healed.Moved = result.Version, result.Users, result.Moved
	return healed, err
}

// healAttempt is after how many attempts calendars may be why a plan is refused
// again and again.
const healAttempt = 5

// healAfter heals calendars once among the attempts to write a plan that was made
// with some. Whether that helped the next attempt shows.
func (s *Store) healAfter(ctx context.Context, attempt int, definition schedule.Schedule) {
	if attempt == healAttempt && len(definition.CalendarNames()) > 0 {
		_, _ = s.HealCalendars(ctx)
	}
}

// dropUnusable has shards forget what they insist on where that is no version:
// no script could compare it. They are told anew then.
func (s *Store) dropUnusable(ctx context.Context, l *layout, shards []int) error {
	for _, shard := range shards {
		if err := s.client.HDel(ctx, l.keys[shard][keyMeta], calendarField).Err(); err != nil {
			return wrap("drop a version of calendars that is none", err)
		}
	}
	return nil
}

// raiseCalendars gives the calendars a version above the given one and notes all
// of them as changed, unless another version is stored than the one that was
// seen. It returns the notes, none when nothing was done, and what is stored.
func (s *Store) raiseCalendars(ctx context.Context, seen, above int64) (map[string]change, int64, error) {
	keys := []string{s.keys.configuration(), s.keys.calendars(), s.keys.calendarChanges()}
	answer, err := s.run(ctx, "raise the version of the calendars", lua.CalendarsRaise, keys, s.options.Wall().UnixMilli(), max(0, seen), above)
	if err != nil {
		return nil, 0, err
	}
	version, notes := answer.number(0), map[string]change{}
	for i := 1; i < len(answer.values); i += 2 {
		notes[answer.text(i)] = change(answer.text(i + 1))
	}
	return notes, version, answer.err
}

// raiseForChange is raiseCalendars where a change of calendars needs it: its own
// version would be one that shards know already, with other calendars. It
// returns the notes, and the options as they must be after it.
func (s *Store) raiseForChange(ctx context.Context, options schedule.CalendarOptions) (map[string]change, schedule.CalendarOptions, error) {
	l, err := s.open(ctx)
	if err != nil {
		return nil, options, err
	}
	st, err := s.calendarStanding(ctx, l)
	if err != nil {
		return nil, options, wrap("compare what shards know of calendars", err)
	}
	if st.sound() || options.IfVersion != nil && *options.IfVersion != st.stored {
		return nil, options, nil
	}
	above := max(st.stored, st.ahead())
	notes, version, err := s.raiseCalendars(ctx, st.stored, above)
	if err == nil && options.IfVersion != nil && len(notes) > 0 {
		options.IfVersion = &version
	}
	return notes, options, err
}

// tellShards has all shards refuse what was planned with calendars before a
// version. It returns the greatest that a shard insists on then, which is
// another only when the calendars went back.
func (s *Store) tellShards(ctx context.Context, l *layout, version int64) (int64, error) {
	greatest := int64(0)
	for shard := range l.keys {
		answer, err := s.run(ctx, "tell a shard of changed calendars", lua.Insist, l.keys[shard], version)
		if err != nil {
			return 0, err
		}
		one := reply{values: []any{answer.single}}
		greatest = max(greatest, one.number(0))
		if one.err != nil || greatest > lastCalendars {
			return 0, fmt.Errorf("redisstore: shard %02d insists on version %v of the calendars, which is none", shard, answer.single)
		}
	}
	return greatest, nil
}

// informShards tells the shards of the stored calendars, and returns these and
// the changes that are to be carried out: all calendars when the store went back
// meanwhile.
func (s *Store) informShards(ctx context.Context, l *layout, open map[string]change, result *schedule.CalendarResult) (almanac, map[string]change, error) {
	for {
		all, err := s.readCalendars(ctx)
		if err != nil {
			return almanac{}, nil, err
		}
		insisted, err := s.tellShards(ctx, l, all.version)
		if err != nil || insisted <= all.version {
			return all, open, err
		}
		notes, version, err := s.raiseCalendars(ctx, all.version, insisted)
		if err != nil {
			return almanac{}, nil, err
		}
		result.Version = max(result.Version, version)
		if len(notes) > 0 {
			open = notes // with what is left of the others
		}
	}
}

// checkCalendars looks for shards that know another version of the calendars
// than the one that is stored.
func (s *Store) checkCalendars(ctx context.Context, l *layout) ([]Violation, error) {
	var suspect []Violation
	for look := range checkLooks {
		st, err := s.calendarStanding(ctx, l)
		if err != nil {
			return nil, err
		}
		found := st.violations()
		if look > 0 {
			found = slices.DeleteFunc(found, func(v Violation) bool { return !slices.Contains(suspect, v) })
		}
		if suspect = found; len(found) == 0 {
			break
		}
	}
	return suspect, nil
}

func (st *standing) violations() []Violation {
	var all []Violation
	add := func(shard int, text string) {
		all = append(all, Violation{Kind: ViolationCalendars, Shard: shard, Text: text})
	}
	for shard, version := range st.insisted {
		switch {
		case version > st.stored:
			add(shard, fmt.Sprintf("it insists on version %d of the calendars, and %d is stored: the changes between are lost, and its schedules with calendars stand still", version, max(0, st.stored)))
		case st.forgot(version):
			add(shard, fmt.Sprintf("it knows version %d of the calendars, and %d is stored: its schedules may wait for times of older calendars", version, st.stored))
		}
	}
	for _, shard := range st.unusable {
		add(shard, "meta holds a version of the calendars that is none: its schedules with calendars stand still")
	}
	return all
}
