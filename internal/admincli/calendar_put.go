package admincli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/pkg/schedule"
)

type calendarPutFlags struct {
	files     []string
	dates     []string
	weekly    []string
	cron      []string
	zone      string
	dryRun    bool
	ifVersion int64
}

func newCalendarPut(s *session) *cobra.Command {
	f := &calendarPutFlags{}
	cmd := &cobra.Command{
		Use: "put NAME (--date D | --weekly W | --cron E)... | -f FILE", Short: "Create a calendar or replace what it holds",
		Long: `Store a calendar from flags, or those of a file. The calendar is replaced as a
whole; all others are left alone. The next firings of the schedules that name it
move at once, and are shown; a firing that a worker has claimed already still
happens. Schedules for which nothing is left to fire are named in a warning: they
are kept, and fire again once the calendar lets them. With --dry-run nothing is
written, and everything is shown.`,
		Example: `  admin calendar put holidays-de --tz Europe/Berlin --date 2026-12-25..2026-12-26 --date 2027-01-01
  admin calendar put weekends --weekly 'Sat 00:00-Mon 00:00' --dry-run
  admin calendar put -f holidays.yaml -o json`,
		Args: arguments(0, 1, "NAME"), ValidArgsFunction: s.completeCalendars,
		RunE: func(cmd *cobra.Command, args []string) error { return s.putCalendars(cmd, f, args) },
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.files, "file", "f", nil, "file with calendars, directory, or - for standard input; may be repeated")
	flags.StringArrayVar(&f.dates, "date", nil, "date such as 2026-12-25, or range 2026-12-24..2026-12-26; may be repeated")
	flags.StringArrayVar(&f.weekly, "weekly", nil, "weekly window such as 'Sat 00:00-Mon 06:00'; may be repeated")
	flags.StringArrayVar(&f.cron, "cron", nil, "every instant whose wall time matches, such as '* 2-4 * * *'; may be repeated")
	flags.StringVar(&f.zone, "tz", "", "time zone of the calendar, an IANA name; UTC when not given")
	flags.BoolVar(&f.dryRun, "dry-run", false, "check and show everything, write nothing")
	flags.Int64Var(&f.ifVersion, "if-version", 0, "only if the calendars together have this version, or exit code 6")
	return cmd
}

// A calendarMove is a next firing that moved; times have the offset of the
// schedule's own zone.
type calendarMove struct {
	Schedule string  `json:"schedule"`
	From     *string `json:"from"`
	FromMS   *int64  `json:"from_ms"`
	To       *string `json:"to"`
	ToMS     *int64  `json:"to_ms"`
	line     string
}

// calendars reads what is to be put.
func (f *calendarPutFlags) calendars(s *session, args []string) ([]schedule.Calendar, error) {
	given := len(f.dates)+len(f.weekly)+len(f.cron) > 0 || f.zone != ""
	switch {
	case len(f.files) > 0 && (given || len(args) > 0):
		return nil, usageErrorf("give a name with flags, or -f FILE, not both")
	case len(f.files) > 0:
		schedules, calendars, err := s.load(f.files)
		if err == nil && len(schedules) > 0 {
			err = usageErrorf("the files hold schedules too: admin apply -f puts both")
		}
		return calendars, err
	case len(args) == 0:
		return nil, usageErrorf("which calendar? give NAME, or -f FILE")
	}
	c := schedule.Calendar{Name: args[0], Timezone: f.zone, Weekly: f.weekly, Cron: f.cron}
	for _, text := range f.dates {
		c.Dates = append(c.Dates, strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })...)
	}
	return []schedule.Calendar{c}, c.Validate()
}

func (s *session) putCalendars(cmd *cobra.Command, f *calendarPutFlags, args []string) error {
	wanted, err := f.calendars(s, args)
	if err != nil {
		return err
	}
	options := schedule.CalendarOptions{DryRun: f.dryRun}
	if cmd.Flags().Changed("if-version") {
		if len(wanted) != 1 {
			return usageErrorf("--if-version is about one calendar, the files hold %d", len(wanted))
		}
		options.IfVersion = &f.ifVersion
	}
	rows, v := []putJSON{}, view{}
	var silences []silencing
	for _, c := range wanted {
		row, q, err := s.putCalendar(c, options)
		if err != nil {
			return err
		}
		silences = append(silences, q)
		rows, v.names = append(rows, row), append(v.names, c.Name)
	}
	v.data = rows
	if len(rows) == 1 {
		v.data = rows[0]
	}
	v.table = func(w io.Writer) {
		for _, row := range rows {
			fmt.Fprintln(w, visible(row.headline()))
			for _, line := range row.lines() {
				fmt.Fprintln(w, "  "+visible(line))
			}
		}
	}
	if err := s.emit(v); err != nil {
		return err
	}
	for _, q := range silences {
		q.warn(s)
	}
	return nil
}

