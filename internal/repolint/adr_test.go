package repolint

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Decisions are cited by number, so each has one of its own, without a gap.
func TestDecisionsAreNumbered(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(rootDir(t), "docs", "adr", "[0-9]*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no decisions: %v", err)
	}
	for i, file := range files {
		name := filepath.Base(file)
		if !strings.HasPrefix(name, fmt.Sprintf("%04d-", i+1)) {
			t.Errorf("docs/adr/%s: number %d is expected here", name, i+1)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), fmt.Sprintf("# %d. ", i+1)) {
			t.Errorf("docs/adr/%s: its title has another number", name)
		}
	}
}
