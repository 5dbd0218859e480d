package top

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "rewrite the frames of testdata")

var start = time.Date(2026, 11, 30, 6, 7, 2, 0, time.UTC)

// columns counts a character as one column, and those of East Asia as two.
func columns(text string) int {
	n := utf8.RuneCountInString(text)
	for _, r := range text {
		if r >= 0x3000 && r < 0xa000 {
			n++
		}
	}
	return n
}

func sample() Snapshot {
	at := func(d time.Duration) time.Time { return start.Add(d) }
	return Snapshot{Where: "redis:6379/prod", Now: start, Ahead: 41 * time.Millisecond, Active: 2, Paused: 1, Disabled: 1, Due: 1, Open: 2, Lateness: 1200 * time.Millisecond, Fired: 10,
		Schedules: []Schedule{
			{ID: "nightly-report", State: "paused", Paused: true, When: "At 02:30 every day, America/New_York", Last: "ok 3d ago", Next: at(-time.Minute)},
			{ID: "cache-warm", State: "active", When: "Every 5m", Last: "ok 2m ago", Next: at(178 * time.Second)},
			{ID: "partner-sync", State: "failing", Bad: true, Fails: 3, When: "At minute 15 of every hour, with a jitter of 2 minutes", Last: "failed 52m ago", Error: strings.Repeat("no route to host; ", 9), Next: at(-3 * time.Second)},
			{ID: "日次レポート", State: "active", When: "毎日", Last: "-", Next: at(26 * time.Hour)},
		},
		Workers: []Worker{{ID: "w-7f3c", Host: "a:1", Queues: "default=1", Version: "v1.0.0", Claims: true, Types: 3, Seen: at(-4 * time.Second)}, {ID: "w-1b90", Queues: "low=1", Seen: at(-12 * time.Second)}},
		Leases:  []Lease{{Name: "main", Owner: "w-7f3c", Token: "1796018822000000", Until: at(2 * time.Minute)}, {Name: "gocron:x"}},
		Runs:    []Run{{Schedule: "cache-warm", Outcome: "succeeded", Worker: "w-7f3c", Ended: at(-2 * time.Minute), Took: 1500 * time.Millisecond}, {Schedule: "partner-sync", Outcome: "failed", Bad: true, Error: "no route to host", Ended: at(-52 * time.Minute)}},
	}
}

func newModel(width, height int) *Model {
	m := New(Options{Width: columns})
	m.Resize(width, height)
	m.Set(sample(), "", start)
	return m
}

// press sends keys that are separated by spaces.
func press(m *Model, keys string) (last Request) {
	for key := range strings.FieldsSeq(keys) {
		last = m.Key(key)
	}
	return last
}

// Each frame fills the terminal exactly: as many lines, none wider, and no
// escapes without color.
func TestFramesFitTheTerminal(t *testing.T) {
	for _, size := range [][2]int{{60, 15}, {80, 24}, {81, 25}, {132, 40}, {250, 80}} {
		for _, keys := range []string{"", "2", "3", "4", "?", "enter", "j j enter", "/ x", "T", "G", "s s"} {
			m := newModel(size[0], size[1])
			press(m, keys)
			lines := strings.Split(m.Frame(), "\n")
			if len(lines) != size[1] {
				t.Errorf("%v after %q: %d lines", size, keys, len(lines))
			}
			for i, line := range lines {
				if columns(line) > size[0] || strings.Contains(line, "\x1b") {
					t.Errorf("%v after %q: line %d is %q", size, keys, i, line)
				}
			}
		}
	}
	for _, size := range [][2]int{{59, 24}, {80, 14}, {1, 1}, {0, 0}} {
		if frame := newModel(size[0], size[1]).Frame(); strings.Contains(frame, "\n") || columns(frame) > max(1, size[0]) {
			t.Errorf("%v: %q", size, frame)
		}
	}
}

// The frames of testdata, to be read by people when they change.
func TestFrames(t *testing.T) {
	for name, keys := range map[string]string{"schedules": "", "workers": "2", "leases": "tab tab", "runs": "4", "help": "?", "details": "enter", "filter": "/ p a r", "trigger": "j T", "narrow": "", "narrow-runs": "4"} {
		m := newModel(80, 24)
		if strings.HasPrefix(name, "narrow") {
			m.Resize(MinWidth, MinHeight)
		}
		m.Tick(start.Add(2 * time.Second))
		press(m, keys)
		got := m.Frame() + "\n"
		file := filepath.Join("testdata", name+".txt")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: run with -update and read the difference\n%s", name, got)
		}
	}
}

func TestActs(t *testing.T) {
	m := newModel(80, 24)
	if got := press(m, "p"); got.Act != ActPause || got.Schedule != "partner-sync" {
		t.Errorf("p on an active one: %+v", got)
	}
	if got := press(m, "j T"); got.Act != "" || !strings.Contains(m.Frame(), "trigger cache-warm now") {
		t.Errorf("T does not ask: %+v", got)
	}
	if got := press(m, "n"); got != (Request{}) || !strings.Contains(m.Frame(), "nothing was changed") {
		t.Errorf("n: %+v", got)
	}
	if got := press(m, "T y"); got.Act != ActTrigger || got.Schedule != "cache-warm" {
		t.Errorf("T y: %+v", got)
	}
	m.Done("triggered cache-warm")
	if !strings.Contains(m.Frame(), "triggered cache-warm") {
		t.Error("what was done is not shown")
	}
	if got := press(m, "G p"); got.Act != ActResume || got.Schedule != "nightly-report" {
		t.Errorf("p on a paused one: %+v", got)
	}
	if got := press(m, "2 p"); got.Act != "" || !strings.Contains(m.Frame(), "choose a schedule") {
		t.Errorf("p among workers: %+v", got)
	}
	for _, keys := range []string{"q", "ctrl+c", "/ a ctrl+c", "1 T ctrl+c"} {
		if got := press(newModel(80, 24), keys); !got.Quit {
			t.Errorf("%q does not quit", keys)
		}
	}
}

