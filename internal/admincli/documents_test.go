package admincli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// documents are those that name commands, from the root of the repository.
var documents = []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md", "docs/adr/*.md", "docs/recording/*.md"}

// documentedCommand matches a command line in a code span or a code block.
var documentedCommand = regexp.MustCompile("(?m)(?:`|^(?:\\$ )?)admin ([a-z][^`\n]*)")

// Every command line in the documents names a command that exists, with flags
// that it has.
func TestDocumentedCommandsExist(t *testing.T) {
	found := 0
	for _, pattern := range documents {
		files, err := filepath.Glob("../../" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			for _, m := range documentedCommand.FindAllStringSubmatch(readText(t, file), -1) {
				line, _, _ := strings.Cut(m[1], " #")
				args, err := splitLine(line)
				if err != nil {
					t.Errorf("%s: admin %s: %v", file, line, err)
					continue
				}
				found++
				cmd, rest, err := newRoot(&session{}).Find(args)
				if err != nil || cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
					t.Errorf("%s: admin %s: no such command (%v)", file, line, err)
					continue
				}
				if err := cmd.ParseFlags(rest); err != nil && !strings.Contains(err.Error(), "needs an argument") {
					t.Errorf("%s: admin %s: %v", file, line, err)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("found %d command lines", found)
	}
}

// The commands that README shows run one after the other, with the schedules
// that it shows.
func TestReadmeCommandsRun(t *testing.T) {
	text := readText(t, "../../README.md")
	_, yaml, found := strings.Cut(text, "```yaml\n")
	yaml, _, closed := strings.Cut(yaml, "```")
	if !found || !closed {
		t.Fatal("README.md shows no schedules")
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("schedules.yaml", []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	ran := 0
	for line := range strings.Lines(text) {
		command, found := strings.CutPrefix(strings.TrimSpace(line), "admin ")
		if !found {
			continue
		}
		args, err := splitLine(command)
		if err != nil {
			t.Fatal(err)
		}
		ran++
		if got := r.must(args...); got.stdout == "" || strings.Contains(got.stderr, "warning") {
			t.Errorf("%s: %+v", line, got)
		}
	}
	if ran < 5 {
		t.Errorf("ran %d commands", ran)
	}
}

// What a list names with -o name is what the command for one takes, as in
// admin schedule list -o name | xargs -n1 admin schedule get.
func TestNamesOfListsAreArguments(t *testing.T) {
	r := findingsWorld(t)
	one := map[string]string{"schedule list": "schedule get", "calendar list": "calendar get", "lease list": "lease get", "periodic list": "periodic get",
		"worker list": "worker get", "queue list": "queue stats", "task list": "task get", "run list": "run get", "context list": "context use",
		"events": "schedule get", "top --once": "schedule get", "validate -f schedules.yaml": "schedule get", "apply -f schedules.yaml": "schedule get",
		"schedule history disk-check": "run get"}
	for _, command := range leaves() {
		if strings.HasSuffix(command, " list") && one[command] == "" {
			t.Errorf("no command for one of %s", command)
		}
	}
	for list, get := range one {
		names := strings.Fields(r.must(append(strings.Fields(list), "-o", "name")...).stdout)
		if len(names) == 0 {
			t.Errorf("%s names nothing", list)
		}
		for _, name := range names {
			got := r.run(append(strings.Fields(get), name, "-o", "name")...)
			if got.code != exitDone || got.stdout != name+"\n" {
				t.Errorf("%s names %s; admin %s %s: %+v", list, name, get, name, got)
			}
		}
	}
}
