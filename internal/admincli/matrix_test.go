package admincli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/internal/admincli/schema"
)

// TestEveryCommandInEveryFormat runs the last line of each file of
// testdata/matrix in every format, piped and in a pseudo-terminal, each time
// in a new world. There is one file for each command of the command tree. Lines
// before the last are run first, and not shown. A section names the formats that
// print it; "! " marks standard error. With json stand jsonl, when its lines are
// the elements of the list, and yaml, when it is the same value. With table
// stands terminal, when the lines that a pipe gets stay there; what it paints is
// listed in the end.
//
// A new command needs a file with its line; the rest is written by -update.
func TestEveryCommandInEveryFormat(t *testing.T) {
	home, err := filepath.Abs("testdata/matrix")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	inFiles(t)
	for _, command := range leaves() {
		name := strings.ReplaceAll(command, " ", "-") + ".txt"
		known[name] = true
		t.Run(command, func(t *testing.T) { runMatrix(t, filepath.Join(home, name), command) })
	}
	files, err := os.ReadDir(home)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !known[file.Name()] {
			t.Errorf("testdata/matrix/%s belongs to no command", file.Name())
		}
	}
}

// leaves are the commands that do something, without "admin".
func leaves() []string {
	var out []string
	walkCommands(newRoot(&session{}), func(cmd *cobra.Command) {
		if !cmd.HasSubCommands() {
			out = append(out, strings.TrimPrefix(cmd.CommandPath(), "admin "))
		}
	})
	slices.Sort(out)
	return out
}

func runMatrix(t *testing.T, file, command string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: write the file with a line \"$ admin %s ...\" and run with -update", err, command)
	}
	m := &matrix{t: t}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "$ ") || strings.HasPrefix(line, "#") {
			m.head = append(m.head, strings.TrimSuffix(line, "\n"))
		}
	}
	if m.args, err = splitLine(strings.TrimPrefix(m.head[len(m.head)-1], "$ admin ")); err != nil {
		t.Fatal(err)
	}
	if m.command() != command {
		t.Fatalf("%s runs %q", file, m.command())
	}
	got := strings.Join(m.head, "\n") + "\n" + m.sections()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	compareLines(t, string(text), got)
}

// A matrix is one command in all formats.
type matrix struct {
	t    *testing.T
	head []string // lines of the file before the first section
	args []string
}

// command is the path of the command that is run.
func (m *matrix) command() string {
	cmd, _, err := newRoot(&session{}).Find(m.args)
	if err != nil {
		m.t.Fatal(err)
	}
	return strings.TrimPrefix(cmd.CommandPath(), "admin ")
}

// in runs something in a new world, after the lines before the last.
func (m *matrix) in(environ map[string]string, use func(r *rig)) {
	files := listFiles(m.t)
	defer removeOthers(m.t, files)
	r := newWorld(m.t)
	for _, line := range m.head[:len(m.head)-1] {
		if step, found := strings.CutPrefix(line, "$ "); found {
			r.step(m.t, step)
		}
	}
	maps.Copy(r.environ, environ)
	use(r)
}

// run runs the command piped.
func (m *matrix) run(environ map[string]string, more ...string) (got result) {
	m.in(environ, func(r *rig) {
		got = r.run(append(slices.Clone(m.args), more...)...)
		got.stdout, got.stderr = r.masked(got.stdout), r.masked(got.stderr)
	})
	return got
}

// show runs the command in a terminal.
func (m *matrix) show(columns int, environ map[string]string, more ...string) (text string) {
	m.in(environ, func(r *rig) {
		text, _ = r.onTerminal(columns, append(slices.Clone(m.args), more...)...)
		text = settled(r.masked(text))
	})
	return text
}

// settled is what stays on a terminal: a progress bar is drawn over itself, and
// wiped out in the end.
func settled(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		var cells []rune
		for drawn := range strings.SplitSeq(strings.TrimSuffix(line, "\n"), "\r") {
			over := []rune(drawn)
			cells = append(over, cells[min(len(over), len(cells)):]...)
		}
		b.WriteString(strings.TrimRight(string(cells), " ") + "\n")
	}
	return b.String()
}

// A section is an output and the formats that print it.
type section struct {
	formats []string
	text    string
}

// sections runs the command in every format.
func (m *matrix) sections() string {
	var all []section
	outputs := map[string]result{}
	for _, format := range formats {
		m.t.Run(format, func(t *testing.T) {
			m := &matrix{t: t, head: m.head, args: m.args}
			outputs[format] = m.format(format)
		})
		got := outputs[format]
		text := shown(got)
		if format == formatJSONL && sameLines(got, outputs[formatJSON]) || format == formatYAML && sameValues(got, outputs[formatJSON]) {
			text = shown(outputs[formatJSON])
		}
		all = printed(all, format, text)
	}
	all, paint := m.terminal(all, outputs[formatTable])
	var b strings.Builder
	for _, s := range all {
		fmt.Fprintf(&b, "-- %s --\n%s", strings.Join(s.formats, ", "), s.text)
	}
	return b.String() + paint
}

// printed adds what a format prints.
func printed(all []section, format, text string) []section {
	for i := range all {
		if all[i].text == text {
			all[i].formats = append(all[i].formats, format)
			return all
		}
	}
	return append(all, section{[]string{format}, text})
}

// format runs the command piped in one format. Nothing is painted there, and
// what machines read not even when it is asked for.
func (m *matrix) format(format string) result {
	if format == formatTable || format == formatWide {
		got := m.run(nil, "-o", format)
		if strings.Contains(got.stdout+got.stderr, "\x1b") {
			m.t.Errorf("a pipe gets escape sequences: %q", got.stdout+got.stderr)
		}
		return got
	}
	got := m.run(nil, "-o", format, "--color", "always")
	if strings.Contains(got.stdout, "\x1b") {
		m.t.Errorf("a machine gets escape sequences: %q", got.stdout)
	}
	got.stderr = unpainted(got.stderr)
	return got
}

