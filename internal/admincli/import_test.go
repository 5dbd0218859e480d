package admincli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	robfigcron "github.com/robfig/cron/v3"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// dayFields are the combinations in which dialects of cron differ.
var dayFields = []string{"* *", "*/2 *", "* */2", "*/2 1", "1 */2", "*/1 1", "1,15 mon", "1-7 1-5", "*/2 */2", "*,5 1", "31 *", "? 1", "10 ?", "10/5 *", "* 1/2"}

// What is carried over from robfig/cron, which asynq and Kubernetes use, fires
// when robfig/cron does, for two months, or is refused.
func TestRobfigFiresAtTheSameTimes(t *testing.T) {
	carried := 0
	for _, days := range dayFields {
		for _, clock := range []string{"0 9", "*/20 9-10", "5/20 */7", "0,30 0,12"} {
			day, weekday, _ := strings.Cut(days, " ")
			expression := clock + " " + day + " * " + weekday
			other, err := robfigcron.ParseStandard(expression)
			if err != nil {
				t.Fatalf("%s: %v", expression, err)
			}
			translated, err := robfig.translate(strings.Fields(expression))
			if err != nil {
				t.Errorf("%s is not carried over: %v", expression, err)
				continue
			}
			carried++
			spec, err := schedule.ParseCron(translated, nil)
			if err != nil {
				t.Errorf("%s became %s: %v", expression, translated, err)
				continue
			}
			for want, got := other.Next(epoch), epoch; want.Before(epoch.AddDate(0, 2, 0)); want = other.Next(want) {
				if got, _ = spec.Next(got); !got.Equal(want) {
					t.Errorf("%s became %s: fires at %s, not at %s", expression, translated, got, want)
					break
				}
			}
		}
	}
	if carried < 50 {
		t.Errorf("only %d expressions were compared", carried)
	}
	for _, refused := range []string{"60 * * * *", "* * * * 7", "5-1 * * * *", "* * L * *", "* * * * mon#1", "H * * * *", "*-5 * * * *", "* * * *", "* * * * * *"} {
		if translated, err := robfig.translate(strings.Fields(refused)); err == nil {
			t.Errorf("%s became %s", refused, translated)
		}
	}
}

// vixieFires is crontab(5) at nine o'clock: a day field that starts with * does
// not restrict, and when both do, either may match.
func vixieFires(t *testing.T, day, weekday string, at time.Time) bool {
	t.Helper()
	matches := func(field string, low, high, value int) bool {
		for _, item := range strings.Split(field, ",") {
			item = strings.Replace(item, "mon", "1", 1)
			span, step, _ := strings.Cut(item, "/")
			every := 1
			if step != "" {
				every, _ = strconv.Atoi(step)
			}
			from, to := low, high
			if span != "*" {
				first, last, ranged := strings.Cut(span, "-")
				from, _ = strconv.Atoi(first)
				to = from
				if ranged {
					to, _ = strconv.Atoi(last)
				}
			}
			if value >= from && value <= to && (value-from)%every == 0 {
				return true
			}
		}
		return false
	}
	onDay := matches(day, 1, 31, at.Day())
	onWeekday := matches(weekday, 0, 7, int(at.Weekday())) || at.Weekday() == time.Sunday && matches(weekday, 0, 7, 7)
	if day[0] == '*' || weekday[0] == '*' {
		return onDay && onWeekday
	}
	return onDay || onWeekday
}

func TestCrontabFiresOnTheSameDays(t *testing.T) {
	for _, days := range dayFields {
		day, weekday, _ := strings.Cut(days, " ")
		if strings.ContainsAny(days, "?") || strings.Contains(days, "10/5") || strings.Contains(days, "1/2") {
			if translated, err := vixieCron.translate([]string{"0", "9", day, "*", weekday}); err == nil {
				t.Errorf("%s became %s", days, translated)
			}
			continue
		}
		translated, err := vixieCron.translate([]string{"0", "9", day, "*", weekday})
		if err != nil {
			t.Errorf("%s: %v", days, err)
			continue
		}
		spec, err := schedule.ParseCron(translated, nil)
		if err != nil {
			t.Errorf("%s became %s: %v", days, translated, err)
			continue
		}
		start := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
		for n := range 120 {
			at := start.AddDate(0, 0, n)
			next, _ := spec.Next(at.Add(-time.Second))
			if want := vixieFires(t, day, weekday, at); next.Equal(at) != want {
				t.Errorf("%s became %s: on %s fires %t, want %t", days, translated, at.Format(time.DateOnly), next.Equal(at), want)
				break
			}
		}
	}
}

