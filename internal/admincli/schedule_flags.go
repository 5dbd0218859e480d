package admincli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

// specFlags say when something fires.
type specFlags struct {
	cron       string
	every      string
	offset     string
	at         []string
	after      string
	expression string
	zone       string
	jitter     string
	starts     string
	ends       string
	limit      int64
}

func (f *specFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.cron, "cron", "", "cron expression, such as '0 2 * * *'")
	flags.StringVar(&f.every, "every", "", "fixed rate, such as 15m")
	flags.StringVar(&f.offset, "offset", "", "with --every: how far the grid lies behind the whole interval")
	flags.StringArrayVar(&f.at, "at", nil, "once, at this time, such as '2027-01-04 09:00' or 'tomorrow 9am'; may be repeated")
	flags.StringVar(&f.after, "after", "", "fixed delay after the end of the last run")
	flags.StringVar(&f.expression, "expression", "", "one string: cron line, macro, '30s' or 'once:2027-01-04T09:00:00Z'")
	flags.StringVar(&f.zone, "tz", "", "time zone that the spec is in, an IANA name; UTC when not given")
	flags.StringVar(&f.jitter, "jitter", "", "delay each firing by a stable offset below this")
	flags.StringVar(&f.starts, "starts", "", "no firing before this time")
	flags.StringVar(&f.ends, "ends", "", "no firing at or after this time")
	flags.Int64Var(&f.limit, "limit", 0, "number of firings; 0 is no limit")
}

// given names the flag that says when to fire, or "".
func (f *specFlags) given() string {
	switch {
	case f.cron != "":
		return "cron"
	case f.every != "":
		return "every"
	case len(f.at) > 0:
		return "at"
	case f.after != "":
		return "after"
	case f.expression != "":
		return "expression"
	}
	return ""
}

// errNoSpec names the flags of which one is needed.
var errNoSpec = usageErrorf("when should it fire? give exactly one of --cron, --every, --at, --after or --expression")

// kinds counts the flags that say when to fire.
func (f *specFlags) kinds() int {
	n := 0
	for _, set := range []bool{f.cron != "", f.every != "", len(f.at) > 0, f.after != "", f.expression != ""} {
		if set {
			n++
		}
	}
	return n
}

// fill writes the flags into a definition.
func (f *specFlags) fill(d *schedule.Schedule, now time.Time) error {
	if f.kinds() != 1 {
		return errNoSpec
	}
	location := time.UTC
	if f.zone != "" {
		var err error
		if location, err = specZone(f.zone); err != nil {
			return err
		}
	}
	d.Timezone, d.Limit = f.zone, f.limit
	return errors.Join(f.fillSpec(d, now, location), durationInto(&d.Jitter, "jitter", f.jitter),
		instantInto(&d.Starts, "starts", f.starts, now, location), instantInto(&d.Ends, "ends", f.ends, now, location))
}

func specZone(name string) (*time.Location, error) {
	location, err := zone(name)
	if err != nil {
		return nil, &schedule.FieldError{Field: "timezone", Value: name, Allowed: "an IANA zone such as Europe/Berlin, or UTC"}
	}
	return location, nil
}

func (f *specFlags) fillSpec(d *schedule.Schedule, now time.Time, location *time.Location) error {
	if f.offset != "" && f.every == "" {
		return usageErrorf("--offset needs --every")
	}
	if f.expression != "" {
		d.Expression = f.expression
		return nil
	}
	spec := schedule.SpecDefinition{Cron: f.cron}
	err := errors.Join(durationInto(&spec.Every, "every", f.every), durationInto(&spec.After, "after", f.after))
	if f.every != "" && err == nil && spec.Every == 0 {
		err = &schedule.FieldError{Field: "every", Value: f.every, Allowed: "at least " + schedule.FormatDuration(schedule.MinInterval)}
	}
	var offset time.Duration
	if err == nil {
		err = durationInto(&offset, "offset", f.offset)
	}
	if offset > 0 {
		spec.Anchor = time.Unix(0, 0).UTC().Add(offset)
	}
	for _, text := range f.at {
		var t time.Time
		if e := instantInto(&t, "at", text, now, location); e != nil {
			return errors.Join(err, e)
		}
		spec.At = append(spec.At, t.Format(rfc3339Milli))
	}
	d.Specs = []schedule.SpecDefinition{spec}
	return err
}

