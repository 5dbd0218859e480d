package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// groff has nothing to warn of in any manual page, and each shows its command,
// its examples and its flags as they are typed.
func TestManualPagesRender(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		if os.Getenv("BELFRY_TEST_REQUIRE_GROFF") == "1" {
			t.Fatalf("BELFRY_TEST_REQUIRE_GROFF=1 and there is no groff: %v", err)
		}
		t.Skip("groff is not installed")
	}
	files, err := filepath.Glob(committed + "/man/*.1")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d manual pages, %v", len(files), err)
	}
	for _, file := range files {
		cmd := exec.CommandContext(t.Context(), groff, "-man", "-ww", "-Tutf8", "-P-cbou", file)
		var out, warnings bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &warnings
		if err := cmd.Run(); err != nil || warnings.Len() > 0 {
			t.Errorf("%s: %v\n%s", file, err, warnings.String())
		}
		name := strings.TrimSuffix(filepath.Base(file), ".1")
		text := out.String()
		if name != "admin" && !strings.Contains(text, "EXAMPLES") {
			t.Errorf("%s has no examples", file)
		}
		for _, want := range []string{"NAME", "SYNOPSIS", name, strings.ReplaceAll(name, "-", " ")} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not show %q", file, want)
			}
		}
		if strings.Contains(text, "−") || strings.Contains(text, "‐-") { // minus signs and hyphens cannot be pasted
			t.Errorf("%s: flags are not shown as they are typed", file)
		}
	}
}
