package storm

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/belfryhq/belfry/pkg/schedule"
)

var (
	seeds     = flag.Int("seeds", 50, "how many seeds to run")
	firstSeed = flag.Uint64("first-seed", 1, "the first of them")
	only      = flag.String("only", "", "run this row of the table instead of a drawn scenario")
	update    = flag.Bool("update", false, "write the table in docs/GUARANTEES.md")
	storeName = flag.String("store", "memory", "the store: memory, or lua, which is redisstore with its scripts on miniredis")
	replays   = flag.Int("replays", 20, "how many seeds TestReplay runs twice")
	recorded  = flag.Bool("record", false, "write the totals of TestSeeds into docs/GUARANTEES.md")
	traced    = flag.Bool("events", false, "print the whole trace of every run")
)

// simulate runs a scenario in a bubble of its own.
func simulate(t *testing.T, c func(seed uint64) scenario, seed uint64) (r result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		scenario := c(seed)
		scenario.scripts = scenario.scripts || *storeName == "lua"
		s := newSim(t, scenario, seed)
		s.run()
		r = s.result
		r.name = s.c.name
		r.violated, r.events, r.digest = s.witness.violations, s.log.events, s.digest()
	})
	return r
}

// report fails the test for every violation, with its story.
func (r result) report(t *testing.T, seed uint64) {
	t.Helper()
	for i, v := range r.violated {
		if i == 3 {
			t.Errorf("and %d more", len(r.violated)-i)
			return
		}
		t.Errorf("%s, seed %d: %s at %s: %s\nreplay: go test ./internal/simtest/storm -run TestSeeds -seeds 1 -first-seed %d -only %q\n%s",
			r.name, seed, v.kind, clock(v.at), v.what, seed, *only, r.story(v))
	}
}

// drawn is the scenario of a seed.
func drawn(seed uint64) scenario {
	for _, c := range scenarios() {
		if c.name == *only {
			return c
		}
	}
	for _, r := range regressions() {
		if r.name == *only {
			return r.scenario
		}
	}
	return swarm(seed)
}

// TestSeeds lets fleets weather storms that are drawn from seeds.
func TestSeeds(t *testing.T) {
	t.Parallel()
	n := *seeds
	if testing.Short() || slow {
		n = min(n, 10)
	}
	var sum total
	for seed := *firstSeed; seed < *firstSeed+uint64(n); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := simulate(t, drawn, seed)
			r.report(t, seed)
			sum.add(r)
			if *traced {
				for _, e := range r.events {
					t.Log(e)
				}
			}
		})
	}
	t.Logf("%d seeds: %s", n, sum)
	if *recorded && *only == "" && !t.Failed() {
		record(t, &sum)
	}
	if *only == "" && n >= 50 {
		sum.judgeVariety(t)
	}
}

// sometimes is what must have happened in any fifty storms: faults that never
// occur prove nothing.
var sometimes = []string{
	"crash", "pause", "refused", "lost reply", "duplicated command", "echoed command", "delayed command",
	"delivered twice", "task lost", "stub of a lost task", "recovered by asynq", "re-driven", "settled by the auditor",
	"clock jump of a worker", "clock jump of the store", "outage",
	"paused", "paused for a while", "resumed", "edit", "spec edited", "queue move", "trigger", "trigger repeated", "trigger repeated with other content", "trigger ended what was open",
	"payload of a trigger seen", "scheduled time of a trigger seen", "schedule deleted",
	"claimed again", "overlap met", "handler failed", "run asked to end",
	"begin RUN", "begin SETTLED", "begin BUSY", "begin CANCELLED", "begin GONE", "begin UNKNOWN",
	"finish OK", "finish ALREADY",
	"outcome succeeded", "outcome cancelled", "outcome unknown",
	"skip asked", "skip withdrawn", "calendar edited", "moved by a calendar", "complete CAL",
	"backfill started", "backfill asked for again", "backfill halted", "backfill firing", "backfill by a calendar", "archived by the auditor", "backfill step OK", "backfill step STALE", "backfill step WAIT",
	"cancel ASKED", "cancel CANCELLED", "cancel CLOSED", "breaker opened", "breaker probed", "breaker closed", "store rolled back", "queue rolled back",
}

