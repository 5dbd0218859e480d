package admincli

import (
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

// The states that the list command derives, beside those of the store.
const (
	stateFailing = "failing" // active, and the last run failed
	stateLate    = "late"    // due, and no worker has claimed it
)

type listFlags struct {
	selector []string
	state    string
	queue    string
	limit    int
	glob     string
	sort     string
}

func newList(s *session) *cobra.Command {
	f := &listFlags{}
	cmd := &cobra.Command{
		Use: "list [GLOB]", Short: "List schedules with their state and next firing",
		Long: `List schedules in ascending order of ID. GLOB is a pattern such as 'billing-*'.
Each next firing is shown in the schedule's own zone unless --tz says otherwise.

With --sort next the soonest comes first, with last the newest run, with
fail-rate what fails most often. The store keeps no such order: all that match
are read first and those that are shown once more, in about twice the time of
the whole list, before the first line appears. Above 200,000 it needs --limit.`,
		Example: `  admin schedule list
  admin schedule list 'nightly-*' -o name
  admin schedule list -l team=billing --state paused
  admin schedule list --sort fail-rate --limit 10
  admin schedule list --queue reports -o json`,
		Args: arguments(0, 1, "GLOB"),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				f.glob = args[0]
			}
			return s.list(f)
		},
	}
	cmd.Flags().StringArrayVarP(&f.selector, "selector", "l", nil, "those with this label, as k=v; several must all match")
	cmd.Flags().StringVar(&f.state, "state", "", "those in this state: active, paused, disabled, completed (also called expired: nothing is left to fire), failing or late")
	cmd.Flags().StringVar(&f.queue, "queue", "", "those of this queue")
	cmd.Flags().IntVar(&f.limit, "limit", 0, "at most this many; 0 is all")
	cmd.Flags().StringVar(&f.sort, "sort", sortName, "order: name, next, last or fail-rate")
	return s.watched(cmd)
}

func (f *listFlags) options() (schedule.ListOptions, error) {
	var options schedule.ListOptions
	labels, err := parseLabels("selector", f.selector)
	if err != nil {
		return options, err
	}
	options.Labels, options.Queue = labels, f.queue
	if _, err := path.Match(f.glob, ""); err != nil {
		return options, &schedule.FieldError{Field: "glob", Value: f.glob, Allowed: "a pattern of *, ? and [a-z], such as 'billing-*'"}
	}
	if f.queue != "" {
		if err := schedule.ValidateQueue(f.queue); err != nil {
			return options, err
		}
	}
	if err := oneOf("sort", f.sort, sortName, sortNext, sortLast, sortFailRate); err != nil {
		return options, err
	}
	if f.limit < 0 {
		return options, &schedule.FieldError{Field: "limit", Value: fmt.Sprint(f.limit), Allowed: "0 or more; 0 is all"}
	}
	switch f.state {
	case "":
	case "expired": // the word of other tools
		options.State = schedule.StateCompleted
	case stateFailing, stateLate:
		options.State = schedule.StateActive
	default:
		options.State = schedule.State(f.state)
		return options, oneOf("state", f.state, "active", "paused", "disabled", "completed", "expired", stateFailing, stateLate)
	}
	return options, nil
}

func (f *listFlags) keep(s *session, e schedule.Entry) bool {
	if f.glob != "" {
		if ok, _ := path.Match(f.glob, string(e.Schedule.ID)); !ok { // the pattern was checked
			return false
		}
	}
	switch f.state {
	case stateFailing:
		return e.Status.ConsecutiveFails > 0
	case stateLate:
		return !e.Status.Claimed && !e.Probing() && !e.Status.DueAt.IsZero() && e.Status.DueAt.Before(s.env.Now())
	}
	return true
}

// list writes page by page, so that a long list starts at once and needs
// little memory.
func (s *session) list(f *listFlags) error {
	options, err := f.options()
	if err != nil {
		return err
	}
	out := s.newListing()
	if f.sort != sortName {
		err = s.listSorted(f, options, out)
	} else {
		err = s.listByName(f, options, out)
	}
	if err != nil {
		return err
	}
	return out.end(f.glob != "" || len(f.selector) > 0 || f.state != "" || f.queue != "")
}

// listByName writes each page as it is read. The store may answer a rare filter
// with a short page, or an empty one, before the last.
func (s *session) listByName(f *listFlags, options schedule.ListOptions, out *listing) error {
	if f.limit > 0 && f.limit < pageSize && f.glob == "" && f.state == "" {
		options.Limit = f.limit
	}
	return s.pages(options, func(page []schedule.Entry) (bool, error) {
		for _, e := range page {
			if !f.keep(s, e) {
				continue
			}
			if err := out.add(e); err != nil {
				return false, err
			}
			if f.limit > 0 && out.count == f.limit {
				return false, nil
			}
		}
		out.flush()
		return s.out.err == nil, nil
	})
}

// A listing writes entries in the wanted format.
type listing struct {
	s      *session
	count  int
	states map[string]int
	table  *table
	array  *arrayWriter
}

