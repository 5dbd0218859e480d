package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/config"
	"github.com/belfryhq/belfry/internal/connect"
	"github.com/belfryhq/belfry/internal/demo"
	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/worker"
)

// Options are what the worker program takes from outside.
type Options struct {
	Environ  map[string]string // nil is the process environment
	Demo     bool              // use a Redis inside the process and example schedules
	Version  string
	Stdout   io.Writer // what the demo tells
	Stderr   io.Writer // log
	Terminal bool      // whether Stderr is a terminal
}

// A UsageError reports that the program was called wrongly: nothing was done.
type UsageError struct{ Err error }

// Error returns the text of the cause.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.Err }

// errNoRedis names both ways to a store.
var errNoRedis = errors.New("no Redis given: set BELFRY_REDIS_URL, such as redis://127.0.0.1:6379/0, or start with --demo to try it out with nothing installed")

// Exit codes of the worker program.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitInterrupted = 130 // a second signal ended it
)

// ExitCode returns the exit code for what Run returned.
func ExitCode(err error) int {
	var usage *UsageError
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &usage):
		return ExitUsage
	default:
		return ExitFailed
	}
}

// Run is the worker program: it works until ctx ends and then stops in order.
// It returns a *UsageError for a configuration that is refused.
func Run(ctx context.Context, options Options) error {
	settings, err := config.Load(options.Environ)
	if err != nil {
		return &UsageError{err}
	}
	if settings.Redis.URL.IsZero() && !options.Demo {
		return &UsageError{errNoRedis}
	}
	p := &program{Options: options, settings: settings, metrics: newMetrics(options.Version, settings.Schedule.Enabled)}
	if options.Demo && settings.Process.LogLevel == slog.LevelInfo {
		p.settings.Process.LogLevel = slog.LevelWarn // the narrator tells the rest
	}
	p.logger = newLogger(options.Stderr, options.Terminal, p.settings.Process)
	// go-redis tells of every connection that fails; the worker tells of the
	// outage, once.
	redis.SetLogger(queue.NewRedisLogger(slog.New(demoted{p.logger.Handler()})))
	for _, warning := range settings.Warnings {
		p.logger.Warn(warning)
	}
	if options.Demo && !settings.Redis.URL.IsZero() {
		p.logger.Warn("--demo has a Redis of its own: BELFRY_REDIS_URL is not used", "redis", settings.Redis.URL.String())
	}
	return p.run(ctx)
}

// A program is one run of the worker program.
type program struct {
	Options
	settings config.Worker
	logger   *slog.Logger
	narrator *demo.Narrator // nil without Demo
	metrics  *metrics
	demoURL  string
}

func (p *program) run(ctx context.Context) (err error) {
	if p.Demo {
		server, err := demo.Start()
		if err != nil {
			return err
		}
		defer server.Close()
		p.demoURL, p.narrator = server.URL(), demo.NewNarrator(p.Stdout)
		if p.settings.Redis.URL, err = config.ParseRedisURL(p.demoURL); err != nil {
			return fmt.Errorf("app: the URL of the demo: %w", err)
		}
	}
	client, err := connect.New(p.settings.Redis)
	if err != nil {
		return &UsageError{err}
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	w, err := p.newWorker(client)
	if err != nil {
		return &UsageError{err}
	}
	address, stopHealth, err := p.serveHealth(w)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopHealth()) }()
	if p.Demo {
		if err := demo.Create(ctx, w.Store()); err != nil {
			return err
		}
		p.narrator.Greet(p.demoURL, address)
	} else {
		p.logger.Info("starting", "version", p.Version, "redis", p.settings.Redis.URL.String(), "health", address)
		go checkEviction(ctx, client, p.logger)
	}
	return w.Run(ctx)
}

// serveHealth returns where the endpoints are, "" when they are off, and how
// to stop them.
func (p *program) serveHealth(w *worker.Worker) (string, func() error, error) {
	if p.settings.Process.HTTPAddr == "off" {
		return "", func() error { return nil }, nil
	}
	h, err := startHealth(p.settings.Process.HTTPAddr, w, p.metrics.handler(measuredWorker{w}))
	if err != nil {
		return "", nil, err
	}
	return h.url(), h.stop, nil
}

func (p *program) newWorker(client redis.UniversalClient) (*worker.Worker, error) {
	s := p.settings
	options := worker.Options{
		Redis: client, Namespace: s.Redis.Namespace, Shards: s.Redis.Shards, SkewAllowance: s.Schedule.Skew,
		Queues: s.Run.Queues, Concurrency: s.Run.Concurrency, NoSchedules: !s.Schedule.Enabled, PollInterval: s.Run.Poll,
		ClaimTTL: s.Schedule.ClaimTTL, Batch: s.Schedule.Batch, IdleSleep: s.Schedule.IdleSleep,
		EnqueueConcurrency: s.Schedule.EnqueueConcurrency, AuditAfter: s.Schedule.AuditAfter,
		Lease: s.Run.Lease, KeepRuns: s.Run.KeepRuns, NoRunLog: s.Run.KeepRuns == 0, Drain: s.Run.Drain,
		Version: p.Version, Logger: p.logger, Observer: observers{logObserver{logger: p.logger}, p.metrics},
	}
	if p.Demo {
		options.Observer, options.RetryDelay = observers{p.narrator, p.metrics}, demo.RetryDelay
	}
	w, err := worker.New(options)
	if err != nil {
		return nil, err
	}
	return w, p.register(w)
}
