package storm

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// A total adds up results.
type total struct {
	seeds                                          int
	times, lost, repeated, excused, fenced, failed int
	manual, violated                               int
	verdicts                                       map[schedule.Verdict]int
	counts                                         map[string]int
	late                                           []time.Duration
}

func (s *total) add(r result) {
	if s.counts == nil {
		s.counts, s.verdicts = map[string]int{}, map[schedule.Verdict]int{}
	}
	s.seeds++
	s.times, s.lost, s.repeated, s.excused = s.times+r.times, s.lost+r.lost, s.repeated+r.repeated, s.excused+r.excused
	s.fenced, s.failed, s.manual, s.violated = s.fenced+r.fenced, s.failed+r.failed, s.manual+r.manual, s.violated+len(r.violated)
	s.late = append(s.late, r.late...)
	for v, n := range r.verdicts {
		s.verdicts[v] += n
	}
	for what, n := range r.counts {
		s.counts[what] += n
	}
}

// String is the sum on one line.
func (s total) String() string {
	var counts []string
	for _, what := range slices.Sorted(maps.Keys(s.counts)) {
		counts = append(counts, fmt.Sprintf("%s %d", what, s.counts[what]))
	}
	return fmt.Sprintf("%d scheduled times, %d lost, %d run twice, %d of these after a crash, a pause, a clock jump or a rollback, %d violations; %s",
		s.times, s.lost, s.repeated, s.excused, s.violated, strings.Join(counts, ", "))
}

// quantile returns how late that share of all firings reached their queues.
func (s *total) quantile(q float64) time.Duration {
	if len(s.late) == 0 {
		return 0
	}
	slices.Sort(s.late)
	return s.late[min(len(s.late)-1, int(q*float64(len(s.late))))].Round(time.Millisecond)
}

// row is a row of the table.
func (s *total) row(c scenario) string {
	v := s.verdicts
	cells := []any{c.name, c.about, s.times, v[schedule.VerdictFired], v[schedule.VerdictOverlap],
		v[schedule.VerdictCoalesced] + v[schedule.VerdictMissed], v[schedule.VerdictPaused] + v[schedule.VerdictSuperseded] + v[schedule.VerdictSkipped] + v[schedule.VerdictExcluded], s.lost,
		s.repeated, s.excused, s.repeated - s.excused, s.fenced, s.failed, s.quantile(0.5), s.quantile(0.99)}
	var texts []string
	for _, cell := range cells {
		texts = append(texts, fmt.Sprint(cell))
	}
	return "| " + strings.Join(texts, " | ") + " |"
}

const (
	guarantees = "../../../docs/GUARANTEES.md"
	tableStart = "<!-- numbers: begin -->\n"
	tableEnd   = "<!-- numbers: end -->"
	tableHead  = "| case | what happens | scheduled times | fired | overlap | coalesced or missed | paused, superseded, skipped or excluded | lost | run again | of these explained | unexplained | refused by the sink | attempts used up | late, median | late, 99 % |\n" +
		"|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"
)

// TestNumbers runs every row of the table in docs/GUARANTEES.md, with -update
// for as many seeds as -seeds says, and then writes it.
func TestNumbers(t *testing.T) {
	t.Parallel()
	n := 2
	if testing.Short() || slow {
		n = 1
	}
	if *update {
		n = *seeds
	}
	text, err := os.ReadFile(guarantees)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	fenced := 0
	for _, c := range scenarios() {
		var sum total
		for seed := *firstSeed; seed < *firstSeed+uint64(n); seed++ {
			r := simulate(t, func(uint64) scenario { return c }, seed)
			r.report(t, seed)
			sum.add(r)
		}
		judgeRow(t, c, &sum)
		fenced += sum.fenced
		table.WriteString(sum.row(c) + "\n")
		if !strings.Contains(string(text), "\n| "+c.name+" | "+c.about+" |") && !*update {
			t.Errorf("docs/GUARANTEES.md has no row %s, %s: run make numbers", c.name, c.about)
		}
	}
	if n >= 20 && fenced == 0 {
		t.Errorf("the sink refused no effect in any row: no zombie took effect late")
	}
	if *update {
		writeTable(t, string(text), fmt.Sprintf("%d seeds a row.\n\n%s%s", n, tableHead, table.String()))
	}
}

// judgeRow wants what the row promises.
func judgeRow(t *testing.T, c scenario, s *total) {
	t.Helper()
	if s.lost != 0 {
		t.Errorf("%s: %d scheduled times lost, want 0", c.name, s.lost)
	}
	// A plain consumer can be asked to end after its effect, and asynq takes that for a failure.
	if unexplained := s.repeated - s.excused; unexplained != 0 && (!c.plain || c.hooked && c.overlap != schedule.OverlapCancelOther) {
		t.Errorf("%s: %d effects beyond the first without a reason, want 0", c.name, unexplained)
	}
	if c.calm && (s.quantile(1) > time.Second || s.repeated > 0) {
		t.Errorf("%s: up to %s late and %d run again, want less than a second and 0", c.name, s.quantile(1), s.repeated)
	}
	if c.name == "Z1" && s.seeds >= 20 && s.counts["finish STALE"] == 0 {
		t.Errorf("Z1: the ledger refused no report: no zombie came late")
	}
	if c.name == "A3" && s.repeated == 0 && s.seeds > 1 {
		t.Errorf("A3: nothing ran twice without the ledger: the simulation proves nothing")
	}
}

func writeTable(t *testing.T, text, table string) {
	t.Helper()
	before, rest, ok := strings.Cut(text, tableStart)
	_, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no table between %q and %q", guarantees, tableStart, tableEnd)
	}
	if err := os.WriteFile(guarantees, []byte(before+tableStart+table+tableEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
