package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A releaser enqueues buffered firings that became free, and marks them.
type releaser struct {
	ledger     claim.Ledger
	catalog    schedule.Catalog
	enqueuer   *Enqueuer
	auditAfter time.Duration
}

// release may be called again with the same firings. What it does not achieve,
// the auditor does.
func (r releaser) release(ctx context.Context, released []claim.Released) error {
	if len(released) == 0 {
		return nil
	}
	firings := make([]claim.FiringID, len(released))
	for i, one := range released {
		firings[i] = one.Firing
	}
	definitions, errs := r.definitions(ctx, firings)
	var pushes []Push
	for _, one := range released {
		if definition, ok := definitions[one.Firing]; ok { // otherwise deleted: begin would refuse it
			pushes = append(pushes, Push{Firing: one.Firing, Definition: definition, Queue: one.Queue, Extra: one.Extra})
		}
	}
	var pushed []claim.FiringID
	for i, err := range r.enqueuer.PushAll(ctx, pushes) {
		if err == nil {
			pushed = append(pushed, pushes[i].Firing)
		}
		errs = append(errs, err)
	}
	if len(pushed) > 0 {
		if err := r.ledger.Mark(ctx, r.auditAfter, pushed); err != nil {
			errs = append(errs, fmt.Errorf("queue: mark released firings: %w", err))
		}
	}
	return errors.Join(errs...)
}

// definitions returns those of the firings whose schedule still has the
// generation of the firing. A malformed ID, of a damaged ledger, has none and is
// an error of its own.
func (r releaser) definitions(ctx context.Context, firings []claim.FiringID) (map[claim.FiringID]schedule.Schedule, []error) {
	parsed := make(map[claim.FiringID]claim.Firing, len(firings))
	var ids []schedule.ID
	var errs []error
	seen := make(map[schedule.ID]bool)
	for _, id := range firings {
		firing, err := claim.ParseFiringID(string(id))
		if err != nil {
			errs = append(errs, fmt.Errorf("queue: firing from the ledger: %w", err))
			continue
		}
		parsed[id] = firing
		if !seen[firing.Schedule] {
			seen[firing.Schedule] = true
			ids = append(ids, firing.Schedule)
		}
	}
	if len(ids) == 0 {
		return nil, errs
	}
	entries, err := r.catalog.GetMany(ctx, ids)
	if err != nil {
		return nil, append(errs, fmt.Errorf("queue: read the definitions of %d schedules: %w", len(ids), err))
	}
	definitions := make(map[claim.FiringID]schedule.Schedule, len(firings))
	for id, firing := range parsed {
		if entry, ok := entries[firing.Schedule]; ok && entry.Status.Generation == firing.Generation {
			definitions[id] = entry.Schedule
		}
	}
	return definitions, errs
}
