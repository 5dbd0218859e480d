package storm

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// rage brings the faults that hit Redis itself.
func (s *sim) rage() {
	s.every("lose", s.c.lose, func(d *dice) { s.broker.lose(d) })
	s.every("store jump", s.c.storeJump, func(d *dice) {
		jump := d.between(-time.Minute, 0)
		if d.chance(0.5) {
			jump = d.between(0, 24*time.Hour)
		}
		s.jumped.Store(int64(jump))
		s.count("clock jump of the store")
		s.witness.disturb("store", time.Now().Add(2*time.Minute))
		s.note("redis", "clock jump", "", jump.String())
	})
	s.every("roll store", s.c.rollStore, func(d *dice) { s.rollback(d, true, false) })
	s.every("roll queue", s.c.rollQueue, func(d *dice) { s.rollback(d, false, true) })
	s.every("roll both", s.c.rollBoth, func(d *dice) { s.rollback(d, true, true) })
	if s.c.outage > 0 {
		s.group.Go(s.blackout)
	}
}

// every does something at random intervals with the given mean, under the lock.
func (s *sim) every(what string, mean time.Duration, do func(*dice)) {
	if mean <= 0 {
		return
	}
	s.group.Go(func() {
		for {
			d := roll(s.seed, what)
			s.pass(what, d.between(mean/4, 2*mean-mean/4))
			if !time.Now().Before(s.faultEnd) {
				return
			}
			s.atomically(func() { do(d) })
		}
	})
}

// rollback copies what a Redis holds, lets some seconds pass and puts the copy
// back: a failover to a replica that lagged.
func (s *sim) rollback(d *dice, store, queue bool) {
	var restore []func()
	if store {
		restore = append(restore, s.snapshot())
	}
	if queue {
		restore = append(restore, s.broker.snapshot())
	}
	lag := d.between(50*time.Millisecond, 3*time.Second)
	s.group.Go(func() {
		s.pass("rolled back", lag)
		if !time.Now().Before(s.faultEnd) {
			return
		}
		s.atomically(func() {
			for _, f := range restore {
				f()
			}
			s.note("redis", "rolled back", fmt.Sprintf("store %v, queue %v", store, queue), lag.String())
			if store {
				s.count("store rolled back")
				s.witness.disturb("store", time.Now().Add(time.Minute))
				for i := range schedules {
					s.witness.observe(s.name(i))
				}
			}
			if queue {
				s.count("queue rolled back")
			}
		})
	})
}

// blackout stops every process at once, once, for a good part of the storm.
func (s *sim) blackout() {
	s.pass("outage", s.c.span/3)
	s.note("fleet", "outage", "", s.c.outage.String())
	var all []*process
	s.atomically(func() {
		s.count("outage")
		s.downUntil = time.Now().Add(s.c.outage)
		all = slices.Clone(s.processes)
	})
	for _, p := range all {
		p.kill()
	}
}

// An admin is somebody at the keyboard. What he sends can be lost like
// everything else.
type admin struct {
	s       *sim
	store   *gated
	auditor *queue.Auditor
	n       int
}

func (s *sim) administer() {
	p := s.process("admin", hazard{})
	a := &admin{s: s, store: s.gate(p, 0)}
	var err error
	if a.auditor, err = s.looker(p, a.store); err != nil {
		s.t.Error(err)
		return
	}
	acts := []struct {
		mean time.Duration
		do   func(*dice, schedule.ID)
	}{
		{s.c.pauses, a.pauseOrResume}, {s.c.edits, a.edit}, {s.c.moves, a.move}, {s.c.triggers, a.trigger}, {s.c.remakes, a.remake},
		{s.c.skips, a.skip}, {s.c.calendars, a.editCalendar}, {s.c.backfills, a.backfill}, {s.c.cancels, a.cancel},
	}
	for i, act := range acts {
		if act.mean <= 0 {
			continue
		}
		s.group.Go(func() {
			for {
				d := roll(s.seed, "admin", fmt.Sprint(i))
				s.pass("admin "+fmt.Sprint(i), d.between(act.mean/4, 2*act.mean-act.mean/4))
				if time.Now().After(s.faultEnd.Add(-5 * time.Second)) {
					return
				}
				act.do(d, s.name(d.pick(schedules)))
			}
		})
	}
}

// looker returns an auditor for somebody who looks at a few firings.
func (s *sim) looker(p *process, store *gated) (*queue.Auditor, error) {
	client := p.client()
	enqueuer, err := queue.NewEnqueuer(queue.EnqueuerOptions{Redis: client, Concurrency: 1})
	if err != nil {
		return nil, err
	}
	return queue.NewAuditor(queue.AuditorOptions{Ledger: store, Catalog: store, Enqueuer: enqueuer, Redis: client, Reader: store, KeepRuns: 5, Concurrency: 1})
}

func (a *admin) pauseOrResume(d *dice, id schedule.ID) {
	ctx := a.s.ctx
	switch d.pick(3) {
	case 0:
		_, _ = a.store.Pause(ctx, id, schedule.PauseOptions{By: "admin", Reason: "storm"}) // its error is one of the faults
		a.s.happened("paused")
	case 1:
		_, _ = a.store.Pause(ctx, id, schedule.PauseOptions{By: "admin", Until: a.s.storeNow().Add(d.between(time.Second, time.Minute))}) // likewise
		a.s.happened("paused for a while")
	default:
		_, _ = a.store.Resume(ctx, id, schedule.ResumeOptions{}) // likewise
		a.s.happened("resumed")
	}
}

// change puts the schedule with something changed, once.
func (a *admin) change(id schedule.ID, how func(*schedule.Schedule)) {
	entry, err := a.s.store.Get(a.s.ctx, id)
	if err != nil {
		return // deleted
	}
	definition := entry.Schedule
	how(&definition)
	_, _ = a.store.Put(a.s.ctx, definition, schedule.PutOptions{RequestID: a.request()}) // its error is one of the faults
}

func (a *admin) request() string {
	n := 0
	a.s.atomically(func() { a.n++; n = a.n })
	return fmt.Sprintf("r%d", n)
}

func (a *admin) edit(d *dice, id schedule.ID) {
	a.change(id, func(definition *schedule.Schedule) {
		every := time.Duration([]int{7, 10, 13}[d.pick(3)]) * time.Second
		definition.Specs = []schedule.SpecDefinition{{Every: every, Anchor: epochStart.Add(d.between(0, every).Truncate(time.Millisecond))}}
	})
	a.s.happened("edit")
}

func (a *admin) move(d *dice, id schedule.ID) {
	a.change(id, func(definition *schedule.Schedule) { definition.Queue = fmt.Sprintf("q%d", 1+d.pick(3)) })
	a.s.happened("queue move")
}

func (a *admin) remake(d *dice, id schedule.ID) {
	entry, err := a.s.store.Get(a.s.ctx, id)
	if err != nil {
		return
	}
	_, _ = a.store.Remove(a.s.ctx, id, schedule.RemoveOptions{Generation: entry.Status.Generation}) // its error is one of the faults
	a.s.pass("remake "+string(id), d.between(time.Millisecond, 3*time.Second))
	for range 5 {
		if _, err := a.store.Put(context.WithoutCancel(a.s.ctx), entry.Schedule, schedule.PutOptions{}); err == nil {
			break
		}
	}
	a.s.happened("delete and create")
}
