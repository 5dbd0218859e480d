package bench

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

const (
	runsAlone    = 2_000 // begun and finished one after the other
	runsTogether = 8_000 // begun and finished by runners at the same time
	runners      = 64
)

// BenchmarkBeginAndFinish prints how many runs a second of Redis's CPU time
// begin and finish allow when one process runs one task after the other, and
// when it runs many at a time, so that their calls meet and share scripts.
func BenchmarkBeginAndFinish(b *testing.B) {
	for b.Loop() {
		server := redistest.Start(b, redistest.ServerOptions{Args: []string{"--slowlog-log-slower-than", "500", "--slowlog-max-len", "100000"}})
		client := server.Client()
		now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC) // of the store's clock, which stands still
		store, err := redisstore.New(client, redisstore.Options{Namespace: "bench", Now: func() time.Time { return now }})
		if err != nil {
			b.Fatal(err)
		}
		putRuns(b, store, now.Add(time.Second))
		now = now.Add(2 * time.Second)
		firings := enqueued(b, store)
		rate := func(n, goroutines int) (perCPU, perSecond float64) {
			before, started := cpuUsed(b, client), time.Now()
			runAll(b, store, firings[:n], goroutines)
			perSecond = float64(n) / time.Since(started).Seconds()
			firings = firings[n:]
			return float64(n) / cpuUsed(b, client).since(before).redis.Seconds(), perSecond
		}
		alone, _ := rate(runsAlone, 1)
		together, perSecond := rate(runsTogether, runners)
		slowest, name := slowestScript(b, client)
		b.ReportMetric(alone, "alone-runs/redis-cpu-s")
		b.ReportMetric(together, "together-runs/redis-cpu-s")
		b.ReportMetric(together/alone, "ratio")
		b.ReportMetric(perSecond, "together-runs/s")
		b.ReportMetric(float64(slowest)/float64(time.Millisecond), "slowest-script-ms")
		b.Logf("slowest script: %s (%s)", slowest, name)
	}
}

// putRuns stores a schedule for each run.
func putRuns(b *testing.B, store *redisstore.Store, due time.Time) {
	b.Helper()
	definitions := make([]schedule.Schedule, runsAlone+runsTogether)
	for i := range definitions {
		definitions[i] = schedule.Schedule{ID: schedule.ID(fmt.Sprintf("run-%05d", i)), Type: "report:build", Payload: payload,
			Specs: []schedule.SpecDefinition{{Every: 24 * time.Hour, Anchor: due}}}
	}
	results, err := store.PutMany(b.Context(), definitions, schedule.PutOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for i, r := range results {
		if r.Err != nil {
			b.Fatalf("%s: %v", definitions[i].ID, r.Err)
		}
	}
}

// enqueued claims and completes what is due, and returns the firings.
func enqueued(b *testing.B, store *redisstore.Store) []claim.FiringID {
	b.Helper()
	var firings []claim.FiringID
	for len(firings) < runsAlone+runsTogether {
		batch, err := store.ClaimDue(b.Context(), claim.ClaimRequest{Owner: "bench", Limit: 100, TTL: time.Minute, AuditAfter: time.Minute})
		if err != nil || len(batch.Claims) == 0 {
			b.Fatalf("ClaimDue = %d claims after %d, %v", len(batch.Claims), len(firings), err)
		}
		var done claim.CompleteRequest
		for _, c := range batch.Claims {
			firings = append(firings, c.Firing())
			done.Completions = append(done.Completions, claim.Completion{Schedule: c.Schedule, Token: c.Token, ScheduledAt: c.ScheduledAt,
				Decision: claim.DecideEnqueued, Next: c.ScheduledAt.Add(24 * time.Hour)})
		}
		if _, err := store.Complete(b.Context(), done); err != nil {
			b.Fatal(err)
		}
	}
	return firings
}

// runAll begins and finishes firings, as the middleware does around a handler
// that does nothing.
func runAll(b *testing.B, store *redisstore.Store, firings []claim.FiringID, goroutines int) {
	b.Helper()
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for i := g; i < len(firings); i += goroutines {
				grant, err := store.Begin(b.Context(), claim.BeginRequest{Firing: firings[i], Owner: fmt.Sprint(i), Worker: "bench", Lease: time.Minute})
				if err != nil || grant.Answer != claim.BeginRun {
					b.Errorf("Begin(%s) = %+v, %v", firings[i], grant, err)
					return
				}
				end, err := store.Finish(b.Context(), claim.FinishRequest{Run: claim.Run{Firing: firings[i], Token: grant.Token},
					Outcome: claim.OutcomeSucceeded, Attempt: 1, Worker: "bench", KeepRuns: 20, Duration: time.Millisecond})
				if err != nil || end.Answer != claim.FinishOK {
					b.Errorf("Finish(%s) = %+v, %v", firings[i], end, err)
				}
			}
		})
	}
	group.Wait()
}
