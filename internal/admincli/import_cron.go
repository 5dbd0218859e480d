package admincli

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// A dialect is how another scheduler reads cron fields. Only what it accepts
// and what means the same here is carried over.
type dialect struct {
	name       string
	maxWeekday int  // 6, or 7 where that is Sunday too
	question   bool // ? is *
	openStep   bool // 5/15 is 5-59/15
	seconds    bool // a sixth field in front
	extra      *regexp.Regexp
	// star reports whether a day field counts as not restricted. When both are
	// restricted either may match, otherwise both must.
	star func(field string) bool
}

var (
	// In crontab(5) every day field that starts with * is unrestricted, */2 too.
	vixieCron = dialect{name: "cron", maxWeekday: 7, star: func(f string) bool { return strings.HasPrefix(f, "*") }}
	robfig    = dialect{name: "robfig/cron", maxWeekday: 6, question: true, openStep: true, star: func(f string) bool {
		return slices.ContainsFunc(strings.Split(f, ","), func(item string) bool {
			item = strings.TrimSuffix(item, "/1")
			return item == "*" || item == "?"
		})
	}}
	fugit = dialect{name: "fugit", maxWeekday: 7, seconds: true, extra: regexp.MustCompile(`^(?i:L|(SUN|MON|TUE|WED|THU|FRI|SAT|[0-7])#[1-5])$`),
		star: func(f string) bool { return f == "*" }}
)

// A cronField is one of the fields with its bounds and names.
type cronField struct {
	name        string
	low, high   int
	names       []string
	namesOffset int
}

var (
	monthNames   = []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
	weekdayNames = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
	cronFields   = []cronField{{"second", 0, 59, nil, 0}, {"minute", 0, 59, nil, 0}, {"hour", 0, 23, nil, 0}, {"day of month", 1, 31, nil, 0},
		{"month", 1, 12, monthNames, 1}, {"day of week", 0, 6, weekdayNames, 0}}
)

var cronItem = regexp.MustCompile(`^(\*|\?|[0-9]{1,3}|[A-Za-z]{3})(?:-([0-9]{1,3}|[A-Za-z]{3}))?(?:/([0-9]{1,3}))?$`)

// translate turns the fields of a dialect into an expression that fires at the
// same times.
func (d dialect) translate(fields []string) (string, error) {
	specs := cronFields
	if len(fields) == 5 {
		specs = cronFields[1:]
	} else if !d.seconds || len(fields) != 6 {
		return "", fmt.Errorf("%d cron fields where %s has 5", len(fields), d.name)
	}
	out := slices.Clone(fields)
	for i, field := range fields {
		translated, err := d.field(specs[i], field)
		if err != nil {
			return "", err
		}
		out[i] = translated
	}
	day, weekday := len(out)-3, len(out)-1
	plain := func(f string) bool { return f == "*" || f == "?" }
	both := !plain(fields[day]) && !plain(fields[weekday])
	if both && (d.star(fields[day]) || d.star(fields[weekday])) {
		out[weekday] = "+" + out[weekday] // here either would do
	}
	return strings.Join(out, " "), nil
}

func (d dialect) field(spec cronField, field string) (string, error) {
	if spec.name == "day of week" {
		spec.high = d.maxWeekday
	}
	items := strings.Split(field, ",")
	for i, item := range items {
		if d.extra != nil && d.extra.MatchString(item) && (spec.name == "day of month" || spec.name == "day of week") {
			continue
		}
		translated, ok := d.item(spec, item)
		if !ok {
			return "", fmt.Errorf("%s %q is not what %s accepts, or not known to mean the same here", spec.name, item, d.name)
		}
		items[i] = translated
	}
	return strings.Join(items, ","), nil
}

// item checks one element of a list, and writes out what stands for more.
func (d dialect) item(spec cronField, item string) (string, bool) {
	m := cronItem.FindStringSubmatch(item)
	if m == nil || m[1] == "?" && !d.question {
		return "", false
	}
	star := m[1] == "*" || m[1] == "?"
	if star {
		return "*" + strings.TrimPrefix(item, m[1]), m[2] == ""
	}
	low, ok := spec.number(m[1])
	if !ok {
		return "", false
	}
	if m[2] != "" {
		high, ok := spec.number(m[2])
		return item, ok && low <= high
	}
	if m[3] != "" {
		return fmt.Sprintf("%d-%d/%s", low, spec.high, m[3]), d.openStep
	}
	return item, true
}

func (f cronField) number(text string) (int, bool) {
	if i := slices.Index(f.names, strings.ToLower(text)); i >= 0 {
		return i + f.namesOffset, true
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= f.low && n <= f.high
}

// macros mean the same everywhere.
var macros = []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}

// robfigSpec carries over a spec of robfig/cron, which Kubernetes and asynq
// use. The zone is that of the file, or of the flags.
func (f *found) robfigSpec(text, zone string) {
	for _, prefix := range []string{"CRON_TZ=", "TZ="} {
		rest, given := strings.CutPrefix(text, prefix)
		if !given {
			continue
		}
		name, spec, _ := strings.Cut(rest, " ")
		if zone != "" && zone != name {
			f.refuse("%s%s contradicts the time zone %s", prefix, name, zone)
		}
		zone, text = name, strings.TrimSpace(spec)
	}
	if period, every := strings.CutPrefix(text, "@every "); every {
		f.every(strings.TrimSpace(period))
		return
	}
	f.definition.Timezone = zone
	if slices.Contains(macros, text) {
		f.cron(text)
		return
	}
	expression, err := robfig.translate(strings.Fields(text))
	if err != nil {
		f.refuse("%s", err)
		return
	}
	f.cron(expression)
}

func (f *found) every(text string) {
	period, err := time.ParseDuration(text)
	if err != nil || period < time.Second || period%time.Second != 0 {
		f.refuse("@every %s: only whole seconds mean the same here", text)
		return
	}
	f.definition.Specs = []schedule.SpecDefinition{{Every: period}}
	f.carry("every: %s", schedule.FormatDuration(period))
	f.leave("phase of @every: it counts from the start of the other scheduler, here from 1970-01-01T00:00:00Z")
}

func (f *found) cron(expression string) {
	f.definition.Specs = []schedule.SpecDefinition{{Cron: expression}}
	f.carry("cron: %s", expression)
	if f.definition.Timezone != "" {
		f.carry("timezone: %s", f.definition.Timezone)
	}
}
