package storm

import (
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A breaker is what the checker expects of the breaker of a schedule.
type breaker struct {
	state   schedule.State // as seen last
	fails   int64          // consecutive ones
	struck  bool           // a failure was counted just now
	healed  bool           // a success was, just now
	probing bool           // the cool-down is over, and no run has ended since
}

// ended counts the outcome of a firing. Needs to come before observe.
func (w *witness) ended(key claim.Firing, outcome claim.RunOutcome) {
	l := w.life(key)
	if l == nil {
		return
	}
	switch outcome {
	case claim.OutcomeSucceeded:
		l.breaker.fails, l.breaker.healed = 0, true
		if l.breaker.probing {
			w.sim.count("breaker closed")
		}
		l.breaker.probing = false
	case claim.OutcomeFailed, claim.OutcomeLost:
		l.breaker.fails++
		l.breaker.struck = true
	}
}

// resumed notes that an operator cleared the failures. Needs to come before
// observe.
func (w *witness) resumed(id schedule.ID) {
	if lives := w.lives[id]; len(lives) > 0 {
		lives[len(lives)-1].breaker = breaker{state: schedule.StateActive}
	}
}

// judgeBreaker wants the breaker to open at the failure that reaches the
// bound, or that ends a probe, and at no other time.
func (w *witness) judgeBreaker(l *life, entry schedule.Entry) {
	b, now, bound := &l.breaker, entry.Status.State, int64(entry.Schedule.MaxFailures)
	wrong := func(kind string) {
		if !w.rolled() {
			w.violate(kind, string(l.id), "%d failures of %d, probing %v, from %s to %s", b.fails, bound, b.probing, b.state, now)
		}
	}
	due := bound > 0 && b.struck && (b.fails >= bound || b.probing)
	if entry.Status.ConsecutiveFails != b.fails {
		wrong("failures miscounted")
		b.fails = entry.Status.ConsecutiveFails
	}
	switch {
	case now == schedule.StateDisabled && b.state != schedule.StateDisabled:
		w.sim.count("breaker opened")
		if !due {
			wrong("breaker opened early")
		}
		b.probing = false
	case now == schedule.StateActive && b.state == schedule.StateActive && due:
		wrong("breaker stayed closed")
	case now == schedule.StateActive && b.state == schedule.StateDisabled:
		b.probing = !b.healed
	case now != schedule.StateActive:
		b.probing = false
	}
	b.state, b.struck, b.healed = now, false, false
}

// probe wants one run at a time while the breaker is half open.
func (w *witness) probe(c claim.Claim, fresh bool) {
	l := w.life(claim.Firing{Schedule: c.Schedule, Generation: c.Generation})
	if l == nil || !l.breaker.probing || !fresh {
		return
	}
	w.sim.count("breaker probed")
	if c.OpenOthers > 0 && !w.rolled() {
		w.violate("probe beside a run", string(c.Schedule), "%s beside %v", c.Firing(), c.Open)
	}
}
