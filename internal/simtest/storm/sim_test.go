package storm

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/pkg/worker"
)

// The fleet runs with the product's own terms.
const (
	claimTTL  = 10 * time.Second
	planners  = 3
	consumers = 3
)

// A sim is one run of a scenario with one seed, inside a bubble.
type sim struct {
	t        *testing.T
	ctx      context.Context
	c        scenario
	seed     uint64
	store    backend // not behind a gate
	peer     func(wall func() time.Time) backend
	snapshot func() (restore func()) // of the whole store
	broker   *broker
	witness  *witness
	group    sync.WaitGroup // goroutines of processes
	stray    sync.WaitGroup // commands that are still on their way
	closing  []*redis.Client

	moments moments

	mu     sync.Mutex // of everything that a script changes at once
	counts map[string]int

	jumped atomic.Int64 // the store's clock minus the true time, in nanoseconds

	log struct {
		sync.Mutex
		events []event
	}
	faultEnd  time.Time     // no faults any more
	stopped   chan struct{} // closed when the fleet is to stop
	processes []*process    // every incarnation; needs the lock
	downUntil time.Time     // nobody starts before; needs the lock
	result    result
}

// faults are the faults of commands that are on now.
type faults struct {
	on bool
	wire
}

// faults returns what may happen to a command now.
func (s *sim) faults() *faults {
	return &faults{on: time.Now().Before(s.faultEnd), wire: s.c.wire}
}

// atomically runs f as a script: nothing else happens meanwhile.
func (s *sim) atomically(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// count notes that something happened; it needs the lock.
func (s *sim) count(what string) { s.counts[what]++ }

// happened is count for those without the lock.
func (s *sim) happened(what string) { s.atomically(func() { s.count(what) }) }

// An event is a line of the trace.
type event struct {
	at               time.Time
	who, op, key, is string
}

func (s *sim) note(who, op, key, is string) {
	s.log.Lock()
	defer s.log.Unlock()
	s.log.events = append(s.log.events, event{time.Now(), who, op, key, is})
}

// String is a line of a trace.
func (e event) String() string {
	text := fmt.Sprintf("%10.4f %-6s %-22s %s", e.at.Sub(epochStart).Seconds(), e.who, e.op, e.key)
	if e.is != "" {
		text += " -> " + e.is
	}
	return text
}

// digest tells two runs apart. What goroutines do at one and the same instant
// touches nothing in common and has no order.
func (s *sim) digest() uint64 {
	slices.SortStableFunc(s.log.events, func(a, b event) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.String(), b.String()))
	})
	h := fnv.New64a()
	for _, e := range s.log.events {
		_, _ = io.WriteString(h, e.String()+"\n") // never fails
	}
	return h.Sum64()
}

// storeNow is the store's clock.
func (s *sim) storeNow() time.Time { return time.Now().Add(time.Duration(s.jumped.Load())) }

