package admincli

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/internal/memstore"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// hostileText is all that is hostile in one valid text. A line that starts with
// INJECTED got through.
const hostileText = "{a}:{b}\nINJECTED: yes\r\x00\x1b]0;owned\x07\x1b[2J\u009b31m\u202edef\u2066\u200b<script>alert(1)</script></textarea>'\"`$(id)\\|\t\U000e0001 %s {{.}} 日本"

// hostileBytes are no text.
const hostileBytes = "a\xff\xfe\x1b[2J\nINJECTED: yes\x00\u202e"

// harmless checks what a terminal or a machine gets.
func harmless(t *testing.T, what string, got result) {
	t.Helper()
	if err := safe(got.stdout + got.stderr); err != nil {
		t.Errorf("%.200s: %v", what, err)
	}
	for line := range strings.Lines(got.stdout + got.stderr) {
		if strings.HasPrefix(strings.TrimSpace(line), "INJECTED") {
			t.Errorf("%.200s: a stored text made a line: %.80q", what, line)
		}
	}
	if strings.Contains(got.stderr, "internal fault") || len(got.stderr) > 6000 {
		t.Errorf("%.200s: %d bytes of errors: %.300s", what, len(got.stderr), got.stderr)
	}
}

// A hostileCatalog holds definitions that another program wrote around every
// check.
type hostileCatalog struct {
	schedule.Catalog
	text string
}

func (c hostileCatalog) spoil(e schedule.Entry) schedule.Entry {
	e.Schedule.Description, e.Schedule.Payload = c.text, []byte(c.text)
	e.Schedule.Headers, e.Schedule.Labels = map[string]string{c.text: c.text}, map[string]string{"team": "billing", c.text: c.text}
	e.Schedule.Metadata, _ = marshal(map[string]string{"note": c.text}) // texts always can
	e.Schedule.Queue, e.Schedule.Type = c.text, c.text
	e.Status.LastError, e.Status.PausedBy, e.Status.PauseReason = c.text, c.text, c.text
	return e
}

func (c hostileCatalog) Get(ctx context.Context, id schedule.ID) (schedule.Entry, error) {
	e, err := c.Catalog.Get(ctx, id)
	return c.spoil(e), err
}

func (c hostileCatalog) GetMany(ctx context.Context, ids []schedule.ID) (map[schedule.ID]schedule.Entry, error) {
	all, err := c.Catalog.GetMany(ctx, ids)
	for id, e := range all {
		all[id] = c.spoil(e)
	}
	return all, err
}

func (c hostileCatalog) List(ctx context.Context, options schedule.ListOptions) (schedule.Page, error) {
	page, err := c.Catalog.List(ctx, options)
	for i, e := range page.Entries {
		page.Entries[i] = c.spoil(e)
	}
	return page, err
}

// newHostileWorld is a world in which everything that anybody can write is
// hostile: definitions, runs, pauses, workers, leases, tasks and queues.
func newHostileWorld(t *testing.T, text string) *rig {
	t.Helper()
	ctx := t.Context()
	r := newWorld(t)
	for _, id := range []schedule.ID{"billing-close", "disk-check", "cache-warm", "partner-sync"} {
		r.hostileRun(t, id, text)
	}
	if _, err := r.backend().Pause(ctx, "nightly-report", schedule.PauseOptions{By: text, Reason: text}); err != nil {
		t.Fatal(err)
	}
	r.hostileFleet(t, text)
	r.stores.Catalog = hostileCatalog{r.stores.Catalog, text}
	return r
}

