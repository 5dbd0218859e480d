package admincli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

type backfillFlags struct {
	from, to, rate, overlap, resume string
	limit                           int64
	again, dryRun, wait, yes        bool
}

func newBackfill(s *session) *cobra.Command {
	f := &backfillFlags{}
	cmd := &cobra.Command{
		Use: "backfill NAME --from T --to T", Short: "Fire scheduled times of the past",
		Long: `Fire the scheduled times from --from to --to that have not fired. Any worker
makes the steps, so it goes on when this command ends. The firings have IDs of
their own and move no planned firing. While the schedule is paused it waits.

With --overlap buffer_all, the default, one runs after the other; allow opens
them at the rate, at most 100 at a time; skip passes over those that overlap.
--dry-run shows what became of each scheduled time before. More than 100 firings
ask for consent. On a terminal, or with --wait, it shows how far it is; Ctrl-C
then halts the backfill and names the ID with which --resume lets it go on.`,
		Example: `  admin schedule backfill cache-warm --from -1h --to now --dry-run
  admin schedule backfill cache-warm --from '2026-11-30 05:00' --to '2026-11-30 05:30' --rate 10/m
  admin schedule backfill cache-warm --from -1h --to now --overlap allow --max 5 -o json`,
		Args: arguments(1, 1, "NAME"), ValidArgsFunction: s.completeIDs,
		RunE: func(_ *cobra.Command, args []string) error { return s.backfill(f, args) },
	}
	cmd.Flags().StringVar(&f.from, "from", "", "first time, inclusive, such as '2026-11-29 00:00' or -6h")
	cmd.Flags().StringVar(&f.to, "to", "", "last time, inclusive; not in the future")
	cmd.Flags().StringVar(&f.rate, "rate", "1/s", "firings in a unit of time, such as 10/s, 30/m or 5/h")
	cmd.Flags().StringVar(&f.overlap, "overlap", "buffer_all", "allow, skip or buffer_all")
	cmd.Flags().Int64Var(&f.limit, "max", 0, "end after this many firings; 0 is all")
	cmd.Flags().BoolVar(&f.again, "again", false, "fire those that have fired as well")
	cmd.Flags().StringVar(&f.resume, "resume", "", "let the halted backfill of this ID go on")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show what would fire, change nothing")
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait for its end, also without a terminal")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
	return cmd
}

// A backfillJSON is what backfill prints.
type backfillJSON struct {
	ID         string             `json:"id"`
	BackfillID string             `json:"backfill_id"`
	Action     string             `json:"action"` // started, resumed, halted, ended or none
	DryRun     bool               `json:"dry_run,omitempty"`
	From       *string            `json:"from"`
	To         *string            `json:"to"`
	Overlap    string             `json:"overlap"`
	Matched    int                `json:"matched"` // scheduled times of the window
	Wanted     int                `json:"wanted"`  // of those, to be fired
	Opened     int64              `json:"opened"`
	Failed     int64              `json:"failed"`
	Times      []backfillTimeJSON `json:"times,omitempty"` // with --dry-run
}

// A backfillTimeJSON is one scheduled time of a dry run.
type backfillTimeJSON struct {
	At      *string `json:"at"`
	AtMS    *int64  `json:"at_ms"`
	Verdict string  `json:"verdict"` // "" none is known
	Fires   bool    `json:"fires"`
}

// Bounds of a backfill.
const (
	maxBackfilled = 100_000 // scheduled times of the window
	maxUnasked    = 100     // firings without consent
)

// parseRate reads N/s, N/m or N/h as the time between two.
func parseRate(text string) (time.Duration, error) {
	number, unit, _ := strings.Cut(text, "/")
	per := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil || per == 0 || n < 1 || per/time.Duration(n) < time.Millisecond {
		return 0, &schedule.FieldError{Field: "rate", Value: text, Allowed: "1/h to 1000/s, such as 10/s, 30/m or 5/h"}
	}
	return per / time.Duration(n), nil
}

func (s *session) backfill(f *backfillFlags, args []string) error {
	entries, err := s.named(args)
	if err != nil {
		return err
	}
	e := entries[0]
	if f.resume != "" {
		return s.resumeBackfill(f, e)
	}
	request, err := s.backfillRequest(f, e)
	if err != nil {
		return err
	}
	times, wanted, err := s.backfilled(e, claim.Backfill{From: request.From, To: request.To, Again: request.Again, Limit: request.Limit})
	if err != nil {
		return err
	}
	row := s.backfillRow(e, claim.Backfill{From: request.From, To: request.To, Overlap: request.Overlap}, "none")
	row.Matched, row.Wanted = len(times), wanted
	if f.dryRun {
		return s.showBackfill(e, row, times, request)
	}
	if wanted == 0 {
		s.note("nothing to do: %s match, all have fired or are pending", count(len(times), "scheduled time"))
		return s.emitBackfill(row, fmt.Sprintf("no firing of %s was opened", e.Schedule.ID))
	}
	if err := s.askBackfill(f, e, wanted); err != nil {
		return err
	}
	ctx, cancel := s.call()
	defer cancel()
	b, err := s.stores.Backfills.StartBackfill(ctx, request)
	if err != nil {
		return err
	}
	return s.attend(f, e, b, row, "started")
}

