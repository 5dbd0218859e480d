package admincli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// escaped holds what JSON lets its writer choose: escapes, the spelling of
// numbers, white space.
const (
	escaped   = `{"html": "\u003cb\u003e", "path": "a\/b", "face": "\ud83d\ude00", "é": "\u00e9", "n": 1.0E+2, "list": [ 1,  "\t" ]}`
	compacted = `{"html":"\u003cb\u003e","path":"a\/b","face":"\ud83d\ude00","é":"\u00e9","n":1.0E+2,"list":[1,"\t"]}`
	inYAML    = `{"html":"<b>","path":"a/b","face":"😀","é":"é","n":1.0E+2,"list":[1,"\t"]}`
)

// payloads reads a file and returns the payload of each schedule.
func payloads(t *testing.T, text string) (all []string) {
	t.Helper()
	found, err := readFile("f", []byte(text))
	if err != nil {
		t.Fatalf("%.200s: %v", text, err)
	}
	for _, w := range found.schedules {
		d, err := schedule.Draft(w.object)
		if err != nil {
			t.Fatalf("%s: %v", w.object, err)
		}
		all = append(all, string(d.Payload))
	}
	return all
}

// TestJSONFilesKeepTheBytesOfPayloads: they used to go through the parser of
// YAML, which reads escapes and leaves none.
func TestJSONFilesKeepTheBytesOfPayloads(t *testing.T) {
	entry := func(id, payload string) string {
		return fmt.Sprintf(`{"id": %q, "payload": %s, "type": "x"}`, id, payload)
	}
	quoted := `"{\"html\": \"\\u003cb\\u003e\" \u0026 }"`
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"a list under schedules": {`{"calendars": [{"name": "c", "dates": ["2026-12-25"]}], "schedules": [` + entry("a", escaped) + `, ` + entry("b", quoted) + `, {"id": "c"}]}`,
			[]string{compacted, quoted, ""}},
		"a bare list":         {"\n [" + entry("a", `"\u003c"`) + "]\n", []string{`"\u003c"`}},
		"one schedule":        {entry("a", escaped), []string{compacted}},
		"yaml, an object":     {"schedules:\n- id: a\n  payload: " + escaped + "\n", []string{inYAML}},
		"yaml, double quotes": {"schedules:\n- id: a\n  payload: \"\\u003cb\\u003e\"\n", []string{`"<b>"`}},
		// Text is a JSON string: the backslashes are content, and escaped as such.
		"yaml, single quotes": {"schedules:\n- id: a\n  payload: '{\"html\": \"\\u003cb\"}'\n", []string{`"{\"html\": \"\\u003cb\"}"`}},
		"yaml, a block":       {"schedules:\n- id: a\n  payload: |\n    <b> \\u003c\n", []string{`"<b> \\u003c\n"`}},
		"flow, but no JSON":   {"{schedules: [{id: a, payload: {\"html\": \"\\u003cb\\u003e\"}}]}", []string{`{"html":"<b>"}`}},
	} {
		if got := payloads(t, c.text); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
	}
}

// Long files are read in parts.
func TestLongJSONFilesKeepTheBytesOfPayloads(t *testing.T) {
	const n = 4000
	var entries []string
	for i := range n {
		entries = append(entries, fmt.Sprintf(`{"id": "s-%d", "payload": {"n": "\u003c%d", "fill": %q}}`, i, i, strings.Repeat("x", 100)))
	}
	text := "{\"schedules\": [\n" + strings.Join(entries, ",\n") + "]}"
	if len(text) < 2*splitAbove {
		t.Fatalf("%d bytes are read whole", len(text))
	}
	got := payloads(t, text)
	if len(got) != n {
		t.Fatalf("%d schedules, want %d", len(got), n)
	}
	for i := range n {
		if want := fmt.Sprintf(`{"n":"\u003c%d","fill":`, i); !strings.HasPrefix(got[i], want) {
			t.Fatalf("schedule %d: %.40s, want %s", i, got[i], want)
		}
	}
}

// What is exported as JSON is applied with the bytes that were stored, and what
// means the same leaves them.
func TestApplyKeepsStoredBytes(t *testing.T) {
	r := newRig(t)
	r.stdin = `{"schedules": [{"id": "a", "expression": "5m", "type": "x", "payload": ` + escaped + `}]}`
	r.must("apply", "-f", "-")
	stored := func(r *rig) string {
		t.Helper()
		var row struct{ Payload json.RawMessage }
		got := r.run("schedule", "list", "-o", "jsonl", "-q")
		if err := json.Unmarshal([]byte(got.stdout), &row); err != nil {
			t.Fatalf("%s: %v", got.stdout, err)
		}
		return string(row.Payload)
	}
	if got := stored(r); got != compacted {
		t.Errorf("stored %s, want %s", got, compacted)
	}
	other := newRig(t)
	other.stdin = r.run("export", "-o", "json", "-q").stdout
	other.must("apply", "-f", "-")
	if got := stored(other); got != compacted {
		t.Errorf("exported and applied: %s, want %s", got, compacted)
	}
	r.stdin = r.run("export", "-q").stdout // YAML, which has escapes of its own
	if got := r.run("apply", "-f", "-"); !strings.Contains(got.stderr, "1 unchanged") || stored(r) != compacted {
		t.Errorf("%s%s; stored %s", got.stdout, got.stderr, stored(r))
	}
}
