package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var concurrencyCases = []testCase{
	{"ten callers claim each of 200 schedules exactly once", claimConcurrently},
	{"of ten callers that take a lease one gets it", acquireConcurrently},
	{"of ten callers that begin a firing one runs it", beginConcurrently},
	{"many that begin and finish at the same time get their own answers", runConcurrently},
	{"of ten callers that create a schedule one does", putConcurrently},
}

var clockCases = []testCase{
	{"tokens grow, also when the clock steps back", clockTokens},
	{"nothing fires early when the clock steps back", clockBack},
	{"a caller whose clock is behind fires nothing early by it", clockBehind},
	{"a caller whose clock is ahead fires nothing early by it", clockAhead},
}

// together runs f in n goroutines that start at once, and waits for them.
func together(n int, f func(i int)) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			f(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}

func claimConcurrently(e *env) {
	const schedules, callers = 200, 10
	definitions := make([]schedule.Schedule, schedules)
	for i := range definitions {
		definitions[i] = every(numbered(i))
	}
	_, err := e.Catalog.PutMany(e.Context(), definitions, schedule.PutOptions{})
	e.must("PutMany", err)
	e.advance(period)
	var mu sync.Mutex
	seen := map[schedule.ID]claim.Token{}
	together(callers, func(int) {
		for shard := range e.shards {
			for range schedules { // enough, and an end when a store grants for ever
				if e.claimShard(shard, 7, &mu, seen) == 0 {
					break
				}
			}
		}
	})
	want(e, "schedules claimed", len(seen), schedules)
	tokens := map[claim.Token]int{}
	for _, token := range seen {
		tokens[token]++
		if e.shards == 1 && tokens[token] > 1 {
			e.Errorf("token %d was granted %d times in one shard", token, tokens[token])
		}
	}
}

// claimShard claims once, notes what it got and returns how many.
func (e *env) claimShard(shard, limit int, mu *sync.Mutex, seen map[schedule.ID]claim.Token) int {
	batch, err := e.Claims.ClaimDue(e.Context(), claim.ClaimRequest{Shard: shard, Owner: "w", Limit: limit, TTL: claimTTL, AuditAfter: auditTime})
	if err != nil {
		e.Errorf("ClaimDue: %v", err)
		return 0
	}
	mu.Lock()
	defer mu.Unlock()
	for _, c := range batch.Claims {
		if before, twice := seen[c.Schedule]; twice {
			e.Errorf("%s was granted twice, with tokens %d and %d", c.Schedule, before, c.Token)
		}
		seen[c.Schedule] = c.Token
	}
	return len(batch.Claims)
}

// count runs f in ten goroutines and wants true from exactly one.
func (e *env) count(what string, f func(i int) (bool, error)) {
	e.Helper()
	var mu sync.Mutex
	got := 0
	together(10, func(i int) {
		ok, err := f(i)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			e.Errorf("%s: %v", what, err)
		}
		if ok {
			got++
		}
	})
	want(e, what, got, 1)
}

func acquireConcurrently(e *env) {
	e.count("leases granted", func(i int) (bool, error) {
		_, ok, err := e.Leases.Acquire(e.Context(), claim.LeaseRequest{Name: "main", Owner: string(numbered(i)), Nonce: "n", TTL: leaseTTL})
		return ok, err
	})
}

func beginConcurrently(e *env) {
	e.put(every("a"))
	id := e.fireNext()
	e.count("attempts granted", func(i int) (bool, error) {
		got, err := e.Ledger.Begin(e.Context(), claim.BeginRequest{Firing: id, Owner: string(numbered(i)), Lease: runLease})
		return got.Answer == claim.BeginRun, err
	})
}

func runConcurrently(e *env) {
	const schedules = 150
	for i := range schedules {
		e.put(every(numbered(i)))
	}
	e.advance(period)
	firings := make([]claim.FiringID, schedules)
	for i, c := range e.claim() {
		firings[i] = c.Firing()
		e.completes(decided(c, claim.DecideEnqueued), claim.CompleteOK)
	}
	grants, ends := make([]claim.BeginResult, schedules), make([]claim.FinishResult, 2*schedules)
	together(schedules, func(i int) {
		var err error
		grants[i], err = e.Ledger.Begin(e.Context(), claim.BeginRequest{Firing: firings[i], Owner: string(numbered(i)), Lease: runLease})
		if err != nil || grants[i].Answer != claim.BeginRun || grants[i].Attempt != 1 {
			e.Errorf("Begin(%s) = %+v, %v", firings[i], grants[i], err)
		}
	})
	together(2*schedules, func(n int) { // each twice, with another outcome: the first counts
		i, outcome := n%schedules, claim.OutcomeSucceeded
		if n < schedules && i%3 == 0 || n >= schedules && i%3 != 0 {
			outcome = claim.OutcomeFailed
		}
		var err error
		ends[n], err = e.Ledger.Finish(e.Context(), claim.FinishRequest{Run: claim.Run{Firing: firings[i], Token: grants[i].Token},
			Outcome: outcome, Attempt: 1, KeepRuns: 5})
		if err != nil {
			e.Errorf("Finish(%s): %v", firings[i], err)
		}
	})
	for i, id := range firings {
		first, second := ends[i].Answer, ends[i+schedules].Answer
		if first == second || first != claim.FinishOK && second != claim.FinishOK {
			e.Errorf("Finish(%s) = %s and %s, want one OK and one ALREADY", id, first, second)
		}
		log, err := e.Ledger.Runs(e.Context(), claimedSchedule(e, id), 10)
		e.must("Runs", err)
		if len(log) != 1 || log[0].Firing != id {
			e.Errorf("the run log of %s holds %+v, want one run", id, log)
		}
	}
}

