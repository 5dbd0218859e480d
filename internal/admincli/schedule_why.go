package admincli

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

func newWhy(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "why NAME [INSTANT]", Short: "Say what became of one scheduled time, and why",
		Long: `Answer for one instant: it fired and how its runs ended, or why it did not,
was not due, or has not been decided yet and whom it waits for. A time of day such as 09:00 is the last
one that passed; without an instant it is the newest scheduled time. There is an
answer for every instant, and the exit code is 0.`,
		Example: `  admin schedule why billing-close
  admin schedule why billing-close 09:00
  admin schedule why nightly-report '2026-11-29 02:30' -o json`,
		Args: arguments(1, 2, "NAME"), ValidArgsFunction: s.completeIDs,
		RunE: func(_ *cobra.Command, args []string) error { return s.why(args) },
	}
}

// A whyJSON is what why prints.
type whyJSON struct {
	ID   string  `json:"id"`
	At   *string `json:"at"`
	AtMS *int64  `json:"at_ms"`
	// Answer is a verdict (fired, coalesced, missed, overlap, paused, skipped,
	// excluded, superseded, unreadable), or open, pending, ahead, skip_asked, not_scheduled,
	// before_creation, completed, forgotten or unusable.
	Answer string       `json:"answer"`
	Text   string       `json:"text"`
	Hint   string       `json:"hint"`
	Range  *whyRange    `json:"range"` // scheduled times with the same verdict
	Runs   []whyRunJSON `json:"runs"`
}

// A whyRange is a verdict range.
type whyRange struct {
	First *string `json:"first"`
	Last  *string `json:"last"`
	Count int64   `json:"count"` // 0: not counted
}

// A whyRunJSON is one run of the instant.
type whyRunJSON struct {
	FiringID   string  `json:"firing_id"`
	Outcome    string  `json:"outcome"`
	Attempt    int     `json:"attempt"`
	StartedAt  *string `json:"started_at"`
	EndedAt    *string `json:"ended_at"`
	DurationMS int64   `json:"duration_ms"`
	Worker     string  `json:"worker"`
	Error      string  `json:"error"`
}

var timeOfDay = regexp.MustCompile(`^\d\d?:\d\d(:\d\d)?$`)

// askedAt reads the instant: a bare time of day is the last one that passed.
func (s *session) askedAt(text string, zone *time.Location) (time.Time, error) {
	now := s.env.Now()
	var at time.Time
	if !timeOfDay.MatchString(text) {
		return at, instantInto(&at, "instant", text, now, zone)
	}
	if len(text) == 4 || len(text) == 7 {
		text = "0" + text
	}
	if err := instantInto(&at, "instant", "today "+text, now, zone); err != nil || !at.After(now) {
		return at, err
	}
	return at, instantInto(&at, "instant", "yesterday "+text, now, zone)
}

func (s *session) why(args []string) error {
	entries, err := s.named(args[:1])
	if err != nil {
		return err
	}
	e := entries[0]
	q := &question{entry: e, r: s.read(e.Schedule), now: s.env.Now()}
	zone := s.location(q.r.zone)
	if len(args) == 2 {
		if q.at, err = s.askedAt(args[1], zone); err != nil {
			return err
		}
	} else if q.at = s.newest(q); q.at.IsZero() {
		return codedErrorf(exitCondition, "schedule %q has had no scheduled time yet; next firing %s", e.Schedule.ID, s.next(e))
	}
	q.at = q.at.Truncate(time.Millisecond)
	q.in = s.location(q.r.zoneAt(q.at))
	if err := checkShown(q.at, args[len(args)-1], q.in); err != nil {
		return err
	}
	if err := s.learn(q); err != nil {
		return err
	}
	a := q.answer()
	if err := s.waits(q, &a); err != nil {
		return err
	}
	return s.emit(view{names: []string{a.word}, data: q.json(a), table: func(w io.Writer) { s.showWhy(w, q, a) }})
}

// newest is the last scheduled time up to now.
func (s *session) newest(q *question) time.Time {
	if q.r.compiled == nil {
		return q.entry.Status.NextAt
	}
	at, ok := q.r.compiled.Prev(q.now.Add(time.Millisecond))
	if n := len(q.entry.Status.Verdicts); !ok && n > 0 {
		at = q.entry.Status.Verdicts[n-1].Last
	}
	if !at.IsZero() && at.Before(q.entry.Status.CreatedAt) {
		return q.entry.Status.NextAt
	}
	return at
}