// wideTerminal has the columns for every table.
const wideTerminal = 400

// terminal runs the command in pseudo-terminals, where it has to show what a
// pipe gets, with colors unless they are not wanted.
func (m *matrix) terminal(all []section, piped result) (_ []section, paint string) {
	var shows string
	m.t.Run("terminal", func(t *testing.T) {
		m := &matrix{t: t, head: m.head, args: m.args}
		shows = m.show(wideTerminal, nil)
		// Tables fold on a narrow one: the same words in the same order, where
		// nothing is cut.
		narrow := unpainted(m.show(60, nil))
		if whole := unpainted(shows); !strings.Contains(narrow, "…") && !slices.Equal(strings.Fields(narrow), strings.Fields(whole)) {
			t.Errorf("60 columns wide: %q, %d: %q", narrow, wideTerminal, whole)
		}
		plain := m.show(wideTerminal, nil, "--color", "never")
		if strings.Contains(plain, "\x1b") || unpainted(plain) != unpainted(shows) {
			t.Errorf("--color never: %q, without it: %q", plain, shows)
		}
		if got := m.show(wideTerminal, map[string]string{"NO_COLOR": "1"}); got != plain {
			t.Errorf("NO_COLOR: %q, want %q", got, plain)
		}
		always := m.run(nil, "--color", "always")
		if forced := m.run(map[string]string{"FORCE_COLOR": "1"}); forced != always || unpainted(always.stdout) != unpainted(piped.stdout) || unpainted(always.stderr) != unpainted(piped.stderr) {
			t.Errorf("--color always: %+v, FORCE_COLOR: %+v, without: %+v", always, forced, piped)
		}
	})
	paint = paintings(shows)
	if merged(unpainted(shows)) != merged(unpainted(piped.stdout+piped.stderr)) {
		return printed(all, "terminal", prefixed("", unpainted(shows))), paint
	}
	return printed(all, "terminal", shown(piped)), paint
}

// shown is what was printed as it stands in a file.
func shown(got result) string {
	if got.stdout == string(schema.File()) {
		got.stdout = "(the text of schema/file.json)"
	}
	out := prefixed("", got.stdout) + prefixed("! ", got.stderr)
	if got.code != exitDone {
		out += fmt.Sprintf("= exit %d\n", got.code)
	}
	return out
}

// masked replaces what is not the same in every run.
func (r *rig) masked(text string) string {
	text = yamlChecksum.ReplaceAllString(text, `$1"SHA256"`)
	text = hexDigits.ReplaceAllString(text, "SHA256")
	text = strings.ReplaceAll(text, r.config, "CONFIG")
	return drawn.ReplaceAllString(text, "belfry-$1-N.yaml")
}

// sameLines reports whether jsonl has an element of the JSON list in each
// line, or the one document.
func sameLines(lines, document result) bool {
	elements := []json.RawMessage{json.RawMessage(document.stdout)}
	if strings.HasPrefix(document.stdout, "[") && json.Unmarshal([]byte(document.stdout), &elements) != nil {
		return false
	}
	var b bytes.Buffer
	for _, element := range elements {
		if json.Compact(&b, element) != nil {
			return false
		}
		b.WriteByte('\n')
	}
	return lines == result{b.String(), document.stderr, document.code}
}

// sameValues reports whether YAML says what JSON says.
func sameValues(text, document result) bool {
	var value any
	if yaml.Unmarshal([]byte(text.stdout), &value) != nil {
		return false
	}
	converted, err := json.Marshal(value)
	return err == nil && sameJSON(converted, []byte(document.stdout)) && text.stderr == document.stderr && text.code == document.code
}

// merged has all lines without their order, which two streams do not have.
func merged(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// sgr matches how text is painted.
var sgr = regexp.MustCompile("\x1b\\[([0-9]+)m([^\x1b]*)\x1b\\[0m")

// unpainted removes colors, and the mark that top sets before the chosen line
// where it cannot paint it.
func unpainted(text string) string {
	var b strings.Builder
	for line := range strings.Lines(sgr.ReplaceAllString(text, "$2")) {
		if rest, marked := strings.CutPrefix(line, ">"); marked {
			line = " " + rest
		}
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}

var hexDigits = regexp.MustCompile(`[0-9a-f]{64}`)

var colorNames = map[string]string{string(green): "green", string(yellow): "yellow", string(red): "red", string(dim): "dim", "1": "bold", "7": "inverse"}

// paintings lists what is painted.
func paintings(text string) string {
	var list []string
	for _, found := range sgr.FindAllStringSubmatch(text, -1) {
		if line := fmt.Sprintf("  %s %s\n", colorNames[found[1]], strings.TrimSpace(found[2])); !slices.Contains(list, line) {
			list = append(list, line)
		}
	}
	if list == nil {
		return ""
	}
	return "-- painted --\n" + strings.Join(list, "")
}

// listFiles names all files below the working directory.
func listFiles(t *testing.T) map[string]bool {
	t.Helper()
	files := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, _ os.DirEntry, err error) error {
		files[path] = true
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// removeOthers removes what a command wrote.
func removeOthers(t *testing.T, keep map[string]bool) {
	t.Helper()
	for path := range listFiles(t) {
		if !keep[path] {
			if err := os.RemoveAll(path); err != nil {
				t.Error(err)
			}
		}
	}
}
