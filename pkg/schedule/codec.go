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

// MarshalJSON writes the names of the schedule file, in a fixed order. Equal
// definitions give equal bytes; call [Schedule.Normalize] first to have
// defaults and what is left out count as equal. A payload that is canonical
// JSON (as json.Marshal writes it) goes as "payload", every other as
// "payload_base64", so that reading gives the same bytes back.
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
	if canonical, err := canonicalPayload(s.Payload); err == nil && string(canonical) == string(s.Payload) {
		wire.Payload = s.Payload
	} else {
		wire.PayloadBase64 = base64.StdEncoding.EncodeToString(s.Payload)
	}
	for _, spec := range s.Specs {
		raw, err := json.Marshal(specJSON{Cron: spec.Cron, Timezone: spec.Timezone, Every: durationText(spec.Every),
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
	return json.Marshal(wire)
}

func marshalWindows(all []Window) ([]json.RawMessage, error) {
	var out []json.RawMessage
	for _, w := range all {
		raw, err := json.Marshal(windowJSON(w))
		if err != nil {
			return nil, err
		}
		out = append(out, raw)
	}
	return out, nil
}

// UnmarshalJSON reads the names of the schedule file and replaces the whole
// definition. Unknown or repeated names, values of another type, and texts
// that are no duration or RFC 3339 time give a *FieldError; what the values
// mean is checked by [Schedule.Validate]. "payload" is any JSON: the task gets
// it as json.Marshal writes it, with numbers as they are written.
func (s *Schedule) UnmarshalJSON(data []byte) error {
	var wire scheduleJSON
	if err := decodeObject(data, "", &wire); err != nil {
		return err
	}
	out := Schedule{
		ID: ID(wire.ID), Description: wire.Description, Labels: wire.Labels, Expression: wire.Expression, Timezone: wire.Timezone,
		Limit: wire.Limit, Type: wire.Type, Queue: wire.Queue, Headers: wire.Headers, MaxRetry: wire.MaxRetry,
		Missed: wire.Missed, Overlap: wire.Overlap, BufferLimit: wire.BufferLimit, Effect: wire.Effect,
		Priority: wire.Priority, MaxFailures: wire.MaxFailures, Paused: wire.Paused,
	}
	var err error
	if out.Payload, err = decodePayload(wire.Payload, wire.PayloadBase64); err != nil {
		return err
	}
	if out.Metadata, err = canonicalJSON(wire.Metadata); err != nil {
		return err
	}
	if err = readTexts("", []textField{
		{"starts", wire.Starts, &out.Starts, nil}, {"ends", wire.Ends, &out.Ends, nil},
		{"jitter", wire.Jitter, nil, &out.Jitter}, {"timeout", wire.Timeout, nil, &out.Timeout},
		{"retention", wire.Retention, nil, &out.Retention}, {"catch_up", wire.CatchUp, nil, &out.CatchUp},
		{"cool_down", wire.CoolDown, nil, &out.CoolDown},
	}); err != nil {
		return err
	}
	if out.Specs, err = decodeSpecs(wire.Specs); err != nil {
		return err
	}
	if out.Except, err = decodeWindows("except", wire.Except); err != nil {
		return err
	}
	if out.Only, err = decodeWindows("only", wire.Only); err != nil {
		return err
	}
	*s = out
	return nil
}

func decodeSpecs(all []json.RawMessage) ([]SpecDefinition, error) {
	var out []SpecDefinition
	for i, raw := range all {
		var wire specJSON
		path := indexed("specs", i)
		if err := decodeObject(raw, path, &wire); err != nil {
			return nil, err
		}
		spec := SpecDefinition{Cron: wire.Cron, Timezone: wire.Timezone, At: wire.At}
		if err := readTexts(path+".", []textField{
			{"every", wire.Every, nil, &spec.Every}, {"after", wire.After, nil, &spec.After},
			{"anchor", wire.Anchor, &spec.Anchor, nil},
		}); err != nil {
			return nil, err
		}
		out = append(out, spec)
	}
	return out, nil
}

func decodeWindows(field string, all []json.RawMessage) ([]Window, error) {
	var out []Window
	for i, raw := range all {
		var wire windowJSON
		if err := decodeObject(raw, indexed(field, i), &wire); err != nil {
			return nil, err
		}
		out = append(out, Window(wire))
	}
	return out, nil
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

func readTexts(prefix string, fields []textField) error {
	for _, f := range fields {
		if f.text == "" {
			continue
		}
		if f.duration != nil {
			d, err := ParseDuration(f.text)
			if err != nil {
				return inField(err, prefix+f.name)
			}
			*f.duration = d
			continue
		}
		if !rfc3339Pattern.MatchString(f.text) {
			return &FieldError{Field: prefix + f.name, Value: f.text, Allowed: `RFC 3339 with an offset, such as "2026-01-01T00:00:00Z"`}
		}
		t, err := parseAbsolute(f.text, time.UTC)
		if err != nil {
			return inField(err, prefix+f.name)
		}
		*f.instant = t
	}
	return nil
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
