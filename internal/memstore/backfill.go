package memstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var (
	_ claim.Backfills    = (*Store)(nil)
	_ claim.FiringReader = (*Store)(nil)
)

// backfillKept is how long a backfill is known after it ended or was halted.
const backfillKept = 7 * 24 * time.Hour

// A backfill is a claim.Backfill with when it is looked at.
type backfill struct {
	claim.Backfill
	notBefore time.Time
	look      time.Time
}

// place says when the backfill is looked at next: for a step, or to forget it.
func (b *backfill) place() {
	switch {
	case !b.EndedAt.IsZero():
		b.look = b.EndedAt.Add(backfillKept)
	case !b.HaltedAt.IsZero():
		b.look = b.HaltedAt.Add(backfillKept)
	default:
		b.look = b.notBefore
	}
}

// end ends the backfill when everything was opened and has ended.
func (d *data) endBackfill(r *record, b *backfill, now time.Time) {
	if b.Cursor.IsZero() && b.Open == 0 && b.EndedAt.IsZero() {
		b.EndedAt = now
		d.note(r, schedule.EventBackfillEnded, b.ID, now)
	}
}

// closeBackfilled counts the end of a firing in its backfill.
func (d *data) closeBackfilled(r *record, f *firing, outcome claim.RunOutcome, now time.Time) {
	if f.key.Kind != claim.KindBackfill {
		return
	}
	b := d.backfills[string(r.id)+":"+f.key.Request]
	if b == nil || b.Generation != r.generation {
		return
	}
	b.Open = max(0, b.Open-1)
	if outcome == claim.OutcomeFailed || outcome == claim.OutcomeLost {
		b.Failed++
	}
	d.endBackfill(r, b, now)
	b.place()
}

// StartBackfill begins to fire scheduled times of the past.
func (s *Store) StartBackfill(ctx context.Context, request claim.BackfillRequest) (claim.Backfill, error) {
	if request.ID == "" {
		request.ID = rand.Text()
	}
	now, err := s.enter(ctx)
	if err != nil {
		return claim.Backfill{}, err
	}
	defer s.mu.Unlock()
	r := s.schedules[request.Schedule]
	if r == nil {
		return claim.Backfill{}, notFound("starting a backfill of", request.Schedule)
	}
	if err := request.Complete(now); err != nil {
		return claim.Backfill{}, err
	}
	if _, delay := r.compiled.Delay(); delay {
		return claim.Backfill{}, &schedule.FieldError{Field: "schedule", Value: string(r.id), Allowed: "one without after, whose times depend on its runs"}
	}
	key := string(r.id) + ":" + request.ID
	if b := s.backfills[key]; b != nil && b.Generation == r.generation {
		known := b.Backfill
		known.Existed = true
		return known, nil
	}
	from := millis(request.From)
	b := &backfill{notBefore: now, Backfill: claim.Backfill{Schedule: r.id, ID: request.ID, Generation: r.generation,
		From: from, To: millis(request.To), Cursor: from.Add(-time.Millisecond), Every: request.Every.Truncate(time.Millisecond),
		Overlap: request.Overlap, MaxOpen: request.MaxOpen, Limit: request.Limit, Again: request.Again, StartedAt: now}}
	b.place()
	s.backfills[key] = b
	s.note(r, schedule.EventBackfillStarted, b.ID, now)
	s.wake()
	return b.Backfill, nil
}

// backfill finds one of the present generation.
func (d *data) backfill(doing string, id schedule.ID, name string) (*record, *backfill, error) {
	r, b := d.schedules[id], d.backfills[string(id)+":"+name]
	if r == nil || b == nil || b.Generation != r.generation {
		return nil, nil, fmt.Errorf("memstore: %s backfill %q of %q: %w", doing, name, id, claim.ErrNoBackfill)
	}
	return r, b, nil
}

// Backfill returns where a backfill stands.
func (s *Store) Backfill(ctx context.Context, id schedule.ID, name string) (claim.Backfill, error) {
	if _, err := s.enter(ctx); err != nil {
		return claim.Backfill{}, err
	}
	defer s.mu.Unlock()
	_, b, err := s.backfill("reading", id, name)
	if err != nil {
		return claim.Backfill{}, err
	}
	return b.Backfill, nil
}

// HaltBackfill stops a backfill where it is.
func (s *Store) HaltBackfill(ctx context.Context, id schedule.ID, name string) (claim.Backfill, error) {
	return s.haltBackfill(ctx, id, name, true)
}

// ResumeBackfill lets a halted backfill go on.
func (s *Store) ResumeBackfill(ctx context.Context, id schedule.ID, name string) (claim.Backfill, error) {
	return s.haltBackfill(ctx, id, name, false)
}

func (s *Store) haltBackfill(ctx context.Context, id schedule.ID, name string, halt bool) (claim.Backfill, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return claim.Backfill{}, err
	}
	defer s.mu.Unlock()
	r, b, err := s.backfill("halting", id, name)
	if err != nil {
		return claim.Backfill{}, err
	}
	if !b.EndedAt.IsZero() || halt == !b.HaltedAt.IsZero() {
		return b.Backfill, nil
	}
	if halt {
		b.HaltedAt = now
		s.note(r, schedule.EventBackfillHalted, b.ID, now)
	} else {
		b.HaltedAt = time.Time{}
		s.note(r, schedule.EventBackfillStarted, b.ID, now)
		s.wake()
	}
	b.place()
	return b.Backfill, nil
}

