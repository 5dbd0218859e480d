package redisstore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// calendarsFor returns the stored calendars, nothing when no definition names
// one.
func (s *Store) calendarsFor(ctx context.Context, definitions ...schedule.Schedule) ([]schedule.Calendar, error) {
	for _, d := range definitions {
		if len(calendarNames(d)) > 0 {
			return s.Calendars(ctx)
		}
	}
	return nil, nil
}

// Calendars returns all stored calendars.
func (s *Store) Calendars(ctx context.Context) ([]schedule.Calendar, error) {
	const doing = "read the calendars"
	stored, err := s.client.HGetAll(ctx, s.keys.calendars()).Result()
	if err != nil {
		return nil, wrap(doing, err)
	}
	var all []schedule.Calendar
	for name, text := range stored {
		var calendar schedule.Calendar
		if err := json.Unmarshal([]byte(text), &calendar); err != nil {
			return nil, fmt.Errorf("redisstore: %s: %q: %w", doing, name, err)
		}
		all = append(all, calendar)
	}
	return all, nil
}
