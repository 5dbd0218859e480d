package admincli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// everything is a schedule in which every field that a flag can set is set.
const everything = `
id: x
description: before
labels: {a: one, b: two}
metadata: {n: 9007199254740993, deep: {k: [1, 2]}}
expression: "H 2 * * *"
timezone: America/New_York
except: [{weekly: "Sat 00:00-Mon 06:00"}]
only: [{cron: "* * * * *"}]
starts: 2026-01-01T00:00:00Z
ends: 2036-01-01T00:00:00Z
limit: 1000
jitter: 30s
type: log
queue: low
payload: {n: 1e400, s: "<b>é"}
headers: {tenant: acme, region: eu}
max_retry: 9
timeout: 45m
retention: 20m
missed: all
catch_up: 24h
overlap: buffer_all
buffer_limit: 7
effect: at_most_once
priority: 3
max_failures: 4
cool_down: 10m
`

// definitionFields are the fields of a schedule's JSON as they are printed.
func definitionFields(t *testing.T, r *rig) map[string]string {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(r.must("schedule", "get", "x", "-o", "jsonl").stdout), &all); err != nil {
		t.Fatal(err)
	}
	fields := map[string]string{}
	for name, text := range all {
		if !slices.Contains(statusNames, name) {
			fields[name] = string(text)
		}
	}
	return fields
}

// Each flag of update changes the field that it names; every other one stays
// the same to the byte. So does each field that can be unset.
func TestUpdateLeavesEveryOtherFieldByteEqual(t *testing.T) {
	flags := map[string][2]string{ // flag: value, fields that change
		"cron": {"1 2 3 * *", "expression specs"}, "every": {"7h", "expression specs"}, "at": {"2027-01-01", "expression specs"},
		"expression": {"@hourly", "expression"}, "tz": {"Asia/Tokyo", "timezone"}, "jitter": {"1s", "jitter"},
		"starts": {"2026-02-02", "starts"}, "ends": {"2035-02-02", "ends"}, "limit": {"5", "limit"}, "type": {"mail:launch", "type"},
		"queue": {"ops", "queue"}, "payload": {`{"b":1}`, "payload"}, "catch-up": {"2h", "catch_up"}, "buffer-limit": {"8", "buffer_limit"},
		"effect": {"at_least_once", "effect"}, "max-retry": {"1", "max_retry"}, "timeout": {"1m", "timeout"}, "retention": {"1h", "retention"},
		"max-failures": {"9", "max_failures"}, "cool-down": {"1h", "cool_down"}, "priority": {"-1", "priority"}, "label": {"a=three", "labels"},
		"header": {"tenant=other", "headers"}, "metadata": {`{"m":1}`, "metadata"}, "description": {"after", "description"},
		"except": {"2026-12-25", "except"}, "only": {"cron 40-50 * * * *", "only"}, "missed": {"latest", "missed"},
		"overlap": {"buffer_all", ""}, // it is that already, and another value would forbid buffer_limit
		"offset":  {"", ""}, "after": {"", ""},
	}
	newUpdate(&session{}).Flags().VisitAll(func(f *flagType) {
		if _, known := flags[f.Name]; !known && !slices.Contains(append(notUpdated, "unset"), f.Name) {
			t.Errorf("--%s is not tested", f.Name)
		}
	})
	for flag, tt := range flags {
		if tt[0] != "" {
			updatedFields(t, strings.Fields(tt[1]), "--"+flag+"="+tt[0])
		}
	}
	for _, field := range scheduleShape.keys() {
		switch {
		case slices.Contains(needed, field):
		case field == "catch_up": // missed: all needs it
			updatedFields(t, []string{"catch_up", "missed"}, "--unset=catch_up", "--missed=latest")
		case field == "overlap": // only it has a limit
			updatedFields(t, []string{"overlap", "buffer_limit"}, "--unset=overlap", "--unset=buffer_limit")
		case field == "max_failures": // the cool-down is of its disable
			updatedFields(t, []string{"max_failures", "cool_down"}, "--unset=max_failures", "--unset=cool_down")
		default:
			updatedFields(t, []string{field}, "--unset="+field)
		}
	}
	updatedFields(t, []string{"labels"}, "--unset=labels.a")
}

