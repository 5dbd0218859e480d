package storetest

import (
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var completeCases = []testCase{
	{"OK places the schedule at its next time and counts the firing", completeOK},
	{"a completion sent twice counts once: ALREADY", completeTwice},
	{"a claim that another took is STALE while nothing is decided, ALREADY after", completeStale},
	{"a deleted schedule is GONE", completeGone},
	{"a next time that is not later is BADNEXT", completeBadNext},
	{"a scheduled time claimed twice MUSTFIRE", completeMustFire},
	{"a verdict withdraws the intent", completeVerdict},
	{"a range of missed times is one entry, however long", completeRange},
	{"ranges partition time", completePartition},
	{"history keeps the current range and 32 older ones", completeHistory},
	{"a run that began before its completion leaves only the next time to find", completeAdvance},
	{"a task that was marked before its completion leaves only the next time to find", completeMarked},
	{"each completion of a batch is answered in its place", completeBatch},
}

func completeOK(e *env) {
	e.put(every("a"))
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	e.completes(enqueued(c), claim.CompleteOK)
	status := e.status("a")
	wantTime(e, "NextAt", status.NextAt, slot(2))
	wantTime(e, "DueAt", status.DueAt, slot(2))
	want(e, "Fired", status.Fired, 1)
	want(e, "Open", status.Open, 1)
	want(e, "Claimed", status.Claimed, false)
	want(e, "State", status.State, schedule.StateActive)
	e.verdicts("a", span(schedule.VerdictFired, 0, 1, 1))
	e.none("right after")
}

func completeTwice(e *env) {
	e.put(every("a"))
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	e.completes(enqueued(c), claim.CompleteOK)
	e.completes(enqueued(c), claim.CompleteAlready)
	e.completes(judged(c, schedule.VerdictMissed), claim.CompleteAlready)
	want(e, "Fired", e.status("a").Fired, 1)
	e.verdicts("a", span(schedule.VerdictFired, 0, 1, 1))
}

func completeStale(e *env) {
	e.put(every("a"))
	e.advance(period)
	old := e.claimOne(claim.ClaimFire)
	e.advance(claimTTL + time.Millisecond)
	current := e.claimOne(claim.ClaimFire)
	e.completes(enqueued(old), claim.CompleteStale)
	want(e, "Fired after a stale completion", e.status("a").Fired, 0)
	e.completes(enqueued(current), claim.CompleteOK)
	e.completes(enqueued(old), claim.CompleteAlready)
	later := enqueued(current) // a scheduled time that was never claimed
	later.ScheduledAt, later.Next = slot(5), slot(6)
	e.completes(later, claim.CompleteStale)
}

func completeGone(e *env) {
	e.put(every("a"))
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	want(e, "Remove", e.remove("a"), true)
	e.completes(enqueued(c), claim.CompleteGone)
	e.put(every("a"))
	e.completes(enqueued(c), claim.CompleteStale)
	e.completes(claim.Completion{Schedule: "never", Token: 7, ScheduledAt: slot(1), Decision: claim.DecideEnqueued, Next: slot(2)},
		claim.CompleteGone)
}

func completeBadNext(e *env) {
	e.put(every("a"))
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	bad := enqueued(c)
	bad.Next = c.ScheduledAt
	e.completes(bad, claim.CompleteBadNext)
	bad.Next = c.ScheduledAt.Add(-time.Second)
	e.completes(bad, claim.CompleteBadNext)
	bad = judged(c, schedule.VerdictCoalesced)
	passed := span(schedule.VerdictCoalesced, 0, 2, 3)
	bad.Range, bad.Next = &passed, slot(3)
	e.completes(bad, claim.CompleteBadNext)
	want(e, "verdicts after refusals", len(e.status("a").Verdicts), 0)
	e.completes(enqueued(c), claim.CompleteOK)
}

func completeMustFire(e *env) {
	e.put(every("a"))
	e.advance(period)
	e.claimOne(claim.ClaimFire)
	e.advance(claimTTL + time.Millisecond)
	c := e.claimOne(claim.ClaimFire)
	for _, verdict := range []schedule.Verdict{schedule.VerdictCoalesced, schedule.VerdictMissed, schedule.VerdictExcluded, schedule.VerdictPaused} {
		e.completes(judged(c, verdict), claim.CompleteMustFire)
	}
	e.completes(decided(c, claim.DecideOverlap), claim.CompleteMustFire)
	e.completes(enqueued(c), claim.CompleteOK)
	e.verdicts("a", span(schedule.VerdictFired, 0, 1, 1))
}

func completeVerdict(e *env) {
	e.put(every("a"))
	verdicts := []schedule.Verdict{schedule.VerdictMissed, schedule.VerdictExcluded, schedule.VerdictPaused, schedule.VerdictSkipped}
	var wants []schedule.VerdictRange
	for i, verdict := range verdicts {
		e.advance(period)
		c := e.claimOne(claim.ClaimFire)
		e.completes(judged(c, verdict), claim.CompleteOK)
		e.begins(c.Firing(), "late", claim.BeginSettled)
		wants = append(wants, span(verdict, 0, i+1, i+1))
	}
	e.verdicts("a", wants...)
	status := e.status("a")
	want(e, "Open", status.Open, 0)
	want(e, "Fired", status.Fired, 0)
}

func completeRange(e *env) {
	e.put(every("a"))
	const slots = 1_000_000
	e.advance(slots * period)
	c := e.claimOne(claim.ClaimFire)
	completion := judged(c, schedule.VerdictCoalesced)
	passed := span(schedule.VerdictCoalesced, 0, 2, slots-1)
	completion.Range, completion.Next = &passed, slot(slots)
	e.completes(completion, claim.CompleteOK)
	e.completes(completion, claim.CompleteAlready)
	e.verdicts("a", span(schedule.VerdictCoalesced, 0, 1, slots-1))
	c = e.claimOne(claim.ClaimFire)
	wantTime(e, "ScheduledAt of the latest", c.ScheduledAt, slot(slots))
	e.completes(enqueued(c), claim.CompleteOK)
	e.verdicts("a", span(schedule.VerdictCoalesced, 0, 1, slots-1), span(schedule.VerdictFired, 0, slots, slots))
}

func completePartition(e *env) {
	e.put(every("a"))
	verdicts := []schedule.Verdict{schedule.VerdictFired, schedule.VerdictFired, schedule.VerdictMissed, schedule.VerdictFired,
		schedule.VerdictCoalesced, schedule.VerdictCoalesced, schedule.VerdictFired, schedule.VerdictExcluded}
	for _, verdict := range verdicts {
		e.advance(period)
		c := e.claimOne(claim.ClaimFire)
		if verdict == schedule.VerdictFired {
			e.completes(enqueued(c), claim.CompleteOK)
			continue
		}
		e.completes(judged(c, verdict), claim.CompleteOK)
	}
	e.verdicts("a", span(1, 0, 1, 2), span(3, 0, 3, 3), span(1, 0, 4, 4), span(2, 0, 5, 6), span(1, 0, 7, 7), span(7, 0, 8, 8))
	want(e, "Fired", e.status("a").Fired, 4)
}

func completeHistory(e *env) {
	e.put(every("a"))
	const rounds = 40
	for i := range rounds {
		e.advance(period)
		c := e.claimOne(claim.ClaimFire)
		if i%2 == 0 {
			e.completes(enqueued(c), claim.CompleteOK)
			continue
		}
		e.completes(judged(c, schedule.VerdictMissed), claim.CompleteOK)
	}
	status := e.status("a")
	want(e, "ranges", len(status.Verdicts), 33)
	wantTime(e, "first range kept", status.Verdicts[0].First, slot(rounds-32))
	wantTime(e, "end of the last", status.Verdicts[32].Last, slot(rounds))
	want(e, "Fired", status.Fired, rounds/2)
}

func completeAdvance(e *env) {
	e.put(every("a"))
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	run := e.runs(c.Firing(), "consumer") // the claimer enqueued and fell asleep
	e.finishes(run, claim.OutcomeSucceeded, claim.FinishOK)
	e.advance(claimTTL + time.Millisecond)
	again := e.claimOne(claim.ClaimAdvance)
	wantTime(e, "ScheduledAt", again.ScheduledAt, slot(1))
	e.completes(decided(again, claim.DecideAdvance), claim.CompleteOK)
	e.completes(enqueued(c), claim.CompleteAlready)
	status := e.status("a")
	want(e, "Fired", status.Fired, 1)
	want(e, "Open", status.Open, 0)
	wantTime(e, "NextAt", status.NextAt, slot(2))
	e.verdicts("a", span(schedule.VerdictFired, 0, 1, 1))
}

func completeMarked(e *env) {
	e.put(every("a"))
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	e.must("Mark", e.Ledger.Mark(e.Context(), auditTime, []claim.FiringID{c.Firing()}))
	e.advance(claimTTL + time.Millisecond)
	again := e.claimOne(claim.ClaimAdvance)
	e.completes(decided(again, claim.DecideAdvance), claim.CompleteOK)
	e.verdicts("a", span(schedule.VerdictFired, 0, 1, 1))
	want(e, "Open", e.status("a").Open, 1)
	e.runToEnd(c.Firing(), claim.OutcomeSucceeded)
}

func completeBatch(e *env) {
	for _, id := range []schedule.ID{"a", "b", "c"} {
		e.put(every(id))
	}
	e.advance(period)
	claims := e.claim()
	want(e, "claims", len(claims), 3)
	e.remove(claims[1].Schedule)
	stale := enqueued(claims[2])
	stale.Token++
	outcomes := e.complete(enqueued(claims[0]), enqueued(claims[1]), stale, enqueued(claims[2]), enqueued(claims[0]))
	for i, wanted := range []claim.Outcome{claim.CompleteOK, claim.CompleteGone, claim.CompleteStale, claim.CompleteOK, claim.CompleteAlready} {
		if outcomes[i] != wanted {
			e.Errorf("outcomes %v: number %d = %s, want %s", outcomes, i, outcomes[i], wanted)
		}
	}
	want(e, "outcomes of nothing", len(e.complete()), 0)
}
