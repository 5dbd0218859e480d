package redisstore_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// realBench is a store on a redis-server with n schedules that fire every ten
// seconds, all due.
func realBench(b *testing.B, n int, overlap schedule.Overlap) *bench {
	b.Helper()
	bench := newBench(b, redistest.Backends()[1].Dial(b), 1)
	definitions := make([]schedule.Schedule, n)
	for i := range definitions {
		definitions[i] = every10(schedule.ID(fmt.Sprintf("schedule-%06d", i)))
		definitions[i].Overlap = overlap
		definitions[i].Payload = []byte(`{"account":12345,"region":"eu-central-1"}`)
	}
	results, err := bench.PutMany(b.Context(), definitions, schedule.PutOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for i, r := range results {
		if r.Err != nil || !r.Created {
			b.Fatalf("PutMany(%s) = %+v", definitions[i].ID, r)
		}
	}
	return bench
}

// BenchmarkClaimComplete claims due schedules and completes them, batch by
// batch, on one connection. It reports pairs a second and the slowest call.
func BenchmarkClaimComplete(b *testing.B) {
	for _, overlap := range []schedule.Overlap{schedule.OverlapAllow, schedule.OverlapSkip} {
		for _, batch := range []int{100, 500} {
			b.Run(fmt.Sprintf("%s/%d", overlap, batch), func(b *testing.B) { claimComplete(b, overlap, batch) })
		}
	}
}

func claimComplete(b *testing.B, overlap schedule.Overlap, size int) {
	const schedules = 10000
	bench := realBench(b, schedules, overlap)
	pairs, slowest := 0, time.Duration(0)
	timed := func(call func()) {
		started := time.Now()
		call()
		slowest = max(slowest, time.Since(started))
	}
	before := bench.serverCPU()
	b.ResetTimer()
	for range b.N {
		if pairs%schedules == 0 {
			bench.clock.Add(10 * time.Second)
		}
		var got claim.Batch
		var err error
		timed(func() {
			got, err = bench.ClaimDue(b.Context(), claim.ClaimRequest{Owner: "w", Limit: size, TTL: 10 * time.Second, AuditAfter: 15 * time.Second})
		})
		if err != nil || len(got.Claims) == 0 {
			b.Fatalf("ClaimDue = %d claims, %v", len(got.Claims), err)
		}
		request := claim.CompleteRequest{AuditBuffered: 15 * time.Second}
		for _, c := range got.Claims {
			decision := claim.DecideEnqueued
			if c.Kind == claim.ClaimOverlap {
				decision = claim.DecideOverlap
			}
			request.Completions = append(request.Completions, claim.Completion{Schedule: c.Schedule, Token: c.Token,
				ScheduledAt: c.ScheduledAt, Decision: decision, Next: c.ScheduledAt.Add(10 * time.Second)})
		}
		timed(func() { _, err = bench.Complete(b.Context(), request) })
		if err != nil {
			b.Fatal(err)
		}
		pairs += len(got.Claims)
	}
	b.ReportMetric(float64(pairs)/b.Elapsed().Seconds(), "pairs/s")
	b.ReportMetric(float64(pairs)/(bench.serverCPU()-before), "pairs/s-of-redis-cpu")
	b.ReportMetric(float64(slowest.Microseconds())/1000, "slowest-ms")
}

// serverCPU returns the seconds of CPU time that redis-server has used. On a
// busy machine it says more than the time that passed.
func (b *bench) serverCPU() float64 {
	b.t.Helper()
	text, err := b.client.Info(b.t.Context(), "cpu").Result()
	if err != nil {
		b.t.Fatal(err)
	}
	sum := 0.0
	for _, line := range strings.Split(text, "\r\n") {
		for _, name := range []string{"used_cpu_user:", "used_cpu_sys:"} {
			if value, ok := strings.CutPrefix(line, name); ok {
				seconds, err := strconv.ParseFloat(value, 64)
				if err != nil {
					b.t.Fatal(err)
				}
				sum += seconds
			}
		}
	}
	return sum
}

// BenchmarkBeginFinish begins and finishes firings one by one.
func BenchmarkBeginFinish(b *testing.B) {
	const schedules = 1000
	bench := realBench(b, schedules, schedule.OverlapAllow)
	var firings []claim.FiringID
	cpu, before := 0.0, bench.serverCPU()
	b.ResetTimer()
	for i := range b.N {
		if len(firings) == 0 {
			b.StopTimer()
			cpu += bench.serverCPU() - before
			bench.clock.Add(10 * time.Second)
			firings = bench.fireAll(b)
			before = bench.serverCPU()
			b.StartTimer()
		}
		id := firings[len(firings)-1]
		firings = firings[:len(firings)-1]
		run, err := bench.Begin(b.Context(), claim.BeginRequest{Firing: id, Owner: strconv.Itoa(i), Worker: "w", Lease: 30 * time.Second})
		if err != nil || run.Answer != claim.BeginRun {
			b.Fatalf("Begin = %+v, %v", run, err)
		}
		done, err := bench.Finish(b.Context(), claim.FinishRequest{Run: claim.Run{Firing: id, Token: run.Token},
			Outcome: claim.OutcomeSucceeded, Attempt: 1, Worker: "w", KeepRuns: 20, Duration: time.Second})
		if err != nil || done.Answer != claim.FinishOK {
			b.Fatalf("Finish = %+v, %v", done, err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
	b.ReportMetric(float64(b.N)/(cpu+bench.serverCPU()-before), "runs/s-of-redis-cpu")
}

// fireAll claims and completes everything that is due.
func (b *bench) fireAll(t testing.TB) []claim.FiringID {
	t.Helper()
	var firings []claim.FiringID
	for {
		got, err := b.ClaimDue(t.Context(), claim.ClaimRequest{Owner: "w", Limit: 500, TTL: 10 * time.Second, AuditAfter: 15 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Claims) == 0 {
			return firings
		}
		for _, c := range got.Claims {
			b.complete(c, claim.DecideEnqueued, c.ScheduledAt.Add(10*time.Second))
			firings = append(firings, c.Firing())
		}
	}
}

// BenchmarkPutMany creates ten thousand schedules.
func BenchmarkPutMany(b *testing.B) {
	for range b.N {
		realBench(b, 10000, schedule.OverlapAllow)
	}
	b.ReportMetric(float64(10000*b.N)/b.Elapsed().Seconds(), "puts/s")
}
