package schedule

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	maxRetryLimit      = 1000
	defaultBufferLimit = 100
	maxBufferLimit     = 1000
	maxPriority        = 100
)

var labelPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$`)

// Normalize fills in the defaults for zero values, cuts Starts, Ends and
// anchors to whole milliseconds in UTC, leaves single spaces in expressions,
// sorts the names in Metadata and turns empty lists into nil, so that definitions that mean the same have the same
// JSON. It does not check anything; see [Schedule.Validate].
func (s *Schedule) Normalize() {
	setDefault(&s.Queue, DefaultQueue)
	setDefault(&s.Timeout, DefaultTimeout)
	setDefault(&s.Retention, DefaultRetention)
	setDefault(&s.Missed, MissedLatest)
	setDefault(&s.Overlap, OverlapAllow)
	setDefault(&s.Effect, AtLeastOnce)
	if s.Overlap == OverlapBufferAll {
		setDefault(&s.BufferLimit, defaultBufferLimit)
	}
	if s.MaxRetry == nil {
		retries := DefaultMaxRetry
		s.MaxRetry = &retries
	}
	s.Expression = singleSpaces(s.Expression)
	s.Starts, s.Ends = wholeMillis(s.Starts), wholeMillis(s.Ends)
	if metadata, err := canonicalJSON(s.Metadata); err == nil {
		s.Metadata = metadata
	}
	emptyIsNil(&s.Payload)
	emptyIsNil(&s.Except)
	emptyIsNil(&s.Only)
	emptyIsNil(&s.Specs)
	if len(s.Labels) == 0 {
		s.Labels = nil
	}
	if len(s.Headers) == 0 {
		s.Headers = nil
	}
	s.Specs = slices.Clone(s.Specs) // the caller's own list stays as it is
	for i := range s.Specs {
		s.Specs[i].Cron = singleSpaces(s.Specs[i].Cron)
		s.Specs[i].Anchor = wholeMillis(s.Specs[i].Anchor)
		emptyIsNil(&s.Specs[i].At)
	}
}

func setDefault[T comparable](value *T, fallback T) {
	var zero T
	if *value == zero {
		*value = fallback
	}
}

func emptyIsNil[T any](list *[]T) {
	if len(*list) == 0 {
		*list = nil
	}
}

// singleSpaces leaves one space between words; any white space may separate
// them in an expression. An invalid text it leaves for Validate to refuse.
func singleSpaces(text string) string {
	if len(text) > MaxExpression || !utf8.ValidString(text) {
		return text
	}
	return strings.Join(strings.Fields(text), " ")
}

func wholeMillis(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.Truncate(time.Millisecond).UTC()
}

// Validate returns all *FieldErrors of the definition, joined with
// errors.Join, or nil. Zero values stand for their defaults. It cannot know
// whether the calendars exist ([Compile] does) and whether a one-shot is past
// ([Compiled.CheckCreate] does).
func (s Schedule) Validate() error {
	s.Normalize()
	var p problems
	s.check(&p)
	spec, _ := s.buildSpec(&p)
	s.checkAfter(&p, spec)
	s.buildWindows(&p, "except", s.Except, nil)
	s.buildWindows(&p, "only", s.Only, nil)
	return p.join()
}

// check checks everything but the "when" and the windows of a normalised
// definition.
func (s *Schedule) check(p *problems) {
	p.add(s.ID.Validate())
	p.add(ValidateType(s.Type))
	p.add(ValidateQueue(s.Queue))
	s.checkTexts(p)
	s.checkHeaders(p)
	s.checkBounds(p)
	s.checkPolicies(p)
	s.checkTask(p)
}

func (s *Schedule) checkTexts(p *problems) {
	if len(s.Description) > MaxDescription {
		p.refuse("description", s.Description, "at most "+itoa(MaxDescription)+" bytes")
	} else if !printable(s.Description) {
		p.refuse("description", s.Description, "printable UTF-8 on one line")
	}
	if len(s.Labels) > MaxLabels {
		p.refuse("labels", itoa(len(s.Labels))+" labels", "at most "+itoa(MaxLabels))
	}
	const allowed = "1 to 63 letters, digits, '.', '_', '/' or '-', starting with a letter or digit"
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		if !labelPattern.MatchString(name) {
			p.refuse("labels", name, "a name of "+allowed)
		} else if !labelPattern.MatchString(s.Labels[name]) {
			p.refuse("labels."+name, s.Labels[name], allowed)
		}
	}
	if len(s.Metadata) > MaxMetadata {
		p.refuse("metadata", itoa(len(s.Metadata))+" bytes", "at most "+itoa(MaxMetadata)+" bytes")
	} else if _, err := canonicalJSON(s.Metadata); err != nil {
		p.add(err)
	} else if !printable(string(s.Metadata)) {
		p.refuse("metadata", string(s.Metadata), "printable UTF-8; escape control characters as in \\n")
	}
}

// printable reports UTF-8 without control, format and private characters; the
// joiners that some scripts and emoji need are fine.
func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return !unicode.IsGraphic(r) && r != '\u200c' && r != '\u200d' || r == '\u2028' || r == '\u2029'
	})
}

func (s *Schedule) checkHeaders(p *problems) {
	size := 0
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		value := s.Headers[name]
		size += len(name) + len(value)
		switch {
		case name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == ':' }):
			p.refuse("headers", name, "names of printable ASCII without spaces and colons")
		case len(name) >= len("belfry-") && strings.EqualFold(name[:len("belfry-")], "belfry-"):
			p.refuse("headers", name, `names that do not start with "Belfry-"`)
		case !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
			p.refuse("headers."+name, value, "UTF-8 without control characters")
		}
	}
	if size > MaxHeaders {
		p.refuse("headers", itoa(size)+" bytes", "at most "+itoa(MaxHeaders)+" bytes, names and values together")
	}
}

func (s *Schedule) checkBounds(p *problems) {
	for _, bound := range []struct {
		field string
		at    time.Time
	}{{"starts", s.Starts}, {"ends", s.Ends}} {
		if ms := floorMillis(bound.at); !bound.at.IsZero() && (ms < 0 || ms > maxMillis) {
			p.refuse(bound.field, bound.at.Format(time.RFC3339), "an instant in the years 1970 to 9999")
		}
	}
	if !s.Starts.IsZero() && !s.Ends.IsZero() && !s.Starts.Before(s.Ends) {
		p.refuse("ends", formatInstant(s.Ends), "later than starts, which is "+formatInstant(s.Starts))
	}
	if s.Limit < 0 {
		p.refuse("limit", strconv.FormatInt(s.Limit, 10), "0 for none, or the number of firings")
	}
	checkDuration(p, "jitter", s.Jitter, 0, time.Millisecond)
}

// checkDuration checks a lower bound and that nothing would be rounded.
func checkDuration(p *problems, field string, d, least, unit time.Duration) {
	if d >= least && d%unit == 0 {
		return
	}
	allowed := map[time.Duration]string{time.Millisecond: "whole milliseconds", time.Second: "whole seconds"}[unit]
	p.refuse(field, FormatDuration(d), allowed+", at least "+FormatDuration(least))
}

func (s *Schedule) checkPolicies(p *problems) {
	oneOf(p, "missed", s.Missed, MissedLatest, MissedAll, MissedSkip)
	oneOf(p, "overlap", s.Overlap, OverlapAllow, OverlapSkip, OverlapBufferOne, OverlapBufferAll, OverlapCancelOther)
	oneOf(p, "effect", s.Effect, AtLeastOnce, AtMostOnce)
	checkDuration(p, "catch_up", s.CatchUp, 0, time.Millisecond)
	if s.Missed == MissedAll && s.CatchUp == 0 {
		p.refuse("catch_up", "", `a duration such as "24h": missed "all" needs to know how far back to go`)
	}
	inRange(p, "buffer_limit", s.BufferLimit, 0, maxBufferLimit)
	inRange(p, "priority", s.Priority, -maxPriority, maxPriority)
	inRange(p, "max_failures", s.MaxFailures, 0, 1_000_000)
	checkDuration(p, "cool_down", s.CoolDown, 0, time.Millisecond)
}

func (s *Schedule) checkTask(p *problems) {
	if len(s.Payload) > MaxPayload {
		p.refuse("payload", itoa(len(s.Payload))+" bytes", "at most "+itoa(MaxPayload)+" bytes")
	}
	inRange(p, "max_retry", *s.MaxRetry, 0, maxRetryLimit)
	checkDuration(p, "timeout", s.Timeout, time.Second, time.Second)
	checkDuration(p, "retention", s.Retention, MinRetention, time.Second)
}

// checkAfter refuses what a fixed delay cannot be combined with.
func (s *Schedule) checkAfter(p *problems, spec Spec) {
	if _, isAfter := spec.(afterSpec); !isAfter {
		return
	}
	const allowed = "nothing: a schedule with after has no grid of scheduled times"
	if len(s.Except) > 0 {
		p.refuse("except", itoa(len(s.Except))+" windows", allowed)
	}
	if len(s.Only) > 0 {
		p.refuse("only", itoa(len(s.Only))+" windows", allowed)
	}
	if s.Missed != MissedLatest {
		p.refuse("missed", string(s.Missed), allowed)
	}
	if s.CatchUp != 0 {
		p.refuse("catch_up", FormatDuration(s.CatchUp), allowed)
	}
}

func oneOf[T ~string](p *problems, field string, value T, allowed ...T) {
	if slices.Contains(allowed, value) {
		return
	}
	words := make([]string, len(allowed))
	for i, word := range allowed {
		words[i] = string(word)
	}
	*p = append(*p, &FieldError{Field: field, Value: string(value), Allowed: strings.Join(words, ", "), Hint: nearestName(string(value), words)})
}

func inRange(p *problems, field string, value, least, most int) {
	if value < least || value > most {
		p.refuse(field, itoa(value), itoa(least)+" to "+itoa(most))
	}
}
