package handler

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// LogOptions configure the log handler.
type LogOptions struct {
	Logger      *slog.Logger
	HidePayload bool // log its size only
	MaxPayload  int  // bytes of payload that are shown; 0 is 256
}

// NewLog returns a handler that writes one line per run and succeeds. It
// returns a *schedule.FieldError for options that are refused.
func NewLog(options LogOptions) (asynq.Handler, error) {
	if options.Logger == nil {
		return nil, &schedule.FieldError{Field: "logger", Value: "nil", Allowed: "an slog.Logger"}
	}
	if options.MaxPayload < 0 {
		return nil, &schedule.FieldError{Field: "max_payload", Value: strconv.Itoa(options.MaxPayload), Allowed: "0 or more"}
	}
	if options.MaxPayload == 0 {
		options.MaxPayload = 256
	}
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		options.Logger.LogAttrs(ctx, slog.LevelInfo, "task", logAttrs(ctx, task, options)...)
		return nil
	}), nil
}

func logAttrs(ctx context.Context, task *asynq.Task, options LogOptions) []slog.Attr {
	firing, key := firingOf(ctx, task)
	attrs := []slog.Attr{slog.String("type", task.Type()), slog.String("firing", key)}
	if firing.ID != "" {
		attrs = append(attrs, slog.String("schedule", string(firing.Schedule)), slog.Int("attempt", firing.Attempt))
	}
	if !firing.ScheduledAt.IsZero() {
		attrs = append(attrs, slog.String("scheduled_at", firing.ScheduledAt.Format(time.RFC3339Nano)))
	}
	payload := task.Payload()
	attrs = append(attrs, slog.Int("payload_bytes", len(payload)))
	if !options.HidePayload && len(payload) > 0 {
		text := strconv.QuoteToASCII(string(payload[:min(len(payload), options.MaxPayload)]))
		attrs = append(attrs, slog.String("payload", text[1:len(text)-1]))
	}
	return attrs
}
