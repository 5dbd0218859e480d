package storetest

import (
	"slices"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// every returns a schedule that fires each period from Epoch+period on.
func every(id schedule.ID, options ...func(*schedule.Schedule)) schedule.Schedule {
	s := schedule.Schedule{ID: id, Specs: []schedule.SpecDefinition{{Every: period}}, Type: "test:type"}
	for _, option := range options {
		option(&s)
	}
	return s
}

// overlap sets the overlap policy.
func overlap(policy schedule.Overlap) func(*schedule.Schedule) {
	return func(s *schedule.Schedule) { s.Overlap = policy }
}

func (e *env) put(s schedule.Schedule) schedule.PutResult {
	e.Helper()
	result, err := e.Catalog.Put(e.Context(), s, schedule.PutOptions{})
	e.must("Put", err)
	return result
}

func (e *env) status(id schedule.ID) schedule.Status {
	e.Helper()
	entry, err := e.Catalog.Get(e.Context(), id)
	e.must("Get", err)
	return entry.Status
}

func (e *env) pause(id schedule.ID, options schedule.PauseOptions) schedule.PauseResult {
	e.Helper()
	result, err := e.Catalog.Pause(e.Context(), id, options)
	e.must("Pause", err)
	return result
}

func (e *env) resume(id schedule.ID) schedule.ResumeResult {
	e.Helper()
	return e.resumeWith(id, schedule.ResumeOptions{})
}

func (e *env) resumeWith(id schedule.ID, options schedule.ResumeOptions) schedule.ResumeResult {
	e.Helper()
	result, err := e.Catalog.Resume(e.Context(), id, options)
	e.must("Resume", err)
	return result
}

func (e *env) trigger(id schedule.ID, options schedule.TriggerOptions) schedule.TriggerResult {
	e.Helper()
	result, err := e.Catalog.Trigger(e.Context(), id, options)
	e.must("Trigger", err)
	return result
}

func (e *env) remove(id schedule.ID) bool {
	e.Helper()
	existed, err := e.Catalog.Remove(e.Context(), id, schedule.RemoveOptions{})
	e.must("Remove", err)
	return existed
}

// batch claims from one shard.
func (e *env) batch(shard, limit int) claim.Batch {
	e.Helper()
	batch, err := e.Claims.ClaimDue(e.Context(), claim.ClaimRequest{Shard: shard, Owner: "worker", Limit: limit,
		TTL: claimTTL, AuditAfter: auditTime})
	e.must("ClaimDue", err)
	return batch
}

// claim claims everything that is due, in every shard.
func (e *env) claim() []claim.Claim {
	e.Helper()
	e.rest = nil
	var claims []claim.Claim
	for shard := range e.shards {
		batch := e.batch(shard, 1000)
		claims = append(claims, batch.Claims...)
		e.rest = append(e.rest, batch.Released...)
	}
	return claims
}

// claimOne claims and wants exactly one claim, of the given kind.
func (e *env) claimOne(kind claim.ClaimKind) claim.Claim {
	e.Helper()
	claims := e.claim()
	if len(claims) != 1 || claims[0].Kind != kind {
		e.Fatalf("ClaimDue = %+v, want one claim of kind %s", claims, kind)
	}
	return claims[0]
}

// none wants that nothing can be claimed.
func (e *env) none(when string) {
	e.Helper()
	if claims := e.claim(); len(claims) != 0 {
		e.Fatalf("ClaimDue %s = %+v, want nothing", when, claims)
	}
}

// nextDue returns the earliest due time of all shards.
func (e *env) nextDue() time.Time {
	e.Helper()
	var first time.Time
	for shard := range e.shards {
		if due := e.batch(shard, 1000).NextDue; !due.IsZero() && (first.IsZero() || due.Before(first)) {
			first = due
		}
	}
	return first
}

// enqueued is the completion of a claim whose task was pushed.
func enqueued(c claim.Claim) claim.Completion {
	return claim.Completion{Schedule: c.Schedule, Token: c.Token, ScheduledAt: c.ScheduledAt,
		Decision: claim.DecideEnqueued, Next: c.ScheduledAt.Add(period)}
}

// decided is the completion of a claim with another decision.
func decided(c claim.Claim, decision claim.Decision) claim.Completion {
	completion := enqueued(c)
	completion.Decision = decision
	return completion
}

// judged is the completion of a claim that does not fire.
func judged(c claim.Claim, verdict schedule.Verdict) claim.Completion {
	completion := decided(c, claim.DecideVerdict)
	completion.Verdict = verdict
	return completion
}

func (e *env) complete(completions ...claim.Completion) []claim.Outcome {
	e.Helper()
	result, err := e.Claims.Complete(e.Context(), claim.CompleteRequest{AuditBuffered: auditTime, Completions: completions})
	e.must("Complete", err)
	e.rest = result.Released
	if len(result.Outcomes) != len(completions) {
		e.Fatalf("Complete gave %d outcomes for %d completions", len(result.Outcomes), len(completions))
	}
	return result.Outcomes
}

// completes wants the outcome for one completion.
func (e *env) completes(completion claim.Completion, outcome claim.Outcome) {
	e.Helper()
	if got := e.complete(completion)[0]; got != outcome {
		e.Fatalf("Complete(%+v) = %s, want %s", completion, got, outcome)
	}
}

// fire claims the one schedule that is due and completes it as enqueued.
func (e *env) fire() claim.FiringID {
	e.Helper()
	c := e.claimOne(claim.ClaimFire)
	e.completes(enqueued(c), claim.CompleteOK)
	return c.Firing()
}

// fireNext moves time by a period and fires.
func (e *env) fireNext() claim.FiringID {
	e.Helper()
	e.advance(period)
	return e.fire()
}

func (e *env) renew(c claim.Claim) bool {
	e.Helper()
	held, err := e.Claims.Renew(e.Context(), claimTTL, []claim.Hold{{Schedule: c.Schedule, Token: c.Token}})
	e.must("Renew", err)
	if len(held) != 1 {
		e.Fatalf("Renew gave %d answers for 1 claim", len(held))
	}
	return held[0]
}

func (e *env) release(release claim.Release) bool {
	e.Helper()
	held, err := e.Claims.Release(e.Context(), release)
	e.must("Release", err)
	return held
}

func (e *env) begin(id claim.FiringID, owner string) claim.BeginResult {
	e.Helper()
	return e.beginAs(id, owner, schedule.AtLeastOnce)
}

func (e *env) beginAs(id claim.FiringID, owner string, effect schedule.Effect) claim.BeginResult {
	e.Helper()
	result, err := e.Ledger.Begin(e.Context(), claim.BeginRequest{Firing: id, Owner: owner, Worker: "w-" + owner,
		Lease: runLease, Effect: effect, KeepRuns: 4})
	e.must("Begin", err)
	e.rest = result.Released
	return result
}

// begins wants an answer to Begin.
func (e *env) begins(id claim.FiringID, owner string, answer claim.Answer) claim.BeginResult {
	e.Helper()
	result := e.begin(id, owner)
	if result.Answer != answer {
		e.Fatalf("Begin(%s, %s) = %+v, want %s", id, owner, result, answer)
	}
	return result
}

// runs begins an attempt and wants to run.
func (e *env) runs(id claim.FiringID, owner string) claim.Run {
	e.Helper()
	return claim.Run{Firing: id, Token: e.begins(id, owner, claim.BeginRun).Token}
}

func (e *env) finish(request claim.FinishRequest) claim.FinishResult {
	e.Helper()
	result, err := e.Ledger.Finish(e.Context(), request)
	e.must("Finish", err)
	e.rest = result.Released
	return result
}

// finishes wants an answer to Finish.
func (e *env) finishes(run claim.Run, outcome claim.RunOutcome, answer claim.FinishAnswer) {
	e.Helper()
	request := claim.FinishRequest{Run: run, Outcome: outcome, RetryAfter: period, Started: e.Now(), Attempt: 1}
	if got := e.finish(request); got.Answer != answer {
		e.Fatalf("Finish(%+v, %s) = %s, want %s", run, outcome, got.Answer, answer)
	}
}

// runToEnd runs a firing from begin to finish.
func (e *env) runToEnd(id claim.FiringID, outcome claim.RunOutcome) {
	e.Helper()
	run := e.runs(id, "owner-"+string(id))
	e.finishes(run, outcome, claim.FinishOK)
}

func (e *env) pulse(run claim.Run) claim.Pulse {
	e.Helper()
	pulses, err := e.Ledger.Heartbeat(e.Context(), runLease, []claim.Run{run})
	e.must("Heartbeat", err)
	if len(pulses) != 1 {
		e.Fatalf("Heartbeat gave %d answers for 1 run", len(pulses))
	}
	return pulses[0]
}

// audit returns what is overdue, in every shard, by firing ID.
func (e *env) audit() map[claim.FiringID]claim.OpenFiring {
	e.Helper()
	e.rest = nil
	found := map[claim.FiringID]claim.OpenFiring{}
	for shard := range e.shards {
		batch, err := e.Ledger.Audit(e.Context(), claim.AuditRequest{Shard: shard, Limit: 1000, Hide: time.Minute})
		e.must("Audit", err)
		for _, f := range batch.Firings {
			found[f.Firing] = f
		}
		e.rest = append(e.rest, batch.Released...)
	}
	return found
}

// audited wants exactly one overdue firing.
func (e *env) audited(id claim.FiringID) claim.OpenFiring {
	e.Helper()
	found := e.audit()
	f, ok := found[id]
	if !ok || len(found) != 1 {
		e.Fatalf("Audit = %+v, want only %s", found, id)
	}
	return f
}

func (e *env) settle(request claim.SettleRequest) claim.RedriveResult {
	e.Helper()
	result, err := e.Ledger.Settle(e.Context(), request)
	e.must("Settle", err)
	e.rest = result.Released
	return result
}

// released wants what the last call said to have come out of the buffer.
func (e *env) released(ids ...claim.FiringID) {
	e.Helper()
	var got []claim.FiringID
	for _, r := range e.rest {
		got = append(got, r.Firing)
		want(e, "queue of "+string(r.Firing), r.Queue, schedule.DefaultQueue)
	}
	if !slices.Equal(got, ids) {
		e.Fatalf("released %v, want %v", got, ids)
	}
}

// verdicts wants the history of a schedule: verdict, why, count in turn.
func (e *env) verdicts(id schedule.ID, wants ...schedule.VerdictRange) {
	e.Helper()
	got := e.status(id).Verdicts
	ok := len(got) == len(wants)
	for i := range min(len(got), len(wants)) {
		g, w := got[i], wants[i]
		ok = ok && g.Verdict == w.Verdict && g.Why == w.Why && g.Count == w.Count &&
			g.First.Equal(w.First) && g.Last.Equal(w.Last)
	}
	if !ok {
		e.Fatalf("verdicts of %s:\n got %+v\nwant %+v", id, got, wants)
	}
}

// slot returns the scheduled time number n, from 1.
func slot(n int) time.Time { return Epoch.Add(time.Duration(n) * period) }

// span is a verdict range over scheduled times number first to last.
func span(verdict schedule.Verdict, why, first, last int) schedule.VerdictRange {
	return schedule.VerdictRange{Verdict: verdict, Why: why, Count: int64(last - first + 1), First: slot(first), Last: slot(last)}
}
