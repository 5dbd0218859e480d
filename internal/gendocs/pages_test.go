package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/admincli"
)

const committed = "../../docs/cli"

// The committed reference is that of the commands, with no page too many.
func TestTheReferenceIsThatOfTheCommands(t *testing.T) {
	want := pages(admincli.Reference())
	if len(want) < 30 {
		t.Fatalf("%d pages; there must be more", len(want))
	}
	seen := map[string]bool{}
	err := filepath.WalkDir(committed, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(committed, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		seen[name] = true
		if want[name] != string(text) {
			t.Errorf("docs/cli/%s is not what the commands say: go run ./internal/gendocs docs/cli, and delete pages of commands that are gone", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range want {
		if !seen[name] {
			t.Errorf("docs/cli/%s is missing: go run ./internal/gendocs docs/cli", name)
		}
	}
}

// Every command has a page, every flag of it is on the page, and no line of a
// manual page is taken for a command of the formatter by accident.
func TestPagesAreComplete(t *testing.T) {
	all := pages(admincli.Reference())
	for _, cmd := range documented(admincli.Reference()) {
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
		page, man := all[name+".md"], all["man/"+name+".1"]
		for _, one := range append(documented(cmd), cmd) {
			if !strings.Contains(page, one.CommandPath()) || !strings.Contains(man, roff(one.Short)) {
				t.Errorf("%s is not on its pages", one.CommandPath())
			}
			eachFlag(one.LocalNonPersistentFlags(), func(names, _, _ string) {
				if !strings.Contains(page, "`"+names+"`") || !strings.Contains(man, roff(names)) {
					t.Errorf("%s: %s is not on its pages", one.CommandPath(), names)
				}
			})
		}
		for line := range strings.Lines(man) {
			if word, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(line, ".") && !strings.Contains(" .TH .SH .SS .TP .PP .B .BR .br .nf .fi ", " "+word+" ") {
				t.Errorf("%s: the formatter reads %q as a command", name, line)
			}
		}
	}
	if roff(".x -a\\b") != `\&.x \-a\eb` {
		t.Errorf("roff: %q", roff(".x -a\\b"))
	}
}