// learn reads the runs of the instant and its open firing.
func (s *session) learn(q *question) error {
	ctx, cancel := s.call()
	defer cancel()
	runs, err := s.stores.Runs.Runs(ctx, q.entry.Schedule.ID, maxRuns)
	if err != nil {
		return err
	}
	id := claim.ScheduledFiring(q.entry.Schedule.ID, q.entry.Status.Generation, q.at)
	for _, r := range runs {
		if r.Firing == id {
			q.runs = append(q.runs, r)
		}
	}
	return s.learnOpen(ctx, q, id)
}

func (s *session) learnOpen(ctx context.Context, q *question, id claim.FiringID) error {
	if q.at.UnixMilli() <= 0 { // no firing has such an ID
		return nil
	}
	open, now, err := s.stores.Firings.Firings(ctx, []claim.FiringID{id})
	if err != nil {
		return err
	}
	if !now.IsZero() {
		q.now = now
	}
	if f, ok := open[id]; ok {
		q.open = &f
		s.seeTask(q.open)
	}
	return nil
}

// seeTask looks for the task of a firing whose record says only that it was
// promised: the ledger hears of the push from the task's run or the auditor, up
// to BELFRY_AUDIT_AFTER later, and until then the answer would name workers that
// claim instead of those that serve the queue. What the queue does not tell stays
// as the record has it.
func (s *session) seeTask(f *claim.OpenFiring) {
	if f.State != claim.FiringIntent || s.stores.Tasks == nil {
		return
	}
	if _, err := s.stores.Tasks.GetTaskInfo(f.Queue, f.Firing.TaskID(f.Redrives)); err == nil {
		f.State = claim.FiringEnqueued
	}
}

func (q *question) json(a answer) whyJSON {
	out := whyJSON{ID: string(q.entry.Schedule.ID), At: iso(q.at, q.in), AtMS: millis(q.at), Answer: a.word, Text: a.text, Hint: a.hint, Runs: []whyRunJSON{}}
	if r := a.verdict; r != nil && !r.First.IsZero() {
		out.Range = &whyRange{First: iso(r.First, q.in), Last: iso(r.Last, q.in), Count: r.Count}
	}
	for _, r := range q.runs {
		out.Runs = append(out.Runs, whyRunJSON{FiringID: string(r.Firing), Outcome: string(r.Outcome), Attempt: r.Attempt, StartedAt: iso(r.Started, q.in),
			EndedAt: iso(r.Ended, q.in), DurationMS: r.Duration.Milliseconds(), Worker: r.Worker, Error: r.Error})
	}
	return out
}

func (s *session) showWhy(w io.Writer, q *question, a answer) {
	fmt.Fprintln(w, visible(fmt.Sprintf("%s, %s", q.entry.Schedule.ID, when(q.at, q.now, q.in))))
	line := func(name, text string) { fmt.Fprintf(w, "  %-8s  %s\n", name, visible(text)) }
	line(strings.ReplaceAll(a.word, "_", " "), a.text)
	if r := a.verdict; r != nil && r.Last.After(r.First) && r.Verdict != schedule.VerdictFired {
		n := "an unknown number of scheduled times"
		if r.Count > 0 {
			n = count(int(r.Count), "scheduled time")
		}
		line("same", fmt.Sprintf("%s from %s to %s", n, stamp(r.First, q.in), stamp(r.Last, q.in)))
	}
	for _, r := range q.runs {
		text := fmt.Sprintf("%s, attempt %d", r.Outcome, r.Attempt)
		if !r.Started.IsZero() {
			text += fmt.Sprintf(", started %s, took %s", stamp(r.Started, q.in), fine(max(0, r.Duration)))
		}
		if r.Worker != "" {
			text += ", on " + r.Worker
		}
		if r.Error != "" {
			text += ": " + clip(r.Error, maxCell)
		}
		line("run", text)
	}
	if a.hint != "" {
		line("hint", a.hint)
	}
}
