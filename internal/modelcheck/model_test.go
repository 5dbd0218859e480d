package modelcheck

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

var full = flag.Bool("full", false, "check the large models too (minutes, up to 2 GB)")

// A check is one run of spin over a model.
type check struct {
	model, defines string
	live           bool   // check that everything is settled in the end, else safety
	finds          string // the error that must be found; "": none may be
	large          bool   // run with -full only
}

// small is one scheduler and one consumer.
const small = "SCHEDS=1 CONS=1 "

const (
	doubled   = "assertion violated (effects["
	refused   = "assertion violated ((shard.verdict["
	lost      = "assertion violated (n<1)"
	skipped   = "assertion violated ((i==shard.mark)"
	unsettled = "acceptance cycle"
)

var checks = []check{
	// The protocol.
	{model: "firing", defines: "SCHEDS=2 CONS=1"},
	{model: "firing", defines: "SCHEDS=1 CONS=2 ZOMBIES=1"},
	{model: "firing", defines: small + "EDITS=1"},
	{model: "firing", defines: small + "ROLLBACKS=1 NODUP"},
	{model: "firing", defines: small + "ROLLBACKS=1 EDITS=1 NI=1"},
	{model: "firing", defines: small + "LOSSES=1 CRASHES=1"},
	{model: "firing", defines: small, live: true},
	{model: "firing", defines: small + "LOSSES=1 CRASHES=1 NI=1", live: true},
	{model: "firing", defines: small + "ROLLBACKS=1 EDITS=1 NI=1 NODUP", live: true},
	{model: "release", defines: "DUP=2"},
	// The same and larger.
	{model: "firing", defines: "SCHEDS=2 CONS=2", large: true},
	{model: "firing", defines: "SCHEDS=2 CONS=1 EDITS=1 NODUP", large: true},
	{model: "firing", defines: "SCHEDS=1 CONS=2 ROLLBACKS=1 NODUP", large: true},
	{model: "firing", defines: small + "ROLLBACKS=1 EDITS=1 NODUP", large: true},
	{model: "firing", defines: small + "ROLLBACKS=1 NORETAIN", large: true},
	{model: "firing", defines: small + "LOSSES=1 CRASHES=1", live: true, large: true},
	{model: "firing", defines: small + "EDITS=1 CRASHES=1 NODUP", live: true, large: true},
	{model: "firing", defines: small + "ROLLBACKS=1 NODUP", live: true, large: true},
	// One rule broken.
	{model: "firing", defines: "SCHEDS=2 CONS=1 NOLEDGER", finds: doubled},
	{model: "firing", defines: "SCHEDS=1 CONS=2 NOMARK", finds: doubled},
	{model: "firing", defines: small + "EDITS=1 NOPROMISE", finds: refused},
	{model: "firing", defines: small + "ROLLBACKS=1 NODUP NOACK", finds: doubled},
	{model: "firing", defines: small + "ROLLBACKS=1 ADOPTANY", finds: skipped},
	{model: "firing", defines: small + "LOSSES=1 CRASHES=1 NOOWED", finds: lost},
	{model: "firing", defines: small + "LOSSES=1 NI=1 NOAUDIT", live: true, finds: unsettled},
	{model: "release", defines: "NOLEDGER", finds: "assertion violated"},
	{model: "release", defines: "NOAUDIT", finds: "assertion violated"},
}

// TestModels lets spin check each of them.
func TestModels(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute of model checking")
	}
	for _, tool := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("BELFRY_TEST_REQUIRE_SPIN") == "1" {
				t.Fatalf("BELFRY_TEST_REQUIRE_SPIN=1 and there is no %s: %v", tool, err)
			}
			t.Skipf("no %s (Debian and Ubuntu: apt-get install spin gcc): %v", tool, err)
		}
	}
	for _, c := range checks {
		name := c.model + " " + c.defines
		if c.live {
			name += " live"
		}
		t.Run(name, func(t *testing.T) {
			if c.large && !*full {
				t.Skip("large: make model")
			}
			c.run(t)
		})
	}
}

var counted = regexp.MustCompile(`errors: (\d+)\s+(\d+) states, stored`)

func (c check) run(t *testing.T) {
	report := c.spin(t)
	found := counted.FindStringSubmatch(report)
	if found == nil {
		t.Fatalf("spin says nothing about errors and states:\n%.3000s", report)
	}
	states, err := strconv.Atoi(found[2])
	if err != nil {
		t.Fatal(err)
	}
	switch incomplete := strings.Contains(report, "max search depth too small") || strings.Contains(report, "Search not completed"); {
	case c.finds != "" && !strings.Contains(report, c.finds):
		t.Errorf("spin found no %q in %d states: the model proves nothing\n%.3000s", c.finds, states, report)
	case c.finds == "" && (found[1] != "0" || incomplete):
		t.Errorf("%s errors in %d states, complete %v, want none:\n%.3000s", found[1], states, !incomplete, report)
	case c.finds == "" && states < 1000:
		t.Errorf("only %d states: something keeps the model from moving", states)
	}
	t.Logf("%d states", states)
}

// spin generates a verifier, compiles and runs it, and returns its report.
func (c check) spin(t *testing.T) string {
	t.Helper()
	model, err := filepath.Abs(filepath.Join("../../docs/model", c.model+".pml"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	if *full {
		ctx, cancel = context.WithTimeout(t.Context(), 20*time.Minute)
	}
	defer cancel()
	dir := t.TempDir()
	tool := func(name string, args ...string) string {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%.3000s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	generate, compile, verify := []string{"-a"}, []string{"-O1", "-w", "-DCOLLAPSE", "-DMEMLIM=500", "-o", "pan", "pan.c"}, []string{"-m100000"}
	for _, define := range strings.Fields(c.defines) {
		generate = append(generate, "-D"+define)
	}
	if *full {
		compile = append(compile, "-UMEMLIM", "-DMEMLIM=2000")
	}
	if c.finds != "" { // found at once: compiling takes longer
		compile = append(compile, "-O0")
	}
	if c.live {
		generate, compile, verify = append(generate, "-DLIVE"), append(compile, "-DNFAIR=4"), append(verify, "-a", "-f")
	} else {
		compile = append(compile, "-DSAFETY")
	}
	tool("spin", append(generate, model)...)
	tool("gcc", compile...)
	return tool(filepath.Join(dir, "pan"), verify...)
}
