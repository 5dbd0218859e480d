package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A Definitions gives the definitions of schedules. A schedule.Catalog is one.
type Definitions interface {
	// GetMany leaves out what it does not find.
	GetMany(ctx context.Context, ids []schedule.ID) (map[schedule.ID]schedule.Entry, error)
}

// An unchecked source leaves it to the cache to compile what it reads, which
// halves the work on schedules that were not met before.
type unchecked interface {
	GetUnchecked(ctx context.Context, ids []schedule.ID) (map[schedule.ID]schedule.Entry, error)
}

// A definition is a compiled schedule, or the reason why there is none.
type definition struct {
	generation int64
	version    int64
	named      bool        // it names calendars
	calendars  calendarSet // that it was compiled with
	compiledAt time.Time
	compiled   *schedule.Compiled
	err        error
}

// definitionAge is how long a definition is used without another look. A store
// that went back may have another edit under the version that is known.
const definitionAge = 5 * time.Minute

// known reports whether the definition is the claimed one, compiled with these
// calendars not long ago. One that is newer than its claim was edited since, or
// the store went back to before its edit.
func (d *definition) known(c claim.Claim, calendars calendarSet) bool {
	return d.generation == c.Generation && d.version == c.Version && (!d.named || d.calendars.serial == calendars.serial) &&
		time.Since(d.compiledAt) < definitionAge
}

// fits reports whether the definition, just read, is the claimed one or a later
// edit of it, with calendars that are new enough. A claim is a promise: after an
// edit the firing happens as edited.
func (d *definition) fits(c claim.Claim, calendars calendarSet) bool {
	return d.generation == c.Generation && d.version >= c.Version && (!d.named || d.calendars.version >= calendars.version)
}

// half is the number of definitions in one half of the cache.
const half = 8192

// A cache holds compiled definitions, and the calendars that they are compiled
// with. Of its two halves the older one is dropped when the newer one is full,
// so what is used stays.
type cache struct {
	source  Definitions
	almanac almanac

	mu    sync.Mutex
	newer map[schedule.ID]*definition
	older map[schedule.ID]*definition
}

func newCache(source Definitions, calendars schedule.CalendarReader) *cache {
	return &cache{source: source, almanac: almanac{source: calendars, reading: make(chan struct{}, 1)}, newer: map[schedule.ID]*definition{}}
}

// load returns the definitions of the claimed schedules, in order, and the
// version of the calendars that all of them are compiled with: the wanted one if
// it is stored. A definition is nil when its schedule, or its
// generation, does not exist any more.
func (c *cache) load(ctx context.Context, claims []claim.Claim, wanted int64) ([]*definition, int64, error) {
	calendars, err := c.almanac.read(ctx, wanted)
	if err != nil {
		return nil, 0, err
	}
	out := make([]*definition, len(claims))
	var missing []schedule.ID
	c.mu.Lock()
	for i, cl := range claims {
		if d := c.lookup(cl.Schedule); d != nil && d.known(cl, calendars) {
			out[i] = d
		} else {
			missing = append(missing, cl.Schedule)
		}
	}
	c.mu.Unlock()
	if len(missing) == 0 {
		return out, calendars.version, nil
	}
	entries, err := c.read(ctx, missing)
	if err != nil {
		return nil, 0, fmt.Errorf("worker: read definitions: %w", err)
	}
	for i, cl := range claims {
		entry, ok := entries[cl.Schedule]
		if out[i] != nil || !ok {
			continue
		}
		d := compile(entry, calendars)
		if d.err != nil && d.named {
			// A calendar may be newer than what the shard knew at the claim.
			if newer, err := c.almanac.read(ctx, calendars.version+1); err == nil {
				d = compile(entry, newer)
			}
		}
		c.store(cl.Schedule, d)
		if d.fits(cl, calendars) {
			out[i] = d
		}
	}
	return out, calendars.version, nil
}

func (c *cache) read(ctx context.Context, ids []schedule.ID) (map[schedule.ID]schedule.Entry, error) {
	if source, ok := c.source.(unchecked); ok {
		return source.GetUnchecked(ctx, ids)
	}
	return c.source.GetMany(ctx, ids)
}

// compile never panics: one bad definition must not stop the others. Whether
// the calendars are there it sees for itself; the entry may be older.
func compile(entry schedule.Entry, calendars calendarSet) (d *definition) {
	d = &definition{generation: entry.Status.Generation, version: entry.Status.Version,
		named: len(entry.Schedule.CalendarNames()) > 0, calendars: calendars, compiledAt: time.Now()}
	defer func() {
		if p := recover(); p != nil {
			d.compiled, d.err = nil, fmt.Errorf("worker: definition of %s panicked: %v", entry.Schedule.ID, p)
		}
	}()
	err := entry.Invalid
	if err == nil || d.named {
		d.compiled, err = schedule.Compile(entry.Schedule, calendars.all)
	}
	if err != nil {
		d.compiled, d.err = nil, fmt.Errorf("worker: definition of %s cannot be used: %w", entry.Schedule.ID, err)
	}
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
