package admincli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

// maxPreview bounds a preview, in firings.
const maxPreview = 10_000

type previewFlags struct {
	specFlags
	from  string
	to    string
	count int
	dst   bool
	id    string

	except    []string
	only      []string
	calendars []string // files
}

func newPreview(s *session) *cobra.Command {
	f := &previewFlags{}
	cmd := &cobra.Command{
		Use: "preview NAME | --cron E | --every D | --at T | --expression E", Short: "Show when a schedule fires",
		Long: `Show the scheduled times of a stored schedule, or of a spec that is not stored;
the latter needs no Redis. Jitter is not shown: it delays a firing, its scheduled
time stays. With --dst each time that a clock change moves is explained.`,
		Example: `  admin schedule preview nightly-report -n 3
  admin schedule preview --cron '30 2 * * *' --tz America/New_York --from 2027-03-12 -n 4 --dst
  admin schedule preview --cron '0 9 * * *' --except holidays-de -f calendars.yaml
  admin schedule preview --every 6h --offset 15m --to +2d -o json`,
		Args:              arguments(0, 1, "NAME"),
		ValidArgsFunction: s.completeIDs,
		RunE:              func(cmd *cobra.Command, args []string) error { return s.preview(cmd, f, args) },
	}
	f.register(cmd)
	cmd.Flags().StringVar(&f.from, "from", "", "first time to look at; default is now")
	cmd.Flags().StringVar(&f.to, "to", "", "last time to look at")
	cmd.Flags().IntVarP(&f.count, "number", "n", 10, "at most this many")
	cmd.Flags().BoolVar(&f.dst, "dst", false, "explain clock changes")
	cmd.Flags().StringArrayVar(&f.except, "except", nil, "no firing inside, as for create: a calendar, dates, 'Sat 00:00-Mon 06:00' or 'cron E'; may be repeated")
	cmd.Flags().StringArrayVar(&f.only, "only", nil, "firings only inside; as --except")
	cmd.Flags().StringArrayVarP(&f.calendars, "file", "f", nil, "file with the calendars, instead of those that are stored")
	cmd.Flags().StringVar(&f.id, "id", "", "schedule ID that H in a cron expression is hashed from")
	return cmd
}

// previewID stands for the ID of a spec that is not stored and has no H.
const previewID = "preview"

func (s *session) preview(cmd *cobra.Command, f *previewFlags, args []string) error {
	if f.count < 1 || f.count > maxPreview {
		return &schedule.FieldError{Field: "number", Value: fmt.Sprint(f.count), Allowed: fmt.Sprintf("1 to %d", maxPreview)}
	}
	definition, left, err := s.previewed(f, args)
	if err != nil {
		return err
	}
	if err := s.calendarsOf(f.calendars); err != nil {
		return err
	}
	compiled, err := s.compile(definition)
	if err != nil {
		return f.fromFlags(err)
	}
	r := s.read(definition)
	from, to, err := f.window(s, r.zone)
	if err != nil {
		return err
	}
	limit := f.count
	if !to.IsZero() && !cmd.Flags().Changed("number") {
		limit = maxPreview
	}
	if left >= 0 {
		limit = int(min(int64(limit), left))
	}
	times := upcoming(compiled, from, to, limit)
	if len(times) == 0 {
		s.note("no scheduled time there")
		for _, warning := range schedule.Warnings(compiled.Spec()) {
			s.note("%s", warning)
		}
	}
	var notes map[int64]string
	if f.dst {
		notes = clockNotes(compiled.Spec(), times)
	}
	return s.showTimes(times, notes)
}

// previewed returns the definition, and how many firings it has left; -1 is no
// limit.
func (s *session) previewed(f *previewFlags, args []string) (d schedule.Schedule, left int64, err error) {
	if len(args) == 1 && f.given() != "" {
		return d, -1, usageErrorf("give a name or a spec, not both")
	}
	if len(args) == 1 && len(f.except)+len(f.only) > 0 {
		return d, -1, usageErrorf("--except and --only are for a spec; the schedule has its own: see admin schedule update")
	}
	if len(args) == 1 {
		if f.zone != "" && f.zone != "schedule" {
			if s.viewer, err = zone(f.zone); f.zone == "local" {
				s.viewer, err = s.env.Local, nil
			}
			if err != nil {
				return d, -1, err
			}
		}
		entries, err := s.named(args)
		if err != nil {
			return d, -1, err
		}
		d, left = entries[0].Schedule, -1
		if d.Limit > 0 {
			left = max(0, d.Limit-entries[0].Status.Fired)
		}
		return d, left, nil
	}
	d = schedule.Schedule{ID: previewID, Type: previewID}
	if f.id != "" {
		if d.ID, err = validID(f.id); err != nil {
			return d, -1, err
		}
	}
	if err := errors.Join(f.fill(&d, s.env.Now()), windowsInto(&d.Except, "except", f.except), windowsInto(&d.Only, "only", f.only)); err != nil {
		return d, -1, err
	}
	if err := f.refuseHash(); err != nil {
		return d, -1, err
	}
	left = -1
	if d.Limit > 0 {
		left = d.Limit
	}
	return d, left, nil
}

