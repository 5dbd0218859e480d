package admincli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

// shownFirings is how many coming scheduled times get and create show.
const shownFirings = 5

func newGet(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "get NAME...", Short: "Show schedules with policies, coming firings and last run",
		Example: `  admin schedule get nightly-report
  admin schedule get nightly-report -o json
  admin schedule get nightly-report cache-warm -o yaml`,
		Args:              arguments(1, -1, "NAME"),
		ValidArgsFunction: s.completeIDs,
		RunE:              func(_ *cobra.Command, args []string) error { return s.get(args) },
	}
}

func (s *session) get(args []string) error {
	entries, err := s.named(args)
	if err != nil {
		return err
	}
	v := view{table: func(w io.Writer) { s.showEntries(w, entries) }}
	var views []scheduleJSON
	for _, e := range entries {
		text, err := s.entryWith(e, s.verdictsJSON(e))
		if err != nil {
			return err
		}
		views, v.names = append(views, text), append(v.names, string(e.Schedule.ID))
	}
	v.data = views
	if len(views) == 1 {
		v.data = views[0]
	}
	if err := s.emit(v); err != nil {
		return err
	}
	if s.tabular() {
		s.footer(count(len(entries), "schedule"))
	}
	return nil
}

func (s *session) showEntries(w io.Writer, entries []schedule.Entry) {
	for i, e := range entries {
		if i > 0 {
			fmt.Fprintln(w)
		}
		s.showEntry(w, e)
	}
}

// A sheet is a list of names and values; a value can go on over several lines.
type sheet struct{ rows [][2]string }

func (f *sheet) add(name string, lines ...string) {
	for i, line := range lines {
		if line == "" {
			continue
		}
		if i > 0 {
			name = ""
		}
		f.rows = append(f.rows, [2]string{name, visible(line)})
	}
}

func (f *sheet) write(w io.Writer) {
	widest := 0
	for _, row := range f.rows {
		widest = max(widest, width(row[0]))
	}
	for _, row := range f.rows {
		fmt.Fprintf(w, "  %s%s  %s\n", row[0], strings.Repeat(" ", widest-width(row[0])), row[1])
	}
}

func (s *session) showEntry(w io.Writer, e schedule.Entry) {
	state := shownState(e)
	fmt.Fprintf(w, "%s  %s\n", visible(string(e.Schedule.ID)), paint(state.text, state.color, s.painted(s.env.Terminal.Stdout)))
	d, f := e.Schedule, &sheet{}
	f.add("description", d.Description)
	if e.Invalid != nil {
		f.add("invalid", e.Invalid.Error())
	}
	f.add("when", s.words(d))
	f.add("spec", specText(d)...)
	f.add("next", s.next(e))
	if e.Status.State == schedule.StateActive {
		f.add("then", s.comingAfter(d, e.Status.NextAt, shownFirings-1)...)
	}
	for _, at := range e.Status.Skips {
		f.add("skips", when(at, s.env.Now(), s.location(s.read(d).zoneAt(at))))
	}
	f.add("bounds", bounds(d))
	f.add("task", taskText(d))
	f.add("payload", payloadText(d.Payload))
	f.add("headers", pairs(d.Headers))
	f.add("policies", policyText(d))
	f.add("labels", pairs(d.Labels))
	f.add("metadata", string(d.Metadata))
	s.addStatus(f, e)
	f.write(w)
}

func (s *session) addStatus(f *sheet, e schedule.Entry) {
	status, now := e.Status, s.env.Now()
	zone := s.location(s.read(e.Schedule).zone)
	if status.LastRunAt.IsZero() {
		f.add("last run", none)
	} else {
		line := fmt.Sprintf("%s %s", status.LastStatus, when(status.LastRunAt, now, zone))
		if status.LastStatus != schedule.LastRunning {
			line += ", took " + fine(status.LastDuration)
		}
		f.add("last run", line)
	}
	f.add("last error", status.LastError)
	f.add("runs", fmt.Sprintf("%d, %d failed, %d in a row; %d open, %d buffered", status.RunCount, status.FailCount,
		status.ConsecutiveFails, status.Open, status.Buffered))
	f.add("version", fmt.Sprintf("%d of generation %d, created %s, updated %s", status.Version, status.Generation,
		when(status.CreatedAt, now, zone), when(status.UpdatedAt, now, zone)))
}

// specText shows each "when" as it is written.
func specText(d schedule.Schedule) []string {
	if d.Expression != "" {
		return []string{"expression " + d.Expression}
	}
	var lines []string
	for _, spec := range d.Specs {
		line := ""
		switch {
		case spec.Cron != "":
			line = "cron " + spec.Cron
		case spec.Every != 0:
			line = "every " + schedule.FormatDuration(spec.Every)
			if !spec.Anchor.IsZero() {
				line += " from " + spec.Anchor.UTC().Format(rfc3339Milli)
			}
		case spec.After != 0:
			line = "after " + schedule.FormatDuration(spec.After)
		default:
			line = "at " + strings.Join(spec.At, ", ")
		}
		if spec.Timezone != "" {
			line += " in " + spec.Timezone
		}
		lines = append(lines, line)
	}
	return lines
}

func bounds(d schedule.Schedule) string {
	var parts []string
	if !d.Starts.IsZero() {
		parts = append(parts, "starts "+stamp(d.Starts, d.Starts.Location()))
	}
	if !d.Ends.IsZero() {
		parts = append(parts, "ends "+stamp(d.Ends, d.Ends.Location()))
	}
	if d.Limit > 0 {
		parts = append(parts, "at most "+count(int(d.Limit), "firing"))
	}
	if d.Jitter > 0 {
		parts = append(parts, "jitter "+schedule.FormatDuration(d.Jitter))
	}
	return strings.Join(parts, ", ")
}

func taskText(d schedule.Schedule) string {
	d.Normalize()
	retries := schedule.DefaultMaxRetry
	if d.MaxRetry != nil {
		retries = *d.MaxRetry
	}
	return fmt.Sprintf("%s in queue %s, max_retry %d, timeout %s, retention %s", d.Type, d.Queue, retries,
		schedule.FormatDuration(d.Timeout), schedule.FormatDuration(d.Retention))
}

func policyText(d schedule.Schedule) string {
	d.Normalize()
	text := fmt.Sprintf("missed %s, overlap %s, effect %s", d.Missed, d.Overlap, d.Effect)
	if d.CatchUp > 0 {
		text += ", catch_up " + schedule.FormatDuration(d.CatchUp)
	}
	if d.MaxFailures > 0 {
		text += fmt.Sprintf(", max_failures %d", d.MaxFailures)
	}
	if d.CoolDown > 0 {
		text += ", cool_down " + schedule.FormatDuration(d.CoolDown)
	}
	if d.Priority != 0 {
		text += fmt.Sprintf(", priority %d", d.Priority)
	}
	return text
}

// maxPayloadShown bounds a payload in a table, in bytes.
const maxPayloadShown = 200

func payloadText(payload []byte) string {
	if len(payload) <= maxPayloadShown {
		return string(payload)
	}
	return fmt.Sprintf("%s… (%d bytes; -o json shows all)", strings.ToValidUTF8(string(payload[:maxPayloadShown]), ""), len(payload))
}

// pairs renders a map in order of name.
func pairs(m map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, name+"="+m[name])
	}
	return strings.Join(parts, ", ")
}
