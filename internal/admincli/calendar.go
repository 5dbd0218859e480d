package admincli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/pkg/schedule"
)

func newCalendar(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "calendar", Short: "Show and change the calendars that schedules share",
		Long: `A calendar is a named set of dates, weekly windows and cron windows. Schedules
name it in except or only; it is stored once, and a change moves the next firings
of all that name it.`,
		Example: "  admin calendar list\n  admin calendar get holidays-de",
	}
	list := &cobra.Command{
		Use: "list", Short: "List the calendars",
		Example: "  admin calendar list\n  admin calendar list -o json",
		Args:    arguments(0, 0, "nothing"),
		RunE:    func(*cobra.Command, []string) error { return s.listCalendars() },
	}
	get := &cobra.Command{
		Use: "get NAME", Short: "Show a calendar and the schedules that name it",
		Example: "  admin calendar get holidays-de\n  admin calendar get holidays-de -o yaml",
		Args:    arguments(1, 1, "NAME"), ValidArgsFunction: s.completeCalendars,
		RunE: func(_ *cobra.Command, args []string) error { return s.getCalendar(args[0]) },
	}
	cmd.AddCommand(s.watched(list), get, newCalendarPut(s), newCalendarDelete(s))
	return group(cmd)
}

// A calendarJSON is what list and get print for one calendar. Put and apply
// read it again.
type calendarJSON struct {
	Name     string   `json:"name"`
	Timezone string   `json:"timezone,omitempty"`
	Dates    []string `json:"dates,omitempty"`
	Weekly   []string `json:"weekly,omitempty"`
	Cron     []string `json:"cron,omitempty"`
	Users    []string `json:"users"` // schedules that name it
}

// calendarStore returns the store of calendars and what it holds.
func (s *session) calendarStore() (schedule.CalendarStore, []schedule.Calendar, error) {
	stores, err := s.store()
	if err != nil {
		return nil, nil, err
	}
	if stores.Calendars == nil {
		return nil, nil, usageErrorf("this store keeps no calendars")
	}
	ctx, cancel := s.call()
	defer cancel()
	all, _, err := stores.Calendars.Calendars(ctx)
	return stores.Calendars, all, err
}

func (s *session) calendarView(store schedule.CalendarStore, c schedule.Calendar) (calendarJSON, error) {
	view := calendarJSON{Name: c.Name, Timezone: c.Timezone, Dates: c.Dates, Weekly: c.Weekly, Cron: c.Cron, Users: []string{}}
	ctx, cancel := s.call()
	defer cancel()
	ids, err := store.CalendarUsers(ctx, c.Name)
	for _, id := range ids {
		view.Users = append(view.Users, string(id))
	}
	return view, err
}

func (s *session) listCalendars() error {
	store, all, err := s.calendarStore()
	if err != nil {
		return err
	}
	views, v := []calendarJSON{}, view{}
	for _, c := range all {
		one, err := s.calendarView(store, c)
		if err != nil {
			return err
		}
		views, v.names = append(views, one), append(v.names, c.Name)
	}
	v.data = views
	v.table = func(w io.Writer) {
		if len(views) == 0 {
			return
		}
		t := newTable("NAME", "TIMEZONE", "HOLDS", "USED BY")
		for _, c := range views {
			t.add(c.Name, or(c.Timezone, "UTC"), c.holds(), count(len(c.Users), "schedule"))
		}
		t.flush(w, s.painted(s.env.Terminal.Stdout))
	}
	if err := s.emit(v); err != nil {
		return err
	}
	if s.tabular() {
		s.footer(count(len(all), "calendar"))
	}
	return nil
}

// holds counts what is in the calendar.
func (c calendarJSON) holds() string {
	var parts []string
	for _, part := range []struct {
		n    int
		noun string
	}{{len(c.Dates), "date"}, {len(c.Weekly), "weekly window"}, {len(c.Cron), "cron window"}} {
		if part.n > 0 {
			parts = append(parts, count(part.n, part.noun))
		}
	}
	return strings.Join(parts, ", ")
}

// findCalendar returns a stored calendar.
func (s *session) findCalendar(name string) (schedule.CalendarStore, schedule.Calendar, error) {
	store, all, err := s.calendarStore()
	if err != nil {
		return nil, schedule.Calendar{}, err
	}
	var names []string
	for _, c := range all {
		if c.Name == name {
			return store, c, nil
		}
		names = append(names, c.Name)
	}
	near := didYouMean(name, names)
	if near == "" {
		near = "; see admin calendar list"
	}
	return nil, schedule.Calendar{}, codedErrorf(exitNotFound, "calendar %q does not exist in this namespace%s", clip(name, 60), near)
}

