package admincli

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

func newCron(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "cron", Short: "Explain and check cron expressions, without Redis",
		Example: "  admin cron explain '30 2 * * MON-FRI'\n  admin cron next '0 9 1 * *' --tz Europe/Berlin -n 3",
	}
	cmd.AddCommand(newCronNext(s), newCronPrev(s), newCronExplain(s), newCronLint(s), newCronOverlap(s))
	return group(cmd)
}

// cronFlags are those of every cron command.
type cronFlags struct {
	zone  string
	id    string
	from  string
	count int
}

func (f *cronFlags) register(cmd *cobra.Command, times bool) {
	cmd.Flags().StringVar(&f.zone, "tz", "", "time zone of the expression, an IANA name; UTC when not given")
	cmd.Flags().StringVar(&f.id, "id", "", "schedule ID that H is hashed from")
	cmd.Flags().StringVar(&f.from, "from", "", "the time to start from; default is now")
	if times {
		cmd.Flags().IntVarP(&f.count, "number", "n", 5, "at most this many")
	}
}

// cronExpression is a parsed expression and the time to start from.
type cronExpression struct {
	spec schedule.Spec
	from time.Time
	text string
}

func (f *cronFlags) parse(s *session, text string) (cronExpression, error) {
	c := cronExpression{text: text}
	options := schedule.CronOptions{ScheduleID: schedule.ID(f.id)}
	location := time.UTC
	if f.zone != "" {
		var err error
		if location, err = specZone(f.zone); err != nil {
			return c, err
		}
		options.Location = location
	}
	if f.id != "" {
		if err := options.ScheduleID.Validate(); err != nil {
			return c, err
		}
	}
	c.from = s.env.Now()
	if err := instantInto(&c.from, "from", f.from, c.from, location); err != nil {
		return c, err
	}
	spec, err := schedule.ParseWith(text, options)
	c.spec = spec
	return c, err
}

func newCronNext(s *session) *cobra.Command {
	return newCronTimes(s, "next", "Show the next times of an expression", false)
}

func newCronPrev(s *session) *cobra.Command {
	return newCronTimes(s, "prev", "Show the last times of an expression, newest first", true)
}

func newCronTimes(s *session, name, short string, back bool) *cobra.Command {
	f := &cronFlags{}
	cmd := &cobra.Command{
		Use: name + " EXPR", Short: short,
		Long: short + ".\nEXPR is a cron line, a macro, an interval such as 30s, or once:TIME.",
		Example: fmt.Sprintf(`  admin cron %[1]s '30 2 * * *' --tz America/New_York -n 3
  admin cron %[1]s '0 0 L * *' --from 2027-01-01 -o name
  admin cron %[1]s @daily -o json`, name),
		Args: arguments(1, 1, "EXPR"),
		RunE: func(_ *cobra.Command, args []string) error { return s.cronTimes(f, args[0], back) },
	}
	f.register(cmd, true)
	return cmd
}

func (s *session) cronTimes(f *cronFlags, text string, back bool) error {
	if f.count < 1 || f.count > maxPreview {
		return &schedule.FieldError{Field: "number", Value: fmt.Sprint(f.count), Allowed: fmt.Sprintf("1 to %d", maxPreview)}
	}
	c, err := f.parse(s, text)
	if err != nil {
		return err
	}
	step := c.spec.Next
	if back {
		step = c.spec.Prev
	}
	var times []time.Time
	for at := c.from; len(times) < f.count; {
		next, ok := step(at)
		if !ok {
			break
		}
		times, at = append(times, next), next
	}
	if len(times) == 0 {
		s.noTimes(c.spec, c.from, back)
	}
	sorted := slices.Clone(times)
	slices.SortFunc(sorted, time.Time.Compare)
	return s.showTimes(times, clockNotes(c.spec, sorted))
}

// noTimes says why a list of times is empty.
func (s *session) noTimes(spec schedule.Spec, from time.Time, back bool) {
	side := "after"
	if back {
		side = "before"
	}
	s.note("there is no time %s %s", side, from.UTC().Format(time.RFC3339))
	for _, warning := range schedule.Warnings(spec) {
		s.warn("%s", warning)
	}
}

func newCronExplain(s *session) *cobra.Command {
	f := &cronFlags{}
	cmd := &cobra.Command{
		Use: "explain EXPR", Short: "Say in English when an expression fires",
		Example: `  admin cron explain '30 2 * * MON-FRI' --tz Europe/Berlin
  admin cron explain '0 0 13 * FRI' -o json`,
		Args: arguments(1, 1, "EXPR"),
		RunE: func(_ *cobra.Command, args []string) error { return s.cronExplain(f, args[0]) },
	}
	f.register(cmd, false)
	return cmd
}

func newCronLint(s *session) *cobra.Command {
	f := &cronFlags{}
	cmd := &cobra.Command{
		Use: "lint EXPR...", Short: "Check expressions; exit code 8 when one has warnings",
		Long: `Check expressions. The exit code is 0 when all are fine, 8 when one has
warnings, such as a day of month and a day of week of which either is enough,
and 2 when one is refused.`,
		Example: `  admin cron lint '0 2 * * *' '*/15 9-17 * * MON-FRI'
  admin cron lint @daily -o json`,
		Args: arguments(1, -1, "EXPR"),
		RunE: func(_ *cobra.Command, args []string) error { return s.cronLint(f, args) },
	}
	f.register(cmd, false)
	return cmd
}

// An explainJSON is what explain prints.
type explainJSON struct {
	Expression   string    `json:"expression"`
	Words        string    `json:"words"`
	PerDayLeast  int       `json:"per_day_least"`
	PerDayMost   int       `json:"per_day_most"`
	Warnings     []string  `json:"warnings"`
	ClockChanges []string  `json:"clock_changes"`
	Next         []*string `json:"next"`
	Prev         []*string `json:"prev"`
}

// A lintJSON is what lint prints for one expression.
type lintJSON struct {
	Expression string   `json:"expression"`
	OK         bool     `json:"ok"`
	Error      string   `json:"error,omitempty"`
	Warnings   []string `json:"warnings"`
}

func (s *session) cronLint(f *cronFlags, args []string) error {
	results, refused, warned := []lintJSON{}, false, false
	for _, text := range args {
		r := lintJSON{Expression: text, Warnings: []string{}}
		if c, err := f.parse(s, text); err != nil {
			r.Error, refused = describe(err, ""), true
		} else {
			r.Warnings = notNil(schedule.Warnings(c.spec))
			warned = warned || len(r.Warnings) > 0
		}
		r.OK = r.Error == "" && len(r.Warnings) == 0
		results = append(results, r)
	}
	v := view{data: results}
	for _, r := range results {
		if !r.OK {
			v.names = append(v.names, r.Expression)
		}
	}
	v.table = func(w io.Writer) {
		for _, r := range results {
			verdict := "ok"
			if !r.OK {
				verdict = "warning"
			}
			if r.Error != "" {
				verdict = "refused"
			}
			fmt.Fprintf(w, "%s: %s\n", visible(clip(r.Expression, maxCell)), verdict)
			for _, line := range append(r.Warnings, r.Error) {
				if line != "" {
					fmt.Fprintf(w, "  %s\n", visible(line))
				}
			}
		}
	}
	err := s.emit(v)
	switch {
	case err != nil:
		return err
	case refused:
		return silentCode(exitUsage)
	case warned:
		return silentCode(exitCondition)
	}
	return nil
}
