package worker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/pkg/worker"
)

// A damagedStore reports one schedule as damaged, once a minute.
type damagedStore struct {
	claim.Store
	next time.Time
}

func (s *damagedStore) ClaimDue(ctx context.Context, r claim.ClaimRequest) (claim.Batch, error) {
	batch, err := s.Store.ClaimDue(ctx, r)
	if err == nil && !batch.Now.Before(s.next) {
		batch.Damaged, s.next = []schedule.ID{"broken"}, batch.Now.Add(time.Minute)
	}
	return batch, err
}

func TestADamagedScheduleIsReportedAndTheOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		start := time.Now()
		f.put("good", "1s", nil)
		m := f.member("a", func(o *worker.SchedulerOptions) { o.Claims = &damagedStore{Store: o.Claims} })
		m.start()
		time.Sleep(2*time.Minute + 30*time.Second)
		m.halt()
		f.checkExactlyOnce("good", start.Add(time.Second), start.Add(2*time.Minute), time.Second)
		if n := len(m.observer.isolated); n != 3 {
			t.Errorf("reported %d times in two and a half minutes, want each time that the store did, 3", n)
		}
		checkIsolated(t, m, "broken")
	})
}
