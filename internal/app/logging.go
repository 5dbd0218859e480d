package app

import (
	"context"
	"io"
	"log/slog"

	"github.com/lmittmann/tint"

	"github.com/belfryhq/belfry/internal/config"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/worker"
)

// newLogger writes text for people on a terminal and JSON elsewhere, unless
// the format says which.
func newLogger(out io.Writer, terminal bool, c config.Process) *slog.Logger {
	if c.LogFormat == "text" || c.LogFormat == "auto" && terminal {
		return slog.New(tint.NewHandler(out, &tint.Options{Level: c.LogLevel, TimeFormat: "15:04:05.000", NoColor: !terminal}))
	}
	return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: c.LogLevel}))
}

// A demoted handler takes everything for debugging.
type demoted struct{ slog.Handler }

// Enabled reports whether debugging is.
func (d demoted) Enabled(ctx context.Context, _ slog.Level) bool {
	return d.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle writes the record as a debug message.
func (d demoted) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return d.Handler.Handle(ctx, r)
}

// A logObserver logs what the packages below do not log themselves.
type logObserver struct {
	worker.NopObserver
	logger *slog.Logger
}

// Enqueued logs a firing.
func (o logObserver) Enqueued(e queue.EnqueuedEvent) {
	o.logger.Debug("enqueued", "firing", e.Firing, "type", e.Type, "queue", e.Queue, "token", int64(e.Token))
}

// RunEnded logs the end of an attempt, louder when it failed.
func (o logObserver) RunEnded(e queue.RunEvent) {
	level, message := slog.LevelDebug, "run ended"
	switch e.Outcome {
	case claim.OutcomeSucceeded, claim.OutcomeCancelled:
	case claim.OutcomeRetrying:
		level, message = slog.LevelWarn, "run failed and is retried"
	case claim.OutcomeFailed, claim.OutcomeLost, claim.OutcomeUnknown:
		level, message = slog.LevelError, "run failed"
	default:
		level, message = slog.LevelWarn, "run was not reported"
	}
	attrs := []any{"firing", e.Firing.ID, "type", e.Type, "attempt", e.Firing.Attempt, "outcome", string(e.Outcome), "duration_ms", e.Duration.Milliseconds()}
	if e.Err != nil {
		attrs = append(attrs, "error", e.Err)
	}
	o.logger.Log(context.Background(), level, message, attrs...)
}

// Redriven logs a task that was lost.
func (o logObserver) Redriven(e queue.AuditEvent) {
	o.logger.Warn("a lost task was enqueued again", "firing", e.Firing, "queue", e.Queue, "redrives", e.Redrives, "reason", e.Reason)
}

// Settled logs a firing that the auditor closed.
func (o logObserver) Settled(e queue.AuditEvent) {
	level := slog.LevelInfo
	if e.Outcome == claim.OutcomeLost || e.Outcome == claim.OutcomeUnknown {
		level = slog.LevelError
	}
	o.logger.Log(context.Background(), level, "the auditor settled a firing", "firing", e.Firing, "outcome", string(e.Outcome), "reason", e.Reason)
}
