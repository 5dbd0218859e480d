package admincli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// verdictFilters are the words of history --verdict.
var verdictFilters = []string{"fired", "missed", "skipped", "failed", "late", "coalesced", "overlap", "paused", "excluded", "superseded", "unreadable"}

// verdictsOf are the verdicts that a word stands for; a word that is not here
// is its own verdict. late and failed are no verdicts: they come from the run
// log.
var verdictsOf = map[string][]string{
	"missed":  {"missed", "coalesced"},
	"skipped": {"skipped", "overlap", "paused", "excluded"},
}

// A historyJSON is what history --verdict prints for scheduled times that share
// a verdict.
type historyJSON struct {
	Verdict string  `json:"verdict"` // pending for one that is due and late
	Detail  string  `json:"detail,omitempty"`
	Count   *int64  `json:"count"` // scheduled times in it; null: not counted
	FirstAt *string `json:"first_at"`
	FirstMS *int64  `json:"first_at_ms"`
	LastAt  *string `json:"last_at"`
	LastMS  *int64  `json:"last_at_ms"`
	LateMS  *int64  `json:"late_ms"` // with late only: how long after the scheduled time it began
	// Runs are the attempts that the run log still has, newest first.
	Runs []runJSON `json:"runs"`

	first, last time.Time
}

func (s *session) verdicts(f *historyFlags, e schedule.Entry, since time.Time) error {
	grace, err := flagDuration("grace", f.grace)
	if err != nil {
		return err
	}
	var runs []claim.RunRecord
	err = s.within(func(ctx context.Context) (err error) {
		runs, err = s.stores.Runs.Runs(ctx, e.Schedule.ID, maxRuns)
		return err
	})
	if err != nil {
		return err
	}
	in := s.location(s.read(e.Schedule).zone)
	attempts := attemptsOf(runs)
	rows := []historyJSON{} // an empty list is one for machines
	switch f.verdict {
	case "failed":
		rows = append(rows, failedTimes(attempts, in)...)
	case "late":
		rows = append(rows, lateTimes(e, attempts, grace, s.env.Now(), in)...)
	default:
		rows = append(rows, s.ranges(f.verdict, e, attempts, in)...)
	}
	rows = slices.DeleteFunc(rows, func(r historyJSON) bool { return r.last.Before(since) })
	slices.SortStableFunc(rows, func(a, b historyJSON) int { return b.last.Compare(a.last) })
	more := len(rows) > f.limit
	rows = rows[:min(len(rows), f.limit)]
	v := view{data: rows, table: func(w io.Writer) { s.showVerdicts(w, rows, in) }}
	for _, r := range rows {
		v.names = append(v.names, r.last.In(in).Format(rfc3339Milli))
	}
	if err := s.emit(v); err != nil {
		return err
	}
	if more {
		s.note("there are more; raise --limit")
	}
	s.noteReach(f, e, runs, len(rows), in)
	return nil
}

// noteReach says how far back the answer can be known.
func (s *session) noteReach(f *historyFlags, e schedule.Entry, runs []claim.RunRecord, shown int, in *time.Location) {
	if shown == 0 {
		s.note("%s: none of the scheduled times that are known", f.verdict)
	}
	fromLog := f.verdict == "failed" || f.verdict == "late"
	switch all := e.Status.Verdicts; {
	case fromLog && len(runs) == 0:
		s.note("the run log is empty")
	case fromLog:
		s.note("from %s in the log, which goes back to %s", count(len(runs), "attempt"), stamp(runs[len(runs)-1].Ended, in))
	case len(all) > 0 && !all[0].First.IsZero():
		s.note("the record goes back to %s", stamp(all[0].First, in))
	}
	if fromLog && e.Status.Open > 0 {
		s.note("%s not ended: not in the log yet", openFirings(e.Status.Open))
	}
}

func openFirings(n int) string {
	if n == 1 {
		return "1 firing has"
	}
	return fmt.Sprintf("%d firings have", n)
}

// attempts are the runs in the log of scheduled times, by scheduled time in
// Unix milliseconds, newest first.
type attempts map[int64][]claim.RunRecord

func attemptsOf(runs []claim.RunRecord) attempts {
	all := attempts{}
	for _, r := range runs {
		firing, err := claim.ParseFiringID(string(r.Firing))
		if err == nil && firing.Kind == claim.KindScheduled {
			all[firing.ScheduledAt.UnixMilli()] = append(all[firing.ScheduledAt.UnixMilli()], r)
		}
	}
	return all
}

// oneTime is a row of a single scheduled time.
func oneTime(verdict string, at time.Time, runs []claim.RunRecord, in *time.Location) historyJSON {
	single := int64(1)
	row := historyJSON{Verdict: verdict, Count: &single, FirstAt: iso(at, in), FirstMS: millis(at), LastAt: iso(at, in), LastMS: millis(at),
		Runs: []runJSON{}, first: at, last: at}
	for _, r := range runs {
		row.Runs = append(row.Runs, newRunJSON(r, in))
	}
	return row
}