func (s *session) backfillRequest(f *backfillFlags, e schedule.Entry) (claim.BackfillRequest, error) {
	now, zone := s.env.Now(), s.location(s.read(e.Schedule).zone)
	request := claim.BackfillRequest{Schedule: e.Schedule.ID, ID: "bf", Overlap: schedule.Overlap(f.overlap), Limit: f.limit, Again: f.again}
	for _, end := range []struct {
		name, text string
		into       *time.Time
	}{{"from", f.from, &request.From}, {"to", f.to, &request.To}} {
		if end.text == "" {
			return request, usageErrorf("--%s is missing: which scheduled times?", end.name)
		}
		if err := instantInto(end.into, end.name, end.text, now, zone); err != nil {
			return request, err
		}
	}
	var err error
	if request.Every, err = parseRate(f.rate); err != nil {
		return request, err
	}
	if err := request.Complete(now); err != nil {
		return request, renamedTo(err, "limit", "max")
	}
	request.ID = "" // the store draws one
	return request, nil
}

// renamedTo gives a refused field the name of its flag.
func renamedTo(err error, field, flag string) error {
	var refused *schedule.FieldError
	if errors.As(err, &refused) && refused.Field == field {
		return renamed(err, flag)
	}
	return err
}

// A backfillTime is one scheduled time of the window.
type backfillTime struct {
	at      time.Time
	verdict string
	fires   bool
}

// backfilled lists the scheduled times of a window and counts those that fire.
func (s *session) backfilled(e schedule.Entry, b claim.Backfill) ([]backfillTime, int, error) {
	compiled, err := s.compile(e.Schedule)
	if err != nil {
		return nil, 0, err
	}
	var times []backfillTime
	wanted := 0
	for _, at := range upcoming(compiled, b.From.Add(-time.Millisecond), b.To, maxBackfilled+1) {
		t := backfillTime{at: at, fires: b.Wants(&e.Status, at) && (b.Limit == 0 || int64(wanted) < b.Limit)}
		if r, known := e.Status.VerdictAt(at); known {
			t.verdict = verdictWords[r.Verdict]
		} else if !e.Status.NextAt.IsZero() && !at.Before(e.Status.NextAt) {
			t.verdict = "pending"
		}
		if t.fires {
			wanted++
		}
		times = append(times, t)
	}
	if len(times) > maxBackfilled {
		return nil, 0, &schedule.FieldError{Field: "to", Value: b.To.UTC().Format(time.RFC3339), Allowed: fmt.Sprintf("at most %d scheduled times in one backfill", maxBackfilled)}
	}
	return times, wanted, nil
}

func (s *session) askBackfill(f *backfillFlags, e schedule.Entry, wanted int) error {
	if f.yes || wanted <= maxUnasked {
		return nil
	}
	lines := []string{fmt.Sprintf("%s: %d firings at %s, overlap %s", e.Schedule.ID, wanted, f.rate, f.overlap)}
	return s.consent(false, "backfill", "schedule", lines)
}

func (s *session) backfillRow(e schedule.Entry, b claim.Backfill, action string) backfillJSON {
	in := s.location(s.read(e.Schedule).zone)
	return backfillJSON{ID: string(e.Schedule.ID), BackfillID: b.ID, Action: action, From: iso(b.From, in), To: iso(b.To, in),
		Overlap: string(b.Overlap), Opened: b.Opened, Failed: b.Failed}
}

func (s *session) emitBackfill(row backfillJSON, lines ...string) error {
	return s.emit(view{names: []string{or(row.BackfillID, row.ID)}, data: row, table: func(w io.Writer) {
		for _, line := range lines {
			fmt.Fprintln(w, visible(line))
		}
	}})
}

// maxTimesShown bounds the rows of a dry run on a table.
const maxTimesShown = 1000

// showBackfill prints a dry run.
func (s *session) showBackfill(e schedule.Entry, row backfillJSON, times []backfillTime, request claim.BackfillRequest) error {
	row.DryRun = true
	t := newTable("DUE", "BEFORE", "NOW")
	for i, one := range times {
		in := s.location(one.at.Location())
		row.Times = append(row.Times, backfillTimeJSON{At: iso(one.at, in), AtMS: millis(one.at), Verdict: one.verdict, Fires: one.fires})
		if i < maxTimesShown {
			t.add(stamp(one.at, in), or(one.verdict, none), map[bool]string{true: "fires", false: none}[one.fires])
		}
	}
	return s.emit(view{names: []string{row.ID}, data: row, table: func(w io.Writer) {
		fmt.Fprintln(w, visible(fmt.Sprintf("%s of %s match, %d would fire (one in %s, overlap %s)", count(len(times), "scheduled time"), e.Schedule.ID,
			row.Wanted, schedule.FormatDuration(request.Every), request.Overlap)))
		in := s.location(s.read(e.Schedule).zoneAt(request.To))
		fmt.Fprintf(w, "from %s to %s\n", stamp(request.From, in), stamp(request.To, in))
		if len(times) > 0 {
			t.flush(w, s.painted(s.env.Terminal.Stdout))
		}
		if len(times) > maxTimesShown {
			fmt.Fprintf(w, "and %d more\n", len(times)-maxTimesShown)
		}
		fmt.Fprintln(w, "nothing was changed (dry run)")
	}})
}

