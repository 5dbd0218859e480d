package simtest

import (
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A strictness names what the judge allows beside the rule that every scheduled
// time is enqueued and finished once. The zero one allows nothing.
type strictness struct {
	late time.Duration // the longest time from the scheduled time to the enqueue
	run  time.Duration // likewise to the start of the handler
}

// judge compares what was seen with the oracle's scheduled times from first to
// last, both inclusive. Nothing may have been due before or after, and nobody
// may run any more.
func (w *world) judge(first, last time.Time, s strictness) {
	w.t.Helper()
	expected := map[claim.FiringID]row{}
	for _, r := range w.rows {
		w.judgeRow(r, first, last, expected)
	}
	w.judgeSights(expected, s)
	w.judgeStore()
}

// judgeRow compares the record of a schedule, and adds its firings to those
// that are expected.
func (w *world) judgeRow(r row, first, last time.Time, expected map[claim.FiringID]row) {
	w.t.Helper()
	o, err := newOracle(r.cron, r.zone)
	if err != nil {
		w.t.Fatal(err)
	}
	entry, err := w.store.Get(w.t.Context(), schedule.ID(r.id))
	if err != nil {
		w.t.Fatal(err)
	}
	status, times := entry.Status, o.between(first, last)
	n := int64(len(times))
	if status.State != schedule.StateActive || status.Claimed || status.Open != 0 || status.Buffered != 0 {
		w.t.Errorf("%s: state %s, claimed %v, %d open, %d buffered; want active and nothing else",
			r.id, status.State, status.Claimed, status.Open, status.Buffered)
	}
	if status.Fired != n || status.RunCount != n || status.FailCount != 0 {
		w.t.Errorf("%s: fired %d, runs %d, failures %d; want %d, %d and none", r.id, status.Fired, status.RunCount, status.FailCount, n, n)
	}
	if next := o.after(last); !status.NextAt.Equal(next) {
		w.t.Errorf("%s: next time %s, want %s", r.id, status.NextAt, next)
	}
	w.judgeVerdicts(r, status.Verdicts, times)
	for _, at := range times {
		expected[claim.ScheduledFiring(schedule.ID(r.id), status.Generation, at)] = r
	}
	w.judgeRunLog(r, status.Generation, times)
}

// judgeVerdicts wants one range of fired times, from the first to the last.
func (w *world) judgeVerdicts(r row, verdicts []schedule.VerdictRange, times []time.Time) {
	w.t.Helper()
	count := int64(0)
	for _, v := range verdicts {
		if v.Verdict != schedule.VerdictFired {
			w.t.Errorf("%s: verdict %+v, want fired alone", r.id, v)
		}
		count += v.Count
	}
	if count != int64(len(times)) {
		w.t.Errorf("%s: the verdicts count %d scheduled times, want %d", r.id, count, len(times))
	}
	if len(times) > 0 && len(verdicts) > 0 &&
		(!verdicts[0].First.Equal(times[0]) || !verdicts[len(verdicts)-1].Last.Equal(times[len(times)-1])) {
		w.t.Errorf("%s: verdicts from %s to %s, want %s to %s", r.id, verdicts[0].First, verdicts[len(verdicts)-1].Last, times[0], times[len(times)-1])
	}
}

// judgeRunLog wants the newest scheduled times, each succeeded at the first
// attempt.
func (w *world) judgeRunLog(r row, generation int64, times []time.Time) {
	w.t.Helper()
	runs, err := w.store.Runs(w.t.Context(), schedule.ID(r.id), keepRuns)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(runs) != min(keepRuns, len(times)) {
		w.t.Errorf("%s: %d runs in the log, want %d", r.id, len(runs), min(keepRuns, len(times)))
		return
	}
	for i, run := range runs {
		want := claim.ScheduledFiring(schedule.ID(r.id), generation, times[len(times)-1-i])
		if run.Firing != want || run.Outcome != claim.OutcomeSucceeded || run.Attempt != 1 {
			w.t.Errorf("%s: run %d of the log is %+v, want %s succeeded at once", r.id, i, run, want)
		}
	}
}

// judgeSights wants each expected firing enqueued, started and finished once,
// in the right queue and with the right type, and nothing else.
func (w *world) judgeSights(expected map[claim.FiringID]row, s strictness) {
	w.t.Helper()
	for id, r := range expected {
		firing, err := claim.ParseFiringID(string(id))
		if err != nil {
			w.t.Fatal(err)
		}
		enqueued, started, ended := w.log.enqueued[id], w.log.started[id], w.log.ended[id]
		if len(enqueued) != 1 || len(started) != 1 || len(ended) != 1 {
			w.t.Errorf("%s was enqueued %d, started %d and ended %d times; want once each", id, len(enqueued), len(started), len(ended))
			continue
		}
		if enqueued[0].queue != r.queue || enqueued[0].kind != r.taskType || started[0].kind != r.taskType {
			w.t.Errorf("%s went as %q to %q, want as %q to %q", id, enqueued[0].kind, enqueued[0].queue, r.taskType, r.queue)
		}
		if ended[0].outcome != claim.OutcomeSucceeded {
			w.t.Errorf("%s ended as %q, want succeeded", id, ended[0].outcome)
		}
		if late := enqueued[0].at.Sub(firing.ScheduledAt); late < 0 || late > s.late {
			w.t.Errorf("%s was enqueued %s after its time, want 0 to %s", id, late, s.late)
		}
		if late := started[0].at.Sub(firing.ScheduledAt); late > s.run {
			w.t.Errorf("%s ran %s after its time, want at most %s", id, late, s.run)
		}
	}
	for name, sights := range map[string]map[claim.FiringID][]sight{"enqueued": w.log.enqueued, "started": w.log.started, "ended": w.log.ended} {
		for id := range sights {
			if _, ok := expected[id]; !ok {
				w.t.Errorf("%s was %s and is no scheduled time", id, name)
			}
		}
	}
	w.judgeQuiet("audits that had to repair something", w.log.audited)
	w.judgeQuiet("schedules put aside", w.log.isolated)
}

// judgeQuiet wants a list to be empty.
func (w *world) judgeQuiet(what string, list []string) {
	w.t.Helper()
	if len(list) > 0 {
		w.t.Errorf("%d %s, want none:\n%s", len(list), what, strings.Join(list[:min(5, len(list))], "\n"))
	}
}

// judgeStore wants nothing open, nothing queued and every invariant whole.
func (w *world) judgeStore() {
	w.t.Helper()
	violations, err := w.store.Check(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, v := range violations[:min(5, len(violations))] {
		w.t.Errorf("Check: %s", v)
	}
	stats, err := w.store.Stats(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if stats.Total != int64(len(w.rows)) || stats.Open != 0 || stats.Buffered != 0 || stats.Claimed != 0 || stats.Due != 0 {
		w.t.Errorf("at the end %+v, want %d schedules and nothing open, buffered, claimed or due", stats, len(w.rows))
	}
	w.judgeQueues()
}

// judgeQueues wants no task waiting or running, in the queues of the rows and
// no others.
func (w *world) judgeQueues() {
	w.t.Helper()
	inspector := asynq.NewInspectorFromRedisClient(w.client())
	queues, err := inspector.Queues()
	if err != nil {
		w.t.Fatal(err)
	}
	want := map[string]bool{}
	for _, r := range w.rows {
		want[r.queue] = true
	}
	for _, name := range queues {
		info, err := inspector.GetQueueInfo(name)
		if err != nil {
			w.t.Fatal(err)
		}
		if !want[name] || info.Pending+info.Active+info.Scheduled+info.Retry+info.Archived != 0 {
			w.t.Errorf("queue %s at the end: %+v, want a queue of the fleet without unfinished tasks", name, *info)
		}
	}
}
