package admincli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
)

// whole reads a text in one piece.
func whole(text []byte) (fileContent, error) {
	r := &reader{file: "f"}
	err := r.read(text, r.document)
	return r.found, err
}

func manyEntries(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// A long file that is read in parts holds what it holds when it is read whole,
// at the same places; what cannot be cut is read whole.
func TestAFileInPartsIsTheSame(t *testing.T) {
	block := "  # comment\n  - id: s%05d\n    type: log\n\n    expression: \"0 9 * * *\" # daily\n    payload: |\n      - not an entry\n      x: 1\n    labels: {a: b}\n"
	var document struct {
		Calendars []map[string]any `json:"calendars"`
		Schedules []map[string]any `json:"schedules"`
	}
	for i := range 5000 {
		document.Schedules = append(document.Schedules, map[string]any{"id": fmt.Sprintf("s%05d", i), "type": "log", "limit": i, "description": "[{,\"ä"})
	}
	document.Calendars = []map[string]any{{"name": "c", "dates": []string{"2026-01-01"}}}
	compact, _ := json.Marshal(document)
	indented, _ := json.MarshalIndent(document, "", " ")
	list, _ := json.Marshal(document.Schedules)
	tests := map[string]struct {
		text  string
		parts bool
	}{
		"block":          {"---\n# head\nschedules:\n" + manyEntries(block, 3000) + "calendars:\n- name: c\n  dates: [2026-01-01]\n", true},
		"windows":        {strings.ReplaceAll("schedules:\n"+manyEntries(block, 3000), "\n", "\r\n"), true},
		"list":           {manyEntries("- {id: s%05d, type: log}\n", 22000), true},
		"dash alone":     {"schedules:\n" + manyEntries("-\n  id: s%05d\n  type: log\n", 18000), true},
		"flow":           {"schedules: [\n" + manyEntries("{id: s%05d, type: log},\n", 12000) + "]\n", false},
		"two documents":  {manyEntries("- {id: s%05d, type: log}\n", 6000) + "---\n" + manyEntries("- {id: t%05d, type: log}\n", 6000), false},
		"text in quotes": {manyEntries("- id: s%05d\n  type: log\n  description: \"a\n- b\"\n", 6000), false},
		"JSON":           {string(compact), true},
		"JSON, indented": {string(indented), true},
		"JSON list":      {string(list), true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			text := []byte(test.text)
			if len(text) <= splitAbove {
				t.Fatalf("only %d bytes", len(text))
			}
			want, wantErr := whole(text)
			parts := split(text)
			found, ok, err := readParts("f", parts)
			if ok != test.parts || test.parts && (len(parts) < 2 || err != nil) {
				t.Fatalf("%d parts, ok %v, %v", len(parts), ok, err)
			}
			got, gotErr := readFile("f", text)
			if (gotErr == nil) != (wantErr == nil) || wantErr == nil && len(want.schedules) < 3000 {
				t.Fatalf("%d schedules, %v; whole: %v", len(want.schedules), gotErr, wantErr)
			}
			for _, content := range []fileContent{found, got} {
				if ok || len(content.schedules) == len(want.schedules) {
					sameEntries(t, content.schedules, want.schedules)
					sameEntries(t, content.calendars, want.calendars)
				}
			}
		})
	}
}

// sameEntries compares entries and where everything in them stands.
func sameEntries(t *testing.T, got, want []written) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d entries, want %d", len(got), len(want))
	}
	for i := range got {
		if !bytes.Equal(got[i].object, want[i].object) || got[i].at != want[i].at || !maps.Equal(got[i].places, want[i].places) {
			t.Fatalf("entry %d is %s %v\nwant %s %v", i, got[i].object, got[i].places, want[i].object, want[i].places)
		}
	}
}

// Lines are counted as an editor does, whatever ends them, and after scalars of
// several lines, comments and empty lines.
func TestProblemsHaveTheirLine(t *testing.T) {
	entry := "  # comment\n  - id: s\n    type: log\n\n    expression: \"0 9 * * *\" # daily\n    payload: |\n      - not an entry\n\n      x: 1\n" +
		"    description: >-\n      one\n      two\n\n    metadata: \"one\n      two\"\n    labels: {a: b}\n"
	text := "---\n# head\nschedules:\n" + strings.Repeat(entry, 3) + "  - id: t\n    tpye: log\n"
	want := fmt.Sprintf("f:%d:5: unknown key", strings.Count(text, "\n"))
	var objects [][]byte
	for name, text := range map[string]string{"LF": text, "CRLF": strings.ReplaceAll(text, "\n", "\r\n")} {
		found, err := readFile("f", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
		objects = append(objects, found.schedules[0].object)
	}
	if !bytes.Equal(objects[0], objects[1]) {
		t.Errorf("%s\nand %s", objects[0], objects[1])
	}
}

// Problems of a long file are at their lines, and one that does not parse is
// explained as any other.
func TestProblemsInPartsHaveTheirPlace(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(manyEntries("- {id: s%05d, type: log}\n", 12000), "\n"), "\n")
	for bad, want := range map[string]string{"- {id: x, tpye: log}": "f:11001:11: unknown key", "- {id: x, type: @log}": "f:11001:17: YAML gives a leading"} {
		lines[11000] = bad
		_, err := readFile("f", []byte(strings.Join(lines, "\n")))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", bad, err, want)
		}
	}
}

// What is too much is refused before it costs memory, with advice.
func TestTooMuchInOneFile(t *testing.T) {
	for name, text := range map[string]string{
		"flow":      "schedules: [" + strings.Repeat("{id: a, type: log},", 500_000) + "]",
		"brackets":  strings.Repeat("[", 2_000_000),
		"one entry": "- id: a\n  payload: " + strings.Repeat("x", maxWhole),
	} {
		if _, err := readFile("f", []byte(text)); err == nil || !strings.Contains(err.Error(), "split the file") {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := newRig(t)
	r.stdin = manyEntries("- {id: s%06d, type: log}\n", maxSchedules+1)
	if got := r.run("validate", "-f", "-"); got.code != exitUsage || !strings.Contains(got.stderr, "allowed: 100000 in one run; split the files") {
		t.Errorf("%+v", got.stderr)
	}
	crontab := newRig(t)
	crontab.stdin = strings.Repeat("* * * * * echo 1\n", 10*maxSchedules)
	if got := crontab.run("import", "crontab", "-", "--tz", "UTC", "--dry-run"); got.code != exitUsage || !strings.Contains(got.stderr, "more than 100000 entries: allowed: 100000 in one run; split the files") {
		t.Errorf("%+v", got.stderr)
	}
	if n := len(split([]byte(r.stdin))); n != bytes.Count([]byte(r.stdin), nil)/splitAbove && n < 5 {
		t.Errorf("%d parts", n)
	}
}

// An interrupt ends an import that still compiles, before it writes.
func TestAnImportIsInterruptedWhileItCompiles(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var said bytes.Buffer
	m := &importing{s: &session{ctx: ctx, err: &said}, flags: &importFlags{}}
	if err := m.run([]found{{refused: "no command"}}); !errors.Is(err, errInterrupted) || !strings.Contains(said.String(), "nothing was written") || len(m.rows) > 0 {
		t.Errorf("%v, %s, %v", err, said.String(), m.rows)
	}
}