// A question is about one schedule: that it is deleted while the question
// stands does not make the answer one about its neighbour, and the question is
// seen however long the name is.
func TestAQuestionKeepsItsSchedule(t *testing.T) {
	m := newModel(60, 15)
	s := sample()
	long := strings.Repeat("x", 128)
	s.Schedules[2].ID = long
	m.Set(s, "", start)
	press(m, "g T")
	if last := m.footer().text; columns(last) > 60 || !strings.Contains(last, "xx…") || !strings.HasSuffix(last, "? y/N") {
		t.Errorf("the question: %q", last)
	}
	s.Schedules = s.Schedules[:2]
	m.Set(s, "", start.Add(time.Second))
	if got := press(m, "y"); got.Act != ActTrigger || got.Schedule != long {
		t.Errorf("y after it was deleted: %+v", got)
	}
}

// The cursor stays on its schedule when rows move, and inside the list when it
// shrinks.
func TestTheCursorStaysOnItsSchedule(t *testing.T) {
	m := newModel(80, 24)
	press(m, "j") // cache-warm, second by time
	s := sample()
	s.Schedules[1].Next = start.Add(-time.Hour) // now first
	m.Set(s, "", start.Add(time.Second))
	if got, _ := m.current(); got.ID != "cache-warm" || m.cursor[viewSchedules] != 0 {
		t.Errorf("the cursor is on %s, row %d", got.ID, m.cursor[viewSchedules])
	}
	press(m, "s s") // by state
	if got, _ := m.current(); got.ID != "cache-warm" {
		t.Errorf("after sorting on %s", got.ID)
	}
	s.Schedules = s.Schedules[:1]
	m.Set(s, "", start.Add(2*time.Second))
	if got, ok := m.current(); !ok || got.ID != "nightly-report" {
		t.Errorf("after others were deleted on %q", got.ID)
	}
	s.Schedules = nil
	m.Set(s, "", start.Add(3*time.Second))
	press(m, "enter p T y j k G g")
	if frame := m.Frame(); !strings.Contains(frame, "none") {
		t.Errorf("an empty list:\n%s", frame)
	}
}

func TestFilterAndSort(t *testing.T) {
	m := newModel(80, 24)
	press(m, "/ P A R T enter")
	if frame := m.Frame(); !strings.Contains(frame, "partner-sync") || strings.Contains(frame, "cache-warm") {
		t.Errorf("filter:\n%s", frame)
	}
	press(m, "esc")
	if !strings.Contains(m.Frame(), "cache-warm") {
		t.Error("esc keeps the filter")
	}
	press(m, "/ z z backspace backspace enter")
	for _, want := range []string{"cache-warm", "cache-warm", "partner-sync", "partner-sync"} {
		press(m, "s g") // by name, state, fails, next
		if got, _ := m.current(); got.ID != want {
			t.Errorf("by %s the first is %s, want %s", sorts[m.sort], got.ID, want)
		}
	}
}

// Rates and quantiles go over what was seen, and a problem leaves the last
// snapshot visible.
func TestRatesAndProblems(t *testing.T) {
	m := newModel(80, 24)
	for i := range 10 {
		s := sample()
		s.Fired, s.Lateness = int64(10+5*(i+1)), time.Duration(i)*time.Second
		m.Set(s, "", start.Add(time.Duration(i+1)*time.Second))
	}
	if frame := m.Frame(); !strings.Contains(frame, "5.0 fires/s   late 9s (p50 4s, p99 9s)") {
		t.Errorf("header:\n%s", frame)
	}
	m.Tick(start.Add(15 * time.Second))
	m.Set(Snapshot{}, "Redis did not answer in time", start.Add(15*time.Second))
	if frame := m.Frame(); !strings.Contains(frame, "as of 5s ago: Redis did not answer in time") || !strings.Contains(frame, "cache-warm") {
		t.Errorf("with a problem:\n%s", frame)
	}
	empty := New(Options{Width: columns})
	if frame := empty.Frame(); !strings.Contains(frame, "waiting for the first answer") {
		t.Errorf("before the first:\n%s", frame)
	}
	empty.Set(Snapshot{}, "refused", start)
	if frame := empty.Frame(); !strings.Contains(frame, "refused") {
		t.Errorf("never an answer:\n%s", frame)
	}
}

func FuzzKeys(f *testing.F) {
	f.Add("j k / a enter T y p s s tab tab tab tab ? enter esc G g q")
	f.Fuzz(func(t *testing.T, keys string) {
		m := newModel(60, 15)
		press(m, keys)
		if lines := strings.Count(m.Frame(), "\n"); lines != 14 {
			t.Errorf("%d lines", lines+1)
		}
	})
}

func TestColorsAreEscapes(t *testing.T) {
	m := New(Options{Width: columns, Color: true, Sort: "fails"})
	m.Resize(80, 24)
	m.Set(sample(), "", start)
	frame := m.Frame()
	if strings.Count(frame, "\x1b[") != 2*strings.Count(frame, "\x1b[0m") || !strings.Contains(frame, "\x1b[7m partner-sync") {
		t.Errorf("%q", frame)
	}
	if got := fmt.Sprint(Sorts()); got != "[next name state fails]" {
		t.Error(got)
	}
}