// refuseHash refuses H when nothing says what it is hashed from: the preview
// would show times at which no schedule fires.
func (f *previewFlags) refuseHash() error {
	if f.id != "" {
		return nil
	}
	for name, text := range map[string]string{"cron": f.cron, "expression": f.expression} {
		if text == "" {
			continue
		}
		if _, err := schedule.ParseWith(text, schedule.CronOptions{}); err != nil && strings.ContainsRune(text, 'H') {
			return withHint(renamed(err, name), "say for which schedule: --id NAME")
		}
	}
	return nil
}

func (f *previewFlags) window(s *session, own *time.Location) (from, to time.Time, err error) {
	now := s.env.Now()
	from = now
	if err := instantInto(&from, "from", f.from, now, s.location(own)); err != nil {
		return from, to, err
	}
	if err := instantInto(&to, "to", f.to, now, s.location(own)); err != nil {
		return from, to, err
	}
	if !to.IsZero() && !to.After(from) {
		return from, to, &schedule.FieldError{Field: "to", Value: f.to, Allowed: "a time after --from"}
	}
	if f.from != "" {
		from = from.Add(-time.Millisecond) // what was asked for counts
	}
	return from, to, nil
}

// upcoming lists the scheduled times after from and up to to.
func upcoming(compiled *schedule.Compiled, from, to time.Time, limit int) []time.Time {
	var times []time.Time
	for at := from; len(times) < limit; {
		next, ok := compiled.Next(at)
		if !ok || !to.IsZero() && next.After(to) {
			break
		}
		times, at = append(times, next), next
	}
	return times
}

// A timeJSON is one scheduled time of a preview.
type timeJSON struct {
	N     int     `json:"n"`
	At    *string `json:"at"`
	AtMS  *int64  `json:"at_ms"`
	Zone  string  `json:"zone"`
	Note  string  `json:"note,omitempty"`
	local time.Time
}

// showTimes prints scheduled times, with notes by Unix milliseconds.
func (s *session) showTimes(times []time.Time, notes map[int64]string) error {
	views, names := s.timesJSON(times, notes)
	return s.emit(view{data: views, names: names, table: func(w io.Writer) { s.tabulateTimes(w, views) }})
}

// timesJSON renders times, and their names.
func (s *session) timesJSON(times []time.Time, notes map[int64]string) (views []timeJSON, names []string) {
	views = []timeJSON{}
	for i, at := range times {
		local := at.In(s.location(at.Location()))
		views = append(views, timeJSON{N: i + 1, At: iso(at, local.Location()), AtMS: millis(at), Zone: local.Location().String(),
			Note: notes[at.UnixMilli()], local: local})
		names = append(names, local.Format(rfc3339Milli))
	}
	return views, names
}

func (s *session) tabulateTimes(w io.Writer, views []timeJSON) {
	if len(views) == 0 {
		return
	}
	t := newTable("#", "DUE", "OFFSET", "UTC", "IN", "NOTE")
	for _, row := range views {
		utc := row.local.UTC()
		t.add(fmt.Sprint(row.N), row.local.Format("Mon ")+stamp(row.local, row.local.Location()), row.local.Format("-07:00"),
			stampUTC(utc, row.local), relative(row.local, s.env.Now()), row.Note)
	}
	t.flush(w, s.painted(s.env.Terminal.Stdout))
}

// stampUTC shows the time of day in UTC, with the date where it differs.
func stampUTC(utc, local time.Time) string {
	layout := "15:04"
	switch {
	case utc.Nanosecond() != 0:
		layout = "15:04:05.000"
	case utc.Second() != 0:
		layout = "15:04:05"
	}
	if utc.Format(time.DateOnly) != local.Format(time.DateOnly) {
		layout = "2006-01-02 " + layout
	}
	return utc.Format(layout)
}
