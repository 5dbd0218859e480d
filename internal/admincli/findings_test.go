package admincli

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/internal/redistest"
)

// What users of other schedulers complain of or ask for again and again, and
// how this program answers. The numbers are those of the survey of their issue
// trackers.
var findings = map[int]string{
	1:  "an update resets what was not mentioned",
	2:  "when does it fire next, and in which zone",
	3:  "preview before it runs",
	4:  "cron in words",
	5:  "run now, without replacing the planned run",
	6:  "pause without deleting, kept over deploys",
	7:  "deleting a task killed the schedule",
	8:  "history is lost when tasks expire",
	9:  "false alarms from zones, grace and early runs",
	10: "find the few failures among many",
	11: "machine output is missing or on one command only",
	12: "no change must be visible to scripts",
	13: "deleting without asking",
	14: "tokens of forms behind proxies, scripts in job arguments",
	15: "a refresh that jumps",
	16: "large numbers are rounded",
	17: "negative or odd durations",
}

// webOnly are findings of which this program has no part, with the reason.
var webOnly = map[int]string{
	14: "there are no forms, cookies and pages here; what a payload with a script does to the other outputs, TestHostile... shows",
}

// Every finding has a test under its number, or says why a command line has no
// part in it.
func TestEveryFindingHasATest(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "findings_test.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	tested := map[string]bool{}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			name, _, _ := strings.Cut(strings.TrimPrefix(f.Name.Name, "TestFinding"), "_")
			tested[name[:min(2, len(name))]] = strings.HasPrefix(f.Name.Name, "TestFinding")
		}
	}
	for n, text := range findings {
		if has := tested[fmt.Sprintf("%02d", n)]; has == (webOnly[n] != "") {
			t.Errorf("%d (%s): tested: %t, reason for none: %q", n, text, has, webOnly[n])
		}
	}
	if len(findings) != 17 {
		t.Errorf("%d findings, there are 17", len(findings))
	}
}

// findingsWorld is a world for one finding.
func findingsWorld(t *testing.T) *rig {
	t.Helper()
	inFiles(t)
	return newWorld(t)
}

// has checks that a text has all parts.
func has(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s: %q is not in\n%s", what, part, text)
		}
	}
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (r *rig) field(id, name string) string {
	r.t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(r.must("schedule", "get", id, "-o", "json").stdout), &all); err != nil {
		r.t.Fatal(err)
	}
	return string(all[name])
}

// TestUpdateLeavesEveryOtherFieldByteEqual holds the same for every flag.
func TestFinding01_UpdateChangesWhatIsNamed(t *testing.T) {
	r := findingsWorld(t)
	payload, expression := r.field("nightly-report", "payload"), r.field("nightly-report", "expression")
	got := r.must("schedule", "update", "nightly-report", "--description", "new")
	has(t, "update", got.stdout, `description: "the report of the day" → "new"`)
	if r.field("nightly-report", "payload") != payload || r.field("nightly-report", "expression") != expression {
		t.Error("update changed what was not named")
	}
	if got := r.run("schedule", "update", "nightly-report", "--description", "lost", "--if-version", "1"); got.code != exitConflict || r.field("nightly-report", "description") != `"new"` {
		t.Errorf("an update of a version that is gone: %+v", got)
	}
	r.stdin = `{id: nightly-report, expression: "30 2 * * *", timezone: America/New_York, type: "report:build"}`
	plan := r.must("apply", "-f", "-", "--plan")
	has(t, "apply replaces, and shows it first", plan.stdout, "description:", "payload:", "labels:")
	if r.field("nightly-report", "payload") != payload {
		t.Error("a plan changed something")
	}
}

