package admincli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// The formats of check.
var checkFormats = []string{"text", "nagios", "json", "prometheus"}

// formatOutput stands in for a format that --output names.
const formatOutput = "output"

// A checkFlags hold what one check was asked.
type checkFlags struct{ what, format, warn, crit string }

const checkLong = `
The limits are durations such as 30s. Formats: text, nagios (one line with
performance data), json, prometheus (for a node exporter's text file).

Exit codes: 0 OK, 1 warning, 2 critical, 3 unknown, such as a store that does
not answer or a name that does not exist.`

func newCheck(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "check", Short: "Health for monitoring systems: scheduler, schedule or queue",
		Example: "  admin check scheduler\n  admin check schedule cache-warm --format nagios"}
	scheduler := s.checkCommand("scheduler", "", "Whether schedules fire on time and workers live", "5s", "30s",
		"  admin check scheduler --format nagios\n  admin check scheduler --warn 10s --crit 1m --format prometheus",
		func(string) (check, error) { return s.checkScheduler() })
	one := s.checkCommand("schedule NAME", "NAME", "Whether one schedule fires on time and its runs succeed", "5s", "30s",
		"  admin check schedule nightly-report\n  admin check schedule cache-warm --format json", s.checkSchedule)
	one.ValidArgsFunction = s.completeIDs
	queue := s.checkCommand("queue NAME", "NAME", "How long the oldest task of a queue waits", "30s", "5m",
		"  admin check queue default --warn 1m --format nagios", s.checkQueue)
	queue.ValidArgsFunction = s.completeQueues
	cmd.AddCommand(scheduler, one, queue)
	return group(cmd)
}

// checkCommand makes one of the checks; use is its name and its argument.
func (s *session) checkCommand(use, argument, short, warn, crit, example string, look func(string) (check, error)) *cobra.Command {
	f, n := &checkFlags{}, 0
	f.what, _, _ = strings.Cut(use, " ")
	if argument != "" {
		n = 1
	}
	cmd := &cobra.Command{Use: use, Short: short, Long: short + ".\n" + checkLong, Example: example,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := arguments(n, n, argument)(cmd, args); err != nil {
				return s.unknownCheck(f, "", err)
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return s.check(f, strings.Join(args, ""), look) }}
	cmd.Flags().StringVar(&f.format, "format", "", "text, nagios, json or prometheus; default text, or as --output says")
	cmd.Flags().StringVar(&f.warn, "warn", warn, "above this it is a warning")
	cmd.Flags().StringVar(&f.crit, "crit", crit, "above this it is critical")
	return cmd
}

// The states of a check are its exit codes, as monitoring systems know them.
const (
	checkOK = iota
	checkWarning
	checkCritical
	checkUnknown
)

var checkWords = [...]string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}

// A check is what one look found.
type check struct {
	what    string // "scheduler", "schedule" or "queue"
	name    string // of the schedule or queue
	late    time.Duration
	state   int // what was found beside late; -1 as late says
	text    string
	metrics []metric
}

// A metric is one number of a check.
type metric struct {
	name  string
	value float64
	unit  string // "s" or ""
}

func (c *check) worse(state int, text string) {
	c.state = max(c.state, state)
	c.text = text + "; " + c.text
}

func (s *session) check(f *checkFlags, name string, look func(string) (check, error)) error {
	switch {
	case f.format != "":
		if err := oneOf("format", f.format, checkFormats...); err != nil {
			return s.unknownCheck(f, name, err)
		}
	case s.tabular():
		f.format = "text"
	default:
		f.format = formatOutput
	}
	warn, err := flagDuration("warn", f.warn)
	if err != nil {
		return s.unknownCheck(f, name, err)
	}
	crit, err := flagDuration("crit", f.crit)
	if err == nil && (warn < 0 || crit < warn) {
		err = &schedule.FieldError{Field: "crit", Value: f.crit, Allowed: "a duration of at least --warn, which is " + f.warn}
	}
	if err != nil {
		return s.unknownCheck(f, name, err)
	}
	c, err := look(name)
	if err != nil {
		return s.unknownCheck(f, name, err)
	}
	switch {
	case c.late > crit:
		c.state = max(c.state, checkCritical)
	case c.late > warn:
		c.state = max(c.state, checkWarning)
	}
	if err := s.showCheck(f.format, c, warn, crit); err != nil {
		return err
	}
	return silentCode(c.state)
}

