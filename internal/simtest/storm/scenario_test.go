package storm

import (
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// A scenario is a fleet, its schedules and what befalls them. Intervals are
// means; zero means never.
type scenario struct {
	name, about string
	span        time.Duration // of the faults and of the schedules

	overlap     schedule.Overlap
	missed      schedule.Missed
	catchUp     time.Duration
	bufferLimit int
	effect      schedule.Effect
	maxFailures int
	coolDown    time.Duration
	mixed       bool             // every schedule draws policies of its own
	work        [2]time.Duration // how long a handler works
	failing     float64          // handlers that fail

	plain       bool // consumers without the middleware
	hooked      bool // with plain: their clients have the hook of the product all the same
	noRetention bool // the queue forgets completed tasks at once
	dup         float64

	wire
	plannerPause, plannerCrash, consumerPause, consumerCrash float64

	lose, storeJump, rollStore, rollQueue, rollBoth time.Duration
	pauses, edits, moves, triggers, remakes         time.Duration
	skips, calendars, backfills, cancels            time.Duration
	workerJump, outage                              time.Duration

	calm    bool // no faults: everything fires, in time
	scripts bool // the store is redisstore on miniredis
}

func (c scenario) jumps() bool { return c.storeJump > 0 || c.workerJump > 0 }

// remembers reports whether the queue keeps a record of every firing that ran,
// whatever the store forgets: nothing happens to its tasks, nobody deletes one,
// no firing gets another queue, and no clock moves.
func (c scenario) remembers() bool {
	return !c.plain && !c.noRetention && !c.mixed && c.overlap != schedule.OverlapCancelOther && !c.jumps() && c.dup == 0 &&
		c.lose+c.rollQueue+c.rollBoth+c.moves+c.cancels == 0
}

// mayFail reports whether attempts can be used up: handlers fail, or so many
// crash that asynq gives a task up.
func (c scenario) mayFail() bool {
	return c.failing > 0 || c.consumerCrash > 0 || c.lose > 0 || c.dup > 0
}

// base is the weather of the first table: planners stall and crash, commands
// get lost.
func base(name, about string, change ...func(*scenario)) scenario {
	c := scenario{name: name, about: about, span: 250 * time.Second, missed: schedule.MissedAll, catchUp: time.Hour,
		overlap: schedule.OverlapAllow, effect: schedule.AtLeastOnce, work: [2]time.Duration{50 * time.Millisecond, 900 * time.Millisecond},
		wire:         wire{refuse: 0.01, lost: 0.02, twice: 0.01, echo: 0.01, late: 0.01},
		plannerPause: 0.008, plannerCrash: 0.008}
	for _, f := range change {
		f(&c)
	}
	return c
}

// scenarios are the rows of the table in docs/GUARANTEES.md.
func scenarios() []scenario {
	ms := time.Millisecond
	slow := func(c *scenario) { c.work = [2]time.Duration{2 * time.Second, 9 * time.Second} }
	skip := func(c *scenario) { c.overlap = schedule.OverlapSkip }
	long := func(c *scenario) { c.work = [2]time.Duration{2 * time.Second, 24 * time.Second}; c.bufferLimit = 0 }
	crash := func(c *scenario) { c.consumerCrash, c.consumerPause, c.dup = 0.01, 0.005, 0.02 }
	plain := func(c *scenario) { c.plain = true }
	hooked := func(c *scenario) { c.plain, c.hooked = true, true }
	all := []scenario{
		base("N0", "no faults", func(c *scenario) { c.wire = wire{}; c.plannerPause, c.plannerCrash = 0, 0; c.calm = true }),
		base("A1", "no ledger, the queue forgets completed tasks", plain, func(c *scenario) { c.noRetention = true }),
		base("A2", "no ledger, retention", plain),
		base("A2h", "as A2, the consumers' clients have the hook", hooked),
		base("A3", "as A2, duplicate delivery", plain, func(c *scenario) { c.dup = 0.05 }),
		base("B1", "ledger, the queue forgets completed tasks", func(c *scenario) { c.noRetention = true }),
		base("B2", "as B1, duplicate delivery", func(c *scenario) { c.noRetention, c.dup = true, 0.05 }),
		base("B3", "consumers crash and pause in the middle of a task, duplicate delivery", crash, func(c *scenario) { c.noRetention = true }),
		base("B4", "as B3, the queue loses tasks", crash, func(c *scenario) { c.noRetention, c.lose = true, 6*time.Second }),
		base("B5", "the store alone rolls back, retention", func(c *scenario) { c.rollStore = 60 * time.Second }),
		base("B6", "the store alone rolls back, no retention", func(c *scenario) { c.rollStore, c.noRetention = 60*time.Second, true }),
		base("B8", "pause and resume, several a second", func(c *scenario) { c.pauses = 400 * ms }),
		base("C1", "store and queue roll back together", func(c *scenario) { c.rollBoth = 60 * time.Second }),
		base("C2", "the queue alone rolls back", func(c *scenario) { c.rollQueue = 60 * time.Second }),
		base("B9", "everything at once", crash, func(c *scenario) {
			c.lose, c.rollStore, c.rollQueue, c.pauses = 10*time.Second, 100*time.Second, 100*time.Second, 3*time.Second
		}),
	}
	for i, o := range []schedule.Overlap{schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapBufferOne, schedule.OverlapBufferAll, schedule.OverlapCancelOther} {
		set := func(c *scenario) {
			c.overlap = o
			if o == schedule.OverlapBufferAll {
				c.bufferLimit = 3
			}
		}
		n := "V" + string(rune('0'+i))
		all = append(all, base(n, "overlap "+string(o)+", runs of 2 to 24 s", long, set),
			base(n+"p", "as "+n+", plain consumers with the client hook", long, set, hooked),
			base(n+"x", "as "+n+", consumers crash, duplicate delivery", long, set, crash))
	}
	for i, m := range []schedule.Missed{schedule.MissedLatest, schedule.MissedAll, schedule.MissedSkip} {
		n := "M" + string(rune('0'+i))
		out := func(c *scenario) {
			c.missed, c.catchUp, c.outage, c.span = m, 0, 150*time.Second, 400*time.Second
			if m == schedule.MissedAll {
				c.catchUp = 60 * time.Second
			}
		}
		all = append(all, base(n, "missed "+string(m)+", an outage of the whole fleet", out),
			base(n+"b", "as "+n+", buffer_one, runs of 2 to 9 s", out, slow, func(c *scenario) { c.overlap = schedule.OverlapBufferOne }),
			base(n+"p", "as "+n+", skip, runs of 2 to 9 s, plain consumers with the client hook", out, slow, hooked, skip))
	}
	edit := func(c *scenario) { c.edits = 12 * time.Second }
	backfills := func(c *scenario) { c.backfills = 25 * time.Second }
	breaker := func(c *scenario) { c.maxFailures, c.coolDown, c.failing = 3, 40*time.Second, 0.7 }
	buffer := func(c *scenario) {
		c.overlap, c.bufferLimit, c.work = schedule.OverlapBufferAll, 3, [2]time.Duration{2 * time.Second, 9 * time.Second}
	}
	pauses := func(c *scenario) { c.pauses = 8 * time.Second }
	return append(all,
		base("P1", "pause, resume, timed pause, latest", pauses, func(c *scenario) { c.missed, c.catchUp = schedule.MissedLatest, 0 }),
		base("P1p", "as P1, plain consumers with the client hook", pauses, hooked, func(c *scenario) { c.missed, c.catchUp = schedule.MissedLatest, 0 }),
		base("P2", "as P1, plain consumers with the client hook, buffer_all", pauses, buffer, hooked),
		base("P3", "as P1, skip", pauses, func(c *scenario) { c.missed, c.catchUp = schedule.MissedSkip, 0 }),
		base("P4", "triggers with one request ID from several clients, buffer_all", buffer, func(c *scenario) { c.triggers = 10 * time.Second }),
		base("P5", "as P4, skip, plain consumers with the client hook", slow, skip, hooked, func(c *scenario) { c.triggers = 10 * time.Second }),
		base("P6", "backfills beside the regular times", backfills),
		base("P7", "as P6, skip, plain consumers with the client hook", slow, skip, hooked, backfills),
		base("K1", "single times are skipped, and some skips withdrawn", func(c *scenario) { c.skips = 6 * time.Second }),
		base("K2", "a shared calendar is edited, single times are skipped", func(c *scenario) { c.calendars, c.skips = 20*time.Second, 6*time.Second }),
		base("K3", "as K2, a calendar edit every 5 s, backfills", backfills, func(c *scenario) { c.calendars, c.skips = 5*time.Second, 6*time.Second }),
		base("F1", "breaker: three failures, cool-down 40 s", breaker),
		base("F1p", "as F1, plain consumers with the client hook", breaker, hooked),
		base("F3", "breaker without a cool-down, resumed by hand, buffer_one", pauses, slow, breaker, func(c *scenario) { c.coolDown, c.overlap = 0, schedule.OverlapBufferOne }),
		base("F4", "breaker, consumers crash, the queue loses tasks", crash, breaker, func(c *scenario) { c.lose = 6 * time.Second }),
		base("F2", "at most once, consumers crash and pause", crash, func(c *scenario) { c.effect = schedule.AtMostOnce }),
		base("E1", "spec edits", edit),
		base("E2", "spec edits, queue moves, pauses, buffer_all", edit, pauses, buffer, func(c *scenario) { c.moves = 10 * time.Second }),
		base("E5", "spec edits, every fifth command is refused", edit, func(c *scenario) { c.refuse = 0.2 }),
		base("E3", "queue moves, plain consumers with the client hook, skip", hooked, func(c *scenario) {
			c.moves, c.overlap, c.work = 10*time.Second, schedule.OverlapSkip, [2]time.Duration{2 * time.Second, 9 * time.Second}
		}),
		base("E4", "delete and create", buffer, func(c *scenario) { c.remakes = 25 * time.Second }),
		base("Z1", "zombies: consumers stand still past their lease, late and repeated commands, failing handlers, duplicate delivery", func(c *scenario) {
			c.consumerPause, c.dup, c.failing, c.echo, c.late = 0.03, 0.3, 0.3, 0.1, 0.05
			c.work = [2]time.Duration{time.Second, 9 * time.Second}
		}),
		base("L2", "the queue loses tasks, consumers crash and pause, buffer_one", crash, func(c *scenario) {
			c.lose, c.overlap, c.work = 6*time.Second, schedule.OverlapBufferOne, [2]time.Duration{2 * time.Second, 9 * time.Second}
		}),
		base("L5", "plain consumers crash and stand still, duplicate delivery, skip", plain, crash, func(c *scenario) {
			c.overlap, c.work = schedule.OverlapSkip, [2]time.Duration{2 * time.Second, 9 * time.Second}
		}),
		base("L3", "the store alone rolls back, buffer_one", func(c *scenario) {
			c.rollStore, c.overlap, c.work = 60*time.Second, schedule.OverlapBufferOne, [2]time.Duration{2 * time.Second, 9 * time.Second}
		}),
		base("L4", "every act of an operator, lost tasks, crashes, buffer_all", crash, edit, pauses, buffer, func(c *scenario) {
			c.moves, c.triggers, c.lose, c.failing = 15*time.Second, 15*time.Second, 15*time.Second, 0.1
		}),
		base("T1", "the store's clock jumps", func(c *scenario) { c.storeJump = 40 * time.Second }),
		base("T2", "every worker's clock is wrong by up to 10 min", func(c *scenario) { c.workerJump = 10 * time.Minute }),
		base("X1", "every second command takes effect twice", buffer, pauses, func(c *scenario) { c.wire = wire{twice: 0.5, lost: 0.02} }),
	)
}

// swarm draws a scenario: every schedule its own policies, and about half of
// all faults.
func swarm(seed uint64) scenario {
	d := roll(seed, "swarm")
	c := base("swarm", "drawn from the seed", func(c *scenario) {
		c.mixed = true
		c.work = [2]time.Duration{50 * time.Millisecond, time.Duration(1+d.pick(20)) * time.Second}
	})
	maybe := func(set func()) {
		if d.chance(0.5) {
			set()
		}
	}
	maybe(func() { c.consumerCrash, c.consumerPause = 0.01, 0.005 })
	maybe(func() { c.dup = 0.03 })
	maybe(func() { c.noRetention = true })
	maybe(func() { c.lose = 12 * time.Second })
	maybe(func() { c.pauses = 8 * time.Second })
	maybe(func() { c.edits = 15 * time.Second })
	maybe(func() { c.moves = 15 * time.Second })
	maybe(func() { c.triggers = 12 * time.Second })
	maybe(func() { c.remakes = 50 * time.Second })
	maybe(func() { c.failing = 0.1 })
	maybe(func() { c.skips = 6 * time.Second })
	maybe(func() { c.backfills = 25 * time.Second })
	if d.chance(0.5) {
		c.maxFailures, c.coolDown, c.failing = 2, 20*time.Second, 0.7
	}
	switch d.pick(8) {
	case 0:
		c.storeJump = 40 * time.Second
		c.edits, c.remakes = 0, 0 // by the store's clock it could not be told which times they replaced
	case 1:
		c.workerJump = 10 * time.Minute
	case 2:
		c.outage, c.span = 60*time.Second, 300*time.Second
	case 3: // with edits or deletions the checker could not tell what was forgotten
		c.edits, c.remakes = 0, 0
		*[]*time.Duration{&c.rollStore, &c.rollQueue, &c.rollBoth}[d.pick(3)] = 60 * time.Second
	}
	if d.chance(0.4) { // one change of the times on which a schedule fires is enough to follow
		c.calendars, c.edits = 20*time.Second, 0
	}
	if roll(seed, "cancels").chance(0.5) { // a roll of its own, so that the others stay as they were drawn before
		c.cancels = 4 * time.Second
	}
	return c
}
