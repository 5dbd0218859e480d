package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/scripts/lua"
)

// calendarVersionField is the field of the configuration that holds the
// version of the calendars.
const calendarVersionField = "calendars"

// Calendars returns all stored calendars and their version, 0 when none were
// ever stored. Completions state the version that they were planned with.
func (s *Store) Calendars(ctx context.Context) ([]schedule.Calendar, int64, error) {
	const doing = "read the calendars"
	pipe := s.client.TxPipeline()
	texts := pipe.HGetAll(ctx, s.keys.calendars())
	stored := pipe.HGet(ctx, s.keys.configuration(), calendarVersionField)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, 0, wrap(doing, err)
	}
	var all []schedule.Calendar
	for name, text := range texts.Val() {
		var calendar schedule.Calendar
		if err := json.Unmarshal([]byte(text), &calendar); err != nil {
			return nil, 0, fmt.Errorf("redisstore: %s: %q: %w", doing, name, err)
		}
		all = append(all, calendar)
	}
	version, _ := strconv.ParseInt(stored.Val(), 10, 64) // absent: 0
	return all, version, nil
}

// calendarsFor returns the stored calendars, nothing when no definition names
// one.
func (s *Store) calendarsFor(ctx context.Context, definitions ...schedule.Schedule) ([]schedule.Calendar, error) {
	for _, d := range definitions {
		if len(calendarNames(d)) > 0 {
			all, _, err := s.Calendars(ctx)
			return all, err
		}
	}
	return nil, nil
}

// PutCalendars replaces all calendars and returns their version. Every shard
// refuses completions that were planned with older ones from then on, and the
// pending times of the schedules that use one are planned again. When it
// returns an error, some may not have been: call it again with the same
// calendars. It returns *schedule.FieldErrors, joined, for calendars that are
// refused, and for one that is missing though a schedule uses it.
func (s *Store) PutCalendars(ctx context.Context, calendars []schedule.Calendar) (int64, error) {
	const doing = "replace the calendars"
	l, err := s.open(ctx)
	if err != nil {
		return 0, err
	}
	args := []any{rand.Text()}
	var refused []error
	for _, calendar := range calendars {
		refused = append(refused, calendar.Validate())
		text, err := json.Marshal(calendar)
		if err != nil {
			return 0, wrap(doing, err)
		}
		args = append(args, calendar.Name, string(text))
	}
	users, err := s.calendarUsers(ctx, l)
	if err != nil {
		return 0, err
	}
	for name := range users {
		if !slices.ContainsFunc(calendars, func(c schedule.Calendar) bool { return c.Name == name }) {
			refused = append(refused, &schedule.FieldError{Field: "calendars", Value: name, Allowed: "every calendar that a schedule uses",
				Hint: fmt.Sprintf("%q uses it", users[name][0])})
		}
	}
	if err := errors.Join(refused...); err != nil {
		return 0, err
	}
	answer, err := s.run(ctx, doing, lua.Calendars, []string{s.keys.configuration(), s.keys.calendars()}, args...)
	if err != nil {
		return 0, err
	}
	version, _ := answer.single.(int64)
	for shard := range l.keys {
		if _, err := s.run(ctx, doing, lua.Insist, l.keys[shard], version); err != nil {
			return 0, err
		}
	}
	return version, s.planAgain(ctx, l, users, calendars)
}

// calendarUsers returns the schedules that use each calendar.
func (s *Store) calendarUsers(ctx context.Context, l *layout) (map[string][]schedule.ID, error) {
	const page = 1000
	users := map[string][]schedule.ID{}
	for shard := range l.keys {
		for from := "[" + calendarMark; ; {
			texts, err := s.client.ZRangeByLex(ctx, l.keys[shard][keyLabel],
				&redis.ZRangeBy{Min: from, Max: "(" + beyondCalendars, Count: page}).Result()
			if err != nil {
				return nil, wrap("list the users of calendars", err)
			}
			for _, text := range texts {
				name, id := calendarOfMember(text)
				users[name] = append(users[name], id)
			}
			if len(texts) < page {
				break
			}
			from = "(" + texts[len(texts)-1]
		}
	}
	return users, nil
}

// planAgain moves the pending times of schedules whose calendars changed.
func (s *Store) planAgain(ctx context.Context, l *layout, users map[string][]schedule.ID, calendars []schedule.Calendar) error {
	done := map[schedule.ID]bool{}
	for _, ids := range users {
		for _, id := range ids {
			if done[id] {
				continue
			}
			done[id] = true
			if err := s.planOneAgain(ctx, l, id, calendars); err != nil {
				return err
			}
		}
	}
	return nil
}

// planOneAgain puts the definition that is stored; one that was deleted or
// cannot be used is left alone.
func (s *Store) planOneAgain(ctx context.Context, l *layout, id schedule.ID, calendars []schedule.Calendar) error {
	o, _, err := s.readOne(ctx, fmt.Sprintf("plan %q again", id), l, id)
	if err != nil || !o.exists() {
		return err
	}
	version := o.record.version
	p, err := s.preparePut(definitionOf(&o), schedule.PutOptions{IfVersion: &version}, calendars)
	if err != nil {
		return nil
	}
	if _, err = s.put(ctx, l, p); errors.Is(err, schedule.ErrConflict) {
		return nil // somebody put it meanwhile, with the new calendars
	}
	return err
}