func (s *session) newListing() *listing {
	l := &listing{s: s, states: map[string]int{}, table: newTable("NAME", "STATE", "WHEN", "NEXT", "LAST")}
	if s.flags.format == formatWide {
		l.table = newTable("NAME", "STATE", "WHEN", "NEXT", "LAST", "QUEUE", "TYPE", "MISSED", "OVERLAP", "RUNS", "OPEN", "VERSION", "LABELS")
	}
	l.array = s.newArray()
	return l
}

func (l *listing) add(e schedule.Entry) error {
	l.count++
	switch {
	case l.array != nil:
		view, err := l.s.entryJSON(e)
		if err != nil {
			return err
		}
		return l.array.add(view)
	case l.s.flags.format == formatName:
		fmt.Fprintln(l.s.out, visible(string(e.Schedule.ID)))
	default:
		state := shownState(e)
		l.states[state.text]++
		row := []cell{{text: string(e.Schedule.ID)}, state, {text: clip(l.s.words(e.Schedule), 48)}, {text: l.s.next(e)}, l.s.last(e, l.s.env.Now())}
		if l.s.flags.format == formatWide {
			row = append(row, wideCells(e)...)
		}
		l.table.addCells(row...)
	}
	return nil
}

// wideCells are what -o wide adds.
func wideCells(e schedule.Entry) []cell {
	d, status := e.Schedule, e.Status
	d.Normalize()
	runs := cell{text: fmt.Sprintf("%d, %d failed", status.RunCount, status.FailCount)}
	return []cell{{text: d.Queue}, {text: d.Type}, {text: string(d.Missed)}, {text: string(d.Overlap)}, runs,
		{text: fmt.Sprint(status.Open)}, {text: fmt.Sprint(status.Version)}, {text: or(pairs(d.Labels), none)}}
}

func (l *listing) flush() {
	if l.array == nil && l.s.tabular() && l.count > 0 {
		l.table.flush(l.s.out, l.s.painted(l.s.env.Terminal.Stdout))
	}
}

// end closes the list; filtered says that not all schedules were wanted.
func (l *listing) end(filtered bool) error {
	l.flush()
	if l.array != nil {
		if err := l.array.close(); err != nil {
			return err
		}
	}
	if l.count == 0 {
		if filtered {
			l.s.note("no schedules match")
		} else {
			l.s.note("no schedules yet; create one with: admin schedule create NAME --cron '0 2 * * *' --type TASKTYPE")
		}
		return nil
	}
	if l.s.tabular() {
		l.s.footer(l.summary())
	}
	return nil
}

// summary counts the states, as "4 schedules: 2 active, 1 paused, 1 failing".
func (l *listing) summary() string {
	var parts []string
	for _, state := range []string{"active", "paused", "failing", "disabled", "completed", "invalid"} {
		if n := l.states[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	return count(l.count, "schedule") + ": " + strings.Join(parts, ", ")
}

// count renders a number and its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// next says when a schedule fires next, or why it does not.
func (s *session) next(e schedule.Entry) string {
	status := e.Status
	switch {
	case status.State == schedule.StatePaused:
		return none + " " + s.pausedBy(e)
	case status.State == schedule.StateDisabled:
		return none + " (disabled after " + count(int(status.ConsecutiveFails), "failure") + coolDown(status.ProbeAt, s.env.Now(), s.location(s.read(e.Schedule).zoneAt(status.ProbeAt))) + ")"
	case status.NextAt.IsZero() && status.State == schedule.StateActive && status.Open > 0:
		return none + " (waits for the open run)"
	case status.NextAt.IsZero():
		return none
	}
	return when(status.NextAt, s.env.Now(), s.location(s.read(e.Schedule).zoneAt(status.NextAt)))
}

// coolDown says when a disabled schedule is tried again by itself.
func coolDown(probe, now time.Time, in *time.Location) string {
	if probe.IsZero() {
		return ""
	}
	return "; one probe may run from " + when(probe, now, in)
}

// pausedBy says who paused, why and until when.
func (s *session) pausedBy(e schedule.Entry) string {
	text := "(paused"
	if e.Status.PausedBy != "" {
		text += " by " + e.Status.PausedBy
	}
	if !e.Status.PausedUntil.IsZero() {
		text += " until " + stamp(e.Status.PausedUntil, s.location(s.read(e.Schedule).zone))
	}
	if e.Status.PauseReason != "" {
		text += ": " + e.Status.PauseReason
	}
	return text + ")"
}

// last says how the last run ended.
func (s *session) last(e schedule.Entry, now time.Time) cell {
	if e.Status.LastStatus == schedule.LastNone || e.Status.LastRunAt.IsZero() {
		return cell{text: none}
	}
	ago := relative(e.Status.LastRunAt, now)
	switch e.Status.LastStatus {
	case schedule.LastCompleted:
		return cell{text: "ok " + ago}
	case schedule.LastRunning:
		return cell{text: "running " + ago}
	}
	return cell{string(e.Status.LastStatus) + " " + ago, red}
}