// resumeBackfill lets a halted one go on.
func (s *session) resumeBackfill(f *backfillFlags, e schedule.Entry) error {
	if f.from != "" || f.to != "" || f.dryRun {
		return usageErrorf("--resume goes on with what was started: give no --from, --to or --dry-run")
	}
	if err := schedule.ValidateRequestID(f.resume); err != nil {
		return renamed(err, "resume")
	}
	ctx, cancel := s.call()
	defer cancel()
	b, err := s.stores.Backfills.ResumeBackfill(ctx, e.Schedule.ID, f.resume)
	if errors.Is(err, claim.ErrNoBackfill) {
		return codedErrorf(exitNotFound, "schedule %q has no backfill %q: it never was, or ended or was halted more than 7 days ago", e.Schedule.ID, f.resume)
	}
	if err != nil {
		return err
	}
	rest := b
	if !b.Cursor.IsZero() {
		rest.From = b.Cursor.Add(time.Millisecond)
	}
	_, left, err := s.backfilled(e, rest)
	if err != nil {
		return err
	}
	if b.Cursor.IsZero() {
		left = 0
	}
	row := s.backfillRow(e, b, "resumed")
	row.Wanted = int(b.Opened) + left
	return s.attend(f, e, b, row, "resumed")
}

// backfillPoll is how often a waiting command looks how far it is.
const backfillPoll = 300 * time.Millisecond

// attend waits for the end of a backfill where somebody looks at it, and
// otherwise says that it goes on by itself.
func (s *session) attend(f *backfillFlags, e schedule.Entry, b claim.Backfill, row backfillJSON, action string) error {
	row.BackfillID, row.Action = b.ID, action
	row.Opened, row.Failed = b.Opened, b.Failed
	onTerminal := s.env.Terminal.Stderr && s.env.Terminal.Stdout
	if b.EndedAt.IsZero() && !f.wait && !onTerminal {
		s.warnUnserved([]schedule.Schedule{e.Schedule})
		return s.emitBackfill(row, fmt.Sprintf("%s backfill %s of %s: %s; workers go on with it", action, b.ID, e.Schedule.ID, count(row.Wanted, "firing")))
	}
	s.note("backfill %s of %s, %s; Ctrl-C halts it", b.ID, e.Schedule.ID, count(row.Wanted, "firing"))
	b, err := s.untilEnded(b, row.Wanted)
	if errors.Is(err, errInterrupted) {
		return s.haltBackfill(e, row)
	}
	if err != nil {
		return err
	}
	row.Action, row.Opened, row.Failed = "ended", b.Opened, b.Failed
	line := fmt.Sprintf("backfill %s of %s ended: %s, %d failed", b.ID, e.Schedule.ID, count(int(b.Opened), "firing"), b.Failed)
	if !b.HaltedAt.IsZero() {
		row.Action, line = "halted", fmt.Sprintf("backfill %s of %s was halted by somebody else after %s", b.ID, e.Schedule.ID, count(int(b.Opened), "firing"))
	}
	return s.emitBackfill(row, line)
}

// untilEnded shows how far a backfill is until it ends or is halted.
func (s *session) untilEnded(b claim.Backfill, total int) (claim.Backfill, error) {
	bar := s.progress("firings")
	defer bar.end()
	ticker := time.NewTicker(backfillPoll)
	defer ticker.Stop()
	for b.EndedAt.IsZero() && b.HaltedAt.IsZero() {
		bar.show(int(b.Opened)-b.Open, max(total, int(b.Opened)))
		select {
		case <-s.ctx.Done():
			return b, errInterrupted
		case <-ticker.C:
		}
		ctx, cancel := s.call()
		now, err := s.stores.Backfills.Backfill(ctx, b.Schedule, b.ID)
		cancel()
		switch {
		case s.ctx.Err() != nil:
			return b, errInterrupted
		case err != nil:
			return b, err
		}
		b = now
	}
	return b, nil
}

// haltBackfill halts what the operator interrupted, and says how to go on.
func (s *session) haltBackfill(e schedule.Entry, row backfillJSON) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), s.timeout)
	defer cancel()
	b, err := s.stores.Backfills.HaltBackfill(ctx, e.Schedule.ID, row.BackfillID)
	if err != nil {
		s.warn("backfill %s could not be halted and goes on: %s", row.BackfillID, describe(err, s.address))
		return errInterrupted
	}
	row.Action, row.Opened, row.Failed = "halted", b.Opened, b.Failed
	err = s.emitBackfill(row, fmt.Sprintf("halted backfill %s of %s after %s; go on with:", b.ID, e.Schedule.ID, count(int(b.Opened), "firing")),
		fmt.Sprintf("  admin schedule backfill %s --resume %s", e.Schedule.ID, b.ID))
	return errors.Join(err, errInterrupted)
}
