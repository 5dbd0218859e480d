package schedule

import (
	"encoding/base64"
	"encoding/json"
	"time"
)

// scheduleJSON is a Schedule under the names of the schedule file.
type scheduleJSON struct {
	ID            string            `json:"id"`
	Description   string            `json:"description,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
	Metadata      json.RawMessage   `json:"metadata,omitempty"`
	Expression    string            `json:"expression,omitempty"`
	Specs         []json.RawMessage `json:"specs,omitempty"`
	Timezone      string            `json:"timezone,omitempty"`
	Except        []json.RawMessage `json:"except,omitempty"`
	Only          []json.RawMessage `json:"only,omitempty"`
	Starts        string            `json:"starts,omitempty"`
	Ends          string            `json:"ends,omitempty"`
	Limit         int64             `json:"limit,omitempty"`
	Jitter        string            `json:"jitter,omitempty"`
	Type          string            `json:"type"`
	Queue         string            `json:"queue,omitempty"`
	Payload       json.RawMessage   `json:"payload,omitempty"`
	PayloadBase64 string            `json:"payload_base64,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
	MaxRetry      *int              `json:"max_retry,omitempty"`
	Timeout       string            `json:"timeout,omitempty"`
	Retention     string            `json:"retention,omitempty"`
	Missed        Missed            `json:"missed,omitempty"`
	CatchUp       string            `json:"catch_up,omitempty"`
	Overlap       Overlap           `json:"overlap,omitempty"`
	BufferLimit   int               `json:"buffer_limit,omitempty"`
	Effect        Effect            `json:"effect,omitempty"`
	Priority      int               `json:"priority,omitempty"`
	MaxFailures   int               `json:"max_failures,omitempty"`
	CoolDown      string            `json:"cool_down,omitempty"`
	Paused        bool              `json:"paused,omitempty"`
}

// specJSON is a SpecDefinition in the schedule file.
type specJSON struct {
	Cron     string   `json:"cron,omitempty"`
	Timezone string   `json:"timezone,omitempty"`
	Every    string   `json:"every,omitempty"`
	Anchor   string   `json:"anchor,omitempty"`
	At       []string `json:"at,omitempty"`
	After    string   `json:"after,omitempty"`
}

// windowJSON is a Window in the schedule file.
type windowJSON struct {
	Calendar string   `json:"calendar,omitempty"`
	Dates    []string `json:"dates,omitempty"`
	Weekly   string   `json:"weekly,omitempty"`
	Cron     string   `json:"cron,omitempty"`
	Timezone string   `json:"timezone,omitempty"`
}

// calendarJSON is a Calendar in the schedule file.
type calendarJSON struct {
	Name     string   `json:"name"`
	Timezone string   `json:"timezone,omitempty"`
	Dates    []string `json:"dates,omitempty"`
	Weekly   []string `json:"weekly,omitempty"`
	Cron     []string `json:"cron,omitempty"`
}

// MarshalJSON writes the names of the schedule file, in a fixed order and with
// no character escaped for HTML. Equal definitions give equal bytes; call
// [Schedule.Normalize] first to have defaults and what is left out count as
// equal. A payload that is JSON without insignificant white space goes as
// "payload", every other as "payload_base64", so that reading gives the same
// bytes back. json.Marshal escapes <, > and & in what MarshalJSON returned, which
// is the same JSON in other bytes: for the bytes of the payload, call MarshalJSON
// or an encoder whose SetEscapeHTML is false.
func (s Schedule) MarshalJSON() ([]byte, error) {
	wire := scheduleJSON{
		ID: string(s.ID), Description: s.Description, Labels: s.Labels, Metadata: s.Metadata,
		Expression: s.Expression, Timezone: s.Timezone,
		Starts: instantText(s.Starts), Ends: instantText(s.Ends), Limit: s.Limit, Jitter: durationText(s.Jitter),
		Type: s.Type, Queue: s.Queue, Headers: s.Headers, MaxRetry: s.MaxRetry,
		Timeout: durationText(s.Timeout), Retention: durationText(s.Retention),
		Missed: s.Missed, CatchUp: durationText(s.CatchUp), Overlap: s.Overlap, BufferLimit: s.BufferLimit,
		Effect: s.Effect, Priority: s.Priority, MaxFailures: s.MaxFailures, CoolDown: durationText(s.CoolDown),
		Paused: s.Paused,
	}
	if compact, err := compactPayload(s.Payload); err == nil && string(compact) == string(s.Payload) {
		wire.Payload = s.Payload
	} else {
		wire.PayloadBase64 = base64.StdEncoding.EncodeToString(s.Payload)
	}
	for _, spec := range s.Specs {
		raw, err := plainJSON(specJSON{Cron: spec.Cron, Timezone: spec.Timezone, Every: durationText(spec.Every),
			Anchor: instantText(spec.Anchor), At: spec.At, After: durationText(spec.After)})
		if err != nil {
			return nil, err
		}
		wire.Specs = append(wire.Specs, raw)
	}
	var err error
	if wire.Except, err = marshalWindows(s.Except); err != nil {
		return nil, err
	}
	if wire.Only, err = marshalWindows(s.Only); err != nil {
		return nil, err
	}
	return plainJSON(wire)
}

