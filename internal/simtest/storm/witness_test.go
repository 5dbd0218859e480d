package storm

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A witness sees every reply of the store at the instant at which it is given,
// and every effect. It judges what can be judged at once. All methods need the
// lock of the simulation.
type witness struct {
	sim        *sim
	tracks     map[claim.FiringID]*track
	lives      map[schedule.ID][]*life
	disturbed  map[string][]span // by process: crashed or stood still
	violations []violation
	late       []time.Duration // from the scheduled time to the queue
	refills    []*refill       // backfills

	calendarChanged time.Time
	completing      bool // a worker decided, not an act that met its claim
}

// A violation is a broken promise.
type violation struct {
	at         time.Time
	kind, what string
	key        string // a part of the trace's keys that leads to the story
}

type span struct{ from, to time.Time }

// A track is what was seen of a firing.
type track struct {
	id       claim.FiringID
	key      claim.Firing
	queued   time.Time // first seen in a queue; zero: never
	opened   time.Time
	grants   []*grant
	accepted claim.Token // largest that the sink saw
	effects  int         // that the sink accepted
	fenced   int         // that it refused
	outcome  claim.RunOutcome
	settled  time.Time
	manual   bool
	unwanted bool      // an operator or a trigger asked for its end
	again    bool      // claimed more than once: it fires whatever a calendar says by then
	lost     int       // tasks of it that the queue lost
	asked    []content // by the triggers that opened it: more than one when the store forgot the first
	redrives int
	tasks    map[string]bool // task IDs that reached a queue
}

// A grant is one attempt.
type grant struct {
	token    claim.Token
	who      string
	at       time.Time
	sent     time.Time // of the last extension, at the latest
	lease    time.Duration
	reported bool // its end took effect
	effect   bool
	over     time.Time // when it was reported, or another grant followed; zero: neither
}

func newWitness(s *sim) *witness {
	return &witness{sim: s, tracks: map[claim.FiringID]*track{}, lives: map[schedule.ID][]*life{}, disturbed: map[string][]span{}}
}

func (w *witness) violate(kind, key, format string, args ...any) {
	kind = strings.ReplaceAll(kind, " ", "-")
	v := violation{time.Now(), kind, fmt.Sprintf(format, args...), key}
	w.violations = append(w.violations, v)
	w.sim.note("judge", "VIOLATION "+kind, key, v.what)
}

func (w *witness) track(id claim.FiringID) *track {
	t := w.tracks[id]
	if t == nil {
		t = &track{id: id, opened: time.Now(), tasks: map[string]bool{}}
		t.key, _ = claim.ParseFiringID(string(id)) // the product wrote it
		w.tracks[id] = t
	}
	return t
}

// disturb notes that a process stands still until then; a crash has no end
// that matters.
func (w *witness) disturb(who string, until time.Time) {
	w.disturbed[who] = append(w.disturbed[who], span{time.Now(), until})
}

// excused reports whether nothing could know of the attempt: its process
// crashed or stood still before it reported, or a clock or a store went back.
func (w *witness) excused(g *grant) bool {
	switch {
	case w.rolled() && w.sim.c.remembers(): // the store forgot, and the queue must know
		return w.troubled(g, g.who)
	case w.rolled():
		return true
	default:
		return !g.reported && w.troubled(g, g.who, "store")
	}
}

// troubled reports whether one of them was disturbed during the attempt, or
// soon after.
func (w *witness) troubled(g *grant, whom ...string) bool {
	end := g.over
	if end.IsZero() {
		end = time.Now()
	}
	for _, who := range whom {
		for _, s := range w.disturbed[who] {
			if s.from.Before(end.Add(time.Second)) && !s.to.Before(g.at) {
				return true
			}
		}
	}
	return false
}