// updatedFields updates x and compares all fields.
func updatedFields(t *testing.T, want []string, args ...string) {
	t.Helper()
	r := newRig(t)
	r.stdin = everything
	r.must("apply", "-f", "-")
	before := definitionFields(t, r)
	r.must(append([]string{"schedule", "update", "x"}, args...)...)
	after := definitionFields(t, r)
	var changed []string
	for name := range mergedKeys(before, after) {
		if before[name] != after[name] {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	slices.Sort(want)
	if !slices.Equal(changed, want) {
		t.Errorf("%v changed %v, want %v\n%v\n%v", args, changed, want, before, after)
	}
}

func mergedKeys(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// A racing catalog lets somebody else write between a read and a put.
type racingCatalog struct{ schedule.Catalog }

func (c racingCatalog) Put(ctx context.Context, d schedule.Schedule, o schedule.PutOptions) (schedule.PutResult, error) {
	other, err := c.Get(ctx, d.ID)
	if err != nil {
		return schedule.PutResult{}, err
	}
	other.Schedule.Description += "."
	if _, err := c.Catalog.Put(ctx, other.Schedule, schedule.PutOptions{}); err != nil {
		return schedule.PutResult{}, err
	}
	return c.Catalog.Put(ctx, d, o)
}

// No change of somebody else is lost: update, edit and move end with 6.
func TestConcurrentChangesConflict(t *testing.T) {
	r := newRig(t)
	r.must("schedule", "create", "x", "--every", "1h", "--type", "log")
	r.stores.Catalog = racingCatalog{r.stores.Catalog}
	r.environ["EDITOR"] = "sed -i s/1h/2h/"
	for _, args := range [][]string{{"update", "x", "--every", "2h"}, {"edit", "x"}, {"move", "x", "--queue", "low"}} {
		got := r.run(append([]string{"schedule"}, args...)...)
		if got.code != exitConflict || !strings.Contains(got.stderr, "any more: nothing was changed") {
			t.Errorf("%v: exit %d, stderr %q", args, got.code, got.stderr)
		}
		removeKept(t, got.stderr)
	}
	e, err := r.stores.Catalog.Get(t.Context(), "x")
	if err != nil || e.Schedule.Description != "..." || e.Schedule.Specs[0].Every.Hours() != 1 || e.Schedule.Queue != "default" {
		t.Errorf("stored %+v, %v", e.Schedule, err)
	}
}

// removeKept removes the file in which a refused edit was kept.
func removeKept(t *testing.T, stderr string) (text string) {
	t.Helper()
	_, rest, found := strings.Cut(stderr, "what you wrote is kept in ")
	if !found {
		return ""
	}
	name, _, _ := strings.Cut(rest, "\n")
	content, err := os.ReadFile(name)
	if err != nil {
		t.Error(err)
	}
	if err := os.Remove(name); err != nil {
		t.Error(err)
	}
	return string(content)
}

// script is an editor: a shell script that runs one part after the other, one
// each time that it is opened. It keeps what it was given.
func editorScript(t *testing.T, parts ...string) (command, seen string) {
	t.Helper()
	dir := t.TempDir()
	var b strings.Builder
	fmt.Fprintf(&b, "cd %s\nn=$(ls | grep -c seen)\ncp \"$1\" seen$n\ncase $n in\n", dir)
	for i, part := range parts {
		fmt.Fprintf(&b, "%d) %s;;\n", i, part)
	}
	b.WriteString("esac\n")
	file := filepath.Join(dir, "edit.sh")
	if err := os.WriteFile(file, []byte(b.String()), 0o700); err != nil {
		t.Fatal(err)
	}
	return "sh " + file, dir
}

// An editor is opened again with the error in a comment, at the line where
// the error stands in the file that is opened.
func TestEditReopensWithTheError(t *testing.T) {
	r := newRig(t)
	r.must("schedule", "create", "x", "--cron", "0 2 * * *", "--type", "log", "--label", "a=b")
	command, dir := editorScript(t, `sed -i 's/0 2/0 25/' "$1"`, `sed -i 's/0 25/0 3/' "$1"`)
	r.environ["VISUAL"], r.environ["EDITOR"] = command, "false"
	got := r.must("schedule", "edit", "x")
	if !strings.Contains(got.stdout, "updated x, version 2") || !strings.Contains(got.stdout, "cron 0 2 * * * → cron 0 3 * * *") {
		t.Errorf("stdout %q", got.stdout)
	}
	again, err := os.ReadFile(filepath.Join(dir, "seen1"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(again), "\n")
	want := fmt.Sprintf("# error: line:%d:", 1+slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "0 25") && !strings.HasPrefix(l, "#") }))
	if !strings.Contains(string(again), want) {
		t.Errorf("want %q in\n%s", want, again)
	}
	if n := strings.Count(string(again), "# error"); n != 1 {
		t.Errorf("%d errors in\n%s", n, again)
	}
}

func TestEditEndings(t *testing.T) {
	r := newRig(t)
	r.must("schedule", "create", "x", "--cron", "0 2 * * *", "--type", "log")
	before := r.snapshot()
	for _, tt := range []struct {
		name  string
		parts []string
		code  int
		says  string
		keeps string
	}{
		{"nothing edited", []string{"true"}, exitDone, "nothing was changed", ""},
		{"emptied", []string{`: > "$1"`}, exitDeclined, "emptied; nothing was changed", ""},
		{"left wrong", []string{`sed -i 's/0 2/0 25/' "$1"`, "true"}, exitUsage, "0 to 23", "0 25 * * *"},
		{"editor fails", []string{"exit 3"}, exitFailed, "exit status 3", ""},
		{"editor fails later", []string{`sed -i 's/0 2/0 25/' "$1"`, "exit 3"}, exitFailed, "exit status 3", "0 25 * * *"},
		{"renamed", []string{`sed -i 's/id: x/id: y/' "$1"`, "true"}, exitUsage, "keeps its name", "id: y"},
		{"two", []string{`printf -- '---\nid: z\ntype: log\nexpression: "@daily"\n' >> "$1"`, "true"}, exitUsage, "2 schedules", "id: z"},
		{"dry run", []string{`sed -i 's/0 2/0 3/' "$1"`}, exitDone, "", ""},
	} {
		r.environ["EDITOR"], _ = editorScript(t, tt.parts...)
		args := []string{"schedule", "edit", "x"}
		if tt.name == "dry run" {
			args = append(args, "--dry-run")
		}
		got := r.run(args...)
		kept := removeKept(t, got.stderr)
		if got.code != tt.code || !strings.Contains(got.stderr, tt.says) {
			t.Errorf("%s: exit %d, stderr %q", tt.name, got.code, got.stderr)
		}
		if !strings.Contains(kept, tt.keeps) || (tt.keeps == "") != (kept == "") {
			t.Errorf("%s: kept %q, want %q", tt.name, kept, tt.keeps)
		}
		if err := safe(got.stdout + got.stderr); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	delete(r.environ, "EDITOR")
	if got := r.run("schedule", "edit", "x"); got.code != exitUsage || !strings.Contains(got.stderr, "no editor") {
		t.Errorf("without an editor: exit %d, stderr %q", got.code, got.stderr)
	}
	if r.snapshot() != before {
		t.Error("something was written")
	}
}
