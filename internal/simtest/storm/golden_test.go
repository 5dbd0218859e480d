package storm

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A story is a scenario file in testdata: a row of the table, a seed, how long
// the storm lasts, and the schedule whose part of the trace is kept. Lines that
// begin with # say what to look at.
type story struct {
	row, schedule string
	seed          uint64
	span          time.Duration
}

func readStory(file string) (s story, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "", "#":
		case "row":
			s.row = value
		case "schedule":
			s.schedule = value
		case "seed":
			s.seed, err = strconv.ParseUint(value, 10, 64)
		case "span":
			s.span, err = time.ParseDuration(value)
		default:
			err = fmt.Errorf("%s: unknown key %q", file, key)
		}
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// trace runs the story and returns its part of the trace.
func (s story) trace(t *testing.T) string {
	t.Helper()
	found := false
	r := simulate(t, func(uint64) scenario {
		for _, c := range scenarios() {
			if c.name == s.row {
				found = true
				c.span = s.span
				return c
			}
		}
		return scenario{}
	}, s.seed)
	if !found {
		t.Fatalf("there is no row %q", s.row)
	}
	r.report(t, s.seed)
	var text strings.Builder
	for _, e := range r.events {
		if strings.Contains(e.key, s.schedule) || strings.Contains(e.is, s.schedule) || e.op == "rolled back" || e.op == "crash" || e.op == "pause" {
			text.WriteString(strings.TrimRight(e.String(), " ") + "\n")
		}
	}
	return text.String()
}

// TestGolden replays the stories and wants their traces, event by event.
// -update writes them.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.scenario")
	if err != nil || len(files) == 0 {
		t.Fatalf("scenario files: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			s, err := readStory(file)
			if err != nil {
				t.Fatal(err)
			}
			golden, got := strings.TrimSuffix(file, ".scenario")+".trace", s.trace(t)
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatalf("%v: go test ./internal/simtest/storm -run TestGolden -update", err)
			}
			compareTraces(t, golden, got, string(want))
		})
	}
}

// compareTraces names the first event that differs.
func compareTraces(t *testing.T, golden, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Fatalf("%s, line %d:\n got %s\nwant %s\nif that is meant: go test ./internal/simtest/storm -run TestGolden -update", golden, i+1, a[i], b[i])
		}
	}
	t.Fatalf("%s: %d events, want %d", golden, len(a)-1, len(b)-1)
}
