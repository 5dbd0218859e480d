package admincli

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var update = flag.Bool("update", false, "rewrite what testdata/script expects")

// TestScripts runs each file of testdata/script against a fresh store. A line
// that starts with "$ admin" is run; what follows it is what it printed. The
// other "$" lines set the scene:
//
//	$ advance 2h          move the clock
//	$ terminal on|off     whether all streams are terminals
//	$ stdin TEXT          what the next commands read; \n is a new line
//	$ setenv NAME=VALUE
//	$ ran NAME OUTCOME    let a triggered run of a schedule end
//
// Run with -update to rewrite what is expected, then read the difference.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/script/*.txt")
	if err != nil || len(files) < 8 {
		t.Fatalf("found %d scripts: %v", len(files), err)
	}
	for i := range files {
		if files[i], err = filepath.Abs(files[i]); err != nil {
			t.Fatal(err)
		}
	}
	inFiles(t)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { runScript(t, file) })
	}
}

func runScript(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	var got strings.Builder
	for _, line := range strings.Split(string(text), "\n") {
		switch command, found := strings.CutPrefix(line, "$ "); {
		case found:
			got.WriteString(line + "\n" + r.step(t, command))
		case strings.HasPrefix(line, "#"):
			got.WriteString(line + "\n")
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	compareLines(t, string(text), got.String())
}

// yamlChecksum is a checksum in YAML, which is in quotes when it begins with a
// digit.
var yamlChecksum = regexp.MustCompile(`(?m)^(\s*sha256: )"?[0-9a-f]{64}"?$`)

// step runs one line and renders what it printed, each line with where it
// went.
func (r *rig) step(t *testing.T, line string) string {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "admin":
		args, err := splitLine(rest)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got := r.run(args...)
		// A checksum covers how everything is stored, which is nobody's business here.
		got.stdout = yamlChecksum.ReplaceAllString(got.stdout, `$1"SHA256"`)
		got.stdout = checksum.ReplaceAllString(got.stdout, "SHA256")
		for _, text := range []*string{&got.stdout, &got.stderr} {
			*text = strings.ReplaceAll(*text, r.config, "CONFIG")
			*text = drawn.ReplaceAllString(*text, "belfry-$1-N.yaml")
		}
		return prefixed("", got.stdout) + prefixed("! ", got.stderr) + fmt.Sprintf("= exit %d\n", got.code)
	case "advance":
		d, err := time.ParseDuration(rest)
		if err != nil {
			t.Fatal(err)
		}
		r.advance(d)
		r.announce("default", "reports", "low", "ops", "mailers")
	case "terminal":
		on := rest == "on"
		r.terminal = Terminal{Stdin: on, Stdout: on, Stderr: on}
	case "stdin":
		r.stdin = strings.ReplaceAll(rest, `\n`, "\n")
	case "ran": // NAME OUTCOME: a run of a schedule that is triggered and ends
		id, outcome, _ := strings.Cut(rest, " ")
		r.seedRun(t, schedule.ID(id), claim.RunOutcome(outcome))
	case "left": // FIRING OUTPUT: the finished task of a firing, with what its handler left
		id, text, _ := strings.Cut(rest, " ")
		output, err := strconv.Unquote(`"` + text + `"`)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		r.left(t, id, output)
	case "announce": // ID QUEUES STATE: a worker says what it does
		fields := strings.Fields(rest)
		r.announceAs(fields[0], claim.MemberState(fields[2]), strings.Split(fields[1], ",")...)
	case "setenv":
		name, value, _ := strings.Cut(rest, "=")
		r.environ[name] = value
	default:
		t.Fatalf("unknown line in a script: $ %s", line)
	}
	return ""
}

// drawn matches names of temporary files.
var drawn = regexp.MustCompile(`belfry-([a-z]+)-[0-9]+\.yaml`)

var checksum = regexp.MustCompile(`"?[0-9a-f]{64}"?`) // YAML quotes some

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	var b strings.Builder
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		b.WriteString(strings.TrimRight("  "+prefix+line, " ") + "\n")
	}
	return b.String()
}

func compareLines(t *testing.T, want, got string) {
	t.Helper()
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		a, b := "", ""
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			t.Fatalf("line %d\nwant %q\n got %q\nrun with -update and read the difference", i+1, a, b)
		}
	}
}