// claimedSchedule returns the schedule of a firing.
func claimedSchedule(e *env, id claim.FiringID) schedule.ID {
	e.Helper()
	firing, err := claim.ParseFiringID(string(id))
	e.must("ParseFiringID", err)
	return firing.Schedule
}

func putConcurrently(e *env) {
	e.count("creations", func(int) (bool, error) {
		got, err := e.Catalog.Put(e.Context(), every("a"), schedule.PutOptions{})
		return got.Created, err
	})
	want(e, "Version", e.status("a").Version, 1)
}

func clockTokens(e *env) {
	e.put(every("a"))
	e.advance(period)
	last := claim.Token(e.status("a").Generation)
	grow := func(what string, token claim.Token) {
		e.Helper()
		if token <= last {
			e.Fatalf("%s: token %d after %d, want a larger one", what, token, last)
		}
		last = token
	}
	for round := range 6 {
		c := e.claimOne(claim.ClaimFire)
		grow("claim", c.Token)
		e.completes(enqueued(c), claim.CompleteOK)
		grow("begin", e.begins(c.Firing(), "one", claim.BeginRun).Token)
		e.advance(runLease)
		grow("second begin", e.begins(c.Firing(), "two", claim.BeginRun).Token)
		if round%2 == 1 {
			e.advance(-runLease)
		}
	}
	e.remove("a")
	grow("generation", claim.Token(e.put(every("a")).Generation))
}

func clockBack(e *env) {
	e.put(every("a"))
	e.fireNext()
	e.advance(-time.Minute)
	e.none("before the clock stepped back to where it was")
	e.advance(time.Minute)
	e.none("at the time that fired already")
	e.fireNext()
	e.verdicts("a", span(1, 0, 1, 2))
}

func clockBehind(e *env) {
	if e.Peer == nil {
		e.Skip("the backend has one clock here")
	}
	e.put(every("a"))
	e.advance(period)
	behind := e.Peer(func() time.Time { return e.Now().Add(-time.Hour) })
	for shard := range e.shards {
		batch, err := behind.Claims.ClaimDue(e.Context(), claim.ClaimRequest{Shard: shard, Owner: "w", Limit: 10, TTL: claimTTL, AuditAfter: auditTime})
		e.must("ClaimDue", err)
		want(e, "claims of a caller that is an hour behind", len(batch.Claims), 0)
		if batch.Now.After(e.Now().Add(-time.Hour + time.Minute)) {
			e.Errorf("Now = %s, want it capped near the caller's %s", batch.Now, e.Now().Add(-time.Hour))
		}
	}
	e.claimOne(claim.ClaimFire)
}

func clockAhead(e *env) {
	if e.Peer == nil {
		e.Skip("the backend has one clock here")
	}
	e.put(every("a"))
	ahead := e.Peer(func() time.Time { return e.Now().Add(time.Hour) })
	granted := 0
	claimAhead := func() {
		for shard := range e.shards {
			batch, err := ahead.Claims.ClaimDue(e.Context(), claim.ClaimRequest{Shard: shard, Owner: "w", Limit: 10, TTL: claimTTL, AuditAfter: auditTime})
			e.must("ClaimDue", err)
			wantTime(e, "Now", batch.Now, e.Now())
			granted += len(batch.Claims)
		}
	}
	claimAhead()
	want(e, "claims of a caller that is an hour ahead", granted, 0)
	e.advance(period)
	claimAhead()
	want(e, "claims once the store agrees", granted, 1)
}

// ownClock runs a firing from put to settlement on the clock of production.
func ownClock(t *testing.T, open Backend) {
	e := &env{T: t, clock: &clock{}, Stores: open(t, nil)}
	shards, err := e.Claims.Shards(t.Context())
	e.must("Shards", err)
	e.shards = shards
	put := e.put(every("a", func(s *schedule.Schedule) { s.Specs[0].Every = schedule.MinInterval }))
	if ahead := time.Until(put.NextAt); ahead > time.Minute || ahead < -time.Minute {
		e.Fatalf("NextAt is %s from now, want it near (are both clocks right?)", ahead)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c := e.awaitClaim(ctx)
	completion := enqueued(c)
	completion.Next = c.ScheduledAt.Add(time.Hour)
	e.completes(completion, claim.CompleteOK)
	run := e.runs(c.Firing(), "one")
	want(e, "Heartbeat", e.pulse(run), claim.PulseOK)
	e.finishes(run, claim.OutcomeSucceeded, claim.FinishOK)
	lease := e.acquires("main", "w1", "n1")
	want(e, "the lease is valid now", lease.Valid(time.Now()), true)
	want(e, "the lease is valid at its end", lease.Valid(time.Now().Add(leaseTTL)), false)
	lease, ok := e.renewLease(lease)
	want(e, "Renew", ok, true)
	want(e, "the renewed lease is valid now", lease.Valid(time.Now()), true)
	e.check()
}

// awaitClaim claims until there is one.
func (e *env) awaitClaim(ctx context.Context) claim.Claim {
	e.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		for shard := range e.shards {
			batch := e.batch(shard, 10)
			if len(batch.Claims) == 0 {
				continue
			}
			c := batch.Claims[0]
			if c.ScheduledAt.After(batch.Now) {
				e.Errorf("a claim for %s was granted at %s", c.ScheduledAt, batch.Now)
			}
			return c
		}
		select {
		case <-ctx.Done():
			e.Fatal("nothing was ever due")
		case <-tick.C:
		}
	}
}
