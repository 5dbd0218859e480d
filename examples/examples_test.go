package examples

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestExamplesBuild builds and vets every example.
func TestExamplesBuild(t *testing.T) {
	mains, err := filepath.Glob("*/main.go")
	if err != nil || len(mains) == 0 {
		t.Fatalf("examples found: %v, %v; want some", mains, err)
	}
	// Several packages at once are compiled and not linked, which is enough.
	for _, args := range [][]string{{"build", "./..."}, {"vet", "./..."}} {
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			t.Errorf("go %v: %v\n%s", args, err, out)
		}
	}
}
