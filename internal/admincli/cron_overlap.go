package admincli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

// maxOverlapSteps bounds how many times of two expressions are compared: about a
// second.
const maxOverlapSteps = 2_000_000

func newCronOverlap(s *session) *cobra.Command {
	f, within := &cronFlags{}, ""
	cmd := &cobra.Command{
		Use: "overlap EXPR EXPR", Short: "Show when two expressions fire at the same instant",
		Long: `Show the instants at which both expressions fire, and how many there are within a
time from now, or that there is none. An expression is whatever the one string of
a schedule may be: a cron line, a macro, an interval such as 30s, once:TIME, or
several with | between. A cron line may have a zone of its own: TZ=Europe/Berlin
0 9 * * *. "@after" is refused: its times depend on runs.

At most two million times are compared; the output says up to when, where that
was not enough. The exit code is 0 whether they meet or not.`,
		Example: `  admin cron overlap '0 2 * * *' '*/7 * * * *' -n 3
  admin cron overlap '0 9 * * MON' '0 9 1 * *' --tz Europe/Berlin --within 3650d -o json`,
		Args: arguments(2, 2, "EXPR EXPR"),
		RunE: func(_ *cobra.Command, args []string) error { return s.cronOverlap(f, within, args) },
	}
	f.register(cmd, true)
	cmd.Flags().StringVar(&within, "within", "366d", "how far to look")
	return cmd
}

// An overlapJSON is what overlap prints.
type overlapJSON struct {
	Expressions []string   `json:"expressions"`
	From        *string    `json:"from"`
	Until       *string    `json:"until"`    // up to where every instant was looked at
	Complete    bool       `json:"complete"` // until is the end of the window
	Count       int        `json:"count"`    // instants at which both fire
	First       []timeJSON `json:"first"`
}

func (s *session) cronOverlap(f *cronFlags, within string, args []string) error {
	if f.count < 1 || f.count > maxPreview {
		return &schedule.FieldError{Field: "number", Value: fmt.Sprint(f.count), Allowed: fmt.Sprintf("1 to %d", maxPreview)}
	}
	window, err := flagDuration("within", within)
	if err == nil && window <= 0 {
		err = &schedule.FieldError{Field: "within", Value: within, Allowed: "a duration above 0 such as 366d"}
	}
	if err != nil {
		return err
	}
	var specs [2]schedule.Spec
	var from time.Time
	for i, text := range args {
		c, err := f.parse(s, text)
		if err != nil {
			return err
		}
		if strings.HasPrefix(c.spec.String(), "@after ") {
			return &schedule.FieldError{Field: "expression", Value: text, Allowed: "times that are known in advance: @after fires when a run has ended"}
		}
		specs[i], from = c.spec, c.from
	}
	met := meet(specs[0], specs[1], from, from.Add(window), f.count)
	return s.showOverlap(args, from, from.Add(window), met)
}

// A meeting is where two specs fire together.
type meeting struct {
	count int
	first []time.Time
	until time.Time // up to where every instant was looked at
	whole bool      // that is the end of the window
}

// meet walks over the times of two specs after from, up to and with the end. A
// spec that fires often is not walked over where the other one does not fire.
func meet(a, b schedule.Spec, from, end time.Time, keep int) meeting {
	var m meeting
	ta, oka := a.Next(from)
	tb, okb := b.Next(from)
	for range maxOverlapSteps {
		switch {
		case !oka || !okb || ta.After(end) || tb.After(end):
			m.until, m.whole = end, true
			return m
		case ta.Equal(tb):
			if m.count++; len(m.first) < keep {
				m.first = append(m.first, ta)
			}
			m.until = ta
			ta, oka = a.Next(ta)
		case ta.Before(tb):
			m.until = ta
			ta, oka = a.Next(tb.Add(-time.Millisecond)) // not before the other
		default:
			m.until = tb
			tb, okb = b.Next(ta.Add(-time.Millisecond))
		}
	}
	return m
}

func (s *session) showOverlap(args []string, from, end time.Time, m meeting) error {
	in := s.location(time.UTC)
	views, names := s.timesJSON(m.first, nil)
	data := overlapJSON{Expressions: args, From: iso(from, in), Until: iso(m.until, in), Complete: m.whole, Count: m.count, First: views}
	span := schedule.FormatDuration(end.Sub(from))
	var text string
	switch {
	case m.count == 0 && m.whole:
		text = "never within " + span
	case m.count == 0:
		text = "never until " + stamp(m.until, in)
	case m.whole:
		text = fmt.Sprintf("both fire %s within %s", count(m.count, "time"), span)
	default:
		text = fmt.Sprintf("both fire %s until %s", count(m.count, "time"), stamp(m.until, in))
	}
	err := s.emit(view{data: data, names: names, table: func(w io.Writer) {
		fmt.Fprintln(w, text)
		s.tabulateTimes(w, views)
	}})
	if err == nil && !m.whole {
		s.note("they fire too often to compare all of %s; give a shorter --within, or go on with --from %s", span, m.until.UTC().Format(time.RFC3339))
	}
	return err
}