// putCalendar stores one calendar beside the others, and says what that leaves
// without a time to fire at.
func (s *session) putCalendar(c schedule.Calendar, options schedule.CalendarOptions) (putJSON, silencing, error) {
	store, all, err := s.calendarStore()
	if err != nil {
		return putJSON{}, silencing{}, err
	}
	ctx, cancel := s.call()
	defer cancel()
	result, err := store.PutCalendars(ctx, []schedule.Calendar{c}, options)
	if err != nil {
		return putJSON{}, silencing{}, s.calendarFailed(c.Name, options, err)
	}
	quiet, err := s.silenced(store, all, c, result)
	if err != nil {
		return putJSON{}, silencing{}, err
	}
	row := putJSON{Kind: "calendar", ID: c.Name, Action: string(result.Actions[0]), DryRun: options.DryRun, Version: result.Version,
		Users: result.Users, Moved: result.Moved}
	if i := slices.IndexFunc(all, func(old schedule.Calendar) bool { return old.Name == c.Name }); i >= 0 {
		row.Changes = calendarChanges(all[i], c)
	}
	for _, id := range quiet.ids[:min(len(quiet.ids), schedule.MaxCalendarMoves)] {
		row.Silenced = append(row.Silenced, string(id))
	}
	row.Moves, err = s.calendarMoves(result.Moves, quiet)
	return row, quiet, err
}

// calendarChanges compares two calendars field by field.
func calendarChanges(before, after schedule.Calendar) []change {
	fields := func(c schedule.Calendar) map[string]json.RawMessage {
		out := map[string]json.RawMessage{}
		if text, err := json.Marshal(c); err == nil { // a calendar that is valid always encodes
			_ = json.Unmarshal(text, &out)
		}
		return out
	}
	old, updated := fields(before), fields(after)
	names := maps.Clone(old)
	maps.Copy(names, updated)
	var changes []change
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !bytes.Equal(old[name], updated[name]) {
			changes = append(changes, change{Field: name, From: old[name], To: updated[name]})
		}
	}
	return changes
}

// calendarMoves renders moves in the zones of their schedules. One that is
// silenced moves to no time: where the store goes on searching is none.
func (s *session) calendarMoves(moves []schedule.CalendarMove, quiet silencing) ([]calendarMove, error) {
	if len(moves) == 0 {
		return nil, nil
	}
	var names []string
	for _, m := range moves {
		names = append(names, string(m.Schedule))
	}
	entries, err := s.entriesOf(names)
	if err != nil {
		return nil, err
	}
	var views []calendarMove
	for _, m := range moves {
		in := time.UTC
		if e, ok := entries[m.Schedule]; ok {
			in = s.reading(e.Schedule, nil, nil).zone
		}
		in = s.location(in)
		if quiet.holds(m.Schedule) {
			m.To = time.Time{}
		}
		views = append(views, calendarMove{Schedule: string(m.Schedule), From: iso(m.From, in), FromMS: millis(m.From), To: iso(m.To, in), ToMS: millis(m.To),
			line: fmt.Sprintf("%s: next firing %s → %s", m.Schedule, orNone(m.From, in), orNone(m.To, in))})
	}
	return views, nil
}

func orNone(t time.Time, in *time.Location) string {
	if t.IsZero() {
		return none
	}
	return stamp(t, in)
}

// headline says what was done to the calendar.
func (row putJSON) headline() string {
	switch {
	case row.Action == string(schedule.CalendarUnchanged):
		return row.ID + " is unchanged"
	case row.DryRun:
		return fmt.Sprintf("%s would be %s; nothing was changed (dry run)", row.ID, row.Action)
	}
	return fmt.Sprintf("%s %s, version %d of the calendars", row.Action, row.ID, row.Version)
}

// lines tell what differs and which next firings move.
func (row putJSON) lines() []string {
	var lines []string
	for _, c := range row.Changes {
		lines = append(lines, fmt.Sprintf("%s: %s → %s", c.Field, or(shortValue(c.From), none), or(shortValue(c.To), none)))
	}
	if row.Users > 0 {
		lines = append(lines, fmt.Sprintf("the next firing of %d of %s moves", row.Moved, count(row.Users, "schedule")))
	}
	for _, m := range row.Moves[:min(len(row.Moves), maxListed)] {
		lines = append(lines, m.line)
	}
	if more := row.Moved - maxListed; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return lines
}

// calendarsOf takes calendars from files instead of the store.
func (s *session) calendarsOf(files []string) error {
	if len(files) == 0 {
		return nil
	}
	s.calendars = map[string]schedule.Calendar{}
	_, _, err := s.load(files)
	return err
}
