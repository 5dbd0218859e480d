package admincli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/belfryhq/belfry/internal/config"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

type flagType = pflag.Flag

// globalFlags are those of every command.
type globalFlags struct {
	context   string
	redis     string
	namespace string
	format    string
	zone      string
	color     string
	timeout   string
	quiet     bool
	verbose   bool
}

func (f *globalFlags) register(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&f.context, "context", "", "context to use, instead of BELFRY_CONTEXT and the current one; see admin context")
	flags.StringVar(&f.redis, "redis", "", "Redis URL without a password, instead of BELFRY_REDIS_URL")
	flags.StringVar(&f.namespace, "namespace", "", "namespace, instead of BELFRY_NAMESPACE")
	flags.StringVarP(&f.format, "output", "o", formatTable, "output format: table, wide, json, jsonl, yaml or name")
	flags.StringVar(&f.zone, "tz", "", "show times in this zone: schedule (its own), local, UTC or an IANA name; for specs also the zone they are in")
	flags.StringVar(&f.color, "color", "auto", "color: auto, always or never")
	flags.StringVar(&f.timeout, "timeout", "10s", "how long one call to the store may take")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no notes, hints and footers on standard error")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "tell on standard error which store is asked, and each call with its time, script and key; never logins or payloads")
}

// A session is one run of the program.
type session struct {
	env     Env
	command string // its path, such as "admin schedule list"
	args    []string
	ctx     context.Context
	out     *stickyWriter
	err     io.Writer
	flags   globalFlags
	timeout time.Duration
	viewer  *time.Location // of --tz; nil: each schedule's own
	stores  *Stores
	address string
	// own is the caller's clock once the store is open; env.Now is the store's
	// then.
	own   func() time.Time
	zones map[string]*time.Location // loaded so far, by name
	// calendars are those that definitions are compiled with: the stored ones,
	// and over them those of the files that apply reads. Nil until one is
	// needed.
	calendars map[string]schedule.Calendar
	stored    map[string]schedule.Calendar // before the files
	// offline says that there is no store; assumed are then the calendars that
	// no file defines.
	offline bool
	looked  bool // for mistyped variables
	assumed map[string]bool
}

// start checks the global flags before any command runs.
func (s *session) start(cmd *cobra.Command) error {
	s.command = cmd.CommandPath()
	if err := oneOf("output", s.flags.format, formats...); err != nil {
		return err
	}
	if err := oneOf("color", s.flags.color, "auto", "always", "never"); err != nil {
		return err
	}
	timeout, err := flagDuration("timeout", s.flags.timeout)
	if err != nil {
		return err
	}
	if timeout <= 0 {
		return &schedule.FieldError{Field: "timeout", Value: s.flags.timeout, Allowed: "a duration above 0 such as 10s"}
	}
	s.timeout = timeout
	switch s.flags.zone {
	case "", "schedule":
	case "local":
		s.viewer = s.env.Local
		if s.viewer == nil {
			s.viewer = time.UTC
		}
	default:
		s.viewer, err = zone(s.flags.zone)
	}
	return err
}

// zone loads an IANA zone. "Local" is refused: it means another zone on every
// machine.
func zone(name string) (*time.Location, error) {
	refused := &schedule.FieldError{Field: "tz", Value: name, Allowed: "schedule, local, UTC or an IANA zone such as Europe/Berlin"}
	if name == "Local" || name == "" {
		return nil, refused
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		return nil, refused
	}
	return location, nil
}

// oneOf refuses a value that is none of the allowed ones.
func oneOf(field, value string, allowed ...string) error {
	for _, a := range allowed {
		if value == a {
			return nil
		}
	}
	hint := ""
	if found := near(value, allowed); len(found) > 0 {
		hint = "did you mean " + found[0] + "?"
	}
	return &schedule.FieldError{Field: field, Value: value, Allowed: strings.Join(allowed, ", "), Hint: hint}
}

// store connects at the first use.
func (s *session) store() (*Stores, error) {
	if s.stores != nil {
		return s.stores, nil
	}
	s.warnMistyped()
	target := Target{Environ: map[string]string{}, Timeout: s.timeout}
	if s.flags.verbose {
		target.Trace = s.trace
	}
	settings, err := s.settings()
	if err != nil {
		return nil, err
	}
	for name, one := range settings {
		target.Environ[name] = one.value
	}
	if target.Environ["BELFRY_REDIS_URL"] == "" && target.Environ["BELFRY_REDIS_URL_FILE"] == "" {
		return nil, errNoRedis
	}
	stores, err := s.env.Open(s.ctx, target)
	if err != nil {
		return nil, s.openFailed(err)
	}
	s.stores, s.address = stores, stores.Address
	s.storeClock()
	return stores, nil
}

