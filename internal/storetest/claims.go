package storetest

import (
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var claimCases = []testCase{
	{"nothing is granted before its time, and the reply says when to come back", claimNotBefore},
	{"a due schedule is granted with everything its worker needs", claimCarries},
	{"the oldest are granted first, up to the limit", claimOldestFirst},
	{"a claimed schedule is granted to nobody else", claimExclusive},
	{"a claim that ran out is granted again, marked so, with a larger token", claimAgain},
	{"a claim names the queue of the first one, whatever was edited since", claimQueue},
	{"renewing keeps a claim past its time to live", renewKeeps},
	{"renewing a claim that ran out but was not taken keeps it", renewLate},
	{"renew never revives a claim that was taken or completed", renewNeverRevives},
	{"renew answers one by one", renewMany},
	{"a released claim is granted at once", releaseAtOnce},
	{"a claim released with a time is granted from then on", releaseNotBefore},
	{"a claim is released once", releaseOnce},
	{"an enqueue that failed is kept as the last error", releaseKeepsError},
	{"the next due time includes the deadlines of claims", nextDueOfClaims},
	{"jitter delays the claim, not the scheduled time", claimJitter},
	{"the zero token holds nothing", zeroToken},
	{"a definition without a due time is never granted", claimCompleted},
}

func claimNotBefore(e *env) {
	e.put(every("a"))
	e.none("at creation")
	e.advance(period - time.Millisecond)
	e.none("a millisecond early")
	wantTime(e, "NextDue", e.nextDue(), slot(1))
	e.advance(time.Millisecond)
	e.claimOne(claim.ClaimFire)
}

func claimCarries(e *env) {
	put := e.put(every("a"))
	e.advance(period + 3*time.Second)
	c := e.claimOne(claim.ClaimFire)
	want(e, "Schedule", c.Schedule, "a")
	want(e, "Generation", c.Generation, put.Generation)
	want(e, "Version", c.Version, put.Version)
	wantTime(e, "ScheduledAt", c.ScheduledAt, slot(1))
	want(e, "Again", c.Again, false)
	want(e, "Redrives", c.Redrives, 0)
	want(e, "Fired", c.Fired, 0)
	want(e, "OpenOthers", c.OpenOthers, 0)
	if c.Token <= 0 {
		e.Errorf("Token = %d, want a positive one", c.Token)
	}
	status := e.status("a")
	want(e, "Claimed", status.Claimed, true)
	want(e, "Open", status.Open, 1)
	e.completes(enqueued(c), claim.CompleteOK)
	e.advance(period)
	again := e.claimOne(claim.ClaimFire)
	want(e, "Fired of the second", again.Fired, 1)
	want(e, "OpenOthers of the second", again.OpenOthers, 1)
}

func claimOldestFirst(e *env) {
	ids := []schedule.ID{"c", "a", "b"} // put in this order, due a second apart
	for i, id := range ids {
		s := every(id)
		s.Specs[0].Anchor = Epoch.Add(time.Duration(i+1) * time.Second)
		e.put(s)
	}
	e.advance(period - time.Second)
	byShard := map[int][]schedule.ID{}
	for shard := range e.shards {
		for range len(ids) + 1 {
			batch := e.batch(shard, 1)
			if len(batch.Claims) == 0 {
				break
			}
			want(e, "claims under a limit of 1", len(batch.Claims), 1)
			byShard[shard] = append(byShard[shard], batch.Claims[0].Schedule)
		}
	}
	total := 0
	for shard, got := range byShard {
		total += len(got)
		last := -1
		for _, id := range got {
			position := indexOf(ids, id)
			if position < last {
				e.Errorf("shard %d granted %v, want the order of %v", shard, got, ids)
			}
			last = position
		}
	}
	want(e, "claims", total, 3)
}

func indexOf(ids []schedule.ID, id schedule.ID) int {
	for i := range ids {
		if ids[i] == id {
			return i
		}
	}
	return -1
}

func claimExclusive(e *env) {
	e.put(every("a"))
	e.advance(period)
	e.claimOne(claim.ClaimFire)
	e.none("of a claimed schedule")
	e.advance(claimTTL)
	e.none("at the very end of the claim")
}

func claimAgain(e *env) {
	e.put(every("a"))
	e.advance(period)
	first := e.claimOne(claim.ClaimFire)
	for range 3 {
		e.advance(claimTTL + time.Millisecond)
		c := e.claimOne(claim.ClaimFire)
		want(e, "Again", c.Again, true)
		want(e, "OpenOthers", c.OpenOthers, 0)
		wantTime(e, "ScheduledAt", c.ScheduledAt, first.ScheduledAt)
		if c.Token <= first.Token {
			e.Fatalf("Token %d after %d, want a larger one", c.Token, first.Token)
		}
		first = c
	}
	e.completes(enqueued(first), claim.CompleteOK)
	e.verdicts("a", span(schedule.VerdictFired, 0, 1, 1))
}

func claimQueue(e *env) {
	in := func(queue string) schedule.Schedule {
		return every("a", func(s *schedule.Schedule) { s.Queue = queue })
	}
	e.put(in("old"))
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	want(e, "Queue", c.Queue, "old")
	for _, queue := range []string{"new", "newer"} {
		e.release(claim.Release{Schedule: "a", Token: c.Token})
		e.put(in(queue))
		c = e.claimOne(claim.ClaimFire)
		want(e, "Again", c.Again, true)
		want(e, "Queue", c.Queue, "old")
	}
	e.completes(enqueued(c), claim.CompleteOK)
	e.advance(period)
	want(e, "Queue of the next firing", e.claimOne(claim.ClaimFire).Queue, "newer")
}

func renewKeeps(e *env) {
	e.put(every("a"))
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	for range 5 {
		e.advance(claimTTL - time.Second)
		want(e, "Renew of a live claim", e.renew(c), true)
	}
	e.none("of a renewed claim")
	e.advance(claimTTL + time.Millisecond)
	want(e, "Again", e.claimOne(claim.ClaimFire).Again, true)
}

func renewLate(e *env) {
	e.put(every("a"))
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	e.advance(claimTTL + time.Minute)
	want(e, "Renew of a claim that nobody took", e.renew(c), true)
	e.none("of a claim renewed late")
	e.completes(enqueued(c), claim.CompleteOK)
}

func renewNeverRevives(e *env) {
	e.put(every("a"))
	e.advance(period)
	old := e.claimOne(claim.ClaimFire)
	e.advance(claimTTL + time.Millisecond)
	current := e.claimOne(claim.ClaimFire)
	want(e, "Renew of a claim that another took", e.renew(old), false)
	want(e, "Renew of the claim that took it", e.renew(current), true)
	e.completes(enqueued(current), claim.CompleteOK)
	want(e, "Renew of a completed claim", e.renew(current), false)
	e.advance(period)
	e.claimOne(claim.ClaimFire)
	want(e, "Renew of an earlier claim", e.renew(current), false)
}

func renewMany(e *env) {
	e.put(every("a"))
	e.put(every("b"))
	e.advance(period)
	claims := e.claim()
	want(e, "claims", len(claims), 2)
	held, err := e.Claims.Renew(e.Context(), claimTTL, []claim.Hold{
		{Schedule: claims[0].Schedule, Token: claims[0].Token},
		{Schedule: claims[1].Schedule, Token: claims[1].Token + 1_000_000},
		{Schedule: "nobody", Token: 7},
	})
	e.must("Renew", err)
	for i, wanted := range []bool{true, false, false} {
		want(e, "Renew, answer "+string(rune('1'+i)), held[i], wanted)
	}
	held, err = e.Claims.Renew(e.Context(), claimTTL, nil)
	e.must("Renew of nothing", err)
	want(e, "answers to Renew of nothing", len(held), 0)
}

func releaseAtOnce(e *env) {
	e.put(every("a"))
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	want(e, "Release", e.release(claim.Release{Schedule: "a", Token: c.Token}), true)
	want(e, "Claimed after Release", e.status("a").Claimed, false)
	next := e.claimOne(claim.ClaimFire)
	want(e, "Again", next.Again, true)
	wantTime(e, "ScheduledAt", next.ScheduledAt, c.ScheduledAt)
}

func releaseNotBefore(e *env) {
	e.put(every("a"))
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	until := e.Now().Add(5 * time.Second)
	want(e, "Release", e.release(claim.Release{Schedule: "a", Token: c.Token, NotBefore: until}), true)
	e.none("before the given time")
	wantTime(e, "NextDue", e.nextDue(), until)
	e.advance(5 * time.Second)
	c = e.claimOne(claim.ClaimFire)
	wantTime(e, "ScheduledAt", c.ScheduledAt, slot(1))
	e.completes(enqueued(c), claim.CompleteOK)
	wantTime(e, "DueAt after complete", e.status("a").DueAt, slot(2))
}

func releaseOnce(e *env) {
	e.put(every("a"))
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	want(e, "Release", e.release(claim.Release{Schedule: "a", Token: c.Token}), true)
	want(e, "Release again", e.release(claim.Release{Schedule: "a", Token: c.Token}), false)
	want(e, "Release of an unknown schedule", e.release(claim.Release{Schedule: "nobody", Token: c.Token}), false)
	c = e.claimOne(claim.ClaimFire)
	e.completes(enqueued(c), claim.CompleteOK)
	want(e, "Release of a completed claim", e.release(claim.Release{Schedule: "a", Token: c.Token}), false)
}

func releaseKeepsError(e *env) {
	e.put(every("a"))
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	e.release(claim.Release{Schedule: "a", Token: c.Token, EnqueueFailed: true, Error: "queue is down"})
	status := e.status("a")
	want(e, "LastError", status.LastError, "queue is down")
	want(e, "ConsecutiveFails", status.ConsecutiveFails, 1)
	want(e, "State", status.State, schedule.StateActive)
}

func nextDueOfClaims(e *env) {
	e.put(every("a"))
	e.advance(period)
	e.claimOne(claim.ClaimFire)
	due := e.nextDue()
	if due.Before(e.Now().Add(claimTTL)) || due.After(e.Now().Add(claimTTL+time.Millisecond)) {
		e.Errorf("NextDue = %s, want the deadline of the claim, %s", due, e.Now().Add(claimTTL))
	}
}

func claimJitter(e *env) {
	s := every("a")
	s.Specs[0].Every = time.Hour
	s.Jitter = 30 * time.Minute
	e.put(s)
	status := e.status("a")
	wantTime(e, "NextAt", status.NextAt, Epoch.Add(time.Hour))
	delay := status.DueAt.Sub(status.NextAt)
	if delay <= 0 || delay >= s.Jitter {
		e.Fatalf("DueAt is %s after NextAt, want inside the jitter (the ID is chosen so)", delay)
	}
	e.advance(time.Hour + delay - time.Millisecond)
	e.none("before the jitter has passed")
	e.advance(time.Millisecond)
	c := e.claimOne(claim.ClaimFire)
	wantTime(e, "ScheduledAt", c.ScheduledAt, Epoch.Add(time.Hour))
	completion := enqueued(c)
	completion.Next, completion.NotBefore = Epoch.Add(2*time.Hour), Epoch.Add(2*time.Hour+time.Minute)
	e.completes(completion, claim.CompleteOK)
	wantTime(e, "DueAt of the next", e.status("a").DueAt, completion.NotBefore)
	wantTime(e, "NextAt of the next", e.status("a").NextAt, completion.Next)
}

func zeroToken(e *env) {
	e.put(every("a"))
	e.advance(period)
	unclaimed := claim.Claim{Schedule: "a", ScheduledAt: slot(1)}
	want(e, "Renew without a claim", e.renew(unclaimed), false)
	want(e, "Release without a claim", e.release(claim.Release{Schedule: "a"}), false)
	e.completes(enqueued(unclaimed), claim.CompleteStale)
	c := e.claimOne(claim.ClaimFire)
	e.finishes(claim.Run{Firing: c.Firing()}, claim.OutcomeSucceeded, claim.FinishStale)
	want(e, "Heartbeat of a firing that never began", e.pulse(claim.Run{Firing: c.Firing()}), claim.PulseLost)
}

func claimCompleted(e *env) {
	e.put(every("a"))
	e.advance(period)
	last := enqueued(e.claimOne(claim.ClaimFire))
	last.Next = time.Time{}
	e.completes(last, claim.CompleteOK)
	status := e.status("a")
	want(e, "State", status.State, schedule.StateCompleted)
	want(e, "NextAt is zero", status.NextAt.IsZero(), true)
	want(e, "DueAt is zero", status.DueAt.IsZero(), true)
	e.advance(1000 * time.Hour)
	e.none("of a completed schedule")
}
