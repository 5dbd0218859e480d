package admincli

import (
	"regexp"
	"strings"
	"testing"
)

// Everything that is wrong with a file is told in one run, each field once: what
// the form refuses, what cannot be read, and what does not compile.
func TestAllThatIsWrongWithASchedule(t *testing.T) {
	text := `schedules:
  - id: one
    expression: "99 * * * *"
    type: log
    timezone: Mars/X
    starts: nonsense
    timeout: 5x
    queue: "bad queue!"
    limit: abc
    wrongkey: 1
    missed: bar
  - id: two
    specs:
      - {every: 5x, anchor: foo}
      - {cron: "61 * * * *"}
      - {every: 5m, at: [x]}
    except: [{calendar: "!!"}, {weekly: Sxx}, {weekly: !!str x}]
    type: [log]
  - {id: three, expression: 5m, type: log, limit: 99999999999999999999, retention: 1s}
`
	want := []string{
		"9:12 limit", "10:5 unknown key", "17:56 tags", "18:11 type",
		"3:17 expression minute", "5:15 timezone", "6:13 starts", "7:14 timeout", "8:12 queue", "11:13 missed",
		"14:17 specs[0].every", "14:29 specs[0].anchor", "15:16 specs[1].cron minute", "16:9 specs[2]", "17:25 except[0].calendar", "17:41 except[1].weekly",
		"19:51 limit", "19:84 retention",
	}
	for _, command := range []string{"validate", "apply"} {
		r := newRig(t)
		r.stdin = text
		got := r.run(command, "-f", "-")
		var told []string
		for _, m := range regexp.MustCompile(`stdin:(\d+:\d+): (?:schedule \w+: )?(unknown key|\S+ minute|\S+)`).FindAllStringSubmatch(got.stderr, -1) {
			told = append(told, m[1]+" "+m[2])
		}
		if got.code != exitUsage || strings.Join(told, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: exit %d\n%s\n%q", command, got.code, got.stderr, told)
		}
	}
}

// A calendar that is wrong hides nothing but the schedules that name one; keys of
// other tools lead to ours.
func TestAWrongCalendarHidesNoOtherProblem(t *testing.T) {
	text := `calendars:
  - {name: holidays, dates: [2026-13-40]}
schedules:
  - {id: a, expression: "99 * * * *", type: log}
  - {id: b, cron: "@daily", type: log, missed: bar}
  - {id: c, expression: 5m, type: log, except: [{calendar: holidays}], overlap: skipp}
`
	for _, command := range []string{"validate", "apply"} {
		r := newRig(t)
		r.stdin = text
		got := r.run(command, "-f", "-")
		for _, want := range []string{`2:30: dates[0] "2026-13-40"`, `4:25: schedule a: expression minute "99"`, `unknown key "cron" in a schedule; did you mean expression?`, `schedule b: missed "bar"`} {
			if !strings.Contains(got.stderr, want) {
				t.Errorf("%s: no %s in\n%s", command, want, got.stderr)
			}
		}
		if got.code != exitUsage || strings.Contains(got.stderr, "schedule c") {
			t.Errorf("%s: exit %d\n%s", command, got.code, got.stderr)
		}
	}
}
