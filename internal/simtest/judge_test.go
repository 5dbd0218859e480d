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
	hurt bool          // there were faults: repairs, attempts that came to nothing and unseen enqueues are fine
}

// judge compares what was seen with the oracle's scheduled times from first to
// last, both inclusive. Nothing may have been due before or after, and nobody
// may run any more.
func (w *world) judge(first, last time.Time, s strictness) {
	w.t.Helper()
	expected := map[claim.FiringID]row{}
	for _, r := range w.rows {
		w.judgeRow(r, first, last, s, expected)
	}
	w.judgeSights(expected, s)
	w.judgeStore()
}

// judgeRow compares the record of a schedule, and adds its firings to those
// that are expected.
func (w *world) judgeRow(r row, first, last time.Time, s strictness, expected map[claim.FiringID]row) {
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
	w.judgeRunLog(r, status.Generation, times, s)
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
// attempt; after faults each once, in any order, beside interrupted attempts.
func (w *world) judgeRunLog(r row, generation int64, times []time.Time, s strictness) {
	w.t.Helper()
	runs, err := w.store.Runs(w.t.Context(), schedule.ID(r.id), keepRuns)
	if err != nil {
		w.t.Fatal(err)
	}
	succeeded := map[claim.FiringID]int{}
	for i, run := range runs {
		if run.Outcome == claim.OutcomeSucceeded {
			succeeded[run.Firing]++
		}
		if !s.hurt && (run.Outcome != claim.OutcomeSucceeded || run.Attempt != 1) || run.Outcome != claim.OutcomeSucceeded && run.Outcome != claim.OutcomeRetrying {
			w.t.Errorf("%s: run %d of the log is %+v, want succeeded at once, or, after faults, in the end", r.id, i, run)
		}
	}
	newest := times[max(0, len(times)-keepRuns):]
	for _, at := range newest {
		if id := claim.ScheduledFiring(schedule.ID(r.id), generation, at); succeeded[id] != 1 {
			w.t.Errorf("%s succeeded %d times by the run log, want once", id, succeeded[id])
		}
	}
	if len(succeeded) != len(newest) {
		w.t.Errorf("%s: %d firings succeeded by the run log, want %d", r.id, len(succeeded), len(newest))
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
		w.judgeFiring(id, firing.ScheduledAt, r, s)
	}
	for name, sights := range map[string]map[claim.FiringID][]sight{"enqueued": w.log.enqueued, "started": w.log.started, "ended": w.log.ended} {
		for id := range sights {
			if _, ok := expected[id]; !ok {
				w.t.Errorf("%s was %s and is no scheduled time", id, name)
			}
		}
	}
	w.judgeQuiet("firings that auditors gave up", w.log.gaveUp)
	if !s.hurt {
		w.judgeQuiet("audits that had to repair something", w.log.audited)
		w.judgeQuiet("schedules put aside", w.log.isolated)
	}
}

// judgeFiring judges what was seen of one firing.
func (w *world) judgeFiring(id claim.FiringID, at time.Time, r row, s strictness) {
	w.t.Helper()
	enqueued, started, ended := w.log.enqueued[id], w.log.started[id], w.log.ended[id]
	if s.hurt && len(started) < 1 || !s.hurt && (len(enqueued) != 1 || len(started) != 1 || len(ended) != 1) {
		w.t.Errorf("%s was enqueued %d, started %d and ended %d times; want once each, or a start at least after faults",
			id, len(enqueued), len(started), len(ended))
		return
	}
	for _, e := range enqueued {
		if late := e.at.Sub(at); e.queue != r.queue || e.kind != r.taskType || late < 0 || late > s.late {
			w.t.Errorf("%s went as %q to %q after %s, want as %q to %q after at most %s", id, e.kind, e.queue, late, r.taskType, r.queue, s.late)
		}
	}
	for _, e := range started {
		if late := e.at.Sub(at); e.kind != r.taskType || late < 0 || late > s.run {
			w.t.Errorf("%s ran as %q after %s, want as %q after at most %s", id, e.kind, late, r.taskType, s.run)
		}
	}
	for _, e := range ended {
		if e.queue != r.queue && e.queue != "" || e.outcome != claim.OutcomeSucceeded && !s.hurt {
			w.t.Errorf("%s ended as %q from queue %q, want succeeded from %q", id, e.outcome, e.queue, r.queue)
		}
	}
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
