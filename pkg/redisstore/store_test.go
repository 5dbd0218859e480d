package redisstore_test

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

// A clock stands still until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2030, 1, 2, 3, 4, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Add(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	return c.now
}

// A bench is a store of its own with a clock of its own.
type bench struct {
	*redisstore.Store
	t      testing.TB
	clock  *clock
	client redis.UniversalClient
}

func newBench(t testing.TB, client redis.UniversalClient, shards int) *bench {
	t.Helper()
	c := newClock()
	store, err := redisstore.New(client, redisstore.Options{Namespace: redistest.Namespace(), Shards: shards, Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{Store: store, t: t, clock: c, client: client}
	t.Cleanup(func() {
		if !t.Failed() {
			b.check()
		}
	})
	return b
}

// check fails the test for every broken invariant.
func (b *bench) check() {
	b.t.Helper()
	violations, err := b.Check(b.t.Context())
	if err != nil && b.t.Context().Err() == nil {
		b.t.Errorf("Check: %v", err)
	}
	for _, v := range violations {
		b.t.Errorf("invariant broken: %s", v)
	}
}

// each runs a test on every backend.
func each(t *testing.T, run func(t *testing.T, b *bench)) {
	t.Helper()
	for _, backend := range redistest.Backends() {
		t.Run(backend.Name, func(t *testing.T) {
			t.Parallel()
			run(t, newBench(t, backend.Dial(t), 3))
		})
	}
}

// every10 is a schedule of one firing every ten seconds.
func every10(id schedule.ID) schedule.Schedule {
	return schedule.Schedule{ID: id, Specs: []schedule.SpecDefinition{{Every: 10 * time.Second}}, Type: "work"}
}

func (b *bench) put(d schedule.Schedule) schedule.PutResult {
	b.t.Helper()
	result, err := b.Put(b.t.Context(), d, schedule.PutOptions{})
	if err != nil {
		b.t.Fatalf("Put(%s): %v", d.ID, err)
	}
	return result
}

func (b *bench) get(id schedule.ID) schedule.Status {
	b.t.Helper()
	entry, err := b.Get(b.t.Context(), id)
	if err != nil {
		b.t.Fatalf("Get(%s): %v", id, err)
	}
	if entry.Invalid != nil {
		b.t.Fatalf("Get(%s): invalid: %v", id, entry.Invalid)
	}
	return entry.Status
}

// claimAll claims everything that is due.
func (b *bench) claimAll() []claim.Claim {
	b.t.Helper()
	shards, err := b.Shards(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	var all []claim.Claim
	for shard := range shards {
		batch, err := b.ClaimDue(b.t.Context(), claim.ClaimRequest{Shard: shard, Owner: "w", Limit: 100,
			TTL: 10 * time.Second, AuditAfter: 15 * time.Second, AuditOverlap: 3 * time.Second})
		if err != nil {
			b.t.Fatalf("ClaimDue(%d): %v", shard, err)
		}
		all = append(all, batch.Claims...)
	}
	return all
}

// claimOne claims and fails unless exactly one is granted.
func (b *bench) claimOne() claim.Claim {
	b.t.Helper()
	all := b.claimAll()
	if len(all) != 1 {
		b.t.Fatalf("%d claims, want 1: %+v", len(all), all)
	}
	return all[0]
}

func (b *bench) complete(c claim.Claim, decision claim.Decision, next time.Time) claim.Outcome {
	b.t.Helper()
	result, err := b.Complete(b.t.Context(), claim.CompleteRequest{AuditBuffered: 15 * time.Second,
		Completions: []claim.Completion{{Schedule: c.Schedule, Token: c.Token, ScheduledAt: c.ScheduledAt, Decision: decision, Next: next}}})
	if err != nil {
		b.t.Fatalf("Complete(%s): %v", c.Schedule, err)
	}
	return result.Outcomes[0]
}

func (b *bench) begin(id claim.FiringID, owner string) claim.BeginResult {
	b.t.Helper()
	result, err := b.Begin(b.t.Context(), claim.BeginRequest{Firing: id, Owner: owner, Worker: "w", Lease: 30 * time.Second})
	if err != nil {
		b.t.Fatalf("Begin(%s): %v", id, err)
	}
	return result
}

func (b *bench) finish(id claim.FiringID, token claim.Token, outcome claim.RunOutcome) claim.FinishResult {
	b.t.Helper()
	result, err := b.Finish(b.t.Context(), claim.FinishRequest{Run: claim.Run{Firing: id, Token: token}, Outcome: outcome,
		Error: map[bool]string{true: "boom"}[outcome == claim.OutcomeFailed], Started: b.clock.Now(), Duration: 1500 * time.Millisecond,
		Attempt: 1, Worker: "w", KeepRuns: 3, RetryAfter: time.Minute})
	if err != nil {
		b.t.Fatalf("Finish(%s): %v", id, err)
	}
	return result
}

func TestAFiringGoesItsWay(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		created := b.put(every10("a"))
		if !created.Created || created.Version != 1 || !created.NextAt.Equal(b.clock.Now().Add(10*time.Second)) {
			t.Fatalf("Put = %+v", created)
		}
		if claims := b.claimAll(); len(claims) != 0 {
			t.Fatalf("claims before anything is due: %+v", claims)
		}
		due := b.clock.Add(10 * time.Second)
		c := b.claimOne()
		if c.Kind != claim.ClaimFire || c.Again || !c.ScheduledAt.Equal(due) || c.Version != 1 || c.Generation != created.Generation {
			t.Fatalf("claim = %+v", c)
		}
		if status := b.get("a"); !status.Claimed || status.Open != 1 {
			t.Fatalf("status of a claimed schedule: %+v", status)
		}
		next := due.Add(10 * time.Second)
		if got := b.complete(c, claim.DecideEnqueued, next); got != claim.CompleteOK {
			t.Fatalf("Complete = %s", got)
		}
		if got := b.complete(c, claim.DecideEnqueued, next); got != claim.CompleteAlready {
			t.Fatalf("Complete again = %s", got)
		}
		run := b.begin(c.Firing(), "nonce")
		if run.Answer != claim.BeginRun || run.Attempt != 1 || run.Token <= c.Token {
			t.Fatalf("Begin = %+v", run)
		}
		if again := b.begin(c.Firing(), "nonce"); again.Answer != claim.BeginRun || again.Token != run.Token {
			t.Fatalf("Begin again = %+v", again)
		}
		if other := b.begin(c.Firing(), "other"); other.Answer != claim.BeginBusy || other.Wait != 30*time.Second {
			t.Fatalf("Begin by another = %+v", other)
		}
		if status := b.get("a"); status.LastStatus != schedule.LastRunning || !status.LastRunAt.Equal(due) {
			t.Fatalf("status of a running schedule: %+v", status)
		}
		if got := b.finish(c.Firing(), run.Token, claim.OutcomeSucceeded); got.Answer != claim.FinishOK {
			t.Fatalf("Finish = %+v", got)
		}
		if got := b.finish(c.Firing(), run.Token, claim.OutcomeSucceeded); got.Answer != claim.FinishAlready {
			t.Fatalf("Finish again = %+v", got)
		}
		if late := b.begin(c.Firing(), "late"); late.Answer != claim.BeginSettled {
			t.Fatalf("Begin of a settled firing = %+v", late)
		}
		status := b.get("a")
		if status.LastStatus != schedule.LastCompleted || status.RunCount != 1 || status.LastDuration != 1500*time.Millisecond ||
			status.Fired != 1 || status.Open != 0 || !status.NextAt.Equal(next) {
			t.Fatalf("status = %+v", status)
		}
		if len(status.Verdicts) != 1 || status.Verdicts[0].Verdict != schedule.VerdictFired || status.Verdicts[0].Count != 1 {
			t.Fatalf("verdicts = %+v", status.Verdicts)
		}
		runs, err := b.Runs(t.Context(), "a", 10)
		if err != nil || len(runs) != 1 || runs[0].Outcome != claim.OutcomeSucceeded || runs[0].Firing != c.Firing() || runs[0].Worker != "w" {
			t.Fatalf("Runs = %+v, %v", runs, err)
		}
	})
}
