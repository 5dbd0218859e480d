package storetest

import (
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var beginCases = []testCase{
	{"RUN gives an attempt, a token and a lease", beginRun},
	{"RUN for the same owner is the same grant", beginTwice},
	{"BUSY while another attempt has a live lease, then a second attempt", beginBusy},
	{"a heartbeat keeps others out", beginHeartbeat},
	{"SETTLED for a firing that ended", beginSettled},
	{"GONE for a schedule that was deleted or never was", beginGone},
	{"what runs when its schedule is deleted is LOST, and its end counts nowhere", beginDeleted},
	{"a task ID with its number of re-drives names the firing", beginTaskID},
	{"EARLY for a scheduled time that the store has not reached", beginEarly},
	{"a task of the pending scheduled time is adopted without a claim", beginAdopts},
	{"UNKNOWN under at_most_once settles the firing", beginUnknown},
	{"at_most_once runs again what is known to have failed", beginMostOnceRetry},
	{"an ID that is no firing is refused", beginBadID},
	{"status shows the run that is going on", beginStatus},
}

var finishCases = []testCase{
	{"a finish sent twice counts once: OK, then ALREADY", finishTwice},
	{"retrying leaves the firing open for another attempt", finishRetrying},
	{"a hand-back leaves the firing enqueued, due for the auditor and uncounted", finishHandBack},
	{"the status shows the last run", finishStatus},
	{"the run log keeps the newest runs, newest first", finishLog},
	{"the run log can be off", finishNoLog},
	{"a long error is cut", finishLongError},
	{"an outcome that no worker reports is refused", finishBadOutcome},
	{"a firing of a schedule that completed meanwhile settles", finishCompleted},
	{"the success of an attempt that the store forgot settles the pending scheduled time, once", forgottenPending},
	{"the success of an attempt that the store forgot settles a firing that was claimed again", forgottenClaimed},
	{"the success of an attempt that the store forgot settles a firing that is buffered", forgottenBuffered},
	{"the success of an attempt that the store forgot outranks the attempt before", forgottenNewest},
	{"of attempts that the store forgot nothing else counts", forgottenNothing},
}

func beginRun(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	got := e.begins(id, "one", claim.BeginRun)
	want(e, "Attempt", got.Attempt, 1)
	if got.Token <= 0 {
		e.Errorf("Token = %d, want a positive one", got.Token)
	}
	run := claim.Run{Firing: id, Token: got.Token}
	e.advance(runLease - time.Millisecond)
	want(e, "Heartbeat", e.pulse(run), claim.PulseOK)
	want(e, "Heartbeat with another token", e.pulse(claim.Run{Firing: id, Token: got.Token + 1}), claim.PulseLost)
	want(e, "Heartbeat of an unknown firing", e.pulse(claim.Run{Firing: id + "9", Token: got.Token}), claim.PulseLost)
	e.finishes(run, claim.OutcomeSucceeded, claim.FinishOK)
	want(e, "Heartbeat after the end", e.pulse(run), claim.PulseLost)
}

func beginTwice(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	first := e.begins(id, "one", claim.BeginRun)
	e.advance(time.Second)
	again := e.begins(id, "one", claim.BeginRun)
	want(e, "Token", again.Token, first.Token)
	want(e, "Attempt", again.Attempt, 1)
}

func beginBusy(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	first := e.begins(id, "one", claim.BeginRun)
	e.advance(10 * time.Second)
	busy := e.begins(id, "two", claim.BeginBusy)
	want(e, "Wait", busy.Wait, runLease-10*time.Second)
	want(e, "Token of BUSY", busy.Token, 0)
	e.advance(busy.Wait)
	second := e.begins(id, "two", claim.BeginRun)
	want(e, "Attempt", second.Attempt, 2)
	if second.Token <= first.Token {
		e.Errorf("Token %d after %d, want a larger one", second.Token, first.Token)
	}
}

func beginHeartbeat(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	run := e.runs(id, "one")
	for range 5 {
		e.advance(runLease - time.Second)
		want(e, "Heartbeat", e.pulse(run), claim.PulseOK)
		e.begins(id, "two", claim.BeginBusy)
	}
	e.advance(runLease)
	want(e, "Heartbeat of a lease that ran out but was not taken", e.pulse(run), claim.PulseOK)
	e.begins(id, "two", claim.BeginBusy)
}

func beginSettled(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	e.runToEnd(id, claim.OutcomeSucceeded)
	for range 2 {
		e.begins(id, "late", claim.BeginSettled)
		e.advance(asleep)
	}
	generation := e.status("a").Generation
	e.begins(claim.ManualFiring("a", generation, "never"), "one", claim.BeginSettled)
	e.begins(claim.ScheduledFiring("a", generation, slot(1).Add(-time.Hour)), "one", claim.BeginSettled)
	want(e, "Open", e.status("a").Open, 0)
}

func beginGone(e *env) {
	e.begins(claim.ScheduledFiring("never", 1, slot(1)), "one", claim.BeginGone)
	e.put(every("a"))
	id := e.fireNext()
	generation := e.status("a").Generation
	e.remove("a")
	e.begins(id, "one", claim.BeginGone)
	e.begins(claim.ManualFiring("a", generation, "r"), "one", claim.BeginGone)
	e.put(every("a"))
	e.begins(id, "one", claim.BeginGone)
}

func beginDeleted(e *env) {
	for _, policy := range []schedule.Overlap{schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapBufferOne} {
		e.put(every("a", overlap(policy)))
		first, second := e.fireNext(), claim.FiringID(e.trigger("a", schedule.TriggerOptions{}).FiringID)
		heard, unheard := e.runs(first, "one"), e.runs(second, "two")
		e.remove("a")
		e.put(every("a", overlap(policy)))
		want(e, string(policy)+": heartbeat", e.pulse(heard), claim.PulseLost)
		for _, run := range []claim.Run{heard, unheard} {
			want(e, string(policy)+": Redrive", e.redrive(run.Firing, 0, run.Token).Answer, claim.RedriveAlready)
			e.finishes(run, claim.OutcomeFailed, claim.FinishAlready)
			want(e, string(policy)+": Settle", e.settle(claim.SettleRequest{Firing: run.Firing, Token: run.Token,
				Outcome: claim.OutcomeLost}).Answer, claim.RedriveAlready)
		}
		status := e.status("a")
		want(e, string(policy)+": RunCount", status.RunCount, 0)
		want(e, string(policy)+": LastStatus", status.LastStatus, schedule.LastNone)
		stats, err := e.Catalog.Stats(e.Context())
		e.must("Stats", err)
		want(e, string(policy)+": Open", stats.Open, 0)
		e.remove("a")
	}
}

func beginTaskID(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	task := claim.FiringID(id.TaskID(2))
	run := e.runs(task, "one")
	want(e, "the same by its firing ID", e.begin(id, "one").Token, run.Token)
	want(e, "another of its tasks", e.begin(claim.FiringID(id.TaskID(1)), "two").Answer, claim.BeginBusy)
	want(e, "heartbeat", e.pulse(claim.Run{Firing: task, Token: run.Token}), claim.PulseOK)
	if e.Firings != nil {
		found, _, err := e.Firings.Firings(e.Context(), []claim.FiringID{task})
		e.must("Firings", err)
		want(e, "what Firings calls it", found[id].Firing, id)
	}
	e.finishes(claim.Run{Firing: task, Token: run.Token}, claim.OutcomeRetrying, claim.FinishOK)
	want(e, "Redrive", e.redrive(task, 0, run.Token).Redrives, 1)
	want(e, "Settle", e.settle(claim.SettleRequest{Firing: task, Token: run.Token, Outcome: claim.OutcomeLost, KeepRuns: 3}).Answer, claim.RedriveOK)
	e.begins(task, "three", claim.BeginSettled)
	manual := claim.FiringID(e.trigger("a", schedule.TriggerOptions{}).FiringID)
	e.must("Mark", e.Ledger.Mark(e.Context(), auditTime, []claim.FiringID{claim.FiringID(manual.TaskID(1))}))
	e.advance(auditTime)
	want(e, "State after Mark", e.audited(manual).State, claim.FiringEnqueued)
	_, err := e.Ledger.Begin(e.Context(), claim.BeginRequest{Firing: id + "~x", Owner: "one", Lease: runLease})
	wantField(e, "Begin of "+string(id)+"~x", err, "firing")
}

func beginEarly(e *env) {
	e.put(every("a"))
	generation := e.status("a").Generation
	future := claim.ScheduledFiring("a", generation, slot(2))
	e.begins(future, "one", claim.BeginEarly)
	pending := claim.ScheduledFiring("a", generation, slot(1)) // nobody enqueues it before it is due
	e.begins(pending, "one", claim.BeginEarly)
	want(e, "Open", e.status("a").Open, 0)
	want(e, "NextAt", e.status("a").NextAt, slot(1))
	e.fireNext()
	e.fireNext()
	e.runToEnd(future, claim.OutcomeSucceeded)
}

func beginAdopts(e *env) {
	e.put(every("a"))
	id := claim.ScheduledFiring("a", e.status("a").Generation, slot(1))
	e.advance(period)
	e.runToEnd(id, claim.OutcomeSucceeded) // the store lost the claim, the queue kept the task
	e.verdicts("a", span(1, 0, 1, 1))
	c := e.claimOne(claim.ClaimAdvance)
	e.completes(decided(c, claim.DecideAdvance), claim.CompleteOK)
	e.begins(id, "again", claim.BeginSettled)
	e.verdicts("a", span(1, 0, 1, 1))
	want(e, "Fired", e.status("a").Fired, 1)
}

func beginUnknown(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	want(e, "first attempt", e.beginAs(id, "one", schedule.AtMostOnce).Answer, claim.BeginRun)
	want(e, "beside a live lease", e.beginAs(id, "two", schedule.AtMostOnce).Answer, claim.BeginBusy)
	e.advance(runLease)
	want(e, "after the lease", e.beginAs(id, "two", schedule.AtMostOnce).Answer, claim.BeginUnknown)
	want(e, "the same call again", e.beginAs(id, "two", schedule.AtMostOnce).Answer, claim.BeginUnknown)
	status := e.status("a")
	want(e, "Open", status.Open, 0)
	want(e, "RunCount", status.RunCount, 1)
	want(e, "ConsecutiveFails", status.ConsecutiveFails, 0)
	log, err := e.Ledger.Runs(e.Context(), "a", 10)
	e.must("Runs", err)
	if len(log) != 1 || log[0].Outcome != claim.OutcomeUnknown || log[0].Firing != id {
		e.Errorf("the run log holds %+v, want one run of unknown fate", log)
	}
	e.runToEnd(e.fireNext(), claim.OutcomeSucceeded)
	want(e, "after another run ended", e.beginAs(id, "two", schedule.AtMostOnce).Answer, claim.BeginSettled)
}

func beginMostOnceRetry(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	first := e.beginAs(id, "one", schedule.AtMostOnce)
	e.finishes(claim.Run{Firing: id, Token: first.Token}, claim.OutcomeRetrying, claim.FinishOK)
	second := e.beginAs(id, "two", schedule.AtMostOnce)
	want(e, "a retry", second.Answer, claim.BeginRun)
	want(e, "Attempt", second.Attempt, 2)
	handed := e.finish(claim.FinishRequest{Run: claim.Run{Firing: id, Token: second.Token}, HandBack: true})
	want(e, "hand-back", handed.Answer, claim.FinishOK)
	want(e, "after a hand-back", e.beginAs(id, "three", schedule.AtMostOnce).Answer, claim.BeginRun)
}

func beginBadID(e *env) {
	for _, id := range []claim.FiringID{"", "a", "a:1", "a:x:5", "a b:1:5", "a:1:m", "a:1:b5", "a:1:-5", "a:-1:5"} {
		_, err := e.Ledger.Begin(e.Context(), claim.BeginRequest{Firing: id, Owner: "one", Lease: runLease})
		wantField(e, "Begin of "+string(id), err, "firing")
	}
}

func beginStatus(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	want(e, "LastStatus before", e.status("a").LastStatus, schedule.LastNone)
	e.runs(id, "one")
	status := e.status("a")
	want(e, "LastStatus", status.LastStatus, schedule.LastRunning)
	wantTime(e, "LastRunAt", status.LastRunAt, e.Now())
	want(e, "RunCount", status.RunCount, 0)
}

func finishTwice(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	run := e.runs(id, "one")
	e.finishes(run, claim.OutcomeFailed, claim.FinishOK)
	e.unchanged("a", func() {
		e.finishes(run, claim.OutcomeFailed, claim.FinishAlready)
		e.finishes(run, claim.OutcomeSucceeded, claim.FinishAlready)
		e.finishes(run, claim.OutcomeRetrying, claim.FinishAlready)
	})
	want(e, "FailCount", e.status("a").FailCount, 1)
	e.finishes(claim.Run{Firing: "a:1:5", Token: 9}, claim.OutcomeSucceeded, claim.FinishAlready)
}

func finishRetrying(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	run := e.runs(id, "one")
	for range 2 { // sent twice
		e.finishes(run, claim.OutcomeRetrying, claim.FinishOK)
	}
	want(e, "Open", e.status("a").Open, 1)
	want(e, "ConsecutiveFails", e.status("a").ConsecutiveFails, 0)
	want(e, "Heartbeat", e.pulse(run), claim.PulseLost)
	e.advance(period)
	f := e.audited(id)
	want(e, "State", f.State, claim.FiringWaiting)
	want(e, "Attempt", f.Attempt, 1)
	second := e.begins(id, "two", claim.BeginRun)
	want(e, "Attempt", second.Attempt, 2)
	e.finishes(run, claim.OutcomeRetrying, claim.FinishStale)
	e.finishes(claim.Run{Firing: id, Token: second.Token}, claim.OutcomeSucceeded, claim.FinishOK)
}

func finishHandBack(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	run := e.runs(id, "one")
	for range 2 { // sent twice
		got := e.finish(claim.FinishRequest{Run: run, HandBack: true, KeepRuns: 20})
		want(e, "hand-back", got.Answer, claim.FinishOK)
	}
	f := e.audited(id)
	want(e, "State", f.State, claim.FiringEnqueued)
	want(e, "Attempt", f.Attempt, 0)
	want(e, "RunCount", e.status("a").RunCount, 0)
	want(e, "Attempt of the next", e.begins(id, "two", claim.BeginRun).Attempt, 1)
	log, err := e.Ledger.Runs(e.Context(), "a", 10)
	e.must("Runs", err)
	want(e, "run log entries", len(log), 0)
}

// report finishes an attempt with everything that a worker knows.
func (e *env) report(id claim.FiringID, outcome claim.RunOutcome, text string, keep int) claim.Run {
	e.Helper()
	began := e.begins(id, "owner-"+text, claim.BeginRun)
	run := claim.Run{Firing: id, Token: began.Token}
	got := e.finish(claim.FinishRequest{Run: run, Outcome: outcome, RetryAfter: time.Second, Error: text, Started: e.Now(),
		Duration: 1500 * time.Millisecond, Attempt: began.Attempt, Worker: "w1", KeepRuns: keep})
	want(e, "Finish", got.Answer, claim.FinishOK)
	return run
}

func finishStatus(e *env) {
	e.put(every("a"))
	started := Epoch.Add(period)
	e.report(e.fireNext(), claim.OutcomeFailed, "boom", 20)
	status := e.status("a")
	want(e, "LastStatus", status.LastStatus, schedule.LastFailed)
	want(e, "LastError", status.LastError, "boom")
	want(e, "LastDuration", status.LastDuration, 1500*time.Millisecond)
	wantTime(e, "LastRunAt", status.LastRunAt, started)
	want(e, "RunCount", status.RunCount, 1)
	want(e, "FailCount", status.FailCount, 1)
	e.report(e.fireNext(), claim.OutcomeSucceeded, "", 20)
	status = e.status("a")
	want(e, "LastStatus", status.LastStatus, schedule.LastCompleted)
	want(e, "LastError", status.LastError, "")
	want(e, "RunCount", status.RunCount, 2)
	want(e, "FailCount", status.FailCount, 1)
}

func finishLog(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	e.report(id, claim.OutcomeRetrying, "first", 3)
	run := e.report(id, claim.OutcomeFailed, "second", 3)
	log, err := e.Ledger.Runs(e.Context(), "a", 10)
	e.must("Runs", err)
	want(e, "run log entries", len(log), 2)
	want(e, "Outcome of the older", log[1].Outcome, claim.OutcomeRetrying)
	got := log[0]
	want(e, "Firing", got.Firing, id)
	want(e, "Outcome", got.Outcome, claim.OutcomeFailed)
	want(e, "Attempt", got.Attempt, 2)
	want(e, "Token", got.Token, run.Token)
	want(e, "Duration", got.Duration, 1500*time.Millisecond)
	want(e, "Worker", got.Worker, "w1")
	want(e, "Error", got.Error, "second")
	wantTime(e, "Started", got.Started, e.Now())
	wantTime(e, "Ended", got.Ended, e.Now())
	lost := e.fireNext()
	e.settle(claim.SettleRequest{Firing: lost, Outcome: claim.OutcomeLost, Error: "no task", KeepRuns: 3})
	e.report(e.fireNext(), claim.OutcomeSucceeded, "", 3)
	log, err = e.Ledger.Runs(e.Context(), "a", 10)
	e.must("Runs", err)
	want(e, "run log entries", len(log), 3)
	want(e, "Outcome of the lost one", log[1].Outcome, claim.OutcomeLost)
	want(e, "Error of the lost one", log[1].Error, "no task")
	want(e, "Started of a run that never started is zero", log[1].Started.IsZero(), true)
	log, err = e.Ledger.Runs(e.Context(), "a", 1)
	e.must("Runs", err)
	want(e, "run log entries under a limit", len(log), 1)
	want(e, "Outcome of the newest", log[0].Outcome, claim.OutcomeSucceeded)
}

func finishNoLog(e *env) {
	e.put(every("a"))
	e.report(e.fireNext(), claim.OutcomeSucceeded, "", 0)
	log, err := e.Ledger.Runs(e.Context(), "a", 10)
	e.must("Runs", err)
	want(e, "run log entries", len(log), 0)
	want(e, "RunCount", e.status("a").RunCount, 1)
}

func finishLongError(e *env) {
	e.put(every("a"))
	long := strings.Repeat("x", 5000)
	e.report(e.fireNext(), claim.OutcomeFailed, long, 20)
	got := e.status("a").LastError
	if len(got) == 0 || len(got) > 1024 || !strings.HasPrefix(long, got) {
		e.Errorf("LastError has %d bytes, want a prefix of at most 1024", len(got))
	}
}

func finishBadOutcome(e *env) {
	e.put(every("a"))
	run := e.runs(e.fireNext(), "one")
	for _, outcome := range []claim.RunOutcome{"", "done", claim.OutcomeLost, claim.OutcomeUnknown} {
		_, err := e.Ledger.Finish(e.Context(), claim.FinishRequest{Run: run, Outcome: outcome})
		wantField(e, "Finish with outcome "+string(outcome), err, "outcome")
	}
	e.finishes(run, claim.OutcomeSucceeded, claim.FinishOK)
}

func finishCompleted(e *env) {
	e.put(every("a", fragile(1, 0)))
	e.advance(period)
	id := e.fireLast()
	e.finishes(e.runs(id, "one"), claim.OutcomeFailed, claim.FinishOK)
	status := e.status("a")
	want(e, "State", status.State, schedule.StateCompleted)
	want(e, "FailCount", status.FailCount, 1)
}
