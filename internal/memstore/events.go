package memstore

import (
	"context"
	"strconv"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

var _ schedule.EventLog = (*Store)(nil)

// maxKept bounds the events that are kept, maxEvents those that one call
// returns.
const (
	maxKept   = 10_000
	maxEvents = 1000
)

// A phase is the state of a schedule as events tell it.
type phase string

const (
	phaseActive    phase = "active"
	phaseProbing   phase = "probing"
	phasePaused    phase = "paused"
	phaseDisabled  phase = "disabled"
	phaseCompleted phase = "completed"
)

func (r *record) phase() phase {
	switch r.state() {
	case schedule.StatePaused:
		return phasePaused
	case schedule.StateDisabled:
		return phaseDisabled
	case schedule.StateCompleted:
		return phaseCompleted
	}
	if r.flag == halfOpen {
		return phaseProbing
	}
	return phaseActive
}

// note keeps an event.
func (d *data) note(r *record, kind schedule.EventKind, detail string, now time.Time) {
	if len(d.events) >= maxKept {
		d.events, d.forgotten = d.events[1:], d.forgotten+1
	}
	d.events = append(d.events, schedule.Event{At: now, Kind: kind, Schedule: r.id, Generation: r.generation, Detail: detail})
}

// tell notes a change of state since the last call. One that was completed and
// is active again was edited, which is told by itself.
func (d *data) tell(r *record, detail string, now time.Time) {
	was, is := r.told, r.phase()
	r.told = is
	if was == is || was == "" || was == phaseCompleted && is == phaseActive {
		return
	}
	kind := schedule.EventKind(is)
	if is == phaseActive {
		kind = schedule.EventResumed
	}
	if is == phaseDisabled {
		detail = strconv.FormatInt(r.consecutive, 10) + " failures in a row"
	}
	d.note(r, kind, detail, now)
}

// Events returns the newest events, or those after a cursor, which is how many
// there were.
func (s *Store) Events(ctx context.Context, cursor string, limit int) ([]schedule.Event, string, error) {
	if limit < 1 || limit > maxEvents {
		return nil, "", &schedule.FieldError{Field: "limit", Value: strconv.Itoa(limit), Allowed: "1 to " + strconv.Itoa(maxEvents)}
	}
	if _, err := s.enter(ctx); err != nil {
		return nil, "", err
	}
	defer s.mu.Unlock()
	first := max(0, len(s.events)-limit)
	if cursor != "" {
		n, err := strconv.Atoi(cursor)
		if err != nil || n < 0 || n > s.forgotten+len(s.events) {
			return nil, "", &schedule.FieldError{Field: "cursor", Value: cursor, Allowed: "one that Events returned for this namespace"}
		}
		first = max(0, n-s.forgotten)
	}
	last := min(first+limit, len(s.events))
	return append([]schedule.Event(nil), s.events[first:last]...), strconv.Itoa(s.forgotten + last), nil
}