// unknownCheck tells monitoring that nothing can be told. Most of it reads
// standard output only.
func (s *session) unknownCheck(f *checkFlags, name string, err error) error {
	if s.ctx.Err() != nil {
		return err
	}
	text := describe(err, s.address)
	switch f.format {
	case "nagios":
		fmt.Fprintf(s.out, "UNKNOWN %s\n", strings.ReplaceAll(text, "|", "/"))
	case formatJSON, formatOutput, "prometheus":
		if err := s.showCheck(f.format, check{what: f.what, name: name, state: checkUnknown, text: text}, 0, 0); err != nil {
			return err
		}
	default:
		s.report(err)
	}
	return silentCode(checkUnknown)
}

// checkScheduler looks at the namespace as a whole.
func (s *session) checkScheduler() (check, error) {
	stores, err := s.store()
	if err != nil {
		return check{}, err
	}
	c := check{what: "scheduler"}
	err = s.within(func(ctx context.Context) error {
		stats, err := stores.Catalog.Stats(ctx)
		if err != nil {
			return err
		}
		members, err := stores.Roster.Members(ctx, workerMaxAge)
		if err != nil {
			return err
		}
		claiming := 0
		for _, m := range members {
			if m.Claiming() {
				claiming++
			}
		}
		c.late = max(0, stats.Lateness)
		c.text = fmt.Sprintf("%s, %s, %d due, oldest waits %s", count(int(stats.Active), "active schedule"), count(len(members), "worker"), stats.Due, fine(c.late))
		c.metrics = []metric{{"workers", float64(len(members)), ""}, {"due", float64(stats.Due), ""}, {"open", float64(stats.Open), ""},
			{"active", float64(stats.Active), ""}, {"disabled", float64(stats.Disabled), ""}}
		switch {
		case len(members) == 0 && stats.Active+stats.Paused+stats.Disabled+stats.Completed == 0:
			c.worse(checkUnknown, "this namespace holds no schedule and no worker lives: look at BELFRY_NAMESPACE and at what happened to Redis")
		case claiming == 0 && stats.Active > 0:
			c.worse(checkCritical, "no live worker claims schedules")
		case stats.Disabled > 0:
			c.worse(checkWarning, fmt.Sprintf("%d disabled by failures", stats.Disabled))
		}
		return nil
	})
	return c, err
}

// checkSchedule looks at one schedule.
func (s *session) checkSchedule(name string) (check, error) {
	entries, err := s.named([]string{name})
	if err != nil {
		return check{}, err
	}
	var now time.Time
	err = s.within(func(ctx context.Context) error {
		stats, err := s.stores.Catalog.Stats(ctx)
		now = stats.Now
		return err
	})
	if err != nil {
		return check{}, err
	}
	e := entries[0]
	status := e.Status
	c := check{what: "schedule", name: name}
	var parts []string
	if !status.LastRunAt.IsZero() {
		parts = append(parts, "last run "+relative(status.LastRunAt, now))
	}
	if !status.NextAt.IsZero() {
		parts = append(parts, "next "+relative(status.NextAt, now))
	}
	if !status.DueAt.IsZero() && status.State == schedule.StateActive && !e.Probing() {
		c.late = max(0, now.Sub(status.DueAt))
	}
	c.text = strings.Join(append(parts, fmt.Sprintf("%s late", fine(c.late))), ", ")
	c.metrics = []metric{{"runs", float64(status.RunCount), ""}, {"failed", float64(status.FailCount), ""},
		{"consecutive_fails", float64(status.ConsecutiveFails), ""}, {"open", float64(status.Open), ""}}
	switch {
	case e.Invalid != nil:
		c.worse(checkCritical, "cannot be used: "+describe(e.Invalid, ""))
	case status.State == schedule.StateDisabled:
		c.worse(checkCritical, "disabled: "+status.LastError)
	case status.ConsecutiveFails > 0:
		c.worse(checkWarning, fmt.Sprintf("%s in a row: %s", count(int(status.ConsecutiveFails), "failure"), status.LastError))
	case status.State == schedule.StatePaused:
		c.worse(checkOK, "paused")
	}
	return c, nil
}