// failedTimes fired, and their last attempt failed or was lost.
func failedTimes(all attempts, in *time.Location) []historyJSON {
	var rows []historyJSON
	for ms, runs := range all {
		if last := runs[0].Outcome; last == claim.OutcomeFailed || last == claim.OutcomeLost {
			rows = append(rows, oneTime("fired", time.UnixMilli(ms), runs, in))
		}
	}
	return rows
}

// lateTimes began late by their first attempt, or are due and nobody has come.
func lateTimes(e schedule.Entry, all attempts, grace time.Duration, now time.Time, in *time.Location) []historyJSON {
	var rows []historyJSON
	allowed := grace + e.Schedule.Jitter
	add := func(verdict string, at time.Time, runs []claim.RunRecord, late time.Duration) {
		row := oneTime(verdict, at, runs, in)
		ms := late.Milliseconds()
		row.LateMS = &ms
		rows = append(rows, row)
	}
	for ms, runs := range all {
		first := runs[len(runs)-1]
		late := first.Started.Sub(time.UnixMilli(ms))
		if first.Attempt == 1 && !first.Started.IsZero() && late > allowed { // of later attempts alone nobody knows
			add("fired", time.UnixMilli(ms), runs, late)
		}
	}
	status := &e.Status
	if waits := now.Sub(status.NextAt); status.State == schedule.StateActive && !status.NextAt.IsZero() && !status.Claimed && now.Sub(status.DueAt) > grace {
		add("pending", status.NextAt, nil, waits)
	}
	return rows
}

// ranges are those of the record whose verdict the word stands for.
func (s *session) ranges(word string, e schedule.Entry, all attempts, in *time.Location) []historyJSON {
	wanted := verdictsOf[word]
	if wanted == nil {
		wanted = []string{word}
	}
	var rows []historyJSON
	for i, v := range s.verdictsJSON(e) {
		if !slices.Contains(wanted, v.Verdict) {
			continue
		}
		r := e.Status.Verdicts[i]
		row := historyJSON{Verdict: v.Verdict, Detail: v.Detail, Count: v.Count, FirstAt: iso(r.First, in), FirstMS: v.FirstMS, LastAt: iso(r.Last, in), LastMS: v.LastMS,
			Runs: []runJSON{}, first: r.First, last: r.Last}
		if v.Verdict == "fired" {
			row.Runs = all.within(r.First, r.Last, in)
		}
		rows = append(rows, row)
	}
	return rows
}

// within are the attempts of the scheduled times of a range, newest first.
func (a attempts) within(first, last time.Time, in *time.Location) []runJSON {
	var found []claim.RunRecord
	for ms, runs := range a {
		if at := time.UnixMilli(ms); !at.Before(first) && !at.After(last) {
			found = append(found, runs...)
		}
	}
	slices.SortStableFunc(found, func(x, y claim.RunRecord) int { return y.Ended.Compare(x.Ended) })
	out := []runJSON{}
	for _, r := range found {
		out = append(out, newRunJSON(r, in))
	}
	return out
}

func (s *session) showVerdicts(w io.Writer, rows []historyJSON, in *time.Location) {
	if len(rows) == 0 {
		return
	}
	t := newTable("VERDICT", "TIMES", "FIRST", "LAST", "LATE", "RUNS IN THE LOG")
	for _, r := range rows {
		times, first, last, late := "?", none, none, none
		if !r.first.IsZero() {
			first = when(r.first, s.env.Now(), in)
		}
		if r.Count != nil {
			times = fmt.Sprint(*r.Count)
		}
		if !r.last.Equal(r.first) {
			last = stamp(r.last, in)
		}
		if r.LateMS != nil {
			late = fine(time.Duration(*r.LateMS) * time.Millisecond)
		}
		verdict := r.Verdict
		if r.Detail != "" {
			verdict += " (" + r.Detail + ")"
		}
		t.add(verdict, times, first, last, late, outcomesOf(r.Runs))
	}
	t.flush(w, s.painted(s.env.Terminal.Stdout))
}

// outcomesOf counts the attempts by outcome, and shows the newest error.
func outcomesOf(runs []runJSON) string {
	if len(runs) == 0 {
		return none
	}
	var parts []string
	for _, outcome := range runOutcomes {
		n := 0
		for _, r := range runs {
			if r.Outcome == outcome {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, outcome))
		}
	}
	text := strings.Join(parts, ", ")
	if runs[0].Error != "" {
		text += ": " + clip(runs[0].Error, maxCell)
	}
	return text
}
