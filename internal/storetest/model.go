package storetest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/memstore"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

const (
	modelSeeds = 10  // sequences of operations, unless BELFRY_TEST_MODEL_SEEDS says otherwise
	modelSteps = 150 // operations in each
	modelTail  = 40  // of them shown when answers differ
)

// Model runs random operations on the backend and on package memstore with the
// same clock and wants equal answers and an equal state after each. A sequence
// depends on its seed alone. BELFRY_TEST_MODEL_SEEDS sets how many there are,
// BELFRY_TEST_MODEL_SEED runs a single one.
func Model(t *testing.T, open Backend) {
	first, count := 1, modelSeeds
	if n, err := strconv.Atoi(os.Getenv("BELFRY_TEST_MODEL_SEEDS")); err == nil {
		count = n
	}
	if n, err := strconv.Atoi(os.Getenv("BELFRY_TEST_MODEL_SEED")); err == nil {
		first, count = n, 1
	}
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			newTwin(t, open, uint64(seed)).run()
		})
	}
}

// A twin is the model and the backend under test, with what operations can
// refer to: each handle is a pair, because tokens and generations may differ.
type twin struct {
	t      *testing.T
	random *rand.Rand
	sides  [2]*env // the model, the backend
	trace  []string

	claims  []pair[claim.Claim]
	firings []pair[claim.FiringID]
	runs    []pair[claim.Run]
	audited []pair[claim.OpenFiring]
	leases  []pair[claim.Lease]
	tasks   []pair[claim.PeriodicClaim]
	edits   int
	cursors [2]string // of events
}

type pair[V any] [2]V

func newTwin(t *testing.T, open Backend, seed uint64) *twin {
	t.Helper()
	real := newEnv(t, open)
	store, err := memstore.New(memstore.Options{Now: real.Now, Shards: real.shards})
	if err != nil {
		t.Fatal(err)
	}
	model := &env{T: t, clock: real.clock, shards: real.shards,
		Stores: Stores{Catalog: store, Claims: store, Ledger: store, Leases: store.Leases(), Check: store.Check,
			Backfills: store, Skipper: store, Events: store, Firings: store, Cancels: store, Calendars: store, Periodic: store.Periodic()}}
	w := &twin{t: t, random: rand.New(rand.NewPCG(seed, seed)), sides: [2]*env{model, real}}
	for side := range w.sides {
		w.cursors[side] = w.firstCursor(side)
	}
	return w
}

// run does the steps; operations have weights.
func (w *twin) run() {
	operations := []struct {
		weight int
		run    func(w *twin)
	}{
		{12, (*twin).advance}, {4, (*twin).put}, {2, (*twin).pause}, {3, (*twin).resume}, {2, (*twin).remove},
		{3, (*twin).trigger}, {14, (*twin).claim}, {16, (*twin).complete}, {3, (*twin).renew}, {3, (*twin).release},
		{12, (*twin).begin}, {12, (*twin).finish}, {3, (*twin).pulse}, {3, (*twin).mark}, {5, (*twin).audit},
		{3, (*twin).redrive}, {3, (*twin).settle}, {3, (*twin).skip}, {2, (*twin).startBackfill}, {1, (*twin).haltBackfill},
		{2, (*twin).dueBackfills}, {4, (*twin).stepBackfill}, {3, (*twin).calendar},
		{4, (*twin).cancel}, {1, (*twin).putMany}, {1, (*twin).list}, {2, (*twin).look}, {1, (*twin).repair}, {3, (*twin).lease}, {5, (*twin).periodic},
	}
	total := 0
	for _, operation := range operations {
		total += operation.weight
	}
	w.calendar()
	for _, id := range modelIDs {
		w.putNew(id)
	}
	for range modelSteps {
		n := w.random.IntN(total)
		for _, operation := range operations {
			if n -= operation.weight; n < 0 {
				operation.run(w)
				break
			}
		}
		w.compareState()
	}
}

