package admincli

import (
	"encoding/json"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// statusNames are the names that output adds to a definition.
var statusNames = []string{
	"generation", "version", "state", "next_at", "next_at_ms", "due_at", "due_at_ms", "created_at", "updated_at",
	"paused_by", "pause_reason", "paused_at", "paused_until",
	"last_run_at", "last_status", "last_error", "last_duration_ms", "run_count", "fail_count", "consecutive_fails",
	"claimed", "open", "buffered", "fired", "invalid", "verdicts",
}

// statusJSON is the status of a schedule beside its definition. Times are RFC
// 3339 with the offset of the schedule's own zone.
type statusJSON struct {
	Generation       int64   `json:"generation"`
	Version          int64   `json:"version"`
	State            string  `json:"state"`
	NextAt           *string `json:"next_at"`
	NextAtMS         *int64  `json:"next_at_ms"`
	DueAt            *string `json:"due_at,omitempty"`
	DueAtMS          *int64  `json:"due_at_ms,omitempty"`
	CreatedAt        *string `json:"created_at"`
	UpdatedAt        *string `json:"updated_at"`
	PausedBy         string  `json:"paused_by,omitempty"`
	PauseReason      string  `json:"pause_reason,omitempty"`
	PausedAt         *string `json:"paused_at,omitempty"`
	PausedUntil      *string `json:"paused_until,omitempty"`
	ProbeAt          *string `json:"probe_at,omitempty"`
	LastRunAt        *string `json:"last_run_at"`
	LastStatus       string  `json:"last_status"`
	LastError        string  `json:"last_error"`
	LastDurationMS   int64   `json:"last_duration_ms"`
	RunCount         int64   `json:"run_count"`
	FailCount        int64   `json:"fail_count"`
	ConsecutiveFails int64   `json:"consecutive_fails"`
	Claimed          bool    `json:"claimed"`
	Open             int     `json:"open"`
	Buffered         int     `json:"buffered"`
	Fired            int64   `json:"fired"`
	Invalid          string  `json:"invalid,omitempty"`
	// Verdicts are in what get prints only: they are the history that lists
	// need not carry.
	Verdicts []verdictJSON `json:"verdicts,omitempty"`
}

// A verdictJSON is one verdict on consecutive scheduled times, oldest first.
type verdictJSON struct {
	Verdict string  `json:"verdict"`
	Detail  string  `json:"detail,omitempty"` // through the buffer, or buffer full
	Count   *int64  `json:"count"`            // scheduled times in it; null: not counted
	FirstAt *string `json:"first_at"`
	FirstMS *int64  `json:"first_at_ms"`
	LastAt  *string `json:"last_at"`
	LastMS  *int64  `json:"last_at_ms"`
}

func (s *session) verdictsJSON(e schedule.Entry) []verdictJSON {
	r := s.read(e.Schedule)
	var all []verdictJSON
	for _, v := range e.Status.Verdicts {
		one := verdictJSON{Verdict: verdictWords[v.Verdict], FirstAt: iso(v.First, s.location(r.zoneAt(v.First))), FirstMS: millis(v.First),
			LastAt: iso(v.Last, s.location(r.zoneAt(v.Last))), LastMS: millis(v.Last)}
		if v.Count > 0 {
			one.Count = &v.Count
		}
		switch {
		case v.Why == 1 && v.Verdict == schedule.VerdictFired:
			one.Detail = "through the buffer"
		case v.Why == 1 && v.Verdict == schedule.VerdictOverlap:
			one.Detail = "buffer full"
		}
		all = append(all, one)
	}
	return all
}

const rfc3339Milli = "2006-01-02T15:04:05.999Z07:00"

// iso renders an instant for machines; nil for none.
func iso(t time.Time, location *time.Location) *string {
	if t.IsZero() {
		return nil
	}
	text := t.In(writable(t, location)).Format(rfc3339Milli)
	return &text
}

func millis(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	ms := t.UnixMilli()
	return &ms
}

// A scheduleJSON is a definition with the status behind it.
type scheduleJSON struct{ json.RawMessage }

// entryJSON renders an entry as lists do.
func (s *session) entryJSON(e schedule.Entry) (scheduleJSON, error) { return s.entryWith(e, nil) }

// entryWith renders an entry with verdicts.
func (s *session) entryWith(e schedule.Entry, verdicts []verdictJSON) (scheduleJSON, error) {
	definition := e.Schedule
	// What an operator paused is paused, whatever the definition said when it
	// was put; applying the output then leaves it as it is.
	definition.Paused = e.Status.State == schedule.StatePaused
	head, err := marshal(definition)
	if err != nil {
		return scheduleJSON{}, err
	}
	status := e.Status
	in := s.location(s.read(e.Schedule).zoneAt(status.NextAt))
	view := statusJSON{
		Generation: status.Generation, Version: status.Version, State: string(status.State),
		NextAt: iso(status.NextAt, in), NextAtMS: millis(status.NextAt),
		CreatedAt: iso(status.CreatedAt, in), UpdatedAt: iso(status.UpdatedAt, in),
		PausedBy: status.PausedBy, PauseReason: status.PauseReason,
		PausedAt: iso(status.PausedAt, in), PausedUntil: iso(status.PausedUntil, in), ProbeAt: iso(status.ProbeAt, in),
		LastRunAt: iso(status.LastRunAt, in), LastStatus: string(status.LastStatus), LastError: status.LastError,
		LastDurationMS: status.LastDuration.Milliseconds(), RunCount: status.RunCount, FailCount: status.FailCount,
		ConsecutiveFails: status.ConsecutiveFails, Claimed: status.Claimed, Open: status.Open, Buffered: status.Buffered,
		Fired: status.Fired, Verdicts: verdicts,
	}
	if !status.DueAt.Equal(status.NextAt) {
		view.DueAt, view.DueAtMS = iso(status.DueAt, in), millis(status.DueAt)
	}
	if e.Invalid != nil {
		view.Invalid = e.Invalid.Error()
	}
	tail, err := marshal(view)
	if err != nil {
		return scheduleJSON{}, err
	}
	return scheduleJSON{concat(head, tail)}, nil
}

// concat joins two JSON objects.
func concat(head, tail []byte) json.RawMessage {
	if string(head) == "{}" {
		return tail
	}
	out := append([]byte{}, head[:len(head)-1]...)
	return append(append(out, ','), tail[1:]...)
}

// shownState is the state for people: what needs attention comes first.
func shownState(e schedule.Entry) cell {
	switch {
	case e.Invalid != nil:
		return cell{"invalid", red}
	case e.Status.State == schedule.StateDisabled:
		return cell{"disabled", red}
	case e.Status.State == schedule.StatePaused:
		return cell{"paused", yellow}
	case e.Status.State == schedule.StateCompleted:
		return cell{"completed", dim}
	case e.Status.ConsecutiveFails > 0:
		return cell{"failing", red}
	}
	return cell{string(e.Status.State), green}
}