// record writes the totals into docs/GUARANTEES.md.
func record(t *testing.T, sum *total) {
	t.Helper()
	text, err := os.ReadFile(guarantees)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- record "+*storeName+": begin -->\n", "<!-- record "+*storeName+": end -->"
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place between %q and %q", guarantees, begin, end)
	}
	line := fmt.Sprintf("Store %s, seeds %d to %d: %s.\n", *storeName, *firstSeed, *firstSeed+uint64(sum.seeds)-1, sum)
	if err := os.WriteFile(guarantees, []byte(before+begin+line+end+after), 0o600); err != nil {
		t.Fatal(err)
	}
}

// luaRows are rows of the table that the scripts weather too, beside drawn storms.
var luaRows = []string{"L3", "C1", "F1", "E4", "L4"}

// happensToScripts is what must have happened in the storms over the scripts.
var happensToScripts = []string{"crash", "pause", "refused", "lost reply", "duplicated command", "echoed command", "delayed command",
	"store rolled back", "queue rolled back", "task lost", "re-driven", "settled by the auditor", "claimed again", "delivered twice",
	"schedule deleted", "spec edited", "queue move", "paused", "resumed", "trigger", "begin RUN", "begin SETTLED", "begin BUSY", "finish OK"}

// TestScripts lets the same fleets weather storms with the product's own store:
// redisstore and its Lua scripts, on a miniredis in the bubble.
func TestScripts(t *testing.T) {
	t.Parallel()
	n := 5
	if testing.Short() || slow {
		n = 1
	}
	var sum total
	storm := func(name string, seed uint64, c scenario) {
		c.scripts = true
		r := simulate(t, func(uint64) scenario { return c }, seed)
		r.name = "on the scripts, " + name
		r.report(t, seed)
		sum.add(r)
	}
	for seed := uint64(1); seed <= uint64(n); seed++ {
		storm("drawn", seed, swarm(seed))
	}
	for _, c := range scenarios() {
		if slices.Contains(luaRows, c.name) && n > 1 {
			storm(c.name, 1, c)
		}
	}
	t.Logf("%d seeds: %s", sum.seeds, sum)
	if sum.lost > 0 || sum.repeated != sum.excused {
		t.Errorf("%d lost and %d run twice without a reason, want none", sum.lost, sum.repeated-sum.excused)
	}
	for _, what := range happensToScripts {
		if n > 1 && sum.counts[what] == 0 {
			t.Errorf("on the scripts this never happened: %s", what)
		}
	}
}

func (s *total) judgeVariety(t *testing.T) {
	t.Helper()
	for _, what := range sometimes {
		if s.counts[what] == 0 {
			t.Errorf("in all these storms this never happened: %s", what)
		}
	}
	for v := schedule.VerdictFired; v <= schedule.VerdictSuperseded; v++ {
		if s.verdicts[v] == 0 {
			t.Errorf("in all these storms no scheduled time got verdict %d", v)
		}
	}
}

// TestReplay wants a seed to give the same run, event by event.
func TestReplay(t *testing.T) {
	t.Parallel()
	n := *replays
	if testing.Short() || slow {
		n = min(n, 6)
	}
	for seed := *firstSeed; seed < *firstSeed+uint64(n); seed++ {
		wantReplay(t, drawn, seed)
	}
}

// TestRowsReplay wants the same of every row of the table: some have what drawn
// storms do not, as consumers without our middleware.
func TestRowsReplay(t *testing.T) {
	t.Parallel()
	if testing.Short() || slow {
		t.Skip("TestReplay has to do")
	}
	for _, row := range scenarios() {
		t.Run(row.name, func(t *testing.T) {
			wantReplay(t, func(uint64) scenario { return row }, *firstSeed)
		})
	}
}

// wantReplay runs a seed twice.
func wantReplay(t *testing.T, c func(uint64) scenario, seed uint64) {
	t.Helper()
	a, b := simulate(t, c, seed), simulate(t, c, seed)
	if a.digest == b.digest && len(a.events) > 1000 {
		return
	}
	for i := range min(len(a.events), len(b.events)) {
		if a.events[i] != b.events[i] {
			from := max(0, i-20)
			t.Errorf("seed %d, event %d: first run\n%s\nsecond run\n%s", seed, i, lines(a.events[from:i+3]), lines(b.events[i:i+3]))
			break
		}
	}
	t.Errorf("seed %d gave %d events, then %d", seed, len(a.events), len(b.events))
}

func lines(events []event) string {
	var text []string
	for _, e := range events {
		text = append(text, e.String())
	}
	return strings.Join(text, "\n")
}
