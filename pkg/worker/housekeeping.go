package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/belfryhq/belfry/pkg/redisstore"
)

// Housekeeping: what happens now and then and hurts nobody when it is late.
// The claim loop is not among it, on purpose.
const (
	announceCron = "*/10 * * * * *" // every 10 s
	announceTime = 2 * time.Second  // bounds one announcement, so that one that hangs does not hold up the next for long
	announceSoon = time.Second      // the longest pause after one that failed: readiness waits for the next
	memberAge    = 25 * time.Second // a member unseen for longer is gone
	countsCron   = "0 */5 * * * *"  // every 5 min
	finishCron   = "5/10 * * * * *" // every 10 s, between the announcements
	finishTime   = 30 * time.Second // bounds the work on unfinished changes of calendars
)

// startHousekeeping announces the worker at once, then starts its jobs.
func (w *Worker) startHousekeeping(ctx context.Context) (*chores, error) {
	mender, err := newMender(w.store)
	if err != nil {
		return nil, fmt.Errorf("worker: housekeeping: %w", err)
	}
	c, err := newChores(w.options.Logger)
	if err != nil {
		return nil, err
	}
	err = c.add("announce", announceCron, func() { w.announce(ctx) }, gocron.WithStartAt(gocron.WithStartImmediately()))
	if err != nil {
		return nil, err
	}
	for _, job := range []struct {
		name, cron string
		run        func()
	}{
		{"counts", countsCron, w.logCounts},
		{"calendars", finishCron, func() { w.finishCalendars(ctx) }},
		{"mend", mendCron, func() { w.mend(ctx, mender) }},
	} {
		if err := c.add(job.name, job.cron, job.run); err != nil {
			return nil, err
		}
	}
	c.scheduler.Start()
	return c, nil
}

// finishCalendars heals calendars that a failover left in disagreement with
// their shards, and carries out changes whose writer stopped half-way, since
// nobody else may come. It asks a store only that answered the
// last announcement.
func (w *Worker) finishCalendars(ctx context.Context) {
	if unlisted := w.unlisted.Load(); w.scheduler == nil || unlisted == nil || *unlisted != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	if err := w.keepConfiguration(ctx); err != nil {
		return
	}
	healed, err := w.store.HealCalendars(ctx)
	if healed.Version > 0 {
		w.options.Logger.Warn("the store went back in parts: shards knew other calendars than those that are stored; their users are planned again, and what was changed last must be changed again",
			"stored", healed.Before, "known", healed.Insisted, "version", healed.Version, "users", healed.Users, "moved", healed.Moved)
	}
	if err == nil {
		err = w.store.FinishCalendars(ctx)
	}
	if err != nil && ctx.Err() == nil && !w.told(err) {
		w.options.Logger.Warn("a change of calendars is not finished; the next look goes on", "error", err)
	}
}

// keepConfiguration writes the configuration again that a store has lost, before
// somebody creates another. It returns an error when nothing else can be done.
func (w *Worker) keepConfiguration(ctx context.Context) error {
	lost, err := w.store.KeepConfiguration(ctx)
	switch {
	case lost:
		w.options.Logger.Warn("the store had lost the configuration of the namespace; it is written again")
	case errors.Is(err, redisstore.ErrOtherShards):
		w.options.Logger.Error("somebody created the namespace anew after the store had lost its configuration: what starts now finds other shards; write the number back", "error", err)
	case err != nil && ctx.Err() == nil && !w.told(err):
		w.options.Logger.Warn("the configuration could not be looked at", "error", err)
	}
	return err
}

// logCounts writes a line of totals, so that a log shows that work goes on.
func (w *Worker) logCounts() {
	c := w.Counts()
	w.options.Logger.Info("totals", "claimed", c.Claimed, "enqueued", c.Enqueued, "completed", c.Completed,
		"released", c.Released, "stale", c.Stale, "isolated", c.Isolated, "audits", c.Swept)
}

// gocronLogger routes gocron's messages.
type gocronLogger struct{ logger *slog.Logger }

func (l gocronLogger) Debug(msg string, args ...any) {
	l.logger.Debug("gocron", "text", msg, "detail", fmt.Sprint(args...))
}
func (l gocronLogger) Info(msg string, args ...any) {
	l.logger.Debug("gocron", "text", msg, "detail", fmt.Sprint(args...))
}
func (l gocronLogger) Warn(msg string, args ...any) {
	l.logger.Warn("gocron", "text", msg, "detail", fmt.Sprint(args...))
}
func (l gocronLogger) Error(msg string, args ...any) {
	l.logger.Error("gocron", "text", msg, "detail", fmt.Sprint(args...))
}
