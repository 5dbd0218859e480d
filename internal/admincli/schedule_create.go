package admincli

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

type createFlags struct {
	definitionFlags
	paused    bool
	ifVersion int64
	requestID string
	dryRun    bool
}

func newCreate(s *session) *cobra.Command {
	f := &createFlags{}
	cmd := &cobra.Command{
		Use: "create NAME (--cron E | --every D | --at T | --after D | --expression E) --type TASKTYPE", Short: "Create a schedule",
		Long: `Create a schedule. It fails with exit code 6 when NAME exists, unless --if-version
says which version it replaces. Everything is checked before anything is
written.`,
		Example: `  admin schedule create nightly-report --cron '30 2 * * *' --tz America/New_York --type report:build --queue reports --payload '{"account": 12345}'
  admin schedule create cache-warm --every 5m --type cache:warm --overlap skip
  admin schedule create launch --at '2027-01-04 09:00' --tz Europe/Berlin --type mail:launch --dry-run`,
		Args: arguments(1, 1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error { return s.create(cmd, f, args[0]) },
	}
	f.register(cmd)
	return cmd
}

func (f *createFlags) register(cmd *cobra.Command) {
	f.definitionFlags.register(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&f.paused, "paused", false, "create it paused")
	flags.Int64Var(&f.ifVersion, "if-version", 0, "replace this version; 0: it must not exist")
	flags.StringVar(&f.requestID, "request-id", "", "the same request within 24 h takes effect once")
	flags.BoolVar(&f.dryRun, "dry-run", false, "check and show everything, write nothing")
}

// definition turns the flags into a definition.
func (f *createFlags) definition(s *session, cmd *cobra.Command, name string) (schedule.Schedule, error) {
	id, err := validID(name)
	d := schedule.Schedule{ID: id, Paused: f.paused}
	if f.taskType == "" {
		err = errors.Join(err, usageErrorf("--type is missing: the task type that a worker has a handler for"))
	}
	err = errors.Join(err, f.specFlags.fill(&d, s.env.Now()), f.task(s, cmd.Flags(), &d))
	if f.requestID != "" {
		err = errors.Join(err, schedule.ValidateRequestID(f.requestID))
	}
	if f.ifVersion < 0 {
		err = errors.Join(err, &schedule.FieldError{Field: "if-version", Value: fmt.Sprint(f.ifVersion), Allowed: "0 or more"})
	}
	return d, err
}

func (s *session) create(cmd *cobra.Command, f *createFlags, name string) error {
	definition, err := f.definition(s, cmd, name)
	if err != nil {
		return err
	}
	compiled, err := s.compile(definition)
	if err == nil {
		err = checkCreate(compiled, s.env.Now())
	}
	if err != nil {
		return f.fromFlags(err)
	}
	definition = compiled.Definition()
	stores, err := s.store()
	if err != nil {
		return err
	}
	ctx, cancel := s.call()
	defer cancel()
	result, err := stores.Catalog.Put(ctx, definition, schedule.PutOptions{IfVersion: &f.ifVersion, RequestID: f.requestID, DryRun: f.dryRun})
	if errors.Is(err, schedule.ErrConflict) {
		return f.conflict(definition.ID)
	}
	if err != nil {
		return f.fromFlags(err)
	}
	if err := s.showPut(definition, result, f.dryRun); err != nil {
		return err
	}
	s.warnUnserved([]schedule.Schedule{definition})
	return nil
}

func (f *createFlags) conflict(id schedule.ID) error {
	if f.ifVersion == 0 {
		return codedErrorf(exitConflict, "schedule %q exists already: see admin schedule get %s; admin apply replaces it", id, id)
	}
	return codedErrorf(exitConflict, "schedule %q does not have version %d any more: see admin schedule get %s", id, f.ifVersion, id)
}

// A putJSON is what create and apply print for one schedule.
type putJSON struct {
	Kind       string   `json:"kind,omitempty"` // "calendar"; "" is a schedule
	ID         string   `json:"id"`
	Action     string   `json:"action"`
	DryRun     bool     `json:"dry_run,omitempty"`
	Version    int64    `json:"version"`
	Generation int64    `json:"generation"`
	NextAt     *string  `json:"next_at"`
	NextAtMS   *int64   `json:"next_at_ms"`
	Changes    []change `json:"changes,omitempty"`
	// Firings are those that appear and vanish; null when none does.
	Firings *firingsJSON `json:"firings,omitempty"`
	Error   string       `json:"error,omitempty"`
	// Of a calendar, whose version is that of all calendars: the schedules that
	// name it, and of those how many fire next at another time.
	Users int            `json:"users,omitempty"`
	Moved int            `json:"moved,omitempty"`
	Moves []calendarMove `json:"moves,omitempty"`
	// Silenced are the first 100 of those for which nothing is left to fire.
	Silenced []string `json:"silenced,omitempty"`
}

// actionOf says in one word what a put did.
func actionOf(r schedule.PutResult) string {
	switch {
	case r.Err != nil:
		return "failed"
	case r.Created:
		return "created"
	case r.Unchanged:
		return "unchanged"
	}
	return "updated"
}

// showPut prints what was written and when it fires next.
func (s *session) showPut(d schedule.Schedule, result schedule.PutResult, dryRun bool) error {
	reading := s.read(d)
	in := s.location(reading.zoneAt(result.NextAt))
	action := actionOf(result)
	return s.emit(view{
		names: []string{string(d.ID)},
		data: putJSON{ID: string(d.ID), Action: action, DryRun: dryRun, Version: result.Version, Generation: result.Generation,
			NextAt: iso(result.NextAt, in), NextAtMS: millis(result.NextAt)},
		table: func(w io.Writer) {
			f := &sheet{}
			f.add("when", reading.words())
			f.add("task", taskText(d))
			if !d.Starts.IsZero() {
				f.add("starts", when(d.Starts, s.env.Now(), in))
			}
			if !d.Ends.IsZero() {
				f.add("ends", when(d.Ends, s.env.Now(), in))
			}
			f.add("next", s.firstFiring(d, result.NextAt))
			if !d.Paused {
				f.add("then", s.comingAfter(d, result.NextAt, shownFirings-1)...)
			}
			f.add("clock changes", reading.clockChanges(s.env.Now())...)
			for _, warning := range reading.warnings() {
				f.add("careful", warning)
			}
			if dryRun {
				fmt.Fprintf(w, "%s would be %s; nothing was changed (dry run)\n", visible(string(d.ID)), action)
			} else {
				fmt.Fprintf(w, "%s %s, version %d\n", action, visible(string(d.ID)), result.Version)
			}
			f.write(w)
		},
	})
}

func (s *session) firstFiring(d schedule.Schedule, next time.Time) string {
	switch {
	case d.Paused:
		return none + " (paused; start it with: admin schedule resume " + string(d.ID) + ")"
	case next.IsZero():
		return none
	}
	return when(next, s.env.Now(), s.location(s.read(d).zoneAt(next)))
}
