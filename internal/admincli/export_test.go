package admincli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// varied fills a store with schedules of every kind.
func varied(t *testing.T, r *rig) {
	t.Helper()
	r.stdin = everything + `---
calendars:
  - {name: holidays, timezone: Europe/Berlin, dates: [2026-12-24..2026-12-26], weekly: ["Sat 00:00-Mon 06:00"], cron: ["* 2 * * *"]}
schedules:
  - {id: union, specs: [{cron: "0 9 * * *", timezone: Asia/Tokyo}, {every: 90m, anchor: 2026-01-01T00:05:00Z}, {at: ["2027-01-04 09:00"]}], type: log}
  - {id: delay, specs: [{after: 10m}], type: log}
  - {id: hash, expression: "H H(0-7) * * *", timezone: Europe/Berlin, type: log, payload_base64: "AP8bWzJK"}
  - {id: text, expression: "@daily", type: log, description: "no: # 'x' \"y\" *a &b", payload: "yes", metadata: "007", labels: {y: "no", on: "1e3"}}
  - {id: cal, expression: "0 12 * * *", timezone: Europe/Berlin, except: [{calendar: holidays}], only: [{weekly: "Mon 00:00-Sat 00:00"}], type: log}
  - {id: once, expression: "once:2027-01-04T09:00:00Z", type: log, payload: [1, 2.50, 1e400, null, true]}
  - {id: held, expression: "@hourly", type: log, paused: true}
`
	r.must("apply", "-f", "-")
	r.must("schedule", "pause", "cal", "--reason", "because", "--for", "3h")
}

// What export writes, in YAML and JSON, is applied as unchanged, and the store
// is the same afterwards, to the byte.
func TestExportThenApplyChangesNothing(t *testing.T) {
	r := newRig(t)
	varied(t, r)
	before := r.snapshot()
	for _, format := range []string{"yaml", "json", "table"} {
		exported := r.must("export", "-o", format)
		r.stdin = exported.stdout
		got := r.must("apply", "-f", "-", "--exit-code", "-o", "name")
		if !strings.Contains(got.stderr, "9 unchanged") { // eight schedules and a calendar
			t.Errorf("%s: %s", format, got.stderr)
		}
		if after := r.snapshot(); after != before {
			t.Errorf("%s: changed\n%s\n%s", format, before, after)
		}
		r.must("diff", "-f", "-")
		r.must("validate", "-f", "-")
		other := newRig(t)
		other.stdin = exported.stdout
		other.must("apply", "-f", "-")
		if again := other.must("export", "-o", format); again.stdout != exported.stdout {
			t.Errorf("%s: a store made from it exports something else:\n%s\n%s", format, exported.stdout, again.stdout)
		}
	}
}