// durationInto reads a duration flag; "" leaves the target alone.
func durationInto(target *time.Duration, name, text string) error {
	if text == "" {
		return nil
	}
	d, err := flagDuration(name, text)
	*target = d
	return err
}

func flagDuration(name, text string) (time.Duration, error) {
	d, err := schedule.ParseDuration(text)
	return d, renamed(err, name)
}

// instantInto reads a time flag; "" leaves the target alone. The location is also
// the one in which it will be shown.
func instantInto(target *time.Time, name, text string, now time.Time, location *time.Location) error {
	if text == "" {
		return nil
	}
	if location == nil {
		location = time.UTC
	}
	t, err := schedule.ParseInstant(text, now, location)
	*target = t
	if err == nil {
		err = checkShown(t, text, location)
	}
	return renamed(err, name)
}

// checkShown refuses an instant that RFC 3339 cannot write in the zone in which
// it is shown: at the ends of the years 1 to 9999 it lies in another year there
// than in UTC.
func checkShown(t time.Time, text string, location *time.Location) error {
	if hasYear(t, location) {
		return nil
	}
	return &schedule.FieldError{Field: "instant", Value: text, Allowed: "an instant in the years 1 to 9999, also in the zone in which it is shown, " + location.String()}
}

// renamed gives the error of a general parser the name of the flag.
func renamed(err error, name string) error {
	var field *schedule.FieldError
	if errors.As(err, &field) {
		copied := *field
		copied.Field = name
		return &copied
	}
	return err
}

// withHint adds a hint to an error about a field.
func withHint(err error, hint string) error {
	var field *schedule.FieldError
	if !errors.As(err, &field) {
		return err
	}
	copied := *field
	copied.Hint = hint
	return &copied
}

// readPayload reads JSON, @FILE or - for standard input, of at most so many
// bytes. JSON is put into the form that a schedule file gives it; anything else
// in a file is taken as it is.
func (s *session) readPayload(text string, most int) ([]byte, error) {
	inline := text != "-" && !strings.HasPrefix(text, "@")
	content, err := s.payloadBytes(text)
	if err != nil {
		return nil, err
	}
	if len(content) > schedule.MaxPayload {
		return nil, &schedule.FieldError{Field: "payload", Value: fmt.Sprintf("%d bytes or more", len(content)), Allowed: fmt.Sprintf("at most %d bytes", most)}
	}
	if !utf8.Valid(content) || !json.Valid(content) {
		if inline {
			return nil, &schedule.FieldError{Field: "payload", Value: text, Allowed: `JSON, such as '{"account": 12345}', @FILE, or - for standard input`}
		}
		s.note("the payload is no JSON; it is stored byte by byte")
		return content, nil
	}
	var d schedule.Schedule
	err = d.UnmarshalJSON(slices.Concat([]byte(`{"payload":`), content, []byte("}")))
	return d.Payload, err
}

func (s *session) payloadBytes(text string) ([]byte, error) {
	// One byte more than allowed is enough to know that it is too long.
	const most = schedule.MaxPayload + 1
	switch {
	case text == "-":
		content, err := io.ReadAll(io.LimitReader(s.env.Stdin, most))
		if err != nil {
			return nil, fmt.Errorf("read the payload from standard input: %w", err)
		}
		return content, nil
	case strings.HasPrefix(text, "@"):
		f, err := os.Open(text[1:])
		if err != nil {
			return nil, &schedule.FieldError{Field: "payload", Value: text, Allowed: "@ and the name of a readable file", Hint: reason(err)}
		}
		defer f.Close()
		content, err := io.ReadAll(io.LimitReader(f, most))
		if err != nil {
			return nil, &schedule.FieldError{Field: "payload", Value: text, Allowed: "@ and the name of a readable file", Hint: reason(err)}
		}
		return content, nil
	}
	return bytes.TrimSpace([]byte(text)), nil
}

// reason is the cause of a file error without the path, which is named
// already.
func reason(err error) string {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}
