package worker

import (
	"context"
	"fmt"
	"sync"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A Definitions gives the definitions of schedules. A schedule.Catalog is one.
type Definitions interface {
	// GetMany leaves out what it does not find.
	GetMany(ctx context.Context, ids []schedule.ID) (map[schedule.ID]schedule.Entry, error)
}

// A definition is a compiled schedule, or the reason why there is none.
type definition struct {
	generation int64
	version    int64
	compiled   *schedule.Compiled
	err        error
}

// fits reports whether the definition is the claimed one or a later edit of
// it. A claim is a promise: after an edit the firing happens as edited.
func (d *definition) fits(c claim.Claim) bool {
	return d.generation == c.Generation && d.version >= c.Version
}

// half is the number of definitions in one half of the cache.
const half = 8192

// A cache holds compiled definitions. Of its two halves the older one is
// dropped when the newer one is full, so what is used stays.
type cache struct {
	source Definitions

	mu    sync.Mutex
	newer map[schedule.ID]*definition
	older map[schedule.ID]*definition
}

func newCache(source Definitions) *cache {
	return &cache{source: source, newer: map[schedule.ID]*definition{}}
}

// load returns the definitions of the claimed schedules, in order. One is nil
// when its schedule, or its generation, does not exist any more.
func (c *cache) load(ctx context.Context, claims []claim.Claim) ([]*definition, error) {
	out := make([]*definition, len(claims))
	var missing []schedule.ID
	c.mu.Lock()
	for i, cl := range claims {
		if d := c.lookup(cl.Schedule); d != nil && d.fits(cl) {
			out[i] = d
		} else {
			missing = append(missing, cl.Schedule)
		}
	}
	c.mu.Unlock()
	if len(missing) == 0 {
		return out, nil
	}
	entries, err := c.source.GetMany(ctx, missing)
	if err != nil {
		return nil, fmt.Errorf("worker: read definitions: %w", err)
	}
	for i, cl := range claims {
		entry, ok := entries[cl.Schedule]
		if out[i] != nil || !ok {
			continue
		}
		d := compile(entry)
		c.store(cl.Schedule, d)
		if d.fits(cl) {
			out[i] = d
		}
	}
	return out, nil
}

// compile never panics: one bad definition must not stop the others.
func compile(entry schedule.Entry) (d *definition) {
	d = &definition{generation: entry.Status.Generation, version: entry.Status.Version}
	defer func() {
		if p := recover(); p != nil {
			d.compiled, d.err = nil, fmt.Errorf("worker: definition of %s panicked: %v", entry.Schedule.ID, p)
		}
	}()
	if entry.Invalid != nil {
		d.err = fmt.Errorf("worker: definition of %s cannot be used: %w", entry.Schedule.ID, entry.Invalid)
		return d
	}
	d.compiled, d.err = schedule.Compile(entry.Schedule, nil)
	return d
}

// lookup needs c.mu.
func (c *cache) lookup(id schedule.ID) *definition {
	if d := c.newer[id]; d != nil {
		return d
	}
	d := c.older[id]
	if d != nil {
		c.keep(id, d)
	}
	return d
}

// keep needs c.mu.
func (c *cache) keep(id schedule.ID, d *definition) {
	if len(c.newer) >= half {
		c.older, c.newer = c.newer, make(map[schedule.ID]*definition, half)
	}
	c.newer[id] = d
}

func (c *cache) store(id schedule.ID, d *definition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep(id, d)
}

// forget makes the next load read the definition anew.
func (c *cache) forget(id schedule.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.newer, id)
	delete(c.older, id)
}
