package storm

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var mutate = flag.Bool("mutants", false, "break one rule after the other in a private copy, and want the checker to see each (minutes)")

// A mutant breaks one rule of the product.
type mutant struct {
	rule  string
	row   string // of the table, whose faults need the rule
	seen  string // kinds of violations of which one must be seen
	edits []edit
}

// An edit replaces the one place in a file of the module that reads from.
type edit struct{ file, from, to string }

const (
	recordFile  = "internal/memstore/record.go"
	claimsFile  = "internal/memstore/claims.go"
	ledgerFile  = "internal/memstore/ledger.go"
	catalogFile = "internal/memstore/catalog.go"

	backfillFile = "internal/memstore/backfill.go"
)

var mutants = []mutant{
	{"begin raises the mark", "B1", "doubled|wrong-verdict|reopened|lost", []edit{{ledgerFile, "	r.passed(f)\n	r.note =", "	r.note ="}}},
	{"an edit keeps the intent of a claim that it meets", "E1", "wrong-verdict|gap", []edit{{recordFile, "	if d.firings[r.pending()] != nil {\n		r.advance(", "	if false {\n		r.advance("}}},
	{"an edit keeps an intent that was handed back", "E5", "wrong-verdict", []edit{{catalogFile, "		d.keepIntent(r)\n", ""}}},
	{"what was claimed twice fires, whatever a worker decides", "P1p", "wrong-verdict|lost|doubled", []edit{{claimsFile, "	if noFire && f != nil", "	if noFire && false && f != nil"}, {"pkg/schedule/plan.go", "	case in.Again:\n", "	case false:\n"}}},
	{"finish is fenced", "Z1", "stranger", []edit{{ledgerFile, "request.Run.Token == 0 || f.token != request.Run.Token", "request.Run.Token == 0"}}},
	{"heartbeats are fenced", "Z1", "stranger", []edit{{ledgerFile, "f.state != claim.FiringRunning || f.token != run.Token", "f.state != claim.FiringRunning"}}},
	{"a live lease is respected", "B2", "owners-overlapped|doubled", []edit{{ledgerFile, "		case f.leaseUntil.After(now):\n", "		case false:\n"}}},
	{"what is settled is never adopted", "B2", "doubled|reopened", []edit{{ledgerFile, "!key.ScheduledAt.After(r.hwm), key.ScheduledAt.Before(r.next)", "false"}}},
	{"a release waits for the open firings", "V3", "ran-together", []edit{{recordFile, "	if r.flag != enabled || len(r.open) > 0 ||", "	if r.flag != enabled ||"}}},
	{"the end of a run releases the buffer", "V2", "check|leftover|lost", []edit{{recordFile, "	released := d.drain(r, now.Add(releaseAudit))\n	if !r.waiting", "	var released []claim.Released\n	if !r.waiting"}}},
	{"skip obeys what is open", "V1", "fired-while-open|ran-together", []edit{{claimsFile, "	case len(others) > 0 && r.obeysOverlap():", "	case false:"}}},
	{"cancel_other waits for the run that it ended", "V4", "ran-together", []edit{{ledgerFile, "if other != f && other.state == claim.FiringRunning && other.leaseUntil.After(now) {", "if false {"}}},
	{"a pause stops claims", "P1", "claimed-while-paused", []edit{{recordFile, "	return r.flag == enabled || r.flag == halfOpen", "	return r.flag != halfOpen || r.flag == halfOpen"}, {recordFile, "	case r.flag == paused || r.flag == disabled:\n		return r.until", "	case r.flag == disabled:\n		return r.until"}}},
	{"the store's clock is capped by the caller's", "T1", "early", []edit{{"internal/memstore/memstore.go", "	if limit.Before(now) {\n", "	if false {\n"}}},
	{"a verdict is final", "B1", "count|check|mark|gap", []edit{{recordFile, "	if !v.Last.After(r.hwm) {\n		return\n	}\n", ""}}},
	{"tokens grow", "B3", "tokens-fell|stranger|doubled", []edit{{"internal/memstore/memstore.go", "	return d.tokens[shard]\n}", "	return 1<<62 - d.tokens[shard]\n}"}}},
	{"at most once does not run again", "F2", "at-most-once|lost|doubled", []edit{{ledgerFile, "		case request.Effect == schedule.AtMostOnce:\n", "		case false:\n"}}},
	{"the auditor enqueues a lost task again", "B4", "leftover|lost", []edit{{"pkg/queue/decide.go", "	case !task.exists:\n		return decision{what: doRedrive", "	case !task.exists:\n		return decision{what: doLeave"}}},
	{"the auditor enqueues what is owed", "P4", "leftover|lost", []edit{{"pkg/queue/decide.go", "return decision{what: doEnqueue", "return decision{what: doLeave"}}},
	{"what is settled is acknowledged, not run", "B2", "effect-without-a-grant", []edit{{"pkg/queue/middleware.go", "	switch grant.Answer {\n", "	if grant.Answer == claim.BeginSettled {\n		grant.Answer = claim.BeginRun\n	}\n	switch grant.Answer {\n"}}},
	{"a payload comes out of the buffer with its firing", "P4", "wrong-content", []edit{{recordFile, "Queue: f.queue, Extra: f.extra}", "Queue: f.queue}"}}},
	{"the auditor enqueues the payload of a trigger", "P4", "wrong-content", []edit{{"pkg/queue/act.go", "Redrives: f.Redrives, Definition: definition, Queue: f.Queue, Extra: f.Extra}", "Redrives: f.Redrives, Definition: definition, Queue: f.Queue}"}}},
	{"the completion of a task is repeated", "B5", "doubled", []edit{{"pkg/queue/backoff.go", "ok && completes(", "false && completes("}}},
	// Without a row: drawn storms.
	{"a re-drive carries the payload of a trigger", "", "wrong-content", []edit{{"pkg/queue/act.go", "Redrives: redrives, Definition: definition, Queue: f.Queue, Extra: f.Extra}", "Redrives: redrives, Definition: definition, Queue: f.Queue}"}}},
	{"a skip counts while a claim waits for the overlap policy", "", "wrong-verdict", []edit{{claimsFile, "		case slices.ContainsFunc(r.skips, r.next.Equal): // asked", "		case false: // asked"}}},
	{"one probe at a time", "", "probe-beside-a-run", []edit{{recordFile, "r.flag == enabled || r.flag == halfOpen && len(r.others(r.pending())) == 0", "r.flag == enabled || r.flag == halfOpen"}, {recordFile, "	case r.next.IsZero() || r.flag == halfOpen && len(r.others(r.pending())) > 0:", "	case r.next.IsZero():"}}},
	{"the breaker opens at the failure that reaches the bound", "", "breaker-stayed-closed", []edit{{recordFile, "r.consecutive >= limit", "r.consecutive > limit"}}},
	{"only what is buffered is cancelled at once", "", "reopened|settled-twice|stranger|cancelled-what-ran|lost", []edit{{"internal/memstore/cancel.go", "	if f.state == claim.FiringBuffered {", "	if true {"}}},
	{"who is not asked to end is not cancelled", "", "cancelled-unasked|lost", []edit{{ledgerFile, "		if f.cancel {\n			pulses[i] = claim.PulseCancel", "		if true {\n			pulses[i] = claim.PulseCancel"}}},
	{"what was decided with old calendars is decided again", "", "old-calendars", []edit{{claimsFile, "r.compiled.UsesCalendars() && calendars < d.calendarV", "false"}}},
	{"a backfill opens what the calendars leave open", "K3", "backfill", []edit{{"pkg/worker/backfiller.go", "almanac.read(ctx, math.MaxInt64)", "almanac.read(ctx, math.MaxInt64*0)"}}},
	{"a step of a backfill is taken once", "", "backfill", []edit{{backfillFile, "	case !b.Cursor.Equal(millis(step.Expected)) || ", "	case "}}},
}