func TestFinding02_EveryTimeHasItsZone(t *testing.T) {
	r := findingsWorld(t)
	got := r.must("schedule", "list")
	has(t, "list", got.stdout, "2026-11-30 09:00 CET (in 1h 52m)", "2026-11-30 06:10 UTC (in 2m 58s)")
	has(t, "the clock below a list", got.stderr, "now 2026-11-30 06:07:02 UTC (Redis clock, yours agrees)")
	has(t, "history has the zone of the list", r.must("schedule", "history", "cache-warm").stdout, "2026-11-30 06:05 UTC")
	local := r.must("schedule", "list", "--tz", "Asia/Tokyo")
	has(t, "the viewer's zone", local.stdout+local.stderr, "2026-11-30 17:00 JST", "2026-11-30 15:10 JST", "2026-11-30 15:07:02 JST")
	if got := r.field("billing-close", "next_at"); got != `"2026-11-30T09:00:00+01:00"` {
		t.Errorf("JSON has %s", got)
	}
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	for _, line := range lines[1:] {
		if !strings.Contains(line, "(in ") && !strings.Contains(line, "paused") && !strings.Contains(line, "disabled") && !strings.Contains(line, "completed") {
			t.Errorf("no next firing in %q", line)
		}
	}
}

func TestFinding03_PreviewBeforeItRuns(t *testing.T) {
	r := findingsWorld(t)
	r.environ = map[string]string{} // no store
	got := r.must("schedule", "preview", "--cron", "30 2 * * *", "--tz", "America/New_York", "--from", "2027-03-12", "-n", "4", "--dst")
	has(t, "preview", got.stdout, "2027-03-13 02:30 EST", "2027-03-14 03:00 EDT", "does not exist")
}

func TestFinding04_CronInWords(t *testing.T) {
	r := findingsWorld(t)
	has(t, "list", r.must("schedule", "list").stdout, "At 02:30 every day, America/New_York", "At 09:00 on weekdays, Europe/Berlin", "Every 5m")
	has(t, "create", r.must("schedule", "create", "new", "--cron", "0 9 1 * *", "--type", "log").stdout, "At 09:00 on the 1st, UTC")
	r.terminal = Terminal{Stdin: true, Stdout: true, Stderr: true}
	has(t, "delete", r.run("schedule", "delete", "billing-close").stderr, "At 09:00 on weekdays, Europe/Berlin")
}

func TestFinding05_RunNowIsAnExtraRun(t *testing.T) {
	r := findingsWorld(t)
	next := r.field("cache-warm", "next_at")
	got := r.must("schedule", "trigger", "cache-warm")
	has(t, "trigger", got.stdout, "an extra firing", "next planned firing stays 2026-11-30 06:10 UTC")
	if after := r.field("cache-warm", "next_at"); after != next {
		t.Errorf("next firing %s, was %s", after, next)
	}
}

func TestFinding06_PauseIsKeptOverDeploys(t *testing.T) {
	r := findingsWorld(t)
	has(t, "get", r.must("schedule", "get", "nightly-report").stdout, "by ana", "database move", "until 2026-11-30 03:07")
	r.must("apply", "-f", "schedules.yaml")
	r.must("schedule", "update", "nightly-report", "--description", "deployed")
	if state := r.field("nightly-report", "state"); state != `"paused"` {
		t.Errorf("after a deploy the state is %s", state)
	}
	r.must("apply", "-f", "unpaused.yaml") // of another schedule
	has(t, "list", r.must("schedule", "list", "--state", "paused", "-o", "name").stdout, "nightly-report")
}