// warnMistyped tells once of variables that look like settings and are none,
// such as BELFRY_REDIS_ULR, as the worker does.
func (s *session) warnMistyped() {
	if s.looked {
		return
	}
	s.looked = true
	for _, warning := range config.UnknownVariables(s.env.Environ) {
		s.warn("%s", warning)
	}
}

// openFailed names the flag instead of the variable that it replaces.
func (s *session) openFailed(err error) error {
	var there *unreachableError
	if errors.As(err, &there) {
		s.address = there.address
	}
	var field *schedule.FieldError
	if s.flags.redis == "" || !errors.As(err, &field) || field.Field != "BELFRY_REDIS_URL" {
		return err
	}
	copied := *field
	copied.Field = "redis"
	if harmlessURL.MatchString(s.flags.redis) {
		copied.Value = s.flags.redis
	}
	return &copied
}

// harmlessURL matches what is shown of a URL that cannot be read: where the
// '@' of a login was forgotten, the password stands in the place of the port.
var harmlessURL = regexp.MustCompile(`^([a-z-]+://)?[A-Za-z0-9.-]*(:[0-9]*)?(/[0-9]*)?$`)

// override adds what the flags say. A password on
// the command line would be seen by everybody on the machine.
func (s *session) override(environ map[string]string) error {
	if s.flags.redis != "" {
		if holdsPassword(s.flags.redis) {
			return &schedule.FieldError{Field: "redis", Value: "[redacted]", Allowed: "a URL without a password, since others can read command lines: put it into BELFRY_REDIS_URL or a file named by BELFRY_REDIS_URL_FILE"}
		}
		environ["BELFRY_REDIS_URL"] = s.flags.redis
	}
	if s.flags.namespace != "" {
		environ["BELFRY_NAMESPACE"] = s.flags.namespace
	}
	return nil
}

// holdsPassword looks at the text, not at a parsed URL: what does not parse
// can hold a password as well.
func holdsPassword(url string) bool {
	_, rest, ok := strings.Cut(url, "://")
	if !ok {
		rest = url
	}
	if strings.Contains(strings.ToLower(rest), "password=") {
		return true
	}
	login, _, found := cutLast(rest, "@")
	return found && strings.Contains(login, ":")
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// call bounds one call to the store.
func (s *session) call() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.ctx, s.timeout)
}

// unbroken bounds one call to the store that an interrupt lets end, so that what
// it did is known.
func (s *session) unbroken() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(s.ctx), s.timeout)
}

// interrupted reports whether the operator asked for the end.
func (s *session) interrupted() bool { return s.ctx.Err() != nil }

func (s *session) close() {
	if s.stores != nil && s.stores.Close != nil {
		_ = s.stores.Close() // everything was answered; nothing is left to lose
	}
}

// note writes a line for people to standard error.
func (s *session) note(format string, args ...any) {
	if !s.flags.quiet {
		fmt.Fprintln(s.err, visible(fmt.Sprintf(format, args...)))
	}
}

// trace writes a line of --verbose, which --quiet does not silence.
func (s *session) trace(format string, args ...any) {
	fmt.Fprintln(s.err, visible(fmt.Sprintf(format, args...)))
}

// warn is a note that --quiet does not silence.
func (s *session) warn(format string, args ...any) {
	fmt.Fprintf(s.err, "%s %s\n", paint("warning:", yellow, s.painted(s.env.Terminal.Stderr)), visible(fmt.Sprintf(format, args...)))
}

// painted decides about color for a stream.
func (s *session) painted(terminal bool) bool {
	switch {
	case s.flags.color == "always":
		return true
	case s.flags.color == "never", s.env.Environ["NO_COLOR"] != "":
		return false
	}
	force := s.env.Environ["FORCE_COLOR"]
	return force != "" && force != "0" || terminal
}

// location is the zone in which to show times of a schedule.
func (s *session) location(own *time.Location) *time.Location {
	if s.viewer != nil {
		return s.viewer
	}
	return own
}
