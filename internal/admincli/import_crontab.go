package admincli

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

type crontabFlags struct {
	importFlags
	system bool
	shell  bool
}

func newImportCrontab(s *session) *cobra.Command {
	f := &crontabFlags{}
	cmd := &cobra.Command{
		Use: "crontab FILE|DIR|-...", Short: "Import the lines of crontabs as exec tasks",
		Long: `Import crontabs as tasks of type exec. With --system the lines name a user, as in
/etc/crontab and /etc/cron.d. A crontab fires in the zone of its machine, which
the file does not say: give --tz unless CRON_TZ stands in it.

A command that is a program with arguments becomes just that. One that needs a
shell (pipes, variables, redirection) is left out, unless --shell says to run it
by /bin/sh -c; workers that allow a shell allow everything. max_retry is 0, since
cron never repeats a command. Names are made of the command and a hash of the
line, so that importing again finds them.

` + importHelp,
		Example: `  admin import crontab crontab.txt --tz Europe/Berlin --dry-run --print
  admin import crontab cron.d --system --shell --tz UTC --print`,
		Args: arguments(1, -1, "FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			return s.importFrom(&f.importFlags, f.read, nil, args)
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&f.system, "system", false, "the lines name a user, as in /etc/crontab")
	cmd.Flags().BoolVar(&f.shell, "shell", false, "run commands that need a shell by /bin/sh -c")
	return cmd
}

// A crontab is one file while it is read.
type crontab struct {
	flags    *crontabFlags
	env      map[string]string
	zone     string
	commands map[string]bool // that workers must allow
	remarks  []string
	all      []found
}

var cronSetting = regexp.MustCompile(`^(?:"([^"]*)"|'([^']*)'|([A-Za-z_][A-Za-z0-9_]*))\s*=\s*(.*)$`)

func (f *crontabFlags) read(name string, text []byte) ([]found, []string, error) {
	c := &crontab{flags: f, env: map[string]string{}, zone: f.zone, commands: map[string]bool{}}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimLeft(strings.TrimRight(line, "\r\n"), " \t")
		at := place{file: name, line: number, column: 1}
		switch m := cronSetting.FindStringSubmatch(line); {
		case line == "" || line[0] == '#':
		case m != nil:
			c.setting(at, m[1]+m[2]+m[3], unquote(strings.TrimRight(m[4], " \t")))
		default:
			c.all = append(c.all, c.entry(at, line))
		}
		if len(c.all) > maxSchedules {
			return nil, nil, tooMany("entries", name)
		}
	}
	for _, f := range c.all {
		if f.refused == "" {
			c.commands[f.program] = true
		}
	}
	if len(c.commands) > 0 {
		c.remark("workers run these only when BELFRY_EXEC_ALLOW has %s", strings.Join(slices.Sorted(maps.Keys(c.commands)), ","))
		c.remark("cron has no time limit, a task has 30m unless the schedule says otherwise; a time that is missed is made up for once (missed: latest), cron drops it")
	}
	return c.all, c.remarks, nil
}

func unquote(text string) string {
	if len(text) >= 2 && (text[0] == '"' || text[0] == '\'') && text[len(text)-1] == text[0] {
		return text[1 : len(text)-1]
	}
	return text
}

func (c *crontab) remark(format string, args ...any) {
	c.remarks = append(c.remarks, fmt.Sprintf(format, args...))
}

// setting takes NAME=value, which holds for the lines below it.
func (c *crontab) setting(at place, name, value string) {
	switch name {
	case "CRON_TZ":
		c.zone = value
	case "MAILTO", "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING":
		c.remark("line %d: %s is left out: output is not mailed; of a failed run the end is kept with the run", at.line, name)
	case "RANDOM_DELAY":
		c.remark("line %d: %s is left out: it is drawn anew each day, jitter here is a stable one", at.line, name)
	case "LOGNAME", "USER":
		c.remark("line %d: %s is left out: tasks run as the user of the worker", at.line, name)
	default:
		c.env[name] = value
	}
}

// entry reads a line with a command.
func (c *crontab) entry(at place, line string) found {
	f := found{at: at, what: line}
	fields, rest := cutFields(line, 1)
	if !strings.HasPrefix(line, "@") {
		fields, rest = cutFields(line, 5)
	}
	user := ""
	if c.flags.system {
		var name []string
		name, rest = cutFields(rest, 1)
		user = strings.Join(name, "")
	}
	command := strings.TrimRight(rest, " \t")
	switch {
	case command == "":
		f.refuse("no command")
		return f
	case fields[0] == "@reboot":
		f.refuse("@reboot is no time: start it with the machine, or as a leased group of a worker")
		return f
	case c.zone == "":
		f.refuse("no time zone: give --tz, that of the machine, which the file does not say")
		return f
	}
	f.definition = schedule.Schedule{ID: cronName(fields, user, command), Type: "exec", Timezone: c.zone, MaxRetry: new(int)}
	c.when(&f, fields)
	c.command(&f, command)
	if user != "" {
		f.leave("user %s: the task runs as the user of the worker", user)
	}
	return f
}

