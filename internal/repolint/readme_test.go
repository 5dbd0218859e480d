package repolint

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/belfryhq/belfry/pkg/schedule"
)

func readDoc(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(rootDir(t), path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks returns the fenced blocks of a language; "" is those without one.
func blocks(text, language string) []string {
	fence := regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")
	var out []string
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		if m[1] == language {
			out = append(out, m[2])
		}
	}
	return out
}

func TestReadmeShowsTheExampleThatCompiles(t *testing.T) {
	code := readDoc(t, "examples/tenlines/main.go")
	found := blocks(readDoc(t, "README.md"), "go")
	if len(found) == 0 {
		t.Fatal("README.md has no Go block")
	}
	for _, block := range found {
		for _, line := range strings.Split(block, "\n") {
			if line = strings.TrimSpace(line); line != "" && !strings.Contains(code, line) {
				t.Errorf("README.md shows %q, which examples/tenlines does not have", line)
			}
		}
	}
}

func TestReadmeSchedulesAreAccepted(t *testing.T) {
	found := blocks(readDoc(t, "README.md"), "yaml")
	if len(found) == 0 {
		t.Fatal("README.md has no YAML block")
	}
	for _, block := range found {
		text, err := yaml.YAMLToJSON([]byte(block))
		if err != nil {
			t.Fatal(err)
		}
		var file struct{ Schedules []schedule.Schedule }
		if err := json.Unmarshal(text, &file); err != nil {
			t.Fatal(err)
		}
		if len(file.Schedules) == 0 {
			t.Error("a YAML block of README.md has no schedules")
		}
		for _, s := range file.Schedules {
			if _, err := schedule.Compile(s, nil); err != nil {
				t.Errorf("%s: %v", s.ID, err)
			}
		}
	}
}

// documents returns every Markdown file of the repository.
func documents(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(rootDir(t), pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			doc, err := filepath.Rel(rootDir(t), path)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, doc)
		}
	}
	if len(out) < 40 {
		t.Fatalf("only %d documents were found", len(out))
	}
	return out
}

// anchors returns what links into a text may name, as GitHub makes them of headings.
func anchors(text string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`(?m)^#{1,6} +(.*)$`).FindAllStringSubmatch(text, -1) {
		plain := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(m[1]), "")
		out = append(out, "#"+strings.ReplaceAll(plain, " ", "-"))
	}
	return out
}

func TestDocumentsNameWhatExists(t *testing.T) {
	makefile := readDoc(t, "Makefile")
	link := regexp.MustCompile(`\]\(([^)#:]*)(#[^)]*)?\)`)
	target := regexp.MustCompile("(?m)(?:^ *|`)make ([a-z-]+)")
	program := regexp.MustCompile(`go run (\./[a-z/]+)`)
	for _, doc := range documents(t) {
		text := readDoc(t, doc)
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			to := doc
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(doc), m[1])
			}
			if _, err := os.Stat(filepath.Join(rootDir(t), to)); err != nil {
				t.Errorf("%s links to %s, which does not exist", doc, m[1])
			} else if m[2] != "" && !slices.Contains(anchors(readDoc(t, to)), m[2]) {
				t.Errorf("%s links to %s, which has no %s", doc, to, m[2])
			}
		}
		for _, m := range target.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s says make %s, and there is no such target", doc, m[1])
			}
		}
		for _, m := range program.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(rootDir(t), m[1])); err != nil {
				t.Errorf("%s runs %s, which does not exist", doc, m[1])
			}
		}
	}
}

// CI must run the very command that the README gives for the tests.
func TestCIRunsTheTestCommandOfTheReadme(t *testing.T) {
	if !strings.Contains(readDoc(t, "README.md"), "\nmake test\n") || !strings.Contains(readDoc(t, ".ci/run"), "\nmake test\n") {
		t.Error("README.md and .ci/run must both have the line: make test")
	}
}