// both runs an operation on either side and wants equal answers.
func (w *twin) both(what string, operation func(side int, e *env) string) {
	w.t.Helper()
	answers := [2]string{}
	for side, e := range w.sides {
		answers[side] = operation(side, e)
	}
	w.trace = append(w.trace, fmt.Sprintf("%s %s -> %s", w.sides[0].Now().Format("15:04:05.000"), what, answers[0]))
	if answers[0] != answers[1] {
		w.fail("the answer to "+what, answers)
	}
}

func (w *twin) fail(what string, answers [2]string) {
	w.t.Helper()
	tail := w.trace[max(0, len(w.trace)-modelTail):]
	w.t.Fatalf("%s differs\n  model: %s\n  store: %s\nafter\n  %s", what, answers[0], answers[1], strings.Join(tail, "\n  "))
}

// compareState compares everything that can be read.
func (w *twin) compareState() {
	w.t.Helper()
	answers := [2]string{}
	for side, e := range w.sides {
		entries, err := e.Catalog.GetMany(e.Context(), modelIDs)
		if err != nil {
			w.t.Fatalf("GetMany: %v", err)
		}
		stats, err := e.Catalog.Stats(e.Context())
		if err != nil {
			w.t.Fatalf("Stats: %v", err)
		}
		for _, id := range modelIDs {
			if entry, ok := entries[id]; ok {
				answers[side] += fmt.Sprintf("\n    %s %s", id, describe(entry.Status))
			}
		}
		answers[side] += fmt.Sprintf("\n    total %d active %d paused %d disabled %d completed %d", stats.Total, stats.Active,
			stats.Paused, stats.Disabled, stats.Completed)
		answers[side] += "\n    " + w.plainEvents(side)
		if e.Check != nil {
			if err := e.Check(e.Context()); err != nil {
				w.fail("an invariant", [2]string{"", err.Error()})
			}
		}
	}
	if answers[0] != answers[1] {
		w.fail("the state", answers)
	}
}

// describe renders a status without tokens.
func describe(s schedule.Status) string {
	var history, skips []string
	for _, at := range s.Skips {
		skips = append(skips, short(at))
	}
	for _, v := range s.Verdicts {
		history = append(history, fmt.Sprintf("%d/%d x%d %s..%s", v.Verdict, v.Why, v.Count, short(v.First), short(v.Last)))
	}
	return fmt.Sprintf("v%d %s next %s due %s paused %s by %q for %q until %s probe %s last %s %q at %s took %s runs %d fails %d/%d claimed %t open %d buffered %d fired %d skips %v verdicts %v",
		s.Version, s.State, short(s.NextAt), short(s.DueAt), short(s.PausedAt), s.PausedBy, s.PauseReason, short(s.PausedUntil), short(s.ProbeAt),
		s.LastStatus, s.LastError, short(s.LastRunAt), s.LastDuration, s.RunCount, s.ConsecutiveFails, s.FailCount,
		s.Claimed, s.Open, s.Buffered, s.Fired, skips, history)
}

// short renders an instant as the time since Epoch.
func short(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.Sub(Epoch).String()
}

// plain renders a firing ID without its generation.
func plain(id claim.FiringID) string {
	f, err := claim.ParseFiringID(string(id))
	if err != nil {
		return string(id)
	}
	return fmt.Sprintf("%s/%d/%s%s", f.Schedule, f.Kind, short(f.ScheduledAt), f.Request)
}

// plainAll renders firing IDs, sorted.
func plainAll(ids []claim.FiringID) []string {
	var texts []string
	for _, id := range ids {
		texts = append(texts, plain(id))
	}
	slices.Sort(texts)
	return texts
}

func plainReleased(released []claim.Released) []string {
	var texts []string
	for _, r := range released {
		texts = append(texts, plain(r.Firing)+"@"+r.Queue+plainExtra(r.Extra))
	}
	slices.Sort(texts)
	return texts
}

// pick chooses one of the newest handles, so that old ones still come up but
// recent ones more often.
func pick[V any](random *rand.Rand, all []V) (V, bool) {
	if len(all) == 0 {
		var none V
		return none, false
	}
	back := random.IntN(min(len(all), 1+random.IntN(12)))
	return all[len(all)-1-back], true
}

// chance is true in one of n cases.
func (w *twin) chance(n int) bool { return w.random.IntN(n) == 0 }
