package schedule

import (
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Parse reads the one-string form of a "when" in UTC; see [ParseWith].
func Parse(expression string) (Spec, error) { return ParseWith(expression, CronOptions{}) }

// ParseWith reads the one-string form of a "when":
//
//   - a cron expression or a macro: "0 2 * * *", "@daily";
//   - a fixed rate on the grid that begins at the Unix epoch: "500ms", "30s",
//     "5m", "2h", "1d", or "@every 90s"; another grid with "@every 1h from
//     2026-01-01T00:20:00Z";
//   - one-shots: "once:2026-12-24T09:00:00Z", several separated by commas;
//   - a fixed delay after the end of the last run: "@after 10m";
//   - several of them, except "@after", united: "0 9 * * 1-5 | 0 11 * * 6".
//
// These are also the forms that Spec.String prints. Anything else gives a
// *FieldError.
func ParseWith(expression string, options CronOptions) (Spec, error) {
	if err := checkExpression("expression", expression); err != nil {
		return nil, err
	}
	if !strings.Contains(expression, "|") {
		return parseOne(strings.TrimSpace(expression), options)
	}
	var parts []Spec
	for text := range strings.SplitSeq(expression, "|") {
		part, err := parseOne(strings.TrimSpace(text), options)
		if err != nil {
			return nil, err
		}
		if _, isAfter := part.(afterSpec); isAfter {
			return nil, &FieldError{Field: "expression", Value: expression, Allowed: "@after alone, or a union without it"}
		}
		parts = append(parts, part)
	}
	return newUnion(parts), nil
}

// parseOne reads one form.
func parseOne(text string, options CronOptions) (Spec, error) {
	const field = "expression"
	location := orUTC(options.Location)
	word, rest, _ := strings.Cut(text, " ")
	switch {
	case strings.HasPrefix(text, "once:"):
		spec, err := newAt(field, strings.Split(text[len("once:"):], ","), location)
		return spec, inField(err, field)
	case strings.EqualFold(word, "@every"):
		return parseEvery(rest, location)
	case strings.EqualFold(word, "@after"):
		delay, err := ParseDuration(strings.TrimSpace(rest))
		if err != nil {
			return nil, inField(err, field)
		}
		return newAfter(field, delay, location)
	case looksLikeDuration(text):
		return parseEvery(text, location)
	}
	spec, err := ParseCronWith(text, options)
	return spec, inCronField(err, field)
}

// parseEvery reads what follows "@every".
func parseEvery(text string, location *time.Location) (Spec, error) {
	const field = "expression"
	length, from, hasAnchor := strings.Cut(strings.TrimSpace(text), " from ")
	every, err := ParseDuration(length)
	if err != nil {
		return nil, inField(err, field)
	}
	var anchor time.Time
	if hasAnchor {
		if anchor, err = parseAbsolute(strings.TrimSpace(from), location); err != nil {
			return nil, inField(err, field)
		}
	}
	return newEvery(field, every, anchor, location)
}

// looksLikeDuration tells "5m" from a cron expression, which has white space,
// and from a macro.
func looksLikeDuration(text string) bool {
	if text == "" || strings.ContainsFunc(text, unicode.IsSpace) {
		return false
	}
	return text[0] >= '0' && text[0] <= '9' || text[0] == 'P' || text[0] == '-' || text[0] == '+'
}

// checkExpression refuses what no expression can be.
func checkExpression(field, text string) error {
	refuse := func(allowed string) error { return &FieldError{Field: field, Value: text, Allowed: allowed} }
	switch {
	case strings.TrimSpace(text) == "":
		return refuse(`a cron expression, a macro, an interval such as "5m" or "once:<RFC 3339>"`)
	case len(text) > MaxExpression:
		return refuse("at most " + itoa(MaxExpression) + " bytes")
	case !utf8.ValidString(text) || strings.ContainsFunc(text, isControl):
		return refuse("printable UTF-8")
	}
	return nil
}

// isControl reports characters that no text of a definition may hold, white
// space between cron fields aside.
func isControl(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }

// inCronField names the input before the cron field that an error is about.
func inCronField(err error, field string) error {
	e, ok := errors.AsType[*FieldError](err)
	if !ok {
		return err
	}
	part, isCron := strings.CutPrefix(e.Field, "cron")
	if !isCron {
		part = " " + part
	}
	return inField(err, field+part)
}

func orUTC(location *time.Location) *time.Location {
	if location == nil {
		return time.UTC
	}
	return location
}

// specKey is equal for specs that fire at the same instants by definition. It
// adds to the canonical form the zone that a cron expression is read in.
func specKey(spec Spec) string {
	switch s := spec.(type) {
	case *cronSpec:
		return s.text + "@" + s.location.String()
	case unionSpec:
		keys := make([]string, len(s.parts))
		for i, part := range s.parts {
			keys[i] = specKey(part)
		}
		return strings.Join(keys, " | ")
	default:
		return spec.String()
	}
}
