package admincli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// hostile texts must be refused or shown, and never obeyed by a terminal.
var hostile = map[string]string{
	"braces":        "{a}:{b}",
	"newline":       "a\nb",
	"carriage":      "a\rb",
	"nul":           "a\x00b",
	"escape":        "\x1b]0;owned\x07\x1b[2J",
	"c1":            "a\u009b31mb",
	"right to left": "abc\u202edef\u2066x",
	"zero width":    "a\u200bb",
	"invalid utf-8": "a\xff\xfeb",
	"script":        "<script>alert(1)</script></textarea>",
	"quotes":        `'"` + "`" + `$(id)\`,
	"long":          strings.Repeat("x", 1<<20),
	"empty":         "",
	"emoji":         "👩‍👩‍👧 日本語",
	"tag":           "a\U000e0001b",
}

// safe reports the first character that a terminal would obey or hide.
func safe(text string) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("invalid UTF-8 in %.80q", text)
	}
	for _, r := range text {
		if r != '\n' && !unicode.IsGraphic(r) && r != zeroWidthJoiner {
			return fmt.Errorf("%U in %.80q", r, text)
		}
	}
	return nil
}

func TestHostileNamesAreRefusedOnOneLine(t *testing.T) {
	r := newRig(t)
	before := r.snapshot()
	for name, text := range hostile {
		for _, args := range [][]string{
			{"schedule", "create", text, "--every", "1h", "--type", "log"},
			{"schedule", "create", "x", "--every", "1h", "--type", "log", "--queue=" + orSpace(text)},
			{"schedule", "create", "x", "--cron=" + orSpace(text), "--type", "log"},
			{"schedule", "create", "x", "--every", "1h", "--tz=" + orSpace(text), "--type", "log"},
			{"schedule", "create", "x", "--every=" + orSpace(text), "--type", "log"},
			{"schedule", "create", "x", "--at=" + orSpace(text), "--type", "log"},
			{"schedule", "create", "x", "--every", "1h", "--type", "log", "--request-id=" + orSpace(text)},
			{"schedule", "get", text}, {"schedule", "delete", text, "--yes"}, {"schedule", "trigger", text},
			{"--namespace=" + orSpace(text), "schedule", "list"}, {"-o=" + text, "schedule", "list"},
			{"cron", "next", text}, {"cron", "explain", text}, {text, "list"}, {"schedule", text},
		} {
			got := r.run(args...)
			if got.code != exitUsage && !(name == "empty" && got.code == exitDone) {
				t.Errorf("%s: %.60q: exit %d, stderr %.200q", name, args, got.code, got.stderr)
			}
			if err := safe(got.stdout + got.stderr); err != nil {
				t.Errorf("%s: %.60q: %v", name, args, err)
			}
			if len(got.stderr) > 2000 {
				t.Errorf("%s: %.60q: an error of %d bytes", name, args, len(got.stderr))
			}
		}
	}
	if after := r.snapshot(); after != before {
		t.Errorf("something was written: %.300s", after)
	}
}

// orSpace keeps an empty text from meaning "not given".
func orSpace(s string) string {
	if s == "" {
		return " "
	}
	return s
}

// What may be any text is stored exactly, shown safely in every format, and
// read back to the same value from JSON.
func TestHostileTextsAreShownAndSurvive(t *testing.T) {
	for name, text := range hostile {
		if !utf8.ValidString(text) || len(text) > schedule.MaxDescription {
			continue
		}
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			payload, err := json.Marshal(map[string]any{"text": text, "n": json.Number("9007199254740993")})
			if err != nil {
				t.Fatal(err)
			}
			created := r.run("schedule", "create", "x", "--every", "1h", "--type", "log", "--payload", string(payload), "--description", text)
			if created.code == exitUsage {
				if err := safe(created.stderr); err != nil {
					t.Error(err)
				}
				return // refused is as good as shown
			}
			r.must("schedule", "pause", "x", "--reason", text)
			for _, format := range formats {
				for _, command := range []string{"get x", "list", "history x"} {
					got := r.must(append([]string{"schedule", "-o", format}, strings.Fields(command)...)...)
					if err := safe(got.stdout + got.stderr); err != nil {
						t.Errorf("%s -o %s: %v", command, format, err)
					}
				}
			}
			var shown struct {
				Description string
				Payload     json.RawMessage
				Reason      string `json:"pause_reason"`
			}
			if err := json.Unmarshal([]byte(r.must("schedule", "get", "x", "-o", "json").stdout), &shown); err != nil {
				t.Fatal(err)
			}
			if shown.Description != text || shown.Reason != text {
				t.Errorf("description %q, reason %q, want %q", shown.Description, shown.Reason, text)
			}
			if !sameJSON(shown.Payload, payload) {
				t.Errorf("payload %s, want %s", shown.Payload, payload)
			}
		})
	}
}

func TestHostilePayloads(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	create := func(name string, content []byte) result {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return r.run("schedule", "create", name, "--every", "1h", "--type", "log", "--payload", "@"+file)
	}
	if got := create("huge", []byte(`"`+strings.Repeat("x", 1<<20)+`"`)); got.code != exitUsage || len(got.stderr) > 200 {
		t.Errorf("1 MiB: exit %d, %d bytes of error", got.code, len(got.stderr))
	}
	binary := []byte("\x00\xff\x1b[2J")
	if got := create("binary", binary); got.code != exitDone {
		t.Fatalf("binary: %s", got.stderr)
	}
	for _, format := range formats {
		got := r.must("schedule", "get", "binary", "-o", format)
		if err := safe(got.stdout + got.stderr); err != nil {
			t.Errorf("-o %s: %v", format, err)
		}
	}
	entry, err := r.stores.Catalog.Get(t.Context(), "binary")
	if err != nil || string(entry.Schedule.Payload) != string(binary) {
		t.Errorf("stored %q, %v", entry.Schedule.Payload, err)
	}
}

// A hostile file is refused quickly: the parser costs the square of the depth.
func TestHostileFilesAreRefused(t *testing.T) {
	r := newRig(t)
	deep := func(unit string, n int) string { return strings.Repeat(unit, n) }
	var stairs strings.Builder
	for i := range 3000 {
		stairs.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	for name, text := range map[string]string{
		"flow sequences": deep("[", 100_000) + deep("]", 100_000),
		"flow mappings":  deep("{a: ", 100_000),
		"block entries":  deep("- ", 100_000) + "a",
		"stairs":         stairs.String(),
		"control":        "id: a\ndescription: \x1b[2J\n",
		"nul":            "id: a\x00\n",
		"invalid utf-8":  "id: \"\xff\"\n",
		"too large":      strings.Repeat("#\n", maxFileBytes/2+1),
		"long key":       strings.Repeat("k", 1<<20) + ": v\n",
		"bomb":           "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n",
	} {
		r.stdin = text
		start := time.Now()
		got := r.run("apply", "-f", "-")
		if got.code != exitUsage || safe(got.stderr) != nil || len(got.stderr) > 4000 {
			t.Errorf("%s: exit %d, stderr %.300q", name, got.code, got.stderr)
		}
		// Without the limits of the reader the worst takes minutes.
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("%s took %s", name, took)
		}
	}
	if got := r.snapshot(); got != "null" && got != "[]" {
		t.Errorf("something was written: %.300s", got)
	}
}

// Files that would cost the parser the square of their keys end at a limit;
// as many keys in mappings of their own do not.
func TestHostileFilesWithManyKeys(t *testing.T) {
	block, flow, apart := "schedules:\n- id: x\n", "schedules:\n- {id: x", "schedules:\n"
	for i := range maxKeys + 10 {
		block += fmt.Sprintf("  k%d: 1\n", i)
		flow += fmt.Sprintf(", k%d: 1", i)
		apart += fmt.Sprintf("- id: x%d\n  labels: {a: b}\n", i)
	}
	for name, text := range map[string]string{"block": block, "flow": flow + "}\n"} {
		if _, err := readFile("f", []byte(text)); err == nil || !strings.Contains(err.Error(), "too many keys in one mapping") {
			t.Errorf("%s: %.200v", name, err)
		}
	}
	if content, err := readFile("f", []byte(apart)); err != nil || len(content.schedules) != maxKeys+10 {
		t.Errorf("apart: %d schedules, %.200v", len(content.schedules), err)
	}
}

// A login that lost its '@' is not shown with the error that it causes.
func TestALoginWithoutItsEndIsNotShown(t *testing.T) {
	r := &rig{t: t, now: time.Now(), open: OpenRedis, environ: map[string]string{}}
	for text, shown := range map[string]string{
		"redis://user:canary-7f3c":     "[redacted]",
		"redis://user:canary-7f3c?x=1": "[redacted]",
		"canary-7f3c@":                 "[redacted]",
		"http://localhost:6379":        "http://localhost:6379",
	} {
		got := r.run("--redis", text, "schedule", "list")
		if got.code != exitUsage || strings.Contains(got.stderr, "canary") || !strings.Contains(got.stderr, fmt.Sprintf("redis %q", shown)) {
			t.Errorf("--redis %s: exit %d, %s", text, got.code, got.stderr)
		}
	}
}

func TestWidthAndClip(t *testing.T) {
	tests := []struct {
		text string
		want int
	}{
		{"", 0}, {"abc", 3}, {"日本語", 6}, {"ünïcode", 7}, {"e\u0301", 1}, {"🎉", 2}, {"👩\u200d👩\u200d👧", 2}, {"👍🏽", 2}, {"ｆｕｌｌ", 8}, {"…", 1},
	}
	for _, tt := range tests {
		if got := width(tt.text); got != tt.want {
			t.Errorf("width(%q) = %d, want %d", tt.text, got, tt.want)
		}
	}
	for text, want := range map[string]string{"abcdef": "abc…", "日本語": "日…", "abcd": "abcd"} {
		if got := clip(text, 4); got != want {
			t.Errorf("clip(%q, 4) = %q, want %q", text, got, want)
		}
	}
}