// checkQueue looks at one queue of asynq.
func (s *session) checkQueue(name string) (check, error) {
	info, err := s.queueInfo(name)
	if err != nil {
		return check{}, err
	}
	c := check{what: "queue", name: name, late: info.Latency}
	c.text = fmt.Sprintf("%d pending, %d active, %d to retry, %d archived, oldest waits %s", info.Pending, info.Active, info.Retry, info.Archived, fine(info.Latency))
	c.metrics = []metric{{"pending", float64(info.Pending), ""}, {"active", float64(info.Active), ""}, {"retry", float64(info.Retry), ""},
		{"archived", float64(info.Archived), ""}, {"processed", float64(info.Processed), ""}, {"failed", float64(info.Failed), ""}}
	if info.Paused {
		c.worse(checkWarning, "paused")
	}
	if info.torn != "" {
		c.worse(checkWarning, "torn: "+info.torn+"; see admin doctor --fix")
	}
	return c, nil
}

// A checkJSON is what check prints.
type checkJSON struct {
	What    string             `json:"what"`
	Name    string             `json:"name"`
	State   string             `json:"state"`
	Code    int                `json:"code"`
	Text    string             `json:"text"`
	LateMS  int64              `json:"late_ms"`
	WarnMS  int64              `json:"warn_ms"`
	CritMS  int64              `json:"crit_ms"`
	Metrics map[string]float64 `json:"metrics"`
}

func (c check) json(warn, crit time.Duration) checkJSON {
	v := checkJSON{What: c.what, Name: c.name, State: checkWords[c.state], Code: c.state, Text: c.text,
		LateMS: c.late.Milliseconds(), WarnMS: warn.Milliseconds(), CritMS: crit.Milliseconds(), Metrics: map[string]float64{}}
	for _, m := range c.metrics {
		v.Metrics[m.name] = m.value
	}
	return v
}

func (s *session) showCheck(format string, c check, warn, crit time.Duration) error {
	subject := c.what
	if c.name != "" {
		subject = c.name
	}
	line := visible(fmt.Sprintf("%s %s: %s", checkWords[c.state], subject, c.text))
	switch format {
	case formatOutput:
		return s.emit(view{data: c.json(warn, crit), names: []string{subject}})
	case formatJSON:
		text, err := marshal(c.json(warn, crit))
		if err != nil {
			return err
		}
		return writeJSON(s.out, text, "")
	case "nagios":
		// A bar would start the performance data.
		data := []string{fmt.Sprintf("late=%gs;%g;%g;0", c.late.Seconds(), warn.Seconds(), crit.Seconds())}
		for _, m := range c.metrics {
			data = append(data, fmt.Sprintf("%s=%g%s", m.name, m.value, m.unit))
		}
		fmt.Fprintf(s.out, "%s | %s\n", strings.ReplaceAll(line, "|", "/"), strings.Join(data, " "))
	case "prometheus":
		s.showPrometheus(c)
	default:
		fmt.Fprintln(s.out, line)
	}
	return nil
}

// showPrometheus writes the text format of Prometheus.
func (s *session) showPrometheus(c check) {
	labels := ""
	if c.name != "" {
		labels = fmt.Sprintf("{%s=%q}", c.what, visible(c.name))
	}
	all := append([]metric{{"state", float64(c.state), ""}}, c.metrics...)
	if c.state != checkUnknown {
		all = append(all, metric{"late_seconds", c.late.Seconds(), "s"})
	}
	slices.SortFunc(all, func(a, b metric) int { return strings.Compare(a.name, b.name) })
	for _, m := range all {
		name := "belfry_check_" + c.what + "_" + m.name
		fmt.Fprintf(s.out, "# TYPE %s gauge\n%s%s %g\n", name, name, labels, m.value)
	}
}
