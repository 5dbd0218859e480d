package admincli

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

type eventFlags struct {
	kinds  []string
	since  string
	limit  int
	follow bool
}

func newEvents(s *session) *cobra.Command {
	f := &eventFlags{}
	cmd := &cobra.Command{
		Use: "events [NAME]", Short: "Show what happened to schedules",
		Long: `Show the newest events, oldest first: schedules that were created, updated,
removed, paused, resumed, disabled or completed, triggers, lost firings, skips
and backfills. Some 10,000 are kept for each shard. Single firings are not among
them: see admin schedule history and admin schedule why. With --follow new ones
are printed as they come.`,
		Example: `  admin events
  admin events cache-warm --since 24h -o jsonl
  admin events --type created --type paused`,
		Args: arguments(0, 1, "NAME"), ValidArgsFunction: s.completeIDs,
		RunE: func(_ *cobra.Command, args []string) error { return s.events(f, args) },
	}
	cmd.Flags().StringArrayVar(&f.kinds, "type", nil, "only this type of event, such as paused; can be given several times")
	cmd.Flags().StringVar(&f.since, "since", "", "only what happened since, such as 24h")
	cmd.Flags().IntVarP(&f.limit, "limit", "n", 50, "look at this many of the newest events")
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "go on with what happens from now on, until interrupted")
	return cmd
}

// An eventJSON is one event.
type eventJSON struct {
	At         *string `json:"at"`
	AtMS       *int64  `json:"at_ms"`
	Type       string  `json:"type"`
	ID         string  `json:"id"`
	Generation int64   `json:"generation"`
	Detail     string  `json:"detail"`
}

// maxEvents is what one look reads at most.
const maxEvents = 1000

// check refuses flags that mean nothing.
func (f *eventFlags) check(s *session) (since time.Time, err error) {
	if f.limit < 1 || f.limit > maxEvents {
		return since, &schedule.FieldError{Field: "limit", Value: fmt.Sprint(f.limit), Allowed: fmt.Sprintf("1 to %d", maxEvents)}
	}
	var known []string
	for _, kind := range schedule.EventKinds {
		known = append(known, string(kind))
	}
	for _, kind := range f.kinds {
		if err := oneOf("type", kind, known...); err != nil {
			return since, err
		}
	}
	if f.follow && (s.flags.format == formatJSON || s.flags.format == formatYAML) {
		return since, &schedule.FieldError{Field: "output", Value: s.flags.format, Allowed: "table, jsonl or name with --follow, since a document has an end"}
	}
	if f.since != "" {
		period, err := flagDuration("since", f.since)
		if err != nil {
			return since, err
		}
		since = s.env.Now().Add(-period)
	}
	return since, nil
}

func (s *session) events(f *eventFlags, args []string) error {
	since, err := f.check(s)
	if err != nil {
		return err
	}
	var only schedule.ID
	if len(args) == 1 {
		if only, err = validID(args[0]); err != nil {
			return err
		}
	}
	stores, err := s.store()
	if err != nil {
		return err
	}
	wanted := func(e schedule.Event) bool {
		return (only == "" || e.Schedule == only) && !e.At.Before(since) &&
			(len(f.kinds) == 0 || slices.Contains(f.kinds, string(e.Kind)))
	}
	l := &eventLook{s: s, log: stores.Events, wanted: wanted, table: newTable("TIME", "TYPE", "SCHEDULE", "DETAIL")}
	if err := l.look(f.limit); err != nil || !f.follow {
		if l.shown == 0 && err == nil {
			s.note("%s", f.none(only))
		}
		return err
	}
	return l.follow()
}

// none says how far the look went that found nothing.
func (f *eventFlags) none(only schedule.ID) string {
	if only == "" && f.since == "" && len(f.kinds) == 0 {
		return "no events"
	}
	of := ""
	if only != "" {
		of = " of " + string(only)
	}
	if f.limit == maxEvents {
		return fmt.Sprintf("no such event%s among the newest %d", of, f.limit)
	}
	return fmt.Sprintf("no such event%s among the newest %d; --limit looks at more", of, f.limit)
}

// An eventLook is where one reader of events stands.
type eventLook struct {
	s      *session
	log    schedule.EventLog
	wanted func(schedule.Event) bool
	table  *table
	cursor string
	shown  int
}

// look prints the events since the last look.
func (l *eventLook) look(limit int) error {
	ctx, cancel := l.s.call()
	defer cancel()
	events, next, err := l.log.Events(ctx, l.cursor, limit)
	if err != nil {
		return err
	}
	l.cursor = next
	events = slices.DeleteFunc(events, func(e schedule.Event) bool { return !l.wanted(e) })
	l.shown += len(events)
	views, v := []eventJSON{}, view{}
	zone := l.s.location(time.UTC)
	for _, e := range events {
		views = append(views, eventJSON{At: iso(e.At, zone), AtMS: millis(e.At), Type: string(e.Kind), ID: string(e.Schedule),
			Generation: e.Generation, Detail: e.Detail})
		v.names = append(v.names, string(e.Schedule))
		l.table.add(e.At.In(zone).Format("2006-01-02 15:04:05 MST"), string(e.Kind), string(e.Schedule), e.Detail)
	}
	v.data = views
	v.table = func(w io.Writer) {
		if len(views) > 0 {
			l.table.flush(w, l.s.painted(l.s.env.Terminal.Stdout))
		}
	}
	return l.s.emit(v)
}

// followEvery is how often follow looks.
const followEvery = 500 * time.Millisecond

// follow looks until the command is interrupted. An error is told once; it
// goes on when the store answers again.
func (l *eventLook) follow() error {
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	told := false
	for {
		select {
		case <-l.s.ctx.Done():
			return errInterrupted
		case <-ticker.C:
		}
		err := l.look(maxEvents)
		if l.s.out.err != nil {
			return nil // Run reports it
		}
		if err != nil && !told && l.s.ctx.Err() == nil {
			l.s.warn("%s", describe(err, l.s.address))
		}
		told = err != nil
	}
}