func (s *session) getCalendar(name string) error {
	store, c, err := s.findCalendar(name)
	if err != nil {
		return err
	}
	one, err := s.calendarView(store, c)
	if err != nil {
		return err
	}
	var users []string
	if s.tabular() {
		if users, err = s.userLines(one.Users); err != nil {
			return err
		}
	}
	return s.emit(view{names: []string{c.Name}, data: one, table: func(w io.Writer) {
		fmt.Fprintln(w, visible(c.Name))
		f := &sheet{}
		f.add("timezone", or(c.Timezone, "UTC"))
		f.add("dates", c.Dates...)
		f.add("weekly", c.Weekly...)
		f.add("cron", c.Cron...)
		f.add("used by", users...)
		f.write(w)
	}})
}

// userLines tells when the users of a calendar fire next.
func (s *session) userLines(names []string) ([]string, error) {
	shown := names[:min(len(names), maxListed)]
	if len(shown) == 0 {
		return []string{"no schedule"}, nil
	}
	entries, err := s.entriesOf(shown)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, name := range shown {
		if e, ok := entries[schedule.ID(name)]; ok {
			lines = append(lines, name+", next "+s.next(e))
		}
	}
	if more := len(names) - len(shown); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return lines, nil
}

func (s *session) entriesOf(names []string) (map[schedule.ID]schedule.Entry, error) {
	ids := make([]schedule.ID, len(names))
	for i, name := range names {
		ids[i] = schedule.ID(name)
	}
	ctx, cancel := s.call()
	defer cancel()
	return s.stores.Catalog.GetMany(ctx, ids)
}

type calendarDeleteFlags struct {
	yes, dryRun bool
	ifVersion   int64
}

func newCalendarDelete(s *session) *cobra.Command {
	f := &calendarDeleteFlags{}
	cmd := &cobra.Command{
		Use: "delete NAME", Short: "Delete a calendar that no schedule names",
		Long: `Delete a calendar. While a schedule names it, it is refused with exit code 6 and
the schedules are listed. On a terminal it asks. Without a terminal it needs
--yes, or it ends with exit code 3 and nothing is deleted.`,
		Example: "  admin calendar delete holidays-fr --yes",
		Args:    arguments(1, 1, "NAME"), ValidArgsFunction: s.completeCalendars,
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.deleteCalendar(f, args[0], cmd.Flags().Changed("if-version"))
		},
	}
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "check everything, delete nothing")
	cmd.Flags().Int64Var(&f.ifVersion, "if-version", 0, "only if the calendars together have this version, or exit code 6")
	return cmd
}

func (s *session) deleteCalendar(f *calendarDeleteFlags, name string, versioned bool) error {
	store, c, err := s.findCalendar(name)
	if err != nil {
		return err
	}
	one, err := s.calendarView(store, c)
	if err != nil {
		return err
	}
	if len(one.Users) == 0 && !f.dryRun {
		if err := s.consent(f.yes, "delete", "calendar", []string{c.Name + "  " + one.holds()}); err != nil {
			return err
		}
	}
	options := schedule.CalendarOptions{DryRun: f.dryRun}
	if versioned {
		options.IfVersion = &f.ifVersion
	}
	ctx, cancel := s.call()
	defer cancel()
	result, err := store.DeleteCalendar(ctx, name, options)
	if err != nil {
		return s.calendarFailed(name, options, err)
	}
	row := putJSON{Kind: "calendar", ID: name, Action: string(schedule.CalendarDeleted), DryRun: f.dryRun, Version: result.Version}
	return s.emit(view{names: []string{name}, data: row, table: func(w io.Writer) { fmt.Fprintln(w, visible(row.headline())) }})
}

// calendarFailed says what to do about a change that was refused.
func (s *session) calendarFailed(name string, options schedule.CalendarOptions, err error) error {
	var inUse *schedule.InUseError
	switch {
	case errors.As(err, &inUse):
		return codedErrorf(exitConflict, "%s", strings.TrimPrefix(inUse.Error(), "schedule: "))
	case errors.Is(err, schedule.ErrNotFound):
		return codedErrorf(exitNotFound, "calendar %q was deleted meanwhile", name)
	case errors.Is(err, schedule.ErrConflict):
		return codedErrorf(exitConflict, "the calendars do not have version %d any more: somebody changed one; see admin calendar get %s", *options.IfVersion, name)
	}
	return err
}

// completeCalendars offers the calendars that exist.
func (s *session) completeCalendars(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return s.offer(cmd, args, prefix, func(add func(name, about string)) error {
		_, all, err := s.calendarStore()
		for _, c := range all {
			add(c.Name, or(c.Timezone, "UTC"))
		}
		return err
	})
}
