package chaos

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A verdict is what the store says of a scheduled time, and when it said so
// first.
type verdict struct {
	is   schedule.Verdict
	seen time.Time
}

// verdicts collects them while the fleet works: the store keeps a bounded
// number of ranges.
type verdicts struct {
	from    time.Time // scheduled times before it are not judged
	rolled  time.Time // when Redis was started again; zero: not yet
	of      map[string]map[time.Time]verdict
	changed []string // that another verdict was heard than before
}

func (v *verdicts) restarted(from time.Time) {
	v.rolled = time.Now()
	if !from.IsZero() {
		v.from, v.of = from, map[string]map[time.Time]verdict{}
	}
}

// look notes what the store says now.
func (v *verdicts) look(t *testing.T, f *fleet) {
	t.Helper()
	now := time.Now()
	f.pages(t, func(e schedule.Entry) {
		id := string(e.Schedule.ID)
		if v.of[id] == nil {
			v.of[id] = map[time.Time]verdict{}
		}
		for at := v.from.Truncate(time.Second); at.Before(now); at = at.Add(time.Second) {
			r, ok := e.Status.VerdictAt(at)
			if !ok || !due(id, at) {
				continue
			}
			before, known := v.of[id][at]
			switch {
			case !known, before.is != r.Verdict && before.seen.Before(v.rolled): // Redis may have forgotten the first
				v.of[id][at] = verdict{r.Verdict, now}
			case before.is != r.Verdict:
				v.changed = append(v.changed, fmt.Sprintf("%s at %s: verdict %d became %d", id, at.UTC(), before.is, r.Verdict))
			}
		}
	})
}

// kindOf returns the kind of a schedule, and its period.
func kindOf(id string) (kind, time.Duration) {
	parts := strings.Split(id, "-")
	name := strings.Join(parts[:len(parts)-2], "-")
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	seconds, err := strconv.Atoi(parts[len(parts)-2])
	if i < 0 || err != nil {
		panic("a schedule of no kind: " + id)
	}
	return kinds[i], time.Duration(seconds) * time.Second
}

// due says whether a schedule has a scheduled time at a whole second. All
// periods divide a minute, or a grid that starts at 1970 all the same.
func due(id string, at time.Time) bool {
	k, period := kindOf(id)
	return at.UnixMilli()%period.Milliseconds() == 0 && k.due(at.UTC())
}

// A tally is what the judge saw.
type tally struct {
	times, fired, notFired, repeated, unknown, cancelled, redelivered int
}

// judge compares verdicts, the run log and the effects in the sink with the
// times of a clock.
func (w *weather) judge(t *testing.T, v *verdicts, to time.Time) {
	t.Helper()
	var sum tally
	effects := w.sink.arrivals()
	for _, change := range v.changed {
		t.Error(change)
	}
	w.pages(t, func(e schedule.Entry) {
		id := string(e.Schedule.ID)
		k, _ := kindOf(id)
		final := w.final(t, e.Schedule.ID)
		for at := v.from.Truncate(time.Second).Add(time.Second); at.Before(to); at = at.Add(time.Second) {
			if !due(id, at) {
				continue
			}
			sum.times++
			firing := claim.ScheduledFiring(e.Schedule.ID, e.Status.Generation, at)
			got, ok := v.of[id][at]
			if !ok || !strings.Contains(k.verdicts, strconv.Itoa(int(got.is))) {
				t.Errorf("%s at %s: verdict %d (%v), want one of %s", id, at.UTC(), got.is, ok, k.verdicts)
				continue
			}
			if got.is != schedule.VerdictFired {
				sum.notFired++
				if n := len(effects[string(firing)]); n > 0 && !w.met("redis", effects[string(firing)][0]) {
					t.Errorf("%s: verdict %d, and %d effects", firing, got.is, n)
				}
				continue
			}
			sum.fired++
			w.judgeFired(t, firing, k, final[firing], effects[string(firing)], &sum)
		}
	})
	w.judgeStrangers(t, effects)
	t.Logf("%d scheduled times: %d fired, %d with another verdict; %d with a second effect; outcomes unknown %d, cancelled %d; faults %d",
		sum.times, sum.fired, sum.notFired, sum.repeated, sum.unknown, sum.cancelled, len(w.faults))
	for _, f := range w.faults {
		t.Logf("  %s at %s", f.what, f.from.UTC().Format(time.TimeOnly))
	}
	if violations, err := w.store.Check(t.Context()); err != nil || len(violations) > 0 {
		t.Errorf("invariants: %v %v", violations, err)
	}
}

// judgeFired wants one final outcome, an effect, and a second one only where a
// fault met the first.
func (w *weather) judgeFired(t *testing.T, firing claim.FiringID, k kind, outcomes []claim.RunOutcome, effects []time.Time, sum *tally) {
	t.Helper()
	forgotten := len(effects) > 0 && w.met("redis", effects[0])
	if len(outcomes) != 1 && !forgotten {
		t.Errorf("%s: final outcomes %v, effects %v", firing, outcomes, effects)
		return
	}
	outcome := claim.OutcomeSucceeded
	if len(outcomes) > 0 {
		outcome = outcomes[len(outcomes)-1]
	}
	switch {
	case outcome == claim.OutcomeUnknown && k.once:
		sum.unknown++
	case outcome == claim.OutcomeCancelled && k.name == "cancel":
		sum.cancelled++
	case outcome != claim.OutcomeSucceeded:
		t.Errorf("%s: outcome %s", firing, outcome)
	case len(effects) == 0:
		t.Errorf("%s: finished without an effect", firing)
	}
	if len(effects) < 2 {
		return
	}
	sum.repeated++
	switch {
	case forgotten:
	case k.once:
		t.Errorf("%s is at most once and had effects at %v", firing, effects)
	case !w.met("", effects[0]):
		t.Errorf("%s: effects at %v, and no fault near the first", firing, effects)
	}
}

// judgeStrangers wants no effect at a time that is none.
func (w *weather) judgeStrangers(t *testing.T, effects map[string][]time.Time) {
	t.Helper()
	for text, at := range effects {
		firing, err := claim.ParseFiringID(text)
		if err != nil || firing.Kind != claim.KindScheduled || !due(string(firing.Schedule), firing.ScheduledAt) {
			t.Errorf("%s: an effect of no scheduled time (%v)", text, err)
		} else if early := firing.ScheduledAt.Sub(at[0]); early > 100*time.Millisecond {
			t.Errorf("%s ran %s early", text, early)
		}
	}
}

// met says whether a fault, whose name starts so, met a run whose effect was
// then.
func (w *weather) met(what string, effect time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.faults, func(f fault) bool {
		return strings.HasPrefix(f.what, what) && effect.After(f.from.Add(-weatherRun-2*time.Second)) && effect.Before(f.to.Add(time.Second))
	})
}

// final collects the outcomes of a schedule's firings that are no retry.
func (w *weather) final(t *testing.T, id schedule.ID) map[claim.FiringID][]claim.RunOutcome {
	t.Helper()
	runs, err := w.store.Runs(t.Context(), id, 1000)
	if err != nil {
		t.Fatalf("runs of %s: %v", id, err)
	}
	out := map[claim.FiringID][]claim.RunOutcome{}
	for _, r := range runs {
		if r.Outcome != claim.OutcomeRetrying {
			out[r.Firing] = append(out[r.Firing], r.Outcome)
		}
	}
	return out
}