// claimed checks what a claim was granted for.
func (w *witness) claimed(b claim.Batch) {
	for _, c := range b.Claims {
		fresh := c.Kind == claim.ClaimFire && !c.Again
		if c.Again {
			w.sim.count("claimed again")
		}
		if c.Kind == claim.ClaimOverlap {
			w.sim.count("overlap met")
		}
		entry, err := w.sim.store.Get(w.sim.ctx, c.Schedule)
		if err != nil {
			w.violate("claimed what is gone", string(c.Schedule), "%v", err)
			continue
		}
		if s := entry.Status.State; fresh && (s == schedule.StatePaused || s == schedule.StateDisabled) {
			w.violate("claimed while "+string(s), string(c.Schedule), "%s", c.Firing())
		}
		if fresh && c.OpenOthers > 0 && obeys(entry.Schedule.Overlap) {
			w.violate("fired while open", string(c.Schedule), "%s beside %v", c.Firing(), c.Open)
		}
		if c.Kind == claim.ClaimFire {
			t := w.track(c.Firing())
			t.again = t.again || c.Again
		}
		w.observe(c.Schedule)
		w.probe(c, fresh)
	}
}

func obeys(o schedule.Overlap) bool {
	return o == schedule.OverlapSkip || o == schedule.OverlapBufferOne || o == schedule.OverlapBufferAll
}

// enqueued notes a task that reached its queue.
func (w *witness) enqueued(info *asynq.TaskInfo) {
	t := w.track(claim.FiringID(info.Headers[queue.HeaderFiring]))
	t.tasks[info.ID] = true
	if !t.queued.IsZero() {
		return
	}
	t.queued = time.Now()
	w.judgeLeaving(t)
	if at := t.key.ScheduledAt; t.key.Kind == claim.KindScheduled {
		w.late = append(w.late, t.queued.Sub(at))
		if at.Sub(t.queued) > earlyBy {
			w.violate("early", string(t.id), "queued %s before its time", at.Sub(t.queued))
		}
	}
}

// earlyBy is how far the store's clock may be ahead of a worker's.
const earlyBy = 500 * time.Millisecond

// began checks an answer of Begin.
func (w *witness) began(who string, r claim.BeginRequest, b claim.BeginResult) {
	w.sim.count("begin " + string(b.Answer))
	t := w.track(r.Firing)
	switch b.Answer {
	case claim.BeginUnknown:
		if t.outcome != claim.OutcomeUnknown { // otherwise said again
			w.settled(r.Firing, claim.OutcomeUnknown)
		}
	case claim.BeginCancelled:
		if t.outcome != claim.OutcomeCancelled { // otherwise said again
			w.settled(r.Firing, claim.OutcomeCancelled)
		}
	case claim.BeginRun:
		w.granted(t, who, r, b)
	}
	w.observe(t.key.Schedule)
}

func (w *witness) granted(t *track, who string, r claim.BeginRequest, b claim.BeginResult) {
	now := time.Now()
	if n := len(t.grants); n > 0 {
		last := t.grants[n-1]
		if last.token == b.Token { // the same call, sent again
			return
		}
		if b.Token < last.token {
			w.violate("tokens fell", string(t.id), "%d after %d", b.Token, last.token)
		}
		if last.live(now) && !w.rolled() && !w.sim.c.jumps() {
			w.violate("owners overlapped", string(t.id), "%s got it while %s may trust its lease", who, last.who)
		}
		if last.over.IsZero() {
			last.over = now
		}
	}
	if t.outcome != "" && !w.rolled() {
		w.violate("reopened", string(t.id), "it was settled as %s", t.outcome)
	}
	if l := w.life(t.key); l != nil && !l.removed.IsZero() {
		w.violate("ran after it was deleted", string(t.id), "deleted at %s", clock(l.removed))
	}
	w.besides(t, now)
	t.grants = append(t.grants, &grant{token: b.Token, who: who, at: now, sent: now, lease: r.Lease})
}

// live reports whether the owner may believe in its lease: it gives up a tenth
// before the end.
func (g *grant) live(now time.Time) bool {
	return g.over.IsZero() && now.Before(g.sent.Add(g.lease-g.lease/10))
}

// besides checks that an overlap policy keeps runs apart. A forced trigger runs
// beside everything.
func (w *witness) besides(t *track, now time.Time) {
	l := w.life(t.key)
	if l == nil || t.extra() || l.definition().Overlap == schedule.OverlapAllow || w.rolled() || w.sim.c.jumps() {
		return
	}
	for _, id := range l.firings {
		other := w.tracks[id]
		if other == t || other.extra() || len(other.grants) == 0 {
			continue
		}
		if other.grants[len(other.grants)-1].live(now) {
			w.violate("ran together", string(t.key.Schedule), "%s with %s under %s", t.id, other.id, l.definition().Overlap)
		}
	}
	if !slices.Contains(l.firings, t.id) {
		l.firings = append(l.firings, t.id)
	}
}

