package handler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/schedule"
)

const (
	maxArgs   = 256
	maxOutput = 16 << 10    // bytes of output that are kept, the last ones
	strayTime = time.Second // for output that a process holds open which the command left behind
)

// ExecOptions configure the exec handler.
type ExecOptions struct {
	// Commands that may be started, as absolute paths. Empty: none, every task
	// is refused. A command that starts others, such as a shell or env, allows
	// everything.
	Commands    []string
	Dirs        []string      // directories that a payload may name, with all below them; empty: none
	Env         []string      // environment variables that a payload may set; empty: none
	Environment []string      // "NAME=value" for every command; nil is a PATH of the system's directories. Nothing of the worker's own is passed on
	Dir         string        // working directory without one in the payload; "" is "/"
	Timeout     time.Duration // of a command whose payload has none; 0 is an hour. The timeout of the task bounds it, too
	Grace       time.Duration // between SIGTERM and SIGKILL when a command must end; 0 is 5 s
}

// execPayload is the payload of an exec task.
type execPayload struct {
	Command string            `json:"command"` // one of ExecOptions.Commands, letter by letter
	Args    []string          `json:"args"`    // handed over as they are; there is no shell
	Env     map[string]string `json:"env"`
	Dir     string            `json:"dir"`
	Timeout string            `json:"timeout"`
}

