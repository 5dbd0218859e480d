package app

import (
	"errors"
	"log/slog"
	"slices"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/internal/config"
	"github.com/belfryhq/belfry/internal/demo"
	"github.com/belfryhq/belfry/pkg/handler"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/pkg/worker"
)

// register gives the worker its stock handlers. A type that is not allowed
// here has no handler, so its tasks are left to other workers.
func (p *program) register(w *worker.Worker) error {
	handlers, err := stockHandlers(p.settings.Handlers, p.logger)
	if err != nil {
		return err
	}
	if handlers["exec"] != nil {
		if err := handler.HideProcess(); err != nil { // the environment holds the password of Redis
			return err
		}
	}
	if p.Demo {
		handlers[demo.TypeFlaky] = asynq.HandlerFunc(demo.Flaky)
	}
	for taskType, h := range handlers {
		w.Handle(taskType, h)
	}
	return nil
}

// Variables by the fields that the handlers refuse.
var handlerVariables = map[string]string{
	"allowed_hosts": "BELFRY_HTTP_HOSTS", "commands": "BELFRY_EXEC_ALLOW", "dirs": "BELFRY_EXEC_DIRS", "env": "BELFRY_EXEC_ENV",
}

func stockHandlers(c config.Handlers, logger *slog.Logger) (map[string]asynq.Handler, error) {
	handlers := map[string]asynq.Handler{}
	add := func(taskType string, h asynq.Handler, err error) error {
		handlers[taskType] = h
		return nameVariables(err)
	}
	logHandler, err := handler.NewLog(handler.LogOptions{Logger: logger})
	if err := add("log", logHandler, err); err != nil {
		return nil, err
	}
	if len(c.HTTPHosts) > 0 {
		options := handler.HTTPOptions{AllowedHosts: c.HTTPHosts, Secret: []byte(c.HTTPSecret.Reveal())}
		if slices.Equal(c.HTTPHosts, []string{"*"}) {
			options.AllowedHosts, options.AllowAll = nil, true
		}
		h, err := handler.NewHTTP(options)
		if err := add("http", h, err); err != nil {
			return nil, err
		}
	}
	// Lists beside an empty BELFRY_EXEC_ALLOW are checked too: what is wrong with
	// them shows now, and not on the day that a program is allowed.
	exec, err := handler.NewExec(handler.ExecOptions{Commands: c.ExecAllow, Dirs: c.ExecDirs, Env: c.ExecEnv})
	if err != nil {
		return nil, nameVariables(err)
	}
	if len(c.ExecAllow) > 0 {
		handlers["exec"] = exec
	}
	return handlers, nil
}

// nameVariables puts the variables where the handlers name their fields, in
// each of the errors that err joins.
func nameVariables(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var errs []error
		for _, e := range joined.Unwrap() {
			errs = append(errs, nameVariables(e))
		}
		return errors.Join(errs...)
	}
	var field *schedule.FieldError
	if errors.As(err, &field) && handlerVariables[field.Field] != "" {
		named := *field
		named.Field = handlerVariables[field.Field]
		return &named
	}
	return err
}
