package admincli

import (
	"fmt"
	"slices"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A question is everything that is known of one instant of a schedule.
type question struct {
	entry schedule.Entry
	r     reading
	runs  []claim.RunRecord // of the instant, newest first
	open  *claim.OpenFiring // its firing, while it is open
	at    time.Time
	now   time.Time // the store's clock
	in    *time.Location
}

// An answer says what became of an instant.
type answer struct {
	word    string // the verdict, or why there is none
	text    string // one sentence
	verdict *schedule.VerdictRange
	hint    string
}

// verdictWords are the verdicts in output.
var verdictWords = map[schedule.Verdict]string{
	schedule.VerdictFired: "fired", schedule.VerdictCoalesced: "coalesced", schedule.VerdictMissed: "missed",
	schedule.VerdictOverlap: "overlap", schedule.VerdictPaused: "paused", schedule.VerdictSkipped: "skipped",
	schedule.VerdictExcluded: "excluded", schedule.VerdictSuperseded: "superseded",
	schedule.VerdictUnreadable: "unreadable",
}

// scheduled reports whether the instant is a scheduled time of the present
// definition.
func (q *question) scheduled() bool {
	if q.r.compiled == nil {
		return false
	}
	next, ok := q.r.compiled.Next(q.at.Add(-time.Millisecond))
	return ok && next.Equal(q.at) || q.at.Equal(q.entry.Status.NextAt)
}

// answer never fails to say something. What is known for certain comes first.
func (q *question) answer() answer {
	status := &q.entry.Status
	r, known := status.VerdictAt(q.at)
	switch {
	case q.open != nil:
		return q.openFiring()
	case len(q.runs) > 0:
		text := "it fired, and ran"
		if last := q.runs[0]; last.Outcome == claim.OutcomeCancelled && !slices.ContainsFunc(q.runs, func(r claim.RunRecord) bool { return !r.Started.IsZero() }) {
			text = "it fired, and was cancelled before it ran"
		}
		return answer{word: "fired", text: text, verdict: &r}
	case q.at.After(q.now):
		return q.ahead()
	case q.at.Before(status.CreatedAt):
		return answer{word: "before_creation", text: "the schedule did not exist yet: it was created " + when(status.CreatedAt, q.now, q.in)}
	case q.r.err != nil:
		return answer{word: "unusable", text: "the stored definition cannot be used: " + describe(flatten(q.r.err)[0], ""),
			hint: "put it again: admin schedule edit " + string(q.entry.Schedule.ID)}
	case known && (q.scheduled() || q.editedSince()):
		return q.judged(r)
	case !q.scheduled():
		return q.unscheduled()
	case !status.NextAt.IsZero() && !q.at.Before(status.NextAt):
		return q.pending()
	case status.State == schedule.StateCompleted && len(status.Verdicts) > 0 && q.at.After(status.Verdicts[len(status.Verdicts)-1].Last):
		return answer{word: "completed", text: "the schedule was completed: nothing was left to fire (limit, ends or its last at)"}
	case len(status.Verdicts) > 0 && q.at.Before(status.Verdicts[0].First) && len(status.Verdicts) > 32:
		return answer{word: "forgotten", text: "the history goes back to " + when(status.Verdicts[0].First, q.now, q.in) + " and not further"}
	}
	return answer{word: "not_scheduled", text: "the definition that was in force then had no scheduled time there: it was edited since"}
}

// editedSince reports whether another definition may have been in force.
func (q *question) editedSince() bool {
	return q.entry.Status.Version > 1 && q.entry.Status.UpdatedAt.After(q.at)
}

// openFiring words where the firing of the instant stands.
func (q *question) openFiring() answer {
	f := q.open
	a := answer{word: "open"}
	switch f.State {
	case claim.FiringIntent:
		a.text = "a worker claimed it " + relative(f.OpenedAt, q.now) + "; its task is in queue " + f.Queue + ", or will be"
	case claim.FiringEnqueued:
		a.text = "it fired: its task is in queue " + f.Queue + " and has not begun"
		a.hint = "see whether a worker serves that queue: admin queue list"
	case claim.FiringRunning:
		a.text = fmt.Sprintf("it fired and runs now, attempt %d on %s", f.Attempt, or(f.Worker, "a worker"))
	case claim.FiringWaiting:
		a.text = fmt.Sprintf("it fired; attempt %d failed and another follows", f.Attempt)
	case claim.FiringBuffered:
		a.text = "it waits in the buffer for an open firing to end"
	}
	switch {
	case f.CancelByHand:
		a.text += "; an operator asked it to end: admin events " + string(q.entry.Schedule.ID) + " --type cancel_asked"
	case f.CancelWanted:
		a.text += "; a newer firing wants it to end"
	}
	return a
}

// ahead answers for an instant of the future.
func (q *question) ahead() answer {
	status := &q.entry.Status
	if !q.scheduled() {
		return q.unscheduled()
	}
	for _, at := range status.Skips {
		if at.Equal(q.at) {
			return answer{word: "skip_asked", text: "it lies ahead and will be skipped: an operator asked for that",
				hint: fmt.Sprintf("take it back: admin schedule unskip %s '%s'", q.entry.Schedule.ID, q.at.In(q.in).Format(rfc3339Milli))}
		}
	}
	a := answer{word: "ahead", text: "it lies ahead: due " + when(q.at, q.now, q.in)}
	if status.State != schedule.StateActive {
		a.text += "; the schedule is " + string(status.State) + " now" + q.pausedBy()
	}
	return a
}

// unscheduled answers for an instant at which the definition does not fire.
func (q *question) unscheduled() answer {
	d := q.entry.Schedule
	if q.r.compiled == nil {
		return answer{word: "not_scheduled", text: "the stored definition cannot be used"}
	}
	if _, delay := q.r.compiled.Delay(); delay {
		return answer{word: "not_scheduled", text: "the schedule fires a delay after its last run ended, and nothing was planned for then"}
	}
	if spec, ok := q.r.compiled.Spec().Next(q.at.Add(-time.Millisecond)); ok && spec.Equal(q.at) {
		switch {
		case !d.Starts.IsZero() && q.at.Before(d.Starts):
			return answer{word: "excluded", text: "it lies before starts, " + when(d.Starts, q.now, q.in)}
		case !d.Ends.IsZero() && !q.at.Before(d.Ends):
			return answer{word: "excluded", text: "it lies at or after ends, " + when(d.Ends, q.now, q.in)}
		}
		return answer{word: "excluded", text: "an exception, a calendar or the only windows leave it out"}
	}
	a := answer{word: "not_scheduled", text: "it is no scheduled time: " + q.r.words()}
	if prev, ok := q.r.compiled.Prev(q.at); ok {
		a.text += "; before it " + stamp(prev, q.in)
	}
	if next, ok := q.r.compiled.Next(q.at); ok {
		a.text += ", after it " + stamp(next, q.in)
	}
	return a
}

// pending answers for an instant that is due and has no verdict yet.
func (q *question) pending() answer {
	status := &q.entry.Status
	id := q.entry.Schedule.ID
	switch {
	case status.State == schedule.StatePaused:
		return answer{word: "pending", text: "it is due and waits: the schedule is paused" + q.pausedBy() + "; missed " + string(missedPolicy(q.entry.Schedule)) + " decides when it is resumed",
			hint: "admin schedule resume " + string(id)}
	case status.State == schedule.StateDisabled:
		return answer{word: "pending", text: "it is due and waits: " + count(int(status.ConsecutiveFails), "failure") + " in a row disabled the schedule" + coolDown(status.ProbeAt, q.now, q.in),
			hint: "admin schedule history " + string(id) + ", then admin schedule resume " + string(id)}
	case status.Claimed && q.at.Equal(status.NextAt):
		return answer{word: "pending", text: "it is due and a worker acts on it now"}
	case status.DueAt.After(q.now) && q.at.Equal(status.NextAt):
		return answer{word: "pending", text: "it is delayed by jitter or put aside until " + when(status.DueAt, q.now, q.in)}
	}
	return answer{word: "pending", text: "it is due, and no worker has claimed it yet", hint: "see whether a worker runs: admin worker list"}
}

func (q *question) pausedBy() string {
	status := &q.entry.Status
	text := ""
	if status.PausedBy != "" {
		text += " by " + status.PausedBy
	}
	if status.PauseReason != "" {
		text += ": " + status.PauseReason
	}
	if !status.PausedUntil.IsZero() {
		text += ", until " + when(status.PausedUntil, q.now, q.in)
	}
	return text
}

// judged words a verdict.
func (q *question) judged(r schedule.VerdictRange) answer {
	a := answer{word: verdictWords[r.Verdict], verdict: &r}
	d := q.entry.Schedule
	switch r.Verdict {
	case schedule.VerdictFired:
		a.text = "it fired; its run is not in the log any more, or was never kept"
		if r.Why == 1 {
			a.text = "it fired through the buffer: it waited for an open firing first"
		}
	case schedule.VerdictCoalesced:
		a.text = "a later one was due as well when a worker came: missed latest fires the newest only"
	case schedule.VerdictMissed:
		a.text = "no worker claimed it in time, and the missed policy or catch_up gave it up"
		a.hint = fmt.Sprintf("run it after all: admin schedule backfill %s --from '%s' --to '%s'", d.ID, r.First.In(q.in).Format(rfc3339Milli), r.Last.In(q.in).Format(rfc3339Milli))
	case schedule.VerdictOverlap:
		a.text = "an earlier firing was still open, and the overlap policy is skip"
		if r.Why == 1 {
			a.text = "an earlier firing was still open, and the buffer was full"
		}
		a.hint = fmt.Sprintf("bound its runs with admin schedule update %s --timeout 10m, or choose another --overlap", d.ID)
	case schedule.VerdictPaused:
		a.text = "it passed while the schedule was paused, and nothing of that was to fire: missed skip, or resume --catch-up none"
	case schedule.VerdictSkipped:
		a.text = "an operator asked to skip it"
	case schedule.VerdictExcluded:
		a.text = "a calendar that changed after it was planned left it out"
	case schedule.VerdictSuperseded:
		a.text = "an edit replaced the times of the schedule before it was claimed"
	case schedule.VerdictUnreadable:
		a.text = "it got a verdict, which something damaged since, so that doctor --fix or a worker dropped it; what ran is in the run log"
	}
	if !q.scheduled() {
		a.text += "; the present definition has no scheduled time there, one before it may have had"
	}
	return a
}