// A plain command gets the arguments that a shell would give it; anything that
// a shell would not hand on as it is needs the shell.
func TestPlainCommandsGetTheArgumentsOfAShell(t *testing.T) {
	for _, text := range []string{"/bin/a", "/bin/a b  c\td", `/bin/a 'b c' "d e"`, `/bin/a ''`, `/bin/a x'y'"z"`, "/bin/a b=c d#e f~g", "/bin/a 'it''s'", `/bin/a '$x' '*' "a'b"`,
		"/bin/a +%F", "/bin/a --x=y,z", "/bin/a é"} {
		words, why := plainCommand(text)
		if why != "" {
			t.Errorf("%s: %s", text, why)
			continue
		}
		shell := strings.Replace(text, "/bin/a", "/usr/bin/printf '%s\\n' /bin/a", 1)
		want, err := exec.Command("/bin/sh", "-c", shell).Output()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(words, "\n") + "\n"; got != string(want) {
			t.Errorf("%s: %q, a shell makes %q", text, got, want)
		}
	}
	for _, text := range []string{"", " ", "a", "./a", "/bin/../a", "/bin/a | b", "/bin/a > b", "/bin/a; b", "/bin/a &", "/bin/a $x", "/bin/a `b`", `/bin/a "$x"`, `/bin/a \b`,
		"/bin/a *", "/bin/a [b]", "/bin/a {b,c}", "/bin/a ~", "/bin/a # b", "X=1 /bin/a", "/bin/a 'b", `/bin/a "b`, "! /bin/a", "(/bin/a)", "/bin/a <b", "/bin/a b?"} {
		if words, why := plainCommand(text); why == "" {
			t.Errorf("%q became %q", text, words)
		}
	}
}

// Importing twice changes nothing, and what is printed can be applied.
func TestImportAgainAndApply(t *testing.T) {
	t.Chdir("testdata/files")
	for _, args := range [][]string{{"crontab", "crontab.txt", "--tz", "UTC", "--shell"}, {"crontab", "cron.d/system", "--system", "--shell", "--tz", "UTC"},
		{"kubernetes", "cronjobs.yaml", "--type", "log", "--tz", "UTC"}, {"sidekiq-cron", "sidekiq.yml", "--tz", "UTC"}, {"asynq", "asynq.yml"}} {
		r := newRig(t)
		args = append([]string{"import"}, args...)
		first := r.run(append(args, "-o", "name")...)
		before := r.snapshot()
		again := r.run(append(args, "-o", "jsonl")...)
		if strings.Contains(again.stdout, `"action":"created"`) || !strings.Contains(again.stdout, `"action":"unchanged"`) || r.snapshot() != before {
			t.Errorf("%v again: %s%s", args, again.stdout, again.stderr)
		}
		r.stdin = r.run(append(args, "--print")...).stdout
		r.must("diff", "-f", "-")
		if n := strings.Count(first.stdout, "\n"); n < 2 || n != strings.Count(r.stdin, "\n  - id: ") {
			t.Errorf("%v: %d schedules, printed\n%s", args, n, r.stdin)
		}
	}
}

// Printing needs no store.
func TestImportPrintsWithoutAStore(t *testing.T) {
	r := newRig(t)
	r.environ = map[string]string{}
	r.stdin = "0 1 * * * /bin/true\n"
	if got := r.must("import", "crontab", "-", "--tz", "UTC", "--print"); !strings.Contains(got.stdout, "id: true-") || r.opened != 0 {
		t.Errorf("opened %d times, %s", r.opened, got.stdout)
	}
}

// Hostile files are refused or reported safely, and nothing is written.
func TestHostileImports(t *testing.T) {
	r := newRig(t)
	before := r.snapshot()
	names := []string{}
	for name, text := range hostile {
		names = append(names, name)
		files := map[string]string{
			"crontab":      "0 1 * * * " + text + "\nX=" + text + "\n" + text + "\n@" + text + " x\nCRON_TZ=" + text + "\n0 1 * * * /bin/true\n",
			"kubernetes":   "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: " + string(quoteJSON(text)) + "}\nspec: {schedule: " + string(quoteJSON(text)) + "}\n",
			"sidekiq-cron": string(quoteJSON(text)) + ":\n  cron: " + string(quoteJSON(text)) + "\n  class: " + string(quoteJSON(text)) + "\n",
			"asynq":        "configs:\n  - cronspec: " + string(quoteJSON(text)) + "\n    task_type: " + string(quoteJSON(text)) + "\n",
		}
		for kind, content := range files {
			file := filepath.Join(t.TempDir(), "f.yml")
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"import", kind, file, "--tz", "UTC", "--dry-run"}
			if kind == "kubernetes" {
				args = append(args, "--type", "log")
			}
			for _, format := range []string{"table", "json", "yaml", "jsonl", "name"} {
				got := r.run(append(args, "-o", format)...)
				if err := safe(got.stdout + got.stderr); err != nil {
					t.Errorf("%s of %s, %s: %v", kind, name, format, err)
				}
				if got.code != exitFailed && got.code != exitUsage && !slices.Contains([]string{"emoji", "script", "quotes", "braces", "right to left", "zero width", "tag", "c1"}, name) {
					t.Errorf("%s of %s: exit %d\n%s", kind, name, got.code, got.stderr)
				}
			}
		}
	}
	if r.snapshot() != before || len(names) < 10 {
		t.Error("something was written")
	}
}
