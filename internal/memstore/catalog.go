package memstore

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var _ schedule.Catalog = (*Store)(nil)

// notFound wraps schedule.ErrNotFound with what was being done.
func notFound(doing string, id schedule.ID) error {
	return fmt.Errorf("memstore: %s %q: %w", doing, id, schedule.ErrNotFound)
}

// Put creates a schedule or replaces its definition.
func (s *Store) Put(ctx context.Context, definition schedule.Schedule, options schedule.PutOptions) (schedule.PutResult, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return schedule.PutResult{}, err
	}
	defer s.mu.Unlock()
	return s.put(definition, options, now)
}

// PutMany puts many schedules, each on its own.
func (s *Store) PutMany(ctx context.Context, definitions []schedule.Schedule, options schedule.PutOptions) ([]schedule.PutResult, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	results := make([]schedule.PutResult, len(definitions))
	for i, definition := range definitions {
		result, err := s.put(definition, options, now)
		result.Err = err
		results[i] = result
	}
	return results, nil
}

// put checks, then plans, then writes.
func (d *data) put(definition schedule.Schedule, options schedule.PutOptions, now time.Time) (schedule.PutResult, error) {
	updated, err := schedule.Compile(definition, d.calendars)
	if err != nil {
		return schedule.PutResult{}, err
	}
	if options.RequestID != "" {
		if err := schedule.ValidateRequestID(options.RequestID); err != nil {
			return schedule.PutResult{}, err
		}
	}
	key := "put:" + string(definition.ID) + ":" + options.RequestID
	if before, ok := d.recall(key, now); ok && options.RequestID != "" {
		return before.put, nil
	}
	r := d.schedules[definition.ID]
	if err := checkVersion(r, definition.ID, options.IfVersion); err != nil {
		return schedule.PutResult{}, err
	}
	if r == nil {
		if err := updated.CheckCreate(now); err != nil {
			return schedule.PutResult{}, err
		}
	}
	if r != nil && equal(r.definition(), updated.Definition()) {
		return schedule.PutResult{Unchanged: true, Version: r.version, Generation: r.generation, NextAt: r.next}, nil
	}
	if options.DryRun {
		return foresee(r, updated, now), nil
	}
	result := d.write(r, updated, now)
	if options.RequestID != "" {
		d.requests[key] = request{expires: now.Add(requestTerm), put: result}
	}
	d.wake()
	return result, nil
}

// checkVersion returns ErrConflict when another version is stored than wanted.
func checkVersion(r *record, id schedule.ID, want *int64) error {
	stored := int64(0)
	if r != nil {
		stored = r.version
	}
	if want == nil || *want == stored {
		return nil
	}
	return fmt.Errorf("memstore: putting %q: version %d is stored, %d expected: %w", id, stored, *want, schedule.ErrConflict)
}

// equal compares normalised definitions.
func equal(a, b schedule.Schedule) bool {
	textA, errA := a.MarshalJSON() // json.Marshal would escape what is in the payload
	textB, errB := b.MarshalJSON()
	return errA == nil && errB == nil && bytes.Equal(textA, textB)
}

// foresee says what write would do.
func foresee(r *record, updated *schedule.Compiled, now time.Time) schedule.PutResult {
	if r == nil {
		return schedule.PutResult{Created: true, Version: 1, NextAt: millis(schedule.PlanPut(nil, time.Time{}, updated, now).Next)}
	}
	result := schedule.PutResult{Version: r.version + 1, Generation: r.generation, NextAt: r.next}
	if plan := schedule.PlanPut(r.compiled, r.next, updated, r.planFrom(now)); plan.SpecChanged {
		result.NextAt = millis(plan.Next)
	}
	return result
}

// planFrom returns the instant after which a new spec may fire: now, or what
// has a verdict or will have one by the promise of a claim.
func (r *record) planFrom(now time.Time) time.Time {
	from := later(now, r.hwm)
	if r.token != 0 {
		from = later(from, r.next)
	}
	return from
}

// write stores the definition and moves the pending scheduled time.
func (d *data) write(r *record, updated *schedule.Compiled, now time.Time) schedule.PutResult {
	id := updated.Definition().ID
	created := r == nil
	var before *schedule.Compiled
	if created {
		r = &record{id: id, generation: int64(d.grant(id, now)), created: now}
		d.schedules[id] = r
	} else {
		before = r.compiled
		d.promise(r)
	}
	plan := schedule.PlanPut(before, r.next, updated, r.planFrom(now))
	r.compiled, r.updated = updated, now
	r.version++
	if updated.Definition().Paused && (before == nil || !before.Definition().Paused) {
		r.pause(schedule.PauseOptions{}, now)
	}
	if plan.SpecChanged {
		d.apply(r, plan, before)
		r.waiting = false
		r.endProbing()
	}
	kind := schedule.EventUpdated
	if created {
		kind, r.told = schedule.EventCreated, r.phase()
	}
	d.note(r, kind, "version "+strconv.FormatInt(r.version, 10), now)
	d.tell(r, "", now)
	d.drain(r, now) // the new policy may have no buffer; the auditor enqueues what comes free
	return schedule.PutResult{Created: created, Version: r.version, Generation: r.generation, NextAt: r.next}
}

// apply moves the pending scheduled time as planned and records what that
// passes over. The first of those may have an intent, of a claim that ended
// just now or was handed back: it fires.
func (d *data) apply(r *record, plan schedule.PutPlan, before *schedule.Compiled) {
	if passed := plan.Superseded; passed != nil {
		d.keepIntent(r)
		v := *passed
		if !v.First.After(r.hwm) && before != nil {
			v.Count = max(0, v.Count-1)
			if next, ok := before.Next(r.hwm); ok {
				v.First = next
			}
		}
		if !v.First.After(v.Last) {
			r.cover(v)
		}
	}
	r.next, r.notBefore = millis(plan.Next), millis(plan.NotBefore)
}

// Get returns a schedule.
func (s *Store) Get(ctx context.Context, id schedule.ID) (schedule.Entry, error) {
	if _, err := s.enter(ctx); err != nil {
		return schedule.Entry{}, err
	}
	defer s.mu.Unlock()
	r := s.schedules[id]
	if r == nil {
		return schedule.Entry{}, notFound("reading", id)
	}
	return r.entry(), nil
}

// GetMany returns those that exist.
func (s *Store) GetMany(ctx context.Context, ids []schedule.ID) (map[schedule.ID]schedule.Entry, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	entries := map[schedule.ID]schedule.Entry{}
	for _, id := range ids {
		if r := s.schedules[id]; r != nil {
			entries[id] = r.entry()
		}
	}
	return entries, nil
}

// Remove deletes a schedule and everything that is open. Tasks of its firings
// that are still queued answer GONE when they begin.
func (s *Store) Remove(ctx context.Context, id schedule.ID, options schedule.RemoveOptions) (bool, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	r := s.schedules[id]
	if r == nil || options.Generation != 0 && options.Generation != r.generation {
		return false, nil
	}
	for _, f := range append(r.open, r.buffer...) {
		delete(s.firings, f.id)
	}
	delete(s.schedules, id)
	s.note(r, schedule.EventRemoved, "", now)
	return true, nil
}

// ids returns firing IDs as the catalog shows them.
func ids(firings []*firing) []string {
	var texts []string
	for _, f := range firings[:min(len(firings), maxOpen)] {
		texts = append(texts, string(f.id))
	}
	return texts
}

var _ claim.Waker = (*Store)(nil)
