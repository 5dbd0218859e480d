package storetest

import (
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var auditCases = []testCase{
	{"a firing is audited after its time, then hidden", auditHides},
	{"audit says when it has to look again", auditNext},
	{"audit tells a pending firing from a passed one", auditPosition},
	{"schedules with an overlap policy are audited sooner", auditOverlap},
	{"audit shows a running attempt and its lease", auditRunning},
	{"mark makes an intent enqueued and leaves others alone", auditMark},
	{"the limit bounds a batch, the oldest first", auditLimit},
	{"a firing keeps the queue that it went to", auditQueue},
	{"redrive counts once, however often it is sent", redriveOnce},
	{"redrive is STALE when another auditor was faster, ALREADY when it is settled", redriveAnswers},
	{"redrive makes a waiting firing enqueued", redriveWaiting},
	{"the task of a re-drive is owed until it is marked or begun", redriveOwed},
	{"redrives are told to the next claimer", redriveClaim},
	{"settle closes a firing once", settleOnce},
	{"settle is STALE while an attempt has a live lease", settleStale},
	{"settling a pending firing is its verdict", settlePending},
}

func auditHides(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	want(e, "overdue firings at once", len(e.audit()), 0)
	e.advance(auditTime)
	f := e.audited(id)
	want(e, "State", f.State, claim.FiringIntent)
	want(e, "Attempt", f.Attempt, 0)
	want(e, "Token", f.Token, 0)
	want(e, "Redrives", f.Redrives, 0)
	want(e, "CancelWanted", f.CancelWanted, false)
	wantTime(e, "OpenedAt", f.OpenedAt, slot(1))
	want(e, "overdue firings while hidden", len(e.audit()), 0)
	e.advance(time.Minute)
	e.audited(id)
}

func auditNext(e *env) {
	next := func() time.Time {
		e.Helper()
		var first time.Time
		for shard := range e.shards {
			batch, err := e.Ledger.Audit(e.Context(), claim.AuditRequest{Shard: shard, Limit: 10, Hide: time.Minute})
			e.must("Audit", err)
			wantTime(e, "Now", batch.Now, e.Now())
			if !batch.NextAudit.IsZero() {
				first = batch.NextAudit
			}
		}
		return first
	}
	want(e, "NextAudit of an empty store is zero", next().IsZero(), true)
	e.put(every("a"))
	id := e.fireNext()
	wantTime(e, "NextAudit", next(), slot(1).Add(auditTime))
	e.advance(auditTime)
	wantTime(e, "NextAudit of a hidden firing", next(), e.Now().Add(time.Minute))
	e.runs(id, "one")
	wantTime(e, "NextAudit of a running firing", next(), e.Now().Add(2*runLease))
}

func auditPosition(e *env) {
	e.put(every("a"))
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	e.advance(auditTime)
	want(e, "Position of a claimed firing", e.audited(c.Firing()).Position, claim.PositionPending)
	e.completes(enqueued(c), claim.CompleteOK)
	e.advance(time.Minute)
	want(e, "Position of a completed one", e.audited(c.Firing()).Position, claim.PositionPassed)
}

func auditOverlap(e *env) {
	e.put(every("a"))
	e.put(every("b", overlap(schedule.OverlapSkip)))
	e.advance(period)
	for shard := range e.shards {
		_, err := e.Claims.ClaimDue(e.Context(), claim.ClaimRequest{Shard: shard, Owner: "w", Limit: 10, TTL: claimTTL,
			AuditAfter: auditTime, AuditOverlap: 2 * time.Second})
		e.must("ClaimDue", err)
	}
	e.advance(2 * time.Second)
	e.audited(claim.ScheduledFiring("b", e.status("b").Generation, slot(1)))
	e.advance(auditTime - 2*time.Second)
	e.audited(claim.ScheduledFiring("a", e.status("a").Generation, slot(1)))
}

func auditRunning(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	run := e.runs(id, "one")
	until := e.Now().Add(runLease)
	e.advance(2 * runLease)
	f := e.audited(id)
	want(e, "State", f.State, claim.FiringRunning)
	want(e, "Attempt", f.Attempt, 1)
	want(e, "Token", f.Token, run.Token)
	want(e, "Worker", f.Worker, "w-one")
	wantTime(e, "LeaseUntil", f.LeaseUntil, until)
}

func auditMark(e *env) {
	e.put(every("a"))
	first, second := e.fireNext(), e.fireNext()
	run := e.runs(second, "one")
	for range 2 { // sent twice
		e.must("Mark", e.Ledger.Mark(e.Context(), time.Minute, []claim.FiringID{first, second, "a:1:m9"}))
	}
	want(e, "Heartbeat of a running firing that was marked", e.pulse(run), claim.PulseOK)
	e.advance(time.Minute)
	found := e.audit()
	want(e, "State of the marked intent", found[first].State, claim.FiringEnqueued)
	want(e, "State of the running one", found[second].State, claim.FiringRunning)
	e.must("Mark of nothing", e.Ledger.Mark(e.Context(), time.Minute, nil))
}

func auditLimit(e *env) {
	e.put(every("a"))
	ids := []claim.FiringID{e.fireNext(), e.fireNext(), e.fireNext()}
	e.advance(time.Minute)
	for _, id := range ids {
		var got []claim.OpenFiring
		for shard := range e.shards {
			batch, err := e.Ledger.Audit(e.Context(), claim.AuditRequest{Shard: shard, Limit: 1, Hide: time.Minute})
			e.must("Audit", err)
			got = append(got, batch.Firings...)
		}
		if len(got) != 1 || got[0].Firing != id {
			e.Fatalf("Audit with limit 1 = %+v, want %s", got, id)
		}
	}
}

func auditQueue(e *env) {
	e.put(every("a", func(s *schedule.Schedule) { s.Queue = "old" }))
	id := e.fireNext()
	e.put(every("a", func(s *schedule.Schedule) { s.Queue = "new" }))
	second := e.fireNext()
	e.advance(auditTime)
	found := e.audit()
	want(e, "Queue of a firing before the edit", found[id].Queue, "old")
	want(e, "Queue of a firing after the edit", found[second].Queue, "new")
}

func (e *env) redrive(id claim.FiringID, expected int, token claim.Token) claim.RedriveResult {
	e.Helper()
	got, err := e.Ledger.Redrive(e.Context(), claim.RedriveRequest{Firing: id, Expected: expected, Token: token, AuditAfter: auditTime})
	e.must("Redrive", err)
	return got
}

func redriveOnce(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	e.must("Mark", e.Ledger.Mark(e.Context(), auditTime, []claim.FiringID{id}))
	for expected := range 3 {
		for range 2 { // sent twice
			got := e.redrive(id, expected, 0)
			want(e, "Redrive", got.Answer, claim.RedriveOK)
			want(e, "Redrives", got.Redrives, expected+1)
		}
	}
	e.advance(auditTime)
	f := e.audited(id)
	want(e, "Redrives", f.Redrives, 3)
	want(e, "State", f.State, claim.FiringEnqueued)
	e.runToEnd(id, claim.OutcomeSucceeded)
}

func redriveAnswers(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	e.redrive(id, 0, 0)
	e.redrive(id, 1, 0)
	want(e, "Redrive that expects too few", e.redrive(id, 0, 0).Answer, claim.RedriveStale)
	want(e, "Redrive that expects too many", e.redrive(id, 3, 0).Answer, claim.RedriveStale)
	run := e.runs(id, "one")
	want(e, "Redrive with an older token", e.redrive(id, 2, 0).Answer, claim.RedriveStale)
	want(e, "Redrive beside a live lease", e.redrive(id, 2, run.Token).Answer, claim.RedriveStale)
	e.advance(runLease)
	want(e, "Redrive after the lease", e.redrive(id, 2, run.Token).Answer, claim.RedriveOK)
	second := e.begins(id, "two", claim.BeginRun)
	want(e, "Attempt", second.Attempt, 2)
	e.finishes(claim.Run{Firing: id, Token: second.Token}, claim.OutcomeSucceeded, claim.FinishOK)
	want(e, "Redrive of a settled firing", e.redrive(id, 3, second.Token).Answer, claim.RedriveAlready)
}

func redriveOwed(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	mark := func() { e.must("Mark", e.Ledger.Mark(e.Context(), auditTime, []claim.FiringID{id})) }
	owed := func(when string, expected bool) {
		e.Helper()
		e.advance(time.Minute)
		want(e, "TaskOwed "+when, e.audited(id).TaskOwed, expected)
	}
	owed("of an intent", false)
	mark()
	e.redrive(id, 0, 0)
	owed("after a re-drive", true)
	mark()
	owed("once it is marked", false)
	e.redrive(id, 0, 0) // a late repetition
	owed("after the re-drive was sent once more", false)
	e.redrive(id, 1, 0)
	run := e.runs(id, "one")
	e.advance(runLease)
	owed("once it began", false)
	e.redrive(id, 2, run.Token)
	owed("after a re-drive of an attempt that died", true)
	mark()
	want(e, "firings that are due right after the mark", len(e.audit()), 0)
	e.advance(time.Minute)
	want(e, "State of the marked attempt that died", e.audited(id).State, claim.FiringRunning)
	e.runToEnd(id, claim.OutcomeSucceeded)
}

func redriveWaiting(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	run := e.runs(id, "one")
	e.finishes(run, claim.OutcomeRetrying, claim.FinishOK)
	want(e, "Redrive", e.redrive(id, 0, run.Token).Answer, claim.RedriveOK)
	e.advance(auditTime)
	want(e, "State", e.audited(id).State, claim.FiringEnqueued)
}

func redriveClaim(e *env) {
	e.put(every("a"))
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	want(e, "Redrive", e.redrive(c.Firing(), 0, 0).Answer, claim.RedriveOK)
	e.advance(claimTTL + time.Millisecond)
	again := e.claimOne(claim.ClaimFire)
	want(e, "Again", again.Again, true)
	want(e, "Redrives", again.Redrives, 1)
}

func settleOnce(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	got := e.settle(claim.SettleRequest{Firing: id, Outcome: claim.OutcomeSucceeded, KeepRuns: 5})
	want(e, "Settle", got.Answer, claim.RedriveOK)
	e.unchanged("a", func() {
		got = e.settle(claim.SettleRequest{Firing: id, Outcome: claim.OutcomeLost, KeepRuns: 5})
		want(e, "Settle again", got.Answer, claim.RedriveAlready)
	})
	e.begins(id, "late", claim.BeginSettled)
	status := e.status("a")
	want(e, "Open", status.Open, 0)
	want(e, "RunCount", status.RunCount, 1)
	log, err := e.Ledger.Runs(e.Context(), "a", 10)
	e.must("Runs", err)
	want(e, "run log entries", len(log), 1)
}

func settleStale(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	run := e.runs(id, "one")
	request := claim.SettleRequest{Firing: id, Token: run.Token, Outcome: claim.OutcomeLost, Error: "gone"}
	want(e, "Settle beside a live lease", e.settle(request).Answer, claim.RedriveStale)
	e.advance(runLease)
	want(e, "Settle after the lease", e.settle(request).Answer, claim.RedriveOK)
	e.finishes(run, claim.OutcomeSucceeded, claim.FinishAlready)
	status := e.status("a")
	want(e, "LastError", status.LastError, "gone")
	want(e, "FailCount", status.FailCount, 1)
}

func settlePending(e *env) {
	e.put(every("a"))
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	got := e.settle(claim.SettleRequest{Firing: c.Firing(), Outcome: claim.OutcomeSucceeded}) // its task is done
	want(e, "Settle", got.Answer, claim.RedriveOK)
	e.verdicts("a", span(1, 0, 1, 1))
	e.advance(claimTTL + time.Millisecond)
	again := e.claimOne(claim.ClaimAdvance)
	e.completes(decided(again, claim.DecideAdvance), claim.CompleteOK)
	e.verdicts("a", span(1, 0, 1, 1))
}
