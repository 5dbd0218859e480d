package queue

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"
)

// repeatEvery is how often a repeated message of asynq or go-redis is logged.
// While Redis is away both repeat themselves many times a second.
const repeatEvery = 10 * time.Second

// maxRemembered bounds the messages whose repeats are counted.
const maxRemembered = 256

// A repeats limits repeated messages. Numbers in a message do not make it
// another one.
type repeats struct {
	mu   sync.Mutex
	seen map[string]*repeat
}

type repeat struct {
	logged  time.Time
	dropped int
}

// allow reports whether the message should be logged, and how many like it were
// dropped since the last one.
func (r *repeats) allow(message string, now time.Time) (dropped int, ok bool) {
	key := withoutNumbers(message)
	r.mu.Lock()
	defer r.mu.Unlock()
	last, known := r.seen[key]
	if known && now.Sub(last.logged) < repeatEvery {
		last.dropped++
		return 0, false
	}
	if known {
		dropped = last.dropped
	} else if len(r.seen) >= maxRemembered || r.seen == nil {
		r.seen = make(map[string]*repeat)
	}
	r.seen[key] = &repeat{logged: now}
	return dropped, true
}

// withoutNumbers replaces runs of digits: ports, addresses and counters.
func withoutNumbers(s string) string {
	var b strings.Builder
	digit := false
	for _, r := range s {
		if r >= '0' && r <= '9' {
			if !digit {
				b.WriteByte('#')
			}
			digit = true
			continue
		}
		digit = false
		b.WriteRune(r)
	}
	return b.String()
}

// log writes the message of a library, with repeats limited.
func (r *repeats) log(ctx context.Context, logger *slog.Logger, level slog.Level, library, message string) {
	if !logger.Enabled(ctx, level) {
		return
	}
	message = clip(message, maxErrorText)
	dropped, ok := r.allow(message, time.Now())
	if !ok {
		return
	}
	attrs := []slog.Attr{slog.String("text", message)}
	if dropped > 0 {
		attrs = append(attrs, slog.Int("repeated", dropped))
	}
	logger.LogAttrs(ctx, level, library, attrs...)
}

// asynqLogger routes asynq's messages.
type asynqLogger struct {
	logger  *slog.Logger
	repeats repeats
}

// NewAsynqLogger returns a logger for asynq.Config.Logger that writes to
// logger, each message at most once in 10 s. Its Fatal logs an error and, unlike
// asynq's own, does not end the process. A nil logger drops everything.
func NewAsynqLogger(logger *slog.Logger) asynq.Logger {
	return &asynqLogger{logger: loggerOr(logger)}
}

func (l *asynqLogger) log(level slog.Level, args []any) {
	// asynq's second try comes with a context that has ended, and does nothing.
	text := strings.TrimSuffix(fmt.Sprint(args...), "; Will retry syncing")
	l.repeats.log(context.Background(), l.logger, level, "asynq", text)
}

func (l *asynqLogger) Debug(args ...any) { l.log(slog.LevelDebug, args) }
func (l *asynqLogger) Info(args ...any)  { l.log(slog.LevelInfo, args) }
func (l *asynqLogger) Warn(args ...any)  { l.log(warnLevel(args), args) }
func (l *asynqLogger) Error(args ...any) { l.log(slog.LevelError, args) }
func (l *asynqLogger) Fatal(args ...any) { l.log(slog.LevelError, args) }

// warnLevel makes less of what the middleware asked for itself.
func warnLevel(args []any) slog.Level {
	if len(args) > 0 && strings.HasPrefix(fmt.Sprint(args...), "revoke task id=") {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// A RedisLogger routes go-redis's messages, which are all about connections,
// into a slog logger. Hand it to redis.SetLogger, once, in main: that setting
// belongs to the process.
type RedisLogger struct {
	logger  *slog.Logger
	repeats repeats
}

// NewRedisLogger returns a logger that writes warnings, each message at most
// once in 10 s. A nil logger drops everything.
func NewRedisLogger(logger *slog.Logger) *RedisLogger {
	return &RedisLogger{logger: loggerOr(logger)}
}

// Printf logs one message.
func (l *RedisLogger) Printf(ctx context.Context, format string, args ...any) {
	l.repeats.log(ctx, l.logger, slog.LevelWarn, "redis", fmt.Sprintf(format, args...))
}

func loggerOr(logger *slog.Logger) *slog.Logger {
	if logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return logger
}
