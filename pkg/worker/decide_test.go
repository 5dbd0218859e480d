package worker

import (
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// TestDecideContainsAPanic plans a schedule that was never compiled, which is
// the nearest to an engine with a fault that a test can have.
func TestDecideContainsAPanic(t *testing.T) {
	_, err := decide(nil, claim.Claim{Schedule: "bad", ScheduledAt: time.Unix(1, 0)}, time.Unix(2, 0))
	if err == nil || !strings.Contains(err.Error(), "bad panicked") {
		t.Errorf("decide without a schedule = %v, want the panic as an error", err)
	}
}

func TestDecideStatesWhatTheStoreMustDo(t *testing.T) {
	at := time.Date(2030, 1, 1, 0, 0, 10, 0, time.UTC)
	compiled, err := schedule.Compile(schedule.Schedule{ID: "s", Expression: "10s", Type: "t", Missed: schedule.MissedLatest}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		claim   claim.Claim
		now     time.Time
		want    claim.Decision
		verdict schedule.Verdict
		next    time.Time
	}{
		{"due", claim.Claim{Kind: claim.ClaimFire}, at, claim.DecideEnqueued, 0, at.Add(10 * time.Second)},
		{"settled already", claim.Claim{Kind: claim.ClaimAdvance}, at, claim.DecideAdvance, 0, at.Add(10 * time.Second)},
		{"to be skipped", claim.Claim{Kind: claim.ClaimSkip}, at, claim.DecideVerdict, schedule.VerdictSkipped, at.Add(10 * time.Second)},
		{"overlapping", claim.Claim{Kind: claim.ClaimOverlap}, at, claim.DecideOverlap, 0, at.Add(10 * time.Second)},
		{"missed", claim.Claim{Kind: claim.ClaimFire}, at.Add(35 * time.Second), claim.DecideVerdict, schedule.VerdictCoalesced, at.Add(30 * time.Second)},
		{"missed but perhaps enqueued", claim.Claim{Kind: claim.ClaimFire, Again: true}, at.Add(35 * time.Second), claim.DecideEnqueued, 0, at.Add(10 * time.Second)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.claim.Schedule, tt.claim.ScheduledAt, tt.claim.Token = "s", at, 7
			d, err := decide(compiled, tt.claim, tt.now)
			if err != nil {
				t.Fatal(err)
			}
			got := d.completion()
			if got.Decision != tt.want || got.Verdict != tt.verdict || got.Token != 7 || !got.Next.Equal(tt.next) {
				t.Errorf("completion = %+v, want %s, verdict %d, next %s", got, tt.want, tt.verdict, tt.next)
			}
		})
	}
}

func TestRankingSpreadsShards(t *testing.T) {
	members := []claim.Member{{ID: "a", Claims: true}, {ID: "b", Claims: true}, {ID: "c", Claims: true}}
	preferred := map[string]int{}
	for shard := range 300 {
		firsts := 0
		for _, m := range members {
			r := ranking{self: m.ID}
			r.update(members)
			if r.wait(shard) == 0 {
				firsts++
				preferred[m.ID]++
			} else if w := r.wait(shard); w < patience || w > mostPatience {
				t.Errorf("wait of %s for shard %d = %s, want %s to %s", m.ID, shard, w, patience, mostPatience)
			}
		}
		if firsts != 1 {
			t.Errorf("shard %d has %d preferred workers, want 1", shard, firsts)
		}
	}
	for id, n := range preferred {
		if n < 60 || n > 140 {
			t.Errorf("%s is preferred for %d of 300 shards, want about a third", id, n)
		}
	}
}

func TestCacheForgetsTheUnused(t *testing.T) {
	c := newCache(nil, nil)
	c.store("used", &definition{version: 1})
	for i := range 3 * half {
		c.store(schedule.ID("x"+time.Duration(i).String()), &definition{})
		if i%1000 == 0 && c.lookup("used") == nil {
			t.Fatalf("a definition in use was forgotten after %d others", i)
		}
	}
	if n := len(c.newer) + len(c.older); n > 2*half {
		t.Errorf("the cache holds %d definitions, want at most %d", n, 2*half)
	}
}