// cutFields cuts n words off the front.
func cutFields(line string, n int) (fields []string, rest string) {
	for range n {
		line = strings.TrimLeft(line, " \t")
		end := strings.IndexAny(line, " \t")
		if end < 0 {
			end = len(line)
		}
		if end > 0 {
			fields = append(fields, line[:end])
		}
		line = line[end:]
	}
	return fields, strings.TrimLeft(line, " \t")
}

func (c *crontab) when(f *found, fields []string) {
	if strings.HasPrefix(fields[0], "@") {
		if !slices.Contains(macros, fields[0]) {
			f.refuse("%s is not known to mean the same everywhere", fields[0])
			return
		}
		f.cron(fields[0])
		return
	}
	expression, err := vixieCron.translate(fields)
	if err != nil {
		f.refuse("%s", err)
		return
	}
	f.cron(expression)
}

// An execJSON is the payload of an exec task.
type execJSON struct {
	Command string            `json:"command"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Dir     string            `json:"dir,omitempty"`
}

// command makes the payload.
func (c *crontab) command(f *found, text string) {
	text, input := percent(text)
	if input {
		f.refuse("a %% in the command is standard input, which exec tasks have not; \\%% is a plain one")
		return
	}
	words, why := plainCommand(text)
	payload := execJSON{Env: map[string]string{}}
	shell := or(c.env["SHELL"], "/bin/sh")
	switch {
	case why == "":
		payload.Command, payload.Args = words[0], words[1:]
	case c.flags.shell && filepath.IsAbs(shell):
		payload.Command, payload.Args = shell, []string{"-c", text}
		f.leave("no shell: it runs by %s -c, as %s", shell, why)
	default:
		f.refuse("%s: --shell runs it by %s -c, or put it into a script", why, shell)
		return
	}
	for name, value := range c.env {
		if name != "SHELL" {
			payload.Env[name] = value
		}
	}
	if home := c.env["HOME"]; filepath.IsAbs(home) && filepath.Clean(home) == home {
		payload.Dir = home
		f.carry("dir: %s, from HOME", home)
	} else {
		f.leave("working directory: cron starts in the home of the user, the task in that of the worker")
	}
	if names := slices.Sorted(maps.Keys(payload.Env)); len(names) > 0 {
		f.carry("env: %s (workers need BELFRY_EXEC_ENV)", strings.Join(names, " "))
	}
	content, err := marshal(payload)
	if err != nil {
		f.refuse("%s", err)
		return
	}
	f.program = payload.Command
	f.definition.Payload = content
	f.carry("command: %s", payload.Command)
	f.carry("max_retry: 0")
}

// percent undoes \% and reports whether there is a bare %.
func percent(text string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text) && text[i+1] == '%':
			b.WriteByte('%')
			i++
		case text[i] == '%':
			return text, true
		default:
			b.WriteByte(text[i])
		}
	}
	return b.String(), false
}

// plainCommand splits a command that every shell would run as a program with
// just these arguments. Otherwise it says why not.
func plainCommand(text string) (words []string, why string) {
	var word strings.Builder
	started := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == ' ' || c == '\t':
			if started {
				words = append(words, word.String())
				word.Reset()
				started = false
			}
			continue
		case c == '\'' || c == '"':
			end := strings.IndexByte(text[i+1:], c)
			if end < 0 {
				return nil, "a quote is not closed"
			}
			inside := text[i+1 : i+1+end]
			if c == '"' && strings.ContainsAny(inside, "$`\\!") {
				return nil, "$, ` or \\ in double quotes needs a shell"
			}
			word.WriteString(inside)
			i += end + 1
		case strings.IndexByte("|&;<>()$`\\*?[]{}!^", c) >= 0, !started && (c == '#' || c == '~'), c == '=' && len(words) == 0:
			return nil, fmt.Sprintf("%q needs a shell", string(c))
		default:
			word.WriteByte(c)
		}
		started = true
	}
	if started {
		words = append(words, word.String())
	}
	if len(words) == 0 || !filepath.IsAbs(words[0]) || filepath.Clean(words[0]) != words[0] {
		return nil, "the program has no absolute path, which needs a shell"
	}
	return words, ""
}

// nameHash is how many hex digits of a hash tell entries without names apart.
const nameHash = 8

// cronName is stable: the same line gives the same name.
func cronName(fields []string, user, command string) schedule.ID {
	first, _, _ := strings.Cut(command, " ")
	return hashedName(filepath.Base(first), strings.Join(fields, " "), user, command)
}

func hashedName(name string, parts ...string) schedule.ID {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return schedule.ID(slug(name) + "-" + hex.EncodeToString(sum[:])[:nameHash])
}

// maxSlug bounds the readable part of a made-up name.
const maxSlug = 60

// slug makes a part of a name of any text.
func slug(text string) string {
	out := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_':
			return r
		}
		return '-'
	}, text)
	out = strings.Trim(out[:min(len(out), maxSlug)], "-._")
	return or(out, "entry")
}
