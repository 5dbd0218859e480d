package memstore

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

const (
	defaultPage = 100
	maxPage     = 1000
)

// entry returns the schedule as users see it.
func (r *record) entry() schedule.Entry {
	status := schedule.Status{
		Generation: r.generation, Version: r.version, State: r.state(), NextAt: r.next,
		CreatedAt: r.created, UpdatedAt: r.updated,
		PausedBy: r.pausedBy, PauseReason: r.pauseReason, PausedAt: r.pausedAt,
		RunCount: r.runs, FailCount: r.failures, ConsecutiveFails: r.consecutive,
		Claimed: r.token != 0, Open: len(r.open), Buffered: len(r.buffer), Fired: r.fired,
		Verdicts: slices.Clone(r.ranges), Skips: r.skipTimes(),
	}
	r.lastRun(&status)
	if !r.next.IsZero() {
		status.DueAt = later(r.next, r.notBefore)
	}
	switch r.flag {
	case paused:
		status.PausedUntil = r.until
	case disabled:
		status.ProbeAt = r.until
	}
	return schedule.Entry{Schedule: r.definition(), Status: status}
}

// lastRun fills in the last run, or the one that began since.
func (r *record) lastRun(status *schedule.Status) {
	switch r.last.Outcome {
	case "":
	case claim.OutcomeSucceeded, claim.OutcomeCancelled:
		status.LastStatus = schedule.LastCompleted
	default:
		status.LastStatus = schedule.LastFailed
	}
	status.LastRunAt, status.LastDuration, status.LastError = r.last.Started, r.last.Duration, r.last.Error
	if r.enqueueError != "" {
		status.LastError = r.enqueueError
	}
	if !r.note.started.IsZero() {
		status.LastRunAt, status.LastDuration = r.note.started, 0
	}
	if r.note.status != schedule.LastNone {
		status.LastStatus = r.note.status
	}
}

// List returns a page in ascending order of ID.
func (s *Store) List(ctx context.Context, options schedule.ListOptions) (schedule.Page, error) {
	if options.Limit < 0 || options.Limit > maxPage {
		return schedule.Page{}, &schedule.FieldError{Field: "limit", Value: strconv.Itoa(options.Limit),
			Allowed: "0 (" + strconv.Itoa(defaultPage) + ") to " + strconv.Itoa(maxPage)}
	}
	if options.Limit == 0 {
		options.Limit = defaultPage
	}
	if _, err := s.enter(ctx); err != nil {
		return schedule.Page{}, err
	}
	defer s.mu.Unlock()
	var page schedule.Page
	for _, id := range slices.Sorted(maps.Keys(s.schedules)) {
		if id <= options.After || !s.schedules[id].matches(options) {
			continue
		}
		if len(page.Entries) == options.Limit {
			page.Next = page.Entries[options.Limit-1].Schedule.ID
			break
		}
		page.Entries = append(page.Entries, s.schedules[id].entry())
	}
	return page, nil
}

func (r *record) matches(options schedule.ListOptions) bool {
	definition := r.definition()
	for key, value := range options.Labels {
		if got, ok := definition.Labels[key]; !ok || got != value {
			return false
		}
	}
	return (options.State == "" || r.state() == options.State) &&
		(options.Queue == "" || definition.Queue == options.Queue)
}

// Stats sums up the store.
func (s *Store) Stats(ctx context.Context) (schedule.Stats, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return schedule.Stats{}, err
	}
	defer s.mu.Unlock()
	stats := schedule.Stats{Now: now}
	var first time.Time // due time of the schedule that fires next
	for _, id := range slices.Sorted(maps.Keys(s.schedules)) {
		r := s.schedules[id]
		stats.Open += int64(len(r.open))
		stats.Buffered += int64(len(r.buffer))
		if r.token != 0 {
			stats.Claimed++
		}
		r.count(&stats)
		due, ok := r.due()
		if !ok || r.token != 0 || r.state() != schedule.StateActive {
			continue
		}
		if !due.After(now) {
			stats.Due++
			stats.Lateness = max(stats.Lateness, now.Sub(due))
		}
		if first.IsZero() || due.Before(first) {
			first, stats.NextID, stats.NextAt = due, id, r.next
		}
	}
	return stats, nil
}

func (r *record) count(stats *schedule.Stats) {
	stats.Total++
	switch r.state() {
	case schedule.StateActive:
		stats.Active++
	case schedule.StatePaused:
		stats.Paused++
	case schedule.StateDisabled:
		stats.Disabled++
	case schedule.StateCompleted:
		stats.Completed++
	}
}
