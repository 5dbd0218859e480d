package worker

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/belfryhq/belfry/pkg/redisstore"
)

// Mending: indexes that disagree with the records, after a slip with redis-cli
// or a bug, are put right slowly, by every worker, each from a shard of its
// own choice.
const (
	mendCron  = "8/10 * * * * *"      // every 10 s, beside the other jobs
	mendTime  = 50 * time.Millisecond // of work at a time, about
	mendSteps = 12                    // at most, so that an idle worker does not see how many schedules there are
	mendRest  = time.Minute           // between two rounds through everything, at least
	mendCall  = 5 * time.Second       // bounds what one time of work waits for
)

// A mender goes through everything, a little at a time.
type mender struct {
	repair *redisstore.Repair
	rested time.Time // when the last round ended
}

func newMender(store *redisstore.Store) (*mender, error) {
	repair, err := store.NewRepair(redisstore.RepairOptions{Shard: rand.IntN(256)})
	return &mender{repair: repair}, err
}

// work goes on with the round, or begins another one.
func (m *mender) work(ctx context.Context) ([]redisstore.Repaired, error) {
	began := time.Now()
	if !m.rested.IsZero() && began.Sub(m.rested) < mendRest {
		return nil, nil
	}
	var all []redisstore.Repaired
	for n := 0; n < mendSteps && time.Since(began) < mendTime; n++ {
		step, err := m.repair.Step(ctx)
		all = append(all, step.Repaired...)
		if step.Done {
			m.rested = time.Now()
		}
		if err != nil || step.Done {
			return all, err
		}
	}
	return all, nil
}

// mend is one time of work. It asks a store only that answered the last
// announcement.
func (w *Worker) mend(ctx context.Context, m *mender) {
	if unlisted := w.unlisted.Load(); w.scheduler == nil || unlisted == nil || *unlisted != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, mendCall)
	defer cancel()
	all, err := m.work(ctx)
	if len(all) > 0 {
		w.options.Logger.Warn("what indexes, lists or counters said was not what the records say; it was repaired",
			"repairs", len(all), "first", all[0].String())
	}
	w.tellReplaced(all)
	if err != nil && ctx.Err() == nil && !w.told(err) {
		w.options.Logger.Warn("a repair was broken off; the next look goes on", "error", err)
	}
}

// mostReplaced bounds how many records one time of work tells of.
const mostReplaced = 20

// tellReplaced says of each record that was removed or replaced what it was:
// nothing else keeps it.
func (w *Worker) tellReplaced(all []redisstore.Repaired) {
	told, silent := 0, 0
	for _, one := range all {
		switch {
		case one.Was == "":
		case told == mostReplaced:
			silent++
		default:
			told++
			w.options.Logger.Warn("a record was none of a firing or a backfill, or stood under a name that is none; it was removed or read anew",
				"record", one.String())
		}
	}
	if silent > 0 {
		w.options.Logger.Warn("more records were none", "records", silent)
	}
}