// owner returns the newest attempt if it has the token, else nil. A store that
// went back may have forgotten newer ones: there it may be an older one.
func (w *witness) owner(t *track, token claim.Token) *grant {
	for _, g := range slices.Backward(t.grants) {
		if g.token == token {
			return g
		}
		if !w.rolled() {
			break
		}
	}
	return nil
}

// beat notes an extension.
func (w *witness) beat(run claim.Run, pulse claim.Pulse, lease time.Duration) {
	t := w.track(run.Firing)
	if pulse == claim.PulseLost {
		return
	}
	g := w.owner(t, run.Token)
	if g == nil || !g.over.IsZero() && !w.rolled() {
		w.violate("extended a stranger", string(run.Firing), "token %d", run.Token)
		return
	}
	g.sent, g.lease = time.Now(), lease
	if pulse == claim.PulseCancel {
		w.sim.count("run asked to end")
	}
}

// finished notes a report that took effect.
func (w *witness) finished(r claim.FinishRequest, f claim.FinishResult) {
	w.sim.count("finish " + string(f.Answer))
	t := w.track(r.Run.Firing)
	defer w.observe(t.key.Schedule)
	if f.Answer != claim.FinishOK && f.Answer != claim.FinishDisabled {
		return
	}
	g := w.owner(t, r.Run.Token)
	if g == nil {
		w.violate("a stranger reported", string(t.id), "token %d", r.Run.Token)
		return
	}
	if r.HandBack || r.Outcome == claim.OutcomeRetrying {
		g.end()
		return
	}
	g.reported = true
	g.end()
	w.settled(t.id, r.Outcome)
}

func (g *grant) end() {
	if g.over.IsZero() {
		g.over = time.Now()
	}
}

// settled notes the outcome of a firing.
func (w *witness) settled(id claim.FiringID, outcome claim.RunOutcome) {
	t := w.track(id)
	if t.outcome != "" && !w.rolled() {
		w.violate("settled twice", string(id), "%s, then %s", t.outcome, outcome)
	}
	if l := w.life(t.key); outcome == claim.OutcomeCancelled && !t.unwanted && !w.rolled() && l != nil && l.removed.IsZero() && !l.cancels() {
		w.violate("cancelled unasked", string(id), "under %s", l.definition().Overlap)
	}
	t.outcome, t.settled = outcome, time.Now()
	w.ended(t.key, outcome)
	w.sim.count("outcome " + string(outcome))
	w.observe(t.key.Schedule)
}

// effect is the sink: it refuses tokens smaller than one that it has seen.
func (w *witness) effect(id claim.FiringID, token claim.Token, got content) {
	t := w.track(id)
	w.judgeContent(t, got)
	granted := func(g *grant) bool { return g.token == token }
	if !w.sim.c.plain && !slices.ContainsFunc(t.grants, granted) {
		w.violate("effect without a grant", string(id), "token %d", token)
	}
	if token < t.accepted {
		t.fenced++
		w.sim.count("effect fenced off")
		return
	}
	t.accepted = token
	t.effects++
	for _, g := range t.grants {
		if g.token == token {
			g.effect = true
		}
	}
}

func (w *witness) lostTask(key string) {
	id, _, _ := cutTask(idOf(key))
	w.track(claim.FiringID(id)).lost++
}

// redriven notes a re-drive.
func (w *witness) redriven(id claim.FiringID, r claim.RedriveResult) {
	if r.Answer == claim.RedriveOK {
		w.sim.count("re-driven")
		w.track(id).redrives = r.Redrives
	}
}

// extra reports whether it is no scheduled time's own firing: these may run
// beside others.
func (t *track) extra() bool { return t.manual || t.key.Kind == claim.KindBackfill }

// given up reports whether the queue lost all that the auditors could give it.
func (t *track) givenUp() bool {
	return t.outcome == claim.OutcomeLost && t.lost > maxRedrives
}

// rolled reports whether a store forgot something in this simulation.
func (w *witness) rolled() bool { return w.sim.counts["store rolled back"] > 0 }

// sorted returns the keys of a set in order.
func sorted[V any](set map[string]V) []string { return slices.Sorted(maps.Keys(set)) }