// hostileRun ends a run with a hostile error, twice, so that a breaker trips.
func (r *rig) hostileRun(t *testing.T, id schedule.ID, text string) {
	t.Helper()
	ctx := t.Context()
	for _, request := range []string{"h1", "h2"} {
		triggered, err := r.stores.Catalog.Trigger(ctx, id, schedule.TriggerOptions{RequestID: request})
		if err != nil {
			t.Fatal(err)
		}
		firing := claim.FiringID(triggered.FiringID)
		begun, err := r.backend().Begin(ctx, claim.BeginRequest{Firing: firing, Owner: "o", Worker: text, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if begun.Answer != claim.BeginRun {
			continue // buffered, or the schedule was disabled
		}
		_, err = r.backend().Finish(ctx, claim.FinishRequest{Run: claim.Run{Firing: firing, Token: begun.Token}, Outcome: claim.OutcomeFailed, Error: text,
			Started: r.clock(), Duration: -time.Second, Attempt: begun.Attempt, Worker: text, KeepRuns: 20})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// hostileFleet adds workers, leases, periodic tasks, queues and tasks.
func (r *rig) hostileFleet(t *testing.T, text string) {
	t.Helper()
	ctx := t.Context()
	for _, id := range []string{"w1", text} {
		_, err := r.stores.Roster.Announce(ctx, claim.Member{ID: id, Host: text, Version: text, TimeZone: text, Queues: map[string]int{text: 1, "default": 2},
			Types: []string{text, "log"}, Claims: true, Started: r.now, Seen: r.now})
		if err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := r.stores.Leases.(*memstore.Leases).Acquire(ctx, claim.LeaseRequest{Name: "hostile", Owner: text, Nonce: "n", TTL: time.Hour})
	if err != nil {
		t.Logf("a lease of a hostile owner is refused: %v", err)
	}
	_, _, err = r.stores.Periodic.Ensure(ctx, claim.PeriodicTask{Name: "hostile", Display: text})
	if err != nil {
		t.Logf("a periodic task with a hostile title is refused: %v", err)
	}
	tasks := newCannedTasks(r)
	for _, one := range tasks.tasks {
		one.LastErr, one.Payload, one.Type = text, []byte(text), text
		one.Headers = map[string]string{text: text, "Belfry-Schedule": text, "Belfry-Firing": text}
	}
	tasks.tasks = append(tasks.tasks, &asynq.TaskInfo{ID: text, Queue: "default", Type: text, State: asynq.TaskStatePending, LastErr: text, Payload: []byte(text)},
		&asynq.TaskInfo{ID: "task-9", Queue: text, Type: text, State: asynq.TaskStateArchived})
	r.stores.Tasks = hostileQueues{tasks, text}
}

// hostileQueues have one more queue.
type hostileQueues struct {
	*cannedTasks
	name string
}

func (h hostileQueues) Queues() ([]string, error) { return []string{"low", "default", h.name}, nil }

// Servers are those that workers of asynq announce.
func (h hostileQueues) Servers() ([]*asynq.ServerInfo, error) {
	servers, err := h.cannedTasks.Servers()
	for _, one := range servers {
		one.Host, one.Status = h.name, h.name
		for _, w := range one.ActiveWorkers {
			w.TaskID, w.TaskType, w.Queue = h.name, h.name, h.name
		}
	}
	return servers, err
}

// hostileReads are lines beside those of the matrix.
func hostileReads(text string) [][]string {
	lines := [][]string{
		{"task", "get", text}, {"task", "list", "--queue", text}, {"queue", "stats", text}, {"worker", "get", text}, {"lease", "get", "hostile"},
		{"periodic", "get", "hostile"}, {"events"}, {"schedule", "get", "nightly-report"}, {"schedule", "history", "billing-close"}, {"run", "list", "disk-check"},
		{"export"}, {"top", "--once", "--width", "300"}, {"doctor", "--production"}, {"schedule", "list", "--state", "paused"},
	}
	for _, what := range []string{"scheduler", "schedule partner-sync", "schedule nightly-report", "queue default"} {
		for _, format := range checkFormats {
			lines = append(lines, append(append([]string{"check"}, strings.Fields(what)...), "--format", format))
		}
	}
	return append(lines, []string{"check", "queue", text, "--format", "prometheus"}, []string{"check", "queue", text, "--format", "nagios"})
}

// matrixLines are the lines of testdata/matrix, read before the working
// directory changes.
func matrixLines(t *testing.T) map[string][]string {
	t.Helper()
	lines := map[string][]string{}
	for _, command := range leaves() {
		for line := range strings.Lines(readText(t, "testdata/matrix/"+strings.ReplaceAll(command, " ", "-")+".txt")) {
			if text, found := strings.CutPrefix(strings.TrimSpace(line), "$ admin "); found {
				args, err := splitLine(text)
				if err != nil {
					t.Fatal(err)
				}
				lines[command] = args // the last one counts
			}
		}
	}
	return lines
}

// Every command in every format over a world that is hostile: nothing reaches a
// terminal, and machines get the very text.
func TestHostileWorldInEveryFormat(t *testing.T) {
	lines := matrixLines(t)
	onlyReads := map[string]bool{} // these share a world
	for command := range lines {
		last := command[strings.LastIndexByte(command, ' ')+1:]
		onlyReads[command] = slices.Contains(strings.Fields("list get stats history why preview export diff validate explain next prev lint "+
			"scheduler queue doctor events top schema version config verify"), last)
	}
	inFiles(t)
	for _, text := range []string{hostileText, hostileBytes} {
		exact := map[string]bool{}
		files := listFiles(t)
		run := func(command string, args []string) {
			outputs := map[string]result{}
			var r *rig
			for _, format := range formats {
				if text == hostileBytes && format != formatTable && format != formatJSON {
					continue // no format has a form for them
				}
				if r == nil || !onlyReads[command] {
					r = newHostileWorld(t, text)
				}
				got := r.run(append(slices.Clone(args), "-o", format)...)
				what := strings.Join(args, " ") + " -o " + format
				harmless(t, what, got)
				got.stdout = r.masked(got.stdout)
				outputs[format] = got
				removeOthers(t, files)
			}
			if slices.Contains(args, "--format") || outputs[formatJSON].stdout == "" {
				return
			}
			var value any
			if err := json.Unmarshal([]byte(outputs[formatJSON].stdout), &value); err != nil {
				t.Errorf("%.80q: %v in %.300s", args, err, outputs[formatJSON].stdout)
			}
			if holds(value, text) {
				exact[command] = true
			}
			if text == hostileBytes {
				return
			}
			if !sameLines(outputs[formatJSONL], outputs[formatJSON]) && command != "export" {
				t.Errorf("%.80q: the lines are not the elements: %.300s", args, outputs[formatJSONL].stdout)
			}
			if !sameValues(outputs[formatYAML], outputs[formatJSON]) {
				t.Errorf("%.80q: YAML is another value: %.300s", args, outputs[formatYAML].stdout)
			}
		}
		for command, args := range lines {
			run(command, args)
		}
		for _, args := range hostileReads(text) {
			command := strings.Join(args[:min(2, len(args))], " ")
			onlyReads[command] = true
			run(command, args)
		}
		if text == hostileText {
			shownExactly(t, exact)
		}
	}
}

// shownExactly wants the text as it is from the commands that show it.
func shownExactly(t *testing.T, exact map[string]bool) {
	t.Helper()
	for _, command := range []string{"schedule get", "schedule list", "schedule history", "run list", "worker list", "worker get", "task list", "task get",
		"queue list", "queue stats", "lease list", "periodic list", "export"} {
		if !exact[command] {
			t.Errorf("%s -o json has no string that is the text; those that have: %v", command, slices.Sorted(maps.Keys(exact)))
		}
	}
}

// holds reports whether a string or a key of a value is the text.
func holds(value any, text string) bool {
	switch v := value.(type) {
	case string:
		return v == text
	case []any:
		return slices.ContainsFunc(v, func(one any) bool { return holds(one, text) })
	case map[string]any:
		for key, one := range v {
			if key == text || holds(one, text) {
				return true
			}
		}
	}
	return false
}

var (
	prometheusLine = regexp.MustCompile(`^(# TYPE belfry_check_[a-z_]+ gauge|belfry_check_[a-z_]+(\{[a-z]+="([^"\\\n]|\\.)*"\})? [-+0-9.e]+)$`)
	nagiosLine     = regexp.MustCompile(`^(OK|WARNING|CRITICAL|UNKNOWN) [^|\n]*(\| [^|\n]+)?$`)
)

// What monitoring reads keeps its form whatever is stored.
func TestHostileChecksKeepTheirForm(t *testing.T) {
	inFiles(t)
	for _, text := range []string{hostileText, hostileBytes} {
		for _, args := range hostileReads(text) {
			format := args[len(args)-1]
			if args[0] != "check" || format != "prometheus" && format != "nagios" {
				continue
			}
			got := newHostileWorld(t, text).run(args...)
			want := prometheusLine
			if format == "nagios" {
				want = nagiosLine
			}
			lines := strings.Split(strings.TrimSuffix(got.stdout, "\n"), "\n")
			for _, line := range lines {
				if !want.MatchString(line) {
					t.Errorf("%.80q: %q", args, line)
				}
			}
			if format == "nagios" && len(lines) != 1 || got.code > checkUnknown {
				t.Errorf("%.80q: exit %d, %d lines", args, got.code, len(lines))
			}
		}
	}
}

// A shell gets completions that are one line each and hold nothing to obey.
func TestHostileCompletions(t *testing.T) {
	inFiles(t)
	for _, text := range []string{hostileText, hostileBytes} {
		r := newHostileWorld(t, text)
		completed := 0
		walkCommands(newRoot(&session{}), func(cmd *cobra.Command) {
			if cmd.HasSubCommands() {
				return
			}
			got := r.run(append(append([]string{"__complete"}, strings.Fields(cmd.CommandPath())[1:]...), "")...)
			harmless(t, "completion of "+cmd.CommandPath(), result{strings.ReplaceAll(got.stdout, "\t", " "), "", 0})
			if strings.Count(got.stdout, "\n") > 1 {
				completed++
			}
		})
		if completed < 8 {
			t.Errorf("%d commands complete names", completed)
		}
	}
}

// Every flag and every argument of every command, one after the other hostile:
// refused with a clear line, or taken as the text that it is.
func TestHostileFlagsAndArguments(t *testing.T) {
	lines := matrixLines(t)
	inFiles(t)
	files := listFiles(t)
	texts := map[string]string{"text": hostileText, "bytes": hostileBytes, "long": strings.Repeat("x", 1<<17)} // no argument can be longer
	ran := 0
	for command, args := range lines {
		cmd, _, err := newRoot(&session{}).Find(args)
		if err != nil {
			t.Fatal(err)
		}
		var variants [][]string
		for _, text := range texts {
			cmd.LocalFlags().VisitAll(func(f *flagType) {
				if kind := f.Value.Type(); kind != "bool" {
					variants = append(variants, append(slices.Clone(args), "--"+f.Name+"="+text))
				}
			})
			for i := len(strings.Fields(command)); i < len(args); i++ {
				if !strings.HasPrefix(args[i], "-") {
					changed := slices.Clone(args)
					changed[i] = text
					variants = append(variants, changed)
				}
			}
		}
		r := newWorld(t)
		for _, variant := range variants {
			ran++
			got := r.run(variant...)
			harmless(t, strings.Join(variant, " "), got)
			if got.code == exitUsage && command != "cron lint" && (got.stdout != "" || got.stderr == "") {
				t.Errorf("%.200q is refused with stdout %.100q, stderr %.100q", variant, got.stdout, got.stderr)
			}
		}
		// What was taken is shown without harm.
		for _, line := range []string{"schedule list", "schedule list -o json", "schedule get nightly-report", "context list", "events", "run list"} {
			harmless(t, command+", then "+line, r.run(strings.Fields(line)...))
		}
		removeOthers(t, files)
	}
	if ran < 500 {
		t.Errorf("ran %d lines", ran)
	}
}

// Every text of a schedule in a file, one after the other hostile.
func TestHostileFields(t *testing.T) {
	text, err := marshal(full())
	if err != nil {
		t.Fatal(err)
	}
	const canary = "hostile-canary"
	var definition map[string]any
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	if err := decoder.Decode(&definition); err != nil {
		t.Fatal(err)
	}
	definition["ends"], definition["specs"] = "2036-01-01T00:00:00Z", []any{map[string]any{"cron": "@daily", "timezone": "UTC"}}
	delete(definition, "expression")
	r := newRig(t)
	before, tried := r.snapshot(), 0
	eachString(definition, func(set func(string)) {
		for name, hostileOne := range maps.All(map[string]string{"text": hostileText, "bytes": hostileBytes, "long": hostile["long"]}) {
			if name == "long" && testing.Short() {
				continue // each is a file of 1 MiB
			}
			set(canary)
			file, err := marshal(definition)
			if err != nil {
				t.Fatal(err)
			}
			tried++
			quoted := string(quoteJSON(hostileOne))
			if name == "bytes" { // as no JSON encoder writes them
				quoted = `"` + strings.NewReplacer("\x1b", `\u001b`, "\n", `\n`, "\x00", `\u0000`).Replace(hostileOne) + `"`
			}
			r.stdin = strings.Replace(string(file), `"`+canary+`"`, quoted, 1)
			got := r.run("apply", "-f", "-")
			harmless(t, "apply "+r.stdin, got)
			switch {
			case got.code == exitUsage && got.stdout == "":
				if after := r.snapshot(); after != before {
					t.Fatalf("refused, and written: %.300s", after)
				}
			case got.code == exitDone && name == "text":
				exported := r.must("export", "-o", "json").stdout
				if !strings.Contains(exported, "script>alert") {
					t.Errorf("%.300s is taken, and not shown: %.300s", r.stdin, exported)
				}
				r.stdin = exported
				if again := r.must("apply", "-f", "-", "--exit-code"); !strings.Contains(again.stdout, "unchanged") {
					t.Errorf("applied again: %s", again.stdout)
				}
			case got.code != exitDone:
				t.Errorf("%s: exit %d, %s", name, got.code, got.stderr)
			}
			for _, e := range []string{"a", canary} {
				r.run("schedule", "delete", e, "--yes")
			}
		}
	})
	if tried < 50 {
		t.Errorf("tried %d", tried)
	}
}

// eachString offers each string and key below a value to be set. It is put
// back afterwards.
func eachString(value any, visit func(set func(string))) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			was := v[key]
			if _, isText := was.(string); isText {
				visit(func(text string) { v[key] = text })
				v[key] = was
			}
			current := key
			visit(func(text string) {
				delete(v, current)
				v[text], current = was, text
			})
			delete(v, current)
			v[key] = was
			eachString(was, visit)
		}
	case []any:
		for i, was := range v {
			if _, isText := was.(string); isText {
				visit(func(text string) { v[i] = text })
				v[i] = was
			}
			eachString(was, visit)
		}
	}
}

// Context files that others wrote.
func TestHostileContextFiles(t *testing.T) {
	for name, text := range hostile {
		r := newRig(t)
		quoted := string(quoteJSON(text))
		content := "current: " + quoted + "\ncontexts:\n  - {name: " + quoted + ", url: " + quoted + "}\n  " + text + ": {redis_url: " + text + "}\n"
		if err := os.MkdirAll(r.config, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(r.config, contextFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"context list", "context list -o json", "context validate", "schedule list", "config --sources", "context previous"} {
			got := r.runContext(context.Background(), strings.Fields(line)...)
			harmless(t, name+": "+line, got)
		}
	}
}