// TestMutantsAreCurrent wants every rule to be where the list says, so that
// the list cannot rot unseen.
func TestMutantsAreCurrent(t *testing.T) {
	for _, m := range mutants {
		if _, err := m.files(); err != nil {
			t.Errorf("%s: %v", m.rule, err)
		}
	}
}

// files returns the broken files by their path from the root.
func (m mutant) files() (map[string]string, error) {
	broken := map[string]string{}
	for _, e := range m.edits {
		text, ok := broken[e.file]
		if !ok {
			read, err := os.ReadFile(filepath.Join("../../..", e.file))
			if err != nil {
				return nil, err
			}
			text = string(read)
		}
		if n := strings.Count(text, e.from); n != 1 {
			return nil, fmt.Errorf("%s has %d places that read %q, want 1", e.file, n, e.from)
		}
		broken[e.file] = strings.Replace(text, e.from, e.to, 1)
	}
	return broken, nil
}

// TestMutants breaks one rule at a time and wants the checker to see it.
func TestMutants(t *testing.T) {
	if !*mutate {
		t.Skip("minutes of compiling: make mutants")
	}
	for _, m := range mutants {
		t.Run(m.rule, func(t *testing.T) { m.run(t) })
	}
}

var kinds = regexp.MustCompile(`VIOLATION ([a-z-]+)`)

func (m mutant) run(t *testing.T) {
	files, err := m.files()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	dir, replace := t.TempDir(), map[string]string{}
	for file, text := range files {
		broken := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		replace[filepath.Join(root, file)] = broken
		if err := os.WriteFile(broken, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	var found map[string]int
	var out []byte
	for _, seeds := range []string{"40", "400"} { // some rules are missed in one storm of a hundred
		out, err = exec.CommandContext(t.Context(), "go", "test", "-overlay", filepath.Join(dir, "overlay.json"), ".",
			"-run", "TestSeeds", "-seeds", seeds, "-only", m.row).CombinedOutput()
		if strings.Contains(string(out), "[build failed]") {
			t.Fatalf("the broken rule does not compile:\n%.2000s", out)
		}
		found = map[string]int{}
		for _, kind := range kinds.FindAllStringSubmatch(string(out), -1) {
			found[kind[1]]++
		}
		if err != nil && (regexp.MustCompile(m.seen).MatchString(fmt.Sprint(found)) || strings.Contains(string(out), "panic: ")) {
			t.Logf("seen in %s storms as %v", seeds, found)
			return
		}
	}
	t.Errorf("without the rule, row %s gave %v, want one of %s\n%.2000s", m.row, found, m.seen, out)
}