// The tasks of a schedule are deleted one by one and all at once, on a store
// that shares its server with the queues.
func TestFinding07_DeletingTasksTouchesNoSchedule(t *testing.T) {
	client := redistest.Backends()[0].Dial(t)
	r := newRig(t)
	r.open = OpenRedis
	r.environ["BELFRY_REDIS_URL"] = "redis://" + address(t, client)
	r.must("schedule", "create", "report", "--every", "1h", "--type", "log")
	tasks := asynq.NewClientFromRedisClient(client)
	for i := range 3 {
		task := asynq.NewTaskWithHeaders("log", nil, map[string]string{"Belfry-Schedule": "report"})
		if _, err := tasks.Enqueue(task, asynq.TaskID(fmt.Sprintf("report:1:%d", i)), asynq.ProcessIn(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	before := r.must("schedule", "get", "report", "-o", "json").stdout
	r.must("task", "delete", "report:1:0", "--yes")
	r.must("task", "delete", "--all-matching", "--schedule", "report", "--yes")
	if left := r.must("task", "list", "-o", "name").stdout; left != "" {
		t.Errorf("left are %q", left)
	}
	if after := r.must("schedule", "get", "report", "-o", "json").stdout; after != before {
		t.Errorf("was\n%s\nis\n%s", before, after)
	}
}

func TestFinding08_HistoryOutlivesTasks(t *testing.T) {
	r := findingsWorld(t)
	r.must("task", "delete", "--all-matching", "--yes")
	has(t, "history", r.must("schedule", "history", "partner-sync").stdout, "failed", "connection refused")
	for _, at := range []string{"06:00", "06:03"} {
		has(t, "why "+at, r.must("schedule", "why", "partner-sync", at).stdout, "it fired, and ran", "connection refused")
	}
}

func TestFinding09_NoFalseAlarms(t *testing.T) {
	r := newRig(t)
	r.now = time.Date(2027, 3, 13, 12, 0, 0, 0, time.UTC)
	r.must("schedule", "create", "night", "--cron", "30 2 * * *", "--tz", "America/New_York", "--type", "log", "--jitter", "2s")
	check := func(want int, at time.Time, more ...string) {
		t.Helper()
		r.now = at
		if got := r.run(append([]string{"check", "schedule", "night"}, more...)...); got.code != want {
			t.Errorf("at %s: exit %d, want %d: %s", at, got.code, want, got.stdout)
		}
	}
	// The night on which 02:30 does not exist: it is due at 03:00 EDT.
	due := time.Date(2027, 3, 14, 7, 0, 0, 0, time.UTC)
	if got := r.field("night", "next_at"); got != `"2027-03-14T03:00:00-04:00"` {
		t.Fatalf("next is %s", got)
	}
	check(checkOK, due.Add(-time.Second))
	check(checkOK, due.Add(4*time.Second)) // inside the grace
	check(checkWarning, due.Add(20*time.Second))
	check(checkOK, due.Add(20*time.Second), "--warn", "1m", "--crit", "2m") // its own grace
	check(checkCritical, due.Add(time.Minute))
	// Late is told by the clock that fires, not by a clock that is ahead.
	r.now, r.ahead = due.Add(-time.Minute), 10*time.Minute
	if got := r.must("schedule", "list", "--state", "late", "-o", "name"); got.stdout != "" {
		t.Errorf("late by the caller's clock: %s", got.stdout)
	}
	r.ahead = 0
	r.must("schedule", "pause", "night")
	check(checkOK, due.Add(time.Hour)) // what is paused is not late
}

func TestFinding10_TheFewAmongMany(t *testing.T) {
	r := findingsWorld(t)
	tasks := newCannedTasks(r)
	for i := range 5000 {
		state := asynq.TaskStateCompleted
		if i%400 == 0 {
			state = asynq.TaskStateArchived
		}
		tasks.tasks = append(tasks.tasks, &asynq.TaskInfo{ID: fmt.Sprintf("many-%d", i), Queue: "low", Type: "mail:send", State: state})
	}
	r.stores.Tasks = tasks
	if got := r.must("task", "list", "--state", "archived", "--queue", "low", "--type", "mail:send", "-o", "name").stdout; strings.Count(got, "\n") != 13 {
		t.Errorf("archived: %s", got)
	}
	for line, want := range map[string]string{
		"schedule list --state failing -o name":               "cache-warm\ndisk-check\n",
		"schedule list --state disabled -o name":              "partner-sync\n",
		"schedule list -l team=billing -o name":               "billing-close\nnightly-report\n",
		"schedule list *-check --queue ops -o name":           "disk-check\n",
		"run list disk-check --outcome succeeded":             "",
		"run list partner-sync --outcome failed -n 1 -o name": "partner-sync:1796018280000005:1796018580000\n",
	} {
		if got := r.must(strings.Fields(line)...).stdout; got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// TestEveryCommandInEveryFormat runs them; here every file has to name them.
func TestFinding11_EveryCommandHasMachineOutput(t *testing.T) {
	for _, command := range leaves() {
		file := "testdata/matrix/" + strings.ReplaceAll(command, " ", "-") + ".txt"
		text := readText(t, file)
		for _, format := range append([]string{"terminal"}, formats...) {
			named := false
			for line := range strings.Lines(text) {
				list, heads := strings.CutPrefix(strings.TrimSpace(line), "-- ")
				named = named || heads && strings.Contains(", "+strings.TrimSuffix(list, " --")+",", ", "+format+",")
			}
			if !named {
				t.Errorf("%s does not show %s", file, format)
			}
		}
	}
}

func TestFinding12_NoChangeIsVisible(t *testing.T) {
	r := findingsWorld(t)
	for _, tt := range []struct {
		line string
		code int
	}{
		{"diff -f schedules.yaml", 0}, {"diff -f changed.yaml", 1}, {"diff -f nowhere.yaml", 2},
		{"apply -f schedules.yaml --exit-code", 0}, {"apply -f changed.yaml --plan --exit-code", 1}, {"apply -f changed.yaml --exit-code", 1},
		{"apply -f changed.yaml --exit-code", 0}, {"diff -f changed.yaml", 0},
	} {
		if got := r.run(strings.Fields(tt.line)...); got.code != tt.code {
			t.Errorf("%s: exit %d, want %d\n%s%s", tt.line, got.code, tt.code, got.stdout, got.stderr)
		}
	}
	has(t, "apply", r.must("apply", "-f", "changed.yaml").stdout, "unchanged")
}

// Each command that asks, without a terminal and then declined on one.
func TestFinding13_NothingIsDestroyedUnasked(t *testing.T) {
	asked := 0
	for _, command := range leaves() {
		text := readText(t, "testdata/matrix/"+strings.ReplaceAll(command, " ", "-")+".txt")
		if !strings.Contains(text, "--yes") {
			continue
		}
		asked++
		t.Run(command, func(t *testing.T) {
			r := findingsWorld(t)
			var last []string
			for line := range strings.Lines(text) {
				if step, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "$ "); found {
					if args, err := splitLine(step); err == nil && strings.Contains(step, "--yes") {
						last = args[1:]
						break
					}
					r.step(t, step)
				}
			}
			args := strings.Fields(strings.ReplaceAll(strings.Join(last, " "), " --yes", ""))
			before := r.everything()
			if got := r.run(args...); got.code != exitDeclined || got.stdout != "" {
				t.Errorf("without a terminal: %+v", got)
			}
			r.terminal = Terminal{Stdin: true, Stdout: true, Stderr: true}
			for _, answer := range []string{"", "\n", "n\n", "yes please\n", "1\n"} {
				r.stdin = answer
				if got := r.run(args...); got.code != exitDeclined || got.stdout != "" {
					t.Errorf("%q: %+v", answer, got)
				}
			}
			if after := r.everything(); after != before {
				t.Errorf("was\n%s\nis\n%s", before, after)
			}
		})
	}
	if asked < 8 {
		t.Errorf("%d commands ask", asked)
	}
}

// everything is what the destructive commands could change.
func (r *rig) everything() string {
	out := r.snapshot()
	for _, line := range []string{"calendar list -o json", "context list -o json", "lease list -o json", "queue list -o json", "task list -o json", "events -o json"} {
		out += r.must(strings.Fields(line)...).stdout
	}
	return out
}

// A round of a watch is drawn over the last one, and never scrolls.
func TestFinding15_ARefreshDoesNotJump(t *testing.T) {
	var long strings.Builder
	for i := range 100 {
		long.WriteString(paint(fmt.Sprintf("line %d %s", i, strings.Repeat("x", i)), red, true) + " tail\n")
	}
	for _, size := range [][2]int{{60, 24}, {120, 50}, {20, 3}} {
		columns, rows := size[0], size[1]
		text := string(frame(long.String(), columns, rows))
		if strings.Contains(text, "\x1b[2J") || !strings.HasPrefix(text, "\x1b[H") || !strings.HasSuffix(text, "\x1b[J") {
			t.Errorf("it clears: %.60q", text)
		}
		lines := strings.Split(text, "\r\n")
		if len(lines) > rows {
			t.Errorf("%d lines in %d rows", len(lines), rows)
		}
		for _, line := range lines {
			bare := colorMark.ReplaceAllString(strings.NewReplacer("\x1b[H", "", "\x1b[K", "", "\x1b[J", "").Replace(line), "")
			if width(bare) > columns || strings.Contains(bare, "\x1b") {
				t.Errorf("%d columns in %d: %q", width(bare), columns, bare)
			}
			if strings.Count(line, "\x1b[31m") != strings.Count(line, "\x1b[0m") {
				t.Errorf("a color goes on: %q", line)
			}
		}
		if want := "more: the terminal is too low"; columns > 40 && !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if short := string(frame("a\nb\n", 0, 0)); short != "\x1b[Ha\x1b[K\r\nb\x1b[K\r\n\x1b[J" {
		t.Errorf("%q", short)
	}
}

func TestFinding16_NumbersAreExact(t *testing.T) {
	r := newRig(t)
	const payload = `{"n":9007199254740993,"e":1e400,"d":0.1000000000000000055511151231257827}`
	r.must("schedule", "create", "a", "--every", "1h", "--type", "log", "--payload", payload)
	numbers := []string{"9007199254740993", "1e400", "0.1000000000000000055511151231257827"}
	for _, format := range []string{formatTable, formatJSON, formatJSONL, formatYAML} {
		has(t, format, r.must("schedule", "get", "a", "-o", format).stdout, numbers...)
	}
	exported := r.must("export").stdout
	has(t, "export", exported, numbers...)
	r.stdin = exported
	if got := r.must("apply", "-f", "-", "--exit-code"); !strings.Contains(got.stdout, "unchanged") {
		t.Errorf("applied again: %s", got.stdout)
	}
}

// Whatever the caller's clock says, ages are those of the store's clock, and
// how far the two are apart is said.
func TestFinding17_OneClockForAllAges(t *testing.T) {
	r := findingsWorld(t)
	lines := []string{"schedule list", "schedule get disk-check", "schedule history disk-check", "run list", "worker list", "lease list",
		"periodic list", "schedule why disk-check 06:04", "schedule preview cache-warm -n 2", "check schedule cache-warm"}
	want := map[string]string{}
	for _, line := range lines {
		want[line] = r.run(strings.Fields(line)...).stdout
	}
	for ahead, label := range map[time.Duration]string{3 * time.Hour: "yours is 3h ahead", -3 * time.Hour: "yours is 3h behind", 41 * time.Millisecond: "yours is 41ms ahead"} {
		r.ahead = ahead
		for _, line := range lines {
			if got := r.run(strings.Fields(line)...); got.stdout != want[line] {
				t.Errorf("%s with a clock %s ahead:\n%s\nwant\n%s", line, ahead, got.stdout, want[line])
			}
		}
		has(t, "footer", r.must("schedule", "list").stderr, label)
	}
	r.ahead = 0
	if got := span(-time.Hour) + " " + relative(epoch.Add(time.Millisecond), epoch) + " " + relative(epoch, epoch.Add(time.Millisecond)); got != "0ms now now" {
		t.Errorf("%q", got)
	}
}
