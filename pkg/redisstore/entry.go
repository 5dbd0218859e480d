package redisstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/scripts/lua"
)

// readAtOnce bounds how many schedules one script reads.
const readAtOnce = 500

// readColumns is how many values read.lua returns for each schedule.
const readColumns = 7

// read returns what is stored of schedules of one shard, in order, and the
// store's clock.
func (s *Store) read(ctx context.Context, doing string, l *layout, shard int, ids []schedule.ID) ([]observed, time.Time, error) {
	var (
		all []observed
		now time.Time
	)
	for len(ids) > 0 {
		chunk := ids[:min(len(ids), readAtOnce)]
		ids = ids[len(chunk):]
		answer, err := s.runShard(ctx, doing, lua.Read, l, shard, anys(chunk)...)
		if err != nil {
			return nil, time.Time{}, err
		}
		now = answer.time(0)
		for i := range chunk {
			o, err := observe(&answer, 1+readColumns*i)
			if err != nil {
				return nil, time.Time{}, wrap(doing, err)
			}
			all = append(all, o)
		}
	}
	return all, now, nil
}

func (s *Store) readOne(ctx context.Context, doing string, l *layout, id schedule.ID) (observed, time.Time, error) {
	all, now, err := s.read(ctx, doing, l, l.shardOf(id), []schedule.ID{id})
	if err != nil {
		return observed{}, time.Time{}, err
	}
	return all[0], now, nil
}

func observe(answer *reply, i int) (observed, error) {
	o := observed{definition: answer.text(i), lastRun: answer.text(i + 2), note: answer.text(i + 3),
		pause: answer.text(i + 4), enqueue: answer.text(i + 5), skips: answer.text(i + 6)}
	if text := answer.text(i + 1); text != "" {
		var err error
		if o.record, err = decodeRecord(text); err != nil {
			o.damaged = err
		}
	}
	return o, answer.err
}

// anys packs arguments of a script.
func anys[T ~string](texts []T) []any {
	all := make([]any, len(texts))
	for i, text := range texts {
		all[i] = string(text)
	}
	return all
}

// entry returns a schedule as users see it. A definition that cannot be used
// makes Invalid, and whatever could be read of it stays.
func (o *observed) entry(id schedule.ID, calendars []schedule.Calendar) schedule.Entry {
	entry := o.unchecked(id)
	if entry.Invalid == nil {
		_, entry.Invalid = schedule.Compile(entry.Schedule, calendars)
	}
	return entry
}

// unchecked is entry without a look at what the definition means.
func (o *observed) unchecked(id schedule.ID) schedule.Entry {
	entry := schedule.Entry{Status: o.status()}
	if err := entry.Schedule.UnmarshalJSON([]byte(o.definition)); err != nil {
		entry.Invalid = fmt.Errorf("redisstore: the stored definition of %q cannot be read: %w", id, err)
	}
	if o.damaged != nil {
		// The definition may be whole; without a record it does not fire.
		entry.Invalid = fmt.Errorf("redisstore: %w", o.unreadable(id))
	}
	entry.Schedule.ID = id
	return entry
}

func (o *observed) status() schedule.Status {
	r := &o.record
	status := schedule.Status{
		Generation: r.generation, Version: r.version, State: stateNames[r.state], NextAt: r.next,
		CreatedAt: r.created(), UpdatedAt: r.updated,
		RunCount: r.runs, FailCount: r.failedRuns, ConsecutiveFails: r.failures,
		Claimed: r.token != 0, Open: r.open, Buffered: r.buffered, Fired: r.fired, Verdicts: r.history,
	}
	if r.updated.IsZero() {
		status.UpdatedAt = status.CreatedAt
	}
	if !r.next.IsZero() {
		status.DueAt = r.next
		if r.notBefore.After(r.next) {
			status.DueAt = r.notBefore
		}
	}
	if r.state == statePaused {
		var note pauseNote
		_ = json.Unmarshal([]byte(o.pause), &note) // an unreadable note is no reason to hide the schedule
		status.PausedBy, status.PauseReason = note.By, note.Reason
		status.PausedAt, status.PausedUntil = r.since, r.until
	}
	if r.state == stateDisabled {
		status.ProbeAt = r.until
	}
	status.Skips = o.skipTimes()
	o.lastStatus(&status)
	return status
}

// lastStatus fills in what is known of the last run.
func (o *observed) lastStatus(status *schedule.Status) {
	if o.lastRun != "" {
		run, _ := decodeRun(o.lastRun) // one that cannot be read counts as none
		status.LastRunAt, status.LastDuration, status.LastError = run.Started, run.Duration, run.Error
		status.LastStatus = schedule.LastFailed
		if run.Outcome == claim.OutcomeSucceeded || run.Outcome == claim.OutcomeCancelled {
			status.LastStatus = schedule.LastCompleted
		}
	}
	if o.enqueue != "" {
		status.LastError = o.enqueue
	}
	if o.note == "" {
		return
	}
	f := fieldReader{rest: o.note}
	word, started := f.text(), f.time()
	if !started.IsZero() {
		status.LastRunAt, status.LastDuration = started, 0
	}
	switch word {
	case "running":
		status.LastStatus = schedule.LastRunning
	case "disabled":
		status.LastStatus = schedule.LastDisabled
	}
}

// clip cuts an error text to what is kept, at a whole character.
func clip(text string) string {
	const kept = 1024
	if len(text) > kept {
		text = text[:kept]
	}
	return strings.ToValidUTF8(text, "")
}

// plain makes a name fit into a record.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == '|' || r == 0x7f {
			return '_'
		}
		return r
	}, text)
}

// skipTimes returns the scheduled times to skip that have no verdict yet.
func (o *observed) skipTimes() []time.Time {
	var all []time.Time
	for text := range strings.SplitSeq(o.skips, ",") {
		ms, err := strconv.ParseInt(text, 10, 64)
		if at := instant(ms); err == nil && at.After(o.record.highWater) {
			all = append(all, at)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}
