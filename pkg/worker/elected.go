package worker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/belfryhq/belfry/pkg/gocronx"
)

// Housekeeping of the whole namespace, which one worker does for all: it is
// elected by a lease. Nothing depends on it; the auditor is not among it, so
// that lost tasks are found as long as any worker lives.
const (
	electionName   = "housekeeping"
	statisticsCron = "30 */5 * * * *" // every 5 min
	statisticsTime = 10 * time.Second // bounds one look
)

// An elected has chores that are done in one worker only.
type elected struct {
	*chores
	resign   context.CancelFunc
	campaign sync.WaitGroup
}

func (w *Worker) startElected(ctx context.Context) (*elected, error) {
	elector, err := gocronx.NewElector(gocronx.ElectorOptions{Leases: w.store.Leases(), Name: electionName, Owner: w.options.ID,
		Logger: slog.New(quiet{w.options.Logger.Handler(), w.away})})
	if err != nil {
		return nil, fmt.Errorf("worker: housekeeping: %w", err)
	}
	c, err := newChores(w.options.Logger, gocron.WithDistributedElector(elector))
	if err != nil {
		return nil, err
	}
	if err := c.add("statistics", statisticsCron, func() { w.logStatistics(ctx) }); err != nil {
		return nil, err
	}
	leading, resign := context.WithCancel(context.WithoutCancel(ctx))
	e := &elected{chores: c, resign: resign}
	e.campaign.Go(func() { _ = elector.Run(leading) }) // returns nil
	c.scheduler.Start()
	return e, nil
}

// stop ends the jobs, then gives the leadership to another worker.
func (e *elected) stop() {
	e.chores.stop()
	e.resign()
	e.campaign.Wait()
}

// logStatistics writes the state of the namespace, so that one log of the
// fleet shows whether it keeps up.
func (w *Worker) logStatistics(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, statisticsTime)
	defer cancel()
	stats, err := w.store.Stats(ctx)
	if err != nil {
		if ctx.Err() == nil {
			w.options.Logger.Warn("the statistics cannot be read", "error", err)
		}
		return
	}
	w.options.Logger.Info("statistics of the namespace", "namespace", w.options.Namespace, "schedules", stats.Total, "active", stats.Active,
		"paused", stats.Paused, "disabled", stats.Disabled, "completed", stats.Completed, "due", stats.Due, "claimed", stats.Claimed,
		"open", stats.Open, "buffered", stats.Buffered, "lateness", stats.Lateness.String())
}
