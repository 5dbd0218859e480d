package worker_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/pkg/worker"
)

// A hanger makes one call hang, whatever its deadline, until it is let go.
type hanger struct {
	mu    sync.Mutex
	hangs string
	freed chan struct{}
}

func (h *hanger) hang(call string) {
	h.mu.Lock()
	hangs, freed := h.hangs == call, h.freed
	h.mu.Unlock()
	if hangs {
		<-freed
	}
}

func (h *hanger) set(call string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.freed != nil {
		close(h.freed)
	}
	h.hangs, h.freed = call, make(chan struct{})
}

type hangingClaims struct {
	claim.Store
	h *hanger
}

func (c hangingClaims) ClaimDue(ctx context.Context, r claim.ClaimRequest) (claim.Batch, error) {
	if r.Shard == 1 {
		c.h.hang("claim")
	}
	return c.Store.ClaimDue(ctx, r)
}

type hangingBackfills struct {
	claim.Backfills
	h *hanger
}

func (b hangingBackfills) DueBackfills(ctx context.Context, r claim.DueBackfillsRequest) (claim.BackfillBatch, error) {
	b.h.hang("backfill")
	return b.Backfills.DueBackfills(ctx, r)
}

type hangingAuditor struct {
	worker.Auditor
	h *hanger
}

func (a hangingAuditor) Sweep(ctx context.Context, shard int) (queue.SweepResult, error) {
	a.h.hang("audit")
	return a.Auditor.Sweep(ctx, shard)
}

// TestReadinessTurnsRedWhenOneLoopHangs lets one loop hang in a call that
// ignores its deadline, while all others go on.
func TestReadinessTurnsRedWhenOneLoopHangs(t *testing.T) {
	for call, want := range map[string]string{"claim": "claim 1 loop", "backfill": "backfill loop", "audit": "audit loop"} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, 4)
				for _, name := range names(8) {
					f.put(name, "5s", nil)
				}
				h := &hanger{}
				m := f.member("a", func(o *worker.SchedulerOptions) {
					o.Claims, o.Auditor, o.Backfills = hangingClaims{o.Claims, h}, hangingAuditor{o.Auditor, h}, hangingBackfills{f.store, h}
				})
				m.start()
				time.Sleep(2 * time.Minute)
				if err := m.Ready(); err != nil {
					t.Errorf("Ready while all is well = %v", err)
				}
				h.set(call)
				time.Sleep(2 * time.Minute)
				if err := m.Ready(); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("Ready while the %s hangs = %v, want the loop named", call, err)
				}
				if err := m.Live(); err != nil {
					t.Errorf("Live = %v: the others go on", err)
				}
				h.set("")
				time.Sleep(30 * time.Second)
				if err := m.Ready(); err != nil {
					t.Errorf("Ready after it answers again = %v", err)
				}
				m.halt()
			})
		})
	}
}

// An eagerLooker says of everything that it has ended, and closes nothing.
type eagerLooker struct{ looks atomic.Int64 }

func (l *eagerLooker) Look(_ context.Context, firings []claim.FiringID) (queue.LookResult, error) {
	l.looks.Add(1)
	return queue.LookResult{Ended: firings}, nil
}

// TestAClaimDoesNotGoBackForEver has a store that goes on to list what is not
// there.
func TestAClaimDoesNotGoBackForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		f.put("skip", "10s", func(s *schedule.Schedule) { s.Overlap = schedule.OverlapSkip })
		looker := &eagerLooker{}
		m := f.member("a", func(o *worker.SchedulerOptions) { o.Looker, o.AuditAfter = looker, time.Hour })
		m.setFault(func(call string) error {
			if call == "audit" {
				return errAway // nobody closes the first one
			}
			return nil
		})
		m.start()
		time.Sleep(35 * time.Second)
		if n := looker.looks.Load(); n < 2 || n > 20 {
			t.Errorf("looked %d times at what two scheduled times met, want a few", n)
		}
		entry, err := f.store.Get(t.Context(), "skip")
		if err != nil {
			t.Fatal(err)
		}
		if v := entry.Status.Verdicts; len(v) != 2 || v[1].Verdict != schedule.VerdictOverlap || v[1].Count != 2 {
			t.Errorf("verdicts %+v, want one fired and two overlapping", v)
		}
		m.halt()
	})
}
