package memstore

import (
	"maps"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// Snapshot copies all that the store holds and returns a function that puts
// the copy back, as often as it is called: what a failover to a replica that
// lagged behind does. It is for simulations.
func (s *Store) Snapshot() (restore func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.copyAll()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		fresh := kept.copyAll()
		s.tokens, s.schedules, s.firings, s.requests = fresh.tokens, fresh.schedules, fresh.firings, fresh.requests
		s.calendars, s.calendarV, s.leases = fresh.calendars, fresh.calendarV, fresh.leases
		s.backfills = fresh.backfills
	}
}

// copyAll copies what a replica would hold. Firings are shared between the
// ledger and their schedule, in the copy as in the original.
func (d *data) copyAll() *data {
	c := &data{
		tokens:    append(d.tokens[:0:0], d.tokens...),
		schedules: make(map[schedule.ID]*record, len(d.schedules)),
		firings:   make(map[claim.FiringID]*firing, len(d.firings)),
		requests:  maps.Clone(d.requests),
		calendars: d.calendars, calendarV: d.calendarV,
		leases: make(map[string]*lease, len(d.leases)), backfills: make(map[string]*backfill, len(d.backfills)),
	}
	for id, f := range d.firings {
		one := *f
		c.firings[id] = &one
	}
	twins := func(firings []*firing) []*firing {
		var out []*firing
		for _, f := range firings {
			out = append(out, c.firings[f.id])
		}
		return out
	}
	for id, r := range d.schedules {
		one := *r
		one.open, one.buffer = twins(r.open), twins(r.buffer)
		one.ranges = append(r.ranges[:0:0], r.ranges...)
		one.log = append(r.log[:0:0], r.log...)
		c.schedules[id] = &one
	}
	for name, l := range d.leases {
		one := *l
		c.leases[name] = &one
	}
	for name, b := range d.backfills {
		one := *b
		c.backfills[name] = &one
	}
	return c
}
