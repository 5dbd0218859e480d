package storm

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A result is what a run came to.
type result struct {
	name      string // of the scenario
	times     int    // scheduled times
	verdicts  map[schedule.Verdict]int
	manual    int // triggers
	lost      int // fired, and no effect without a reason
	repeated  int // effects beyond the first
	excused   int // of these, after a crash, a pause, a clock jump or a rollback
	fenced    int // effects that the sink refused
	failed    int // firings whose attempts were used up
	late      []time.Duration
	counts    map[string]int
	violated  []violation
	events    []event
	digest    uint64
	settledIn time.Duration // after the faults ended
}

// result judges what can be judged only at the end. Needs the lock.
func (s *sim) judgeEnd() {
	s.atomically(func() {
		w := s.witness
		s.result = result{verdicts: map[schedule.Verdict]int{}, counts: s.counts, late: w.late, settledIn: time.Since(s.faultEnd)}
		for i := range schedules {
			w.observe(s.name(i))
			for _, l := range w.lives[s.name(i)] {
				s.judgeLife(l)
			}
			s.judgeLeft(s.name(i))
		}
		for _, id := range w.firings() {
			s.judgeTrack(w.tracks[id])
		}
		for _, b := range w.refills {
			s.judgeRefill(b)
		}
		if !s.broker.quiet() {
			w.violate("leftover", "", "tasks wait or run")
		}
		if err := s.store.Check(s.ctx); err != nil {
			w.violate("check", "", "%v", err)
		}
	})
}

// firings returns the IDs of all tracks, in order.
func (w *witness) firings() []claim.FiringID {
	var ids []claim.FiringID
	for id := range w.tracks {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// judgeLife wants a verdict for every scheduled time, and an effect for each
// that fired.
func (s *sim) judgeLife(l *life) {
	w := s.witness
	for _, at := range l.between(l.epochs[0].from, s.faultEnd) {
		s.result.times++
		f, ok := l.verdicts[at]
		s.result.verdicts[f.verdict]++
		if !l.removed.IsZero() {
			continue
		}
		id := claim.ScheduledFiring(l.id, l.generation, at)
		switch {
		case !ok:
			s.result.lost++
			w.violate("undecided", string(l.id), "%s has no verdict; the mark is %s", clock(at), clock(l.seen))
		case f.verdict == schedule.VerdictFired && w.tracks[id] == nil:
			s.result.lost++
			w.violate("lost", string(id), "it was never claimed")
		case f.verdict == schedule.VerdictFired:
			s.judgeFired(w.tracks[id])
		case w.tracks[id] != nil && w.tracks[id].effects > 0 && !w.rolled():
			w.violate("wrong verdict", string(id), "it took effect and has verdict %d", f.verdict)
		case !f.ordinary(s.c):
			w.violate("wrong verdict", string(id), "verdict %d in a run without faults", f.verdict)
		}
	}
}

// ordinary reports whether a verdict other than fired may be: in a calm run
// without overlaps nothing else is.
func (f finding) ordinary(c scenario) bool { return !c.calm }

// judgeFired wants an effect, or a reason for none.
func (s *sim) judgeFired(t *track) {
	switch {
	case t.effects > 0:
	case t.outcome == claim.OutcomeFailed && s.c.mayFail():
		s.result.failed++
	case t.outcome == claim.OutcomeCancelled, t.outcome == claim.OutcomeUnknown: // settled judges who asked for it
	case t.givenUp():
		s.result.failed++
	default:
		s.result.lost++
		s.witness.violate("lost", string(t.id), "no effect, outcome %q, %d attempts", t.outcome, len(t.grants))
	}
}

// maxRedrives is how often the auditor enqueues a lost task again.
const maxRedrives = 3

// judgeTrack counts the effects of a firing beyond the first.
func (s *sim) judgeTrack(t *track) {
	w := s.witness
	s.result.fenced += t.fenced
	l := w.life(t.key)
	if t.extra() {
		s.result.manual++
		if l != nil && l.removed.IsZero() && !w.rolled() {
			s.judgeFired(t)
		}
	}
	if t.effects <= 1 {
		return
	}
	s.result.repeated += t.effects - 1
	var did []*grant
	for _, g := range t.grants {
		if g.effect {
			did = append(did, g)
		}
	}
	for _, g := range did[:max(0, len(did)-1)] {
		if w.excused(g) {
			s.result.excused++
			continue
		}
		if s.c.plain { // nothing guards a plain consumer against a completion that failed
			continue
		}
		w.violate("doubled", string(t.id), "%s took effect at %s, reported %v, and it ran again", g.who, clock(g.at), g.reported)
	}
	if l != nil && l.definition().Effect == schedule.AtMostOnce && !w.rolled() {
		w.violate("at most once", string(t.id), "%d effects", t.effects)
	}
}

// judgeLeft wants nothing to be open.
func (s *sim) judgeLeft(id schedule.ID) {
	entry, err := s.store.Get(s.ctx, id)
	if err != nil {
		return // deleted
	}
	st := entry.Status
	if st.Open != 0 || st.Buffered != 0 || st.Claimed || !st.NextAt.IsZero() {
		s.witness.violate("leftover", string(id), "state %s, %d open, %d buffered, claimed %v, next %s",
			st.State, st.Open, st.Buffered, st.Claimed, clock(st.NextAt))
	}
}

// story is the part of a trace that leads to a violation.
func (r result) story(v violation) string {
	const lines = 80
	key, _, _ := strings.Cut(v.key, ":") // the schedule: what happened to one firing is seldom the whole story
	var text []string
	for _, e := range r.events {
		if e.at.After(v.at) {
			break
		}
		if strings.Contains(e.key, key) || strings.Contains(e.is, key) || e.who == "redis" && e.op != "lose task" {
			text = append(text, e.String())
		}
	}
	if len(text) > lines {
		text = append([]string{fmt.Sprintf("(%d lines before)", len(text)-lines)}, text[len(text)-lines:]...)
	}
	return strings.Join(text, "\n")
}