// execHandler starts commands.
type execHandler struct{ ExecOptions }

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// NewExec returns a handler for tasks whose payload describes a command:
//
//	{"command": "/usr/local/bin/report", "args": ["--daily"], "env": {"LANG": "C"},
//	 "dir": "/srv/reports", "timeout": "10m"}
//
// Only command is required. No shell is involved. The command sees the firing
// in BELFRY_FIRING, BELFRY_SCHEDULE, BELFRY_SCHEDULED_AT (RFC 3339),
// BELFRY_ATTEMPT and BELFRY_TOKEN. When the run is cancelled or its time is
// over, the command and what it started in its process group get SIGTERM, then
// SIGKILL. What it leaves behind in its group when it ends gets SIGKILL, after a
// second in which it may finish writing output. On Linux the command, but not
// what it started, gets SIGKILL too when this process dies by itself.
//
// A command runs as the user of this process, and may do all that this user may:
// see [HideProcess]. NewExec returns a *schedule.FieldError for options that are
// refused.
func NewExec(options ExecOptions) (asynq.Handler, error) {
	var errs []error
	for field, paths := range map[string][]string{"commands": options.Commands, "dirs": options.Dirs} {
		for _, path := range paths {
			if !filepath.IsAbs(path) || filepath.Clean(path) != path {
				errs = append(errs, &schedule.FieldError{Field: field, Value: path, Allowed: "clean absolute paths"})
			}
		}
	}
	for _, name := range options.Env {
		if !envName.MatchString(name) || reserved(name) {
			errs = append(errs, &schedule.FieldError{Field: "env", Value: name, Allowed: "names of variables that do not start with BELFRY_"})
		}
	}
	if options.Timeout < 0 || options.Grace < 0 {
		errs = append(errs, &schedule.FieldError{Field: "timeout", Value: min(options.Timeout, options.Grace).String(), Allowed: "0 or more"})
	}
	if len(options.Commands) > 0 && !groupsSupported {
		errs = append(errs, &schedule.FieldError{Field: "commands", Value: options.Commands[0], Allowed: "none on this operating system"})
	}
	if options.Environment == nil {
		options.Environment = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	}
	if options.Dir == "" {
		options.Dir = "/"
	}
	if options.Timeout == 0 {
		options.Timeout = time.Hour
	}
	if options.Grace == 0 {
		options.Grace = 5 * time.Second
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &execHandler{options}, nil
}

// reserved reports whether the variable is ours.
func reserved(name string) bool { return strings.HasPrefix(strings.ToUpper(name), "BELFRY_") }

// ProcessTask runs the command.
func (h *execHandler) ProcessTask(ctx context.Context, task *asynq.Task) error {
	var payload execPayload
	if err := decode(task, &payload); err != nil {
		return refuse("exec", err)
	}
	timeout, err := timeoutOf("payload.timeout", payload.Timeout, h.Timeout)
	if err != nil {
		return refuse("exec", err)
	}
	command, err := h.command(payload)
	if err != nil {
		return refuse("exec", err)
	}
	firing, key := firingOf(ctx, task)
	command.Env = append(command.Env, firingEnv(firing, key)...)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	output := &tail{limit: maxOutput}
	if err := runGroup(ctx, command, output, h.Grace); err != nil {
		return fmt.Errorf("handler: exec: %s: %w: %s", payload.Command, err, output.text())
	}
	if w := task.ResultWriter(); w != nil {
		if _, err := w.Write(output.bytes()); err != nil {
			return nil // the command has run; its output is a nicety
		}
	}
	return nil
}

// command builds the command, or says what is wrong with the payload.
func (h *execHandler) command(payload execPayload) (*exec.Cmd, error) {
	if !slices.Contains(h.Commands, payload.Command) {
		return nil, &schedule.FieldError{Field: "payload.command", Value: payload.Command, Allowed: "a command that this worker allows", Hint: "add its absolute path to the worker's allowed commands"}
	}
	if len(payload.Args) > maxArgs {
		return nil, &schedule.FieldError{Field: "payload.args", Value: strconv.Itoa(len(payload.Args)), Allowed: "at most " + strconv.Itoa(maxArgs)}
	}
	for _, arg := range payload.Args {
		if strings.ContainsRune(arg, 0) {
			return nil, &schedule.FieldError{Field: "payload.args", Value: arg, Allowed: "text without NUL"}
		}
	}
	dir, err := h.dir(payload.Dir)
	if err != nil {
		return nil, err
	}
	env := slices.Clone(h.Environment)
	for name, value := range payload.Env {
		if !slices.Contains(h.Env, name) {
			return nil, &schedule.FieldError{Field: "payload.env", Value: name, Allowed: "variables that this worker allows", Hint: "add it to the worker's allowed variables"}
		}
		if strings.ContainsRune(value, 0) {
			return nil, &schedule.FieldError{Field: "payload.env", Value: name, Allowed: "values without NUL"}
		}
		env = append(env, name+"="+value)
	}
	command := exec.Command(payload.Command, payload.Args...)
	command.Dir, command.Env = dir, env
	return command, nil
}

// dir returns where the command runs. Links are followed before the comparison,
// so that none leads out of an allowed directory.
func (h *execHandler) dir(wanted string) (string, error) {
	if wanted == "" {
		return h.Dir, nil
	}
	refused := &schedule.FieldError{Field: "payload.dir", Value: wanted, Allowed: "an existing absolute path inside a directory that this worker allows"}
	if !filepath.IsAbs(wanted) {
		return "", refused
	}
	real, err := filepath.EvalSymlinks(wanted)
	if err != nil {
		return "", refused
	}
	for _, root := range h.Dirs {
		realRoot, err := filepath.EvalSymlinks(root)
		if err != nil {
			continue
		}
		if rel, err := filepath.Rel(realRoot, real); err == nil && filepath.IsLocal(rel) {
			return real, nil
		}
	}
	return "", refused
}

// firingEnv returns the variables that describe the firing.
func firingEnv(firing queue.Firing, key string) []string {
	env := []string{"BELFRY_FIRING=" + key}
	if firing.ID == "" {
		return env
	}
	env = append(env, "BELFRY_SCHEDULE="+string(firing.Schedule), "BELFRY_GENERATION="+strconv.FormatInt(firing.Generation, 10))
	if !firing.ScheduledAt.IsZero() {
		env = append(env, "BELFRY_SCHEDULED_AT="+firing.ScheduledAt.Format("2006-01-02T15:04:05.000Z07:00"))
	}
	if firing.Attempt > 0 {
		env = append(env, "BELFRY_ATTEMPT="+strconv.Itoa(firing.Attempt), "BELFRY_TOKEN="+firing.Token.String())
	}
	return env
}

// runGroup runs the command in a process group of its own, and ends the group
// with the command or with the context, whichever comes first.
func runGroup(ctx context.Context, command *exec.Cmd, output io.Writer, grace time.Duration) error {
	ownGroup(command)
	if err := ctx.Err(); err != nil {
		return err
	}
	copied, err := capture(command, output)
	if err != nil {
		return err
	}
	defer copied.stop()
	if err := start(command, copied); err != nil {
		return err
	}
	defer forget(command)
	done := make(chan error, 1)
	go func() { done <- wait(command, copied) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	return endGroup(ctx, command, done, grace)
}

// wait returns when the command has ended, and ends what it left behind in its
// group: the run is over, and whatever works on would do so beside the next.
func wait(command *exec.Cmd, copied *pipe) error {
	release := ended(command)
	copied.settle(strayTime) // a tee that the command writes its output through may still empty it
	kill(command)
	return release()
}

// endGroup asks the group to end, then forces it.
func endGroup(ctx context.Context, command *exec.Cmd, done <-chan error, grace time.Duration) error {
	terminate(command)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		kill(command)
		<-done
	}
	return context.Cause(ctx)
}