// DueBackfills names backfills whose next step may run.
func (s *Store) DueBackfills(ctx context.Context, request claim.DueBackfillsRequest) (claim.BackfillBatch, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return claim.BackfillBatch{}, err
	}
	defer s.mu.Unlock()
	if err := s.checkShard(request.Shard); err != nil {
		return claim.BackfillBatch{}, err
	}
	if request.Limit < 1 {
		return claim.BackfillBatch{}, &schedule.FieldError{Field: "limit", Value: strconv.Itoa(request.Limit), Allowed: "1 or more"}
	}
	batch := claim.BackfillBatch{Now: now}
	for _, key := range s.backfillsOf(request.Shard) {
		b := s.backfills[key]
		r := s.schedules[b.Schedule]
		if b.look.After(now) || request.Limit == 0 {
			break
		}
		request.Limit--
		if r == nil || r.generation != b.Generation || !b.HaltedAt.IsZero() || !b.EndedAt.IsZero() {
			delete(s.backfills, key)
			continue
		}
		b.look = millis(now.Add(request.Hide))
		if r.flag != paused && r.flag != disabled && !b.Cursor.IsZero() {
			batch.Backfills = append(batch.Backfills, b.Backfill)
		}
	}
	if left := s.backfillsOf(request.Shard); len(left) > 0 {
		batch.NextDue = s.backfills[left[0]].look
	}
	return batch, nil
}

// backfillsOf returns those of a shard, those that are looked at first first.
func (d *data) backfillsOf(shard int) []string {
	var keys []string
	for key, b := range d.backfills {
		if d.shardOf(b.Schedule) == shard {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(d.backfills[a].look.Compare(d.backfills[b].look), strings.Compare(a, b))
	})
	return keys
}

// StepBackfill opens the next firings of a backfill.
func (s *Store) StepBackfill(ctx context.Context, step claim.BackfillStep) (claim.BackfillResult, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return claim.BackfillResult{}, err
	}
	defer s.mu.Unlock()
	r, b, err := s.backfill("stepping", step.Schedule, step.ID)
	if err != nil {
		return claim.BackfillResult{Answer: claim.StepGone}, nil
	}
	result := claim.BackfillResult{Answer: claim.StepOK}
	switch {
	case !b.Cursor.Equal(millis(step.Expected)) || !b.HaltedAt.IsZero() || !b.EndedAt.IsZero():
		result.Answer = claim.StepStale
		for _, at := range step.Open {
			if f := s.firings[claim.BackfillFiring(r.id, r.generation, b.ID, at)]; f != nil && f.state == claim.FiringIntent {
				result.Released = append(result.Released, f.free())
			}
		}
	case r.flag == paused || r.flag == disabled || now.Before(b.notBefore) || !b.fits(r, len(step.Open)):
		result.Answer = claim.StepWait
	default:
		result.Released = s.stepBackfill(r, b, step, now)
	}
	result.Backfill = b.Backfill
	return result, nil
}

// fits reports whether so many more firings may be opened now.
func (b *backfill) fits(r *record, n int) bool {
	if b.Overlap == schedule.OverlapBufferAll && n > 0 && (n > 1 || len(r.open) > 0) {
		return false
	}
	return n <= max(0, b.MaxOpen-b.Open)
}

func (d *data) stepBackfill(r *record, b *backfill, step claim.BackfillStep, now time.Time) []claim.Released {
	var released []claim.Released
	for _, at := range step.Open {
		if b.Overlap == schedule.OverlapSkip && len(r.open) > 0 {
			b.Passed++
			continue
		}
		f := d.openFiring(r, &firing{id: claim.BackfillFiring(r.id, r.generation, b.ID, at), state: claim.FiringIntent,
			openedAt: now, audit: now.Add(releaseAudit)})
		b.Open, b.Opened = b.Open+1, b.Opened+1
		released = append(released, f.free())
	}
	b.Cursor, b.Passed = millis(step.Cursor), b.Passed+step.Passed
	b.notBefore = now.Add(time.Duration(len(step.Open)) * b.Every)
	if b.Limit > 0 && b.Opened >= b.Limit {
		b.Cursor = time.Time{}
	}
	d.endBackfill(r, b, now)
	b.place()
	return released
}

// Firings returns the records of those firings that are open.
func (s *Store) Firings(ctx context.Context, ids []claim.FiringID) (map[claim.FiringID]claim.OpenFiring, time.Time, error) {
	for _, id := range ids {
		if _, err := claim.ParseFiringID(string(id)); err != nil {
			return nil, time.Time{}, err
		}
	}
	now, err := s.enter(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer s.mu.Unlock()
	found := map[claim.FiringID]claim.OpenFiring{}
	for _, id := range ids {
		if f := s.firings[id.WithoutRedrives()]; f != nil {
			found[f.id] = f.describe(s.schedules[f.key.Schedule])
		}
	}
	return found, now, nil
}