// newSim stores the schedules and starts the fleet.
func newSim(t *testing.T, c scenario, seed uint64) *sim {
	t.Helper()
	s := &sim{t: t, ctx: t.Context(), c: c, seed: seed, counts: map[string]int{}, stopped: make(chan struct{})}
	s.witness, s.broker = newWitness(s), newBroker(s)
	s.faultEnd = time.Now().Add(c.span)
	if err := s.open(c.scripts); err != nil {
		t.Fatal(err)
	}
	if c.calendars > 0 {
		if _, err := s.store.PutCalendars(s.ctx, []schedule.Calendar{closing(3)}, schedule.CalendarOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range schedules {
		if _, err := s.store.Put(s.ctx, s.definition(i), schedule.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		s.atomically(func() { s.witness.observe(s.name(i)) })
	}
	for i := range planners {
		s.keep(fmt.Sprintf("p%d", i), hazard{c.plannerPause, c.plannerCrash, 4 * claimTTL}, s.plan)
	}
	for i := range consumers {
		s.keep(fmt.Sprintf("c%d", i), hazard{c.consumerPause, c.consumerCrash, 5 * taskLease}, s.consume)
	}
	return s
}

// gate returns the store as a process sees it.
func (s *sim) gate(p *process, wrong time.Duration) *gated {
	direct := s.peer(func() time.Time { return time.Now().Add(wrong) })
	return &gated{Catalog: direct, p: p, direct: direct}
}

// keep starts a process, and another one when it died.
func (s *sim) keep(name string, h hazard, start func(*process) error) {
	s.group.Go(func() {
		for n := 0; ; n++ {
			p := s.process(fmt.Sprintf("%s.%d", name, n), h)
			s.atomically(func() { s.processes = append(s.processes, p) })
			if err := start(p); err != nil {
				s.t.Error(err)
				return
			}
			select {
			case <-s.stopped:
				p.end()
				return
			case <-p.over:
			}
			pause := roll(s.seed, p.id, "down").between(100*time.Millisecond, 10*time.Second)
			s.atomically(func() { pause += max(0, time.Until(s.downUntil)) })
			if s.moments.wait(context.Background(), s.stopped, p.id+" down", pause) != nil {
				return
			}
		}
	})
}

// plan starts the scheduling half of a worker with its auditor: the product's
// own loops.
func (s *sim) plan(p *process) error {
	wrong := time.Duration(0)
	if s.c.workerJump > 0 {
		wrong = roll(s.seed, p.id, "clock").between(-s.c.workerJump, s.c.workerJump)
		s.happened("clock jump of a worker")
	}
	store := s.gate(p, wrong)
	client := p.client()
	enqueuer, err := queue.NewEnqueuer(queue.EnqueuerOptions{Redis: client, Concurrency: 1})
	if err != nil {
		return err
	}
	auditor, err := queue.NewAuditor(queue.AuditorOptions{Ledger: store, Catalog: store, Enqueuer: enqueuer, Redis: client, KeepRuns: 5, Concurrency: 1})
	if err != nil {
		return err
	}
	options := worker.SchedulerOptions{Definitions: store, Claims: store, Settler: store, Waker: store,
		Enqueuer: enqueuer, Auditor: auditor, ID: p.id, ClaimTTL: claimTTL, KeepRuns: 5,
		SimulationNow:  func() time.Time { return time.Now().Add(wrong) },
		SimulationDraw: func(bound time.Duration) time.Duration { return roll(s.seed, p.id, "draw").between(0, bound) }}
	if s.c.calendars > 0 {
		options.Calendars = store
	}
	if s.c.backfills > 0 {
		options.Backfills = store
	}
	scheduler, err := worker.NewScheduler(options)
	if err != nil {
		return err
	}
	s.group.Go(func() {
		if err := scheduler.Run(p.ctx); err != nil {
			s.t.Errorf("Run of %s = %v, want nil", p.id, err)
		}
	})
	return nil
}

// schedules is how many there are.
const schedules = 4

// name returns the ID of a schedule.
func (s *sim) name(i int) schedule.ID { return schedule.ID(fmt.Sprintf("s%d", i)) }

// definition returns a schedule as it is created.
func (s *sim) definition(i int) schedule.Schedule {
	d := schedule.Schedule{ID: s.name(i), Type: "work", Queue: "q1", Payload: []byte(payload), Timeout: time.Minute, Missed: s.c.missed, CatchUp: s.c.catchUp,
		Overlap: s.c.overlap, BufferLimit: s.c.bufferLimit, Effect: s.c.effect, MaxFailures: s.c.maxFailures, CoolDown: s.c.coolDown,
		Ends: s.faultEnd}
	if s.c.mixed {
		dice := roll(s.seed, "policies", string(d.ID))
		d.Missed = []schedule.Missed{schedule.MissedAll, schedule.MissedLatest, schedule.MissedSkip}[dice.pick(3)]
		d.CatchUp = 0
		if d.Missed == schedule.MissedAll {
			d.CatchUp = time.Hour
		}
		d.Overlap = []schedule.Overlap{schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapBufferOne,
			schedule.OverlapBufferAll, schedule.OverlapCancelOther}[dice.pick(5)]
		d.BufferLimit = 0
		if d.Overlap == schedule.OverlapBufferAll {
			d.BufferLimit = 3
		}
		if dice.chance(0.2) {
			d.Effect = schedule.AtMostOnce
		}
		if s.c.calendars > 0 && dice.chance(0.6) {
			d.Except = []schedule.Window{{Calendar: closed}}
		}
	} else if s.c.calendars > 0 {
		d.Except = []schedule.Window{{Calendar: closed}}
	}
	d.Specs = []schedule.SpecDefinition{{Every: 10 * time.Second, Anchor: epochStart.Add(time.Duration(i) * 777 * time.Millisecond)}}
	if i == 0 {
		d.Specs = []schedule.SpecDefinition{{Cron: everyTenSeconds}}
	}
	return d
}

// run lets the storm pass, and then waits until the fleet has dealt with it.
func (s *sim) run() {
	s.group.Go(s.rage)
	s.group.Go(s.administer)
	pass(s.c.span)
	s.settle()
	s.judgeEnd()
	close(s.stopped)
	s.group.Wait()
	s.stray.Wait()
	pass(5 * time.Minute) // the product's own goroutines, of processes that stand still at the end
	for _, c := range s.closing {
		if err := c.Close(); err != nil {
			s.t.Error(err)
		}
	}
}

// patience is how long the fleet may take to deal with what is left.
const patience = 40 * time.Minute

// settle waits until nothing is open and every late command has arrived.
func (s *sim) settle() {
	s.jumped.Store(0)
	pass(31 * time.Second) // commands on their way
	for end := time.Now().Add(patience); time.Now().Before(end); pass(10 * time.Second) {
		done := true
		s.atomically(func() {
			for i := range schedules {
				done = s.resume(s.name(i)) && done
			}
			done = s.backfilled() && done && s.broker.quiet()
		})
		if done {
			return
		}
	}
}

// resume lets a stopped schedule go on and reports whether a schedule is through.
func (s *sim) resume(id schedule.ID) bool {
	entry, err := s.store.Get(s.ctx, id)
	if err != nil {
		return true // deleted
	}
	if st := entry.Status.State; st == schedule.StatePaused || st == schedule.StateDisabled {
		if _, err := s.store.Resume(s.ctx, id, schedule.ResumeOptions{}); err != nil {
			s.t.Error(err)
		}
		s.witness.resumed(id)
		s.witness.observe(id)
		return false
	}
	return entry.Status.Open == 0 && entry.Status.Buffered == 0 && !entry.Status.Claimed && entry.Status.NextAt.IsZero()
}