func marshalWindows(all []Window) ([]json.RawMessage, error) {
	var out []json.RawMessage
	for _, w := range all {
		raw, err := plainJSON(windowJSON(w))
		if err != nil {
			return nil, err
		}
		out = append(out, raw)
	}
	return out, nil
}

// UnmarshalJSON reads the names of the schedule file and replaces the whole
// definition. Unknown or repeated names, values of another type, and texts
// that are no duration or RFC 3339 time give *FieldErrors, joined, and leave the
// target alone; what the values mean is checked by [Schedule.Validate].
// "payload" is any JSON: the task gets its bytes as they are written, without
// insignificant white space.
func (s *Schedule) UnmarshalJSON(data []byte) error {
	out, err := Draft(data)
	if err == nil {
		*s = out
	}
	return err
}

// Draft reads as much of a definition in JSON as can be read. The error joins a
// *FieldError for each field that cannot, which is left at its zero value; where
// the object itself cannot be read all of it is zero. It is for programs that
// tell a writer all that is wrong at once, by checking the draft as well; others
// use [Schedule.UnmarshalJSON].
func Draft(data []byte) (Schedule, error) {
	var wire scheduleJSON
	var p problems
	if partly, err := decodePart(data, "", &wire); err != nil {
		if p.add(err); !partly {
			return Schedule{}, err
		}
	}
	out := Schedule{
		ID: ID(wire.ID), Description: wire.Description, Labels: wire.Labels, Expression: wire.Expression, Timezone: wire.Timezone,
		Limit: wire.Limit, Type: wire.Type, Queue: wire.Queue, Headers: wire.Headers, MaxRetry: wire.MaxRetry,
		Missed: wire.Missed, Overlap: wire.Overlap, BufferLimit: wire.BufferLimit, Effect: wire.Effect,
		Priority: wire.Priority, MaxFailures: wire.MaxFailures, Paused: wire.Paused,
	}
	var err error
	out.Payload, err = decodePayload(wire.Payload, wire.PayloadBase64)
	p.add(err)
	out.Metadata, err = canonicalJSON(wire.Metadata)
	p.add(err)
	readTexts(&p, "", []textField{
		{"starts", wire.Starts, &out.Starts, nil}, {"ends", wire.Ends, &out.Ends, nil},
		{"jitter", wire.Jitter, nil, &out.Jitter}, {"timeout", wire.Timeout, nil, &out.Timeout},
		{"retention", wire.Retention, nil, &out.Retention}, {"catch_up", wire.CatchUp, nil, &out.CatchUp},
		{"cool_down", wire.CoolDown, nil, &out.CoolDown},
	})
	out.Specs = decodeSpecs(&p, wire.Specs)
	out.Except = decodeWindows(&p, "except", wire.Except)
	out.Only = decodeWindows(&p, "only", wire.Only)
	return out, p.join()
}

func decodeSpecs(p *problems, all []json.RawMessage) []SpecDefinition {
	var out []SpecDefinition
	for i, raw := range all {
		var wire specJSON
		path := indexed("specs", i)
		p.add(decodeObject(raw, path, &wire))
		spec := SpecDefinition{Cron: wire.Cron, Timezone: wire.Timezone, At: wire.At}
		readTexts(p, path+".", []textField{
			{"every", wire.Every, nil, &spec.Every}, {"after", wire.After, nil, &spec.After},
			{"anchor", wire.Anchor, &spec.Anchor, nil},
		})
		out = append(out, spec)
	}
	return out
}

func decodeWindows(p *problems, field string, all []json.RawMessage) []Window {
	var out []Window
	for i, raw := range all {
		var wire windowJSON
		p.add(decodeObject(raw, indexed(field, i), &wire))
		out = append(out, Window(wire))
	}
	return out
}

// MarshalJSON writes the names of the schedule file, in a fixed order.
func (c Calendar) MarshalJSON() ([]byte, error) { return json.Marshal(calendarJSON(c)) }

// UnmarshalJSON reads the names of the schedule file and replaces the whole
// calendar. It refuses as [Schedule.UnmarshalJSON] does.
func (c *Calendar) UnmarshalJSON(data []byte) error {
	var wire calendarJSON
	if err := decodeObject(data, "", &wire); err != nil {
		return err
	}
	*c = Calendar(wire)
	return nil
}

// A textField is a duration or a time that the file writes as text. "" leaves
// the target alone.
type textField struct {
	name     string
	text     string
	instant  *time.Time
	duration *time.Duration
}

func readTexts(p *problems, prefix string, fields []textField) {
	for _, f := range fields {
		var err error
		switch {
		case f.text == "":
		case f.duration != nil:
			*f.duration, err = ParseDuration(f.text)
		case !rfc3339Pattern.MatchString(f.text):
			p.refuse(prefix+f.name, f.text, `RFC 3339 with an offset, such as "2026-01-01T00:00:00Z"`)
		default:
			*f.instant, err = parseAbsolute(f.text, time.UTC)
		}
		p.add(inField(err, prefix+f.name))
	}
}

func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return FormatDuration(d)
}

func instantText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return formatInstant(t)
}
