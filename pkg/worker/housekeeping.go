package worker

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/belfryhq/belfry/pkg/gocronx"
)

// Housekeeping: what happens now and then and hurts nobody when it is late.
// The claim loop is not among it, on purpose.
const (
	announceCron = "*/10 * * * * *" // every 10 s
	announceTime = 5 * time.Second  // bounds one announcement
	memberAge    = 25 * time.Second // a member unseen for longer is gone
	countsCron   = "0 */5 * * * *"  // every 5 min
	finishCron   = "5/10 * * * * *" // every 10 s, between the announcements
	finishTime   = 30 * time.Second // bounds the work on unfinished changes of calendars
)

// A housekeeping is a running gocron scheduler.
type housekeeping struct {
	chores
	scheduler gocron.Scheduler
	logger    *slog.Logger
}

// startHousekeeping announces the worker at once, then starts its jobs.
func (w *Worker) startHousekeeping(ctx context.Context) (*housekeeping, error) {
	scheduler, err := gocron.NewScheduler(gocron.WithLocation(time.UTC), gocron.WithStopTimeout(gocronTime),
		gocron.WithLogger(gocronLogger{w.options.Logger}))
	if err != nil {
		return nil, fmt.Errorf("worker: housekeeping: %w", err)
	}
	mender, err := newMender(w.store)
	if err != nil {
		return nil, fmt.Errorf("worker: housekeeping: %w", err)
	}
	h := &housekeeping{scheduler: scheduler, logger: w.options.Logger}
	jobs := []struct {
		name, cron string
		run        func()
	}{
		{"announce", announceCron, func() { w.announce(ctx) }},
		{"counts", countsCron, w.logCounts},
		{"calendars", finishCron, func() { w.finishCalendars(ctx) }},
		{"mend", mendCron, func() { w.mend(ctx, mender) }},
	}
	for _, job := range jobs {
		options := []gocron.JobOption{gocron.WithName(job.name), gocron.WithCronImplementation(gocronx.NewCron(gocronx.CronOptions{})),
			gocron.WithSingletonMode(gocron.LimitModeReschedule)}
		if job.name == "announce" {
			options = append(options, gocron.WithStartAt(gocron.WithStartImmediately()))
		}
		if _, err := scheduler.NewJob(gocron.CronJob(job.cron, true), gocron.NewTask(h.guard(job.run)), options...); err != nil {
			_ = scheduler.Shutdown() // the error below says more
			return nil, fmt.Errorf("worker: housekeeping job %s: %w", job.name, err)
		}
	}
	scheduler.Start()
	return h, nil
}

func (h *housekeeping) stop() { h.chores.stop(h.scheduler, h.logger) }

// finishCalendars carries out changes of calendars whose writer stopped
// half-way, since nobody else may come. It asks a store only that answered the
// last announcement.
func (w *Worker) finishCalendars(ctx context.Context) {
	if unlisted := w.unlisted.Load(); w.scheduler == nil || unlisted == nil || *unlisted != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	if err := w.store.FinishCalendars(ctx); err != nil && ctx.Err() == nil && !w.told(err) {
		w.options.Logger.Warn("a change of calendars is not finished; the next look goes on", "error", err)
	}
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