// A payload that is given as JSON is stored byte for byte, on the command line and
// in a JSON file, and one of a YAML file with its characters as themselves; one in which they are escaped for HTML, as
// programs of before wrote it, is exported and applied as unchanged.
func TestPayloadsKeepTheirSpelling(t *testing.T) {
	const plain, escaped = `{"a":"<b>&"}`, `{"a":"\u003cb\u003e\u0026"}`
	file := t.TempDir() + "/payload.json"
	if err := os.WriteFile(file, []byte(`{ "a": "<b>&" }`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	stored := func(id schedule.ID) string {
		e, err := r.stores.Catalog.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return string(e.Schedule.Payload)
	}
	r.must("schedule", "create", "plain", "--every", "1h", "--type", "log", "--payload", `{"a": "<b>&"}`)
	r.must("schedule", "create", "file", "--every", "1h", "--type", "log", "--payload", "@"+file)
	r.must("schedule", "create", "escaped", "--every", "1h", "--type", "log", "--payload", escaped)
	r.must("schedule", "create", "updated", "--every", "1h", "--type", "log", "--payload", "1", "--description", "a < b")
	r.must("schedule", "update", "updated", "--payload", plain)
	r.must("schedule", "update", "updated", "--unset", "description")
	r.stdin = `{"id": "json", "expression": "@hourly", "type": "log", "payload": {"a": "\u003cb\u003e\u0026"}}`
	r.must("apply", "-f", "-")
	r.stdin = `{id: yaml, expression: "@hourly", type: log, payload: {a: <b>&}}`
	r.must("apply", "-f", "-")
	for id, want := range map[schedule.ID]string{"plain": plain, "file": plain, "escaped": escaped, "updated": plain, "json": escaped, "yaml": plain} {
		if got := stored(id); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
	before := r.snapshot()
	for _, format := range []string{"yaml", "json"} {
		r.stdin = r.must("export", "-o", format).stdout
		if got := r.must("apply", "-f", "-", "--exit-code"); !strings.Contains(got.stderr, "6 unchanged") || r.snapshot() != before {
			t.Errorf("%s: %s", format, got.stderr)
		}
		if format == "json" && strings.Contains(r.stdin, "payload_base64") {
			t.Errorf("a payload in JSON is exported as base64:\n%s", r.stdin)
		}
		r.must("diff", "-f", "-")
	}
	r.environ["EDITOR"] = "true" // it changes nothing
	r.must("schedule", "edit", "escaped")
	if got := r.must("schedule", "get", "escaped", "-o", "json").stdout; !strings.Contains(got, `"\u003cb\u003e\u0026"`) || r.snapshot() != before {
		t.Errorf("edited in vain: %s", got)
	}
	for _, payload := range []string{plain, escaped} {
		if got := r.carriedBy(t, r.must("schedule", "trigger", "plain", "--payload", payload, "-o", "json").stdout); string(got.Payload) != payload {
			t.Errorf("a trigger carries %s, want %s", got.Payload, payload)
		}
	}
}

// The order of keys in a file does not matter.
func TestKeyOrderIsNoDifference(t *testing.T) {
	r := newRig(t)
	r.stdin = everything
	r.must("apply", "-f", "-")
	lines := strings.Split(strings.TrimSpace(everything), "\n")
	for i, j := 0, len(lines)-1; i < j; i, j = i+1, j-1 {
		lines[i], lines[j] = lines[j], lines[i]
	}
	r.stdin = strings.Join(lines, "\n")
	r.must("diff", "-f", "-")
}

// An endless catalog makes up pages and looks at what was written so far.
type endlessCatalog struct {
	schedule.Catalog
	pages   int
	written func() int
	behind  []int // bytes written when a page was asked for
}

func (c *endlessCatalog) List(_ context.Context, o schedule.ListOptions) (schedule.Page, error) {
	c.behind = append(c.behind, c.written())
	var page schedule.Page
	for i := range o.Limit {
		id := schedule.ID(fmt.Sprintf("s-%d-%d", len(c.behind), i))
		page.Entries = append(page.Entries, schedule.Entry{Schedule: schedule.Schedule{ID: id, Expression: "@hourly", Type: "log"},
			Status: schedule.Status{State: schedule.StateActive, Version: 1}})
	}
	if len(c.behind) < c.pages {
		page.Next = page.Entries[o.Limit-1].Schedule.ID
	}
	return page, nil
}

// A page is written before the next one is read: what is held in memory does
// not depend on how many schedules there are.
func TestListsAndExportsStream(t *testing.T) {
	for _, args := range [][]string{{"export"}, {"export", "-o", "json"}, {"schedule", "list"}, {"schedule", "list", "-o", "json"},
		{"schedule", "list", "-o", "jsonl"}, {"schedule", "list", "-o", "wide"}, {"schedule", "list", "-o", "yaml"}, {"schedule", "list", "-o", "name"}} {
		r := newRig(t)
		var stdout, stderr bytes.Buffer
		catalog := &endlessCatalog{Catalog: r.stores.Catalog, pages: 3, written: stdout.Len}
		stores := *r.stores
		stores.Catalog = catalog
		env := Env{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Now: r.clock, Environ: r.environ,
			Open: func(context.Context, Target) (*Stores, error) { return &stores, nil }}
		if code := Run(t.Context(), env, args); code != exitDone {
			t.Fatalf("%v: exit %d, %s", args, code, stderr.String())
		}
		if len(catalog.behind) != 3 || catalog.behind[0] > 64 || catalog.behind[1] < 600 || catalog.behind[2] < 3*catalog.behind[1]/2 {
			t.Errorf("%v: written when each page was asked for: %v", args, catalog.behind)
		}
	}
}
