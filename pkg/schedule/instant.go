package schedule

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// instantAllowed is what every error about an instant says.
const instantAllowed = `RFC 3339 ("2026-04-01T09:00:00Z"), a date, a date and time ("2026-04-01 09:00"), "now", "+90m", "-2h", ` +
	`"today|tomorrow|yesterday 09:00" or "mon 09:00"`

var (
	rfc3339Pattern = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$`)
	localPattern   = regexp.MustCompile(`^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?))?$`)
	clockPattern   = regexp.MustCompile(`^(\d{1,2})(?::(\d\d))?(?::(\d\d))?(am|pm)?$`)
	digitsPattern  = regexp.MustCompile(`^[+-]?\d+$`)
)

// ParseInstant reads an instant as an operator types it:
//
//   - RFC 3339, which is an instant by itself;
//   - "2026-04-01", "2026-04-01 09:00" or "2026-04-01T09:00:30", local in
//     location, or in a zone named behind it ("2026-04-01 09:00 Europe/Berlin");
//   - "now", and a signed duration from now: "+90m", "-2h", "+1d";
//   - "today", "tomorrow" or "yesterday" and a time: "tomorrow 09:00", "tomorrow 9am";
//   - a weekday and a time, which is the next one after now: "mon 09:00".
//
// A nil location is UTC. A local time that clock changes skip is the first
// instant after the gap; one that they repeat is its first pass. Anything
// else, a bare number among it, gives a *FieldError: nothing is guessed. Show
// the result with its zone before acting on it. The result is in location, at
// whole milliseconds.
func ParseInstant(text string, now time.Time, location *time.Location) (time.Time, error) {
	if location == nil {
		location = time.UTC
	}
	text = strings.TrimSpace(text)
	now = now.Truncate(time.Millisecond).In(location)
	words := strings.Fields(strings.ToLower(text))
	switch {
	case len(words) == 1 && words[0] == "now":
		return now, nil
	case digitsPattern.MatchString(text):
		return time.Time{}, instantError(text, "a bare number could be seconds or milliseconds")
	case len(words) == 1 && (text[0] == '+' || text[0] == '-'):
		return parseOffset(text, now)
	case len(words) == 2:
		if t, known, err := parseRelativeDay(text, words, now); known {
			return t, err
		}
	}
	return parseAbsolute(text, location)
}

// parseOffset reads a signed duration from now.
func parseOffset(text string, now time.Time) (time.Time, error) {
	d, err := ParseDuration(text[1:])
	if err != nil {
		return time.Time{}, instantError(text, "the part after the sign must be "+durationAllowed)
	}
	if d%time.Millisecond != 0 {
		return time.Time{}, instantError(text, "whole milliseconds")
	}
	if text[0] == '-' {
		d = -d
	}
	t := now.Add(d)
	if y := t.Year(); y < 1 || y > 9999 {
		return time.Time{}, instantError(text, "outside of the years 1 to 9999")
	}
	return t, nil
}

// parseRelativeDay reads a day relative to now and a time of day. Known says
// whether the first word is such a day.
func parseRelativeDay(text string, words []string, now time.Time) (t time.Time, known bool, err error) {
	days := map[string]int{"yesterday": -1, "today": 0, "tomorrow": 1}
	offset, known := days[words[0]]
	weekday, isWeekday := parseWeekday(words[0])
	if isWeekday {
		offset, known = (int(weekday)-int(now.Weekday())+7)%7, true
	}
	if !known {
		return time.Time{}, false, nil
	}
	clock, ok := parseClock(words[1])
	if !ok {
		return time.Time{}, true, instantError(text, "the time is HH:MM, such as 09:00 or 9am")
	}
	date := civilDay(now) + int64(offset)
	t = wallInstant(date*dayMillis+clock, now.Location())
	if isWeekday && !t.After(now) {
		t = wallInstant((date+7)*dayMillis+clock, now.Location())
	}
	return t, true, nil
}

// parseClock reads a time of day as milliseconds after midnight.
func parseClock(text string) (int64, bool) {
	m := clockPattern.FindStringSubmatch(text)
	if m == nil || m[2] == "" && m[4] == "" {
		return 0, false
	}
	hour, minute, second := atoi(m[1]), atoi(m[2]), atoi(m[3])
	switch {
	case m[4] != "" && (hour < 1 || hour > 12):
		return 0, false
	case m[4] == "" && len(m[1]) != 2:
		return 0, false
	case m[4] != "":
		hour %= 12
		if m[4] == "pm" {
			hour += 12
		}
	}
	if hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	return int64(hour*3600+minute*60+second) * 1000, true
}

// parseAbsolute reads RFC 3339, or a local date with or without a time. Local
// means in location, or in the zone that is named behind it.
func parseAbsolute(text string, location *time.Location) (time.Time, error) {
	if rfc3339Pattern.MatchString(text) {
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return time.Time{}, instantError(text, "no such date, time or offset")
		}
		if t.Nanosecond()%1e6 != 0 {
			return time.Time{}, instantError(text, "whole milliseconds")
		}
		if ms := floorMillis(t); ms < minMillis || ms > maxMillis {
			return time.Time{}, instantError(text, "outside of the years 1 to 9999")
		}
		return t.In(location), nil
	}
	local := text
	if i := strings.LastIndexByte(text, ' '); i > 0 && len(text) > i+1 && isLetter(text[i+1]) {
		zone, err := loadLocation(text[i+1:])
		if err != nil {
			return time.Time{}, instantError(text, strconv.QuoteToASCII(text[i+1:])+" is no time zone")
		}
		local, location = text[:i], zone
	}
	m := localPattern.FindStringSubmatch(local)
	if m == nil {
		return time.Time{}, instantError(text, "")
	}
	date, err := time.Parse(time.DateOnly, m[1])
	if err != nil {
		return time.Time{}, instantError(text, "no such date")
	}
	wall := date.UnixMilli()
	if m[2] != "" {
		clock, err := time.Parse("15:04:05", (m[2] + ":00")[:max(8, len(m[2]))])
		if err != nil {
			return time.Time{}, instantError(text, "no such time of day")
		}
		midnight := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
		wall += clock.Sub(midnight).Milliseconds()
	}
	t := wallInstant(wall, location)
	if ms := floorMillis(t); ms < minMillis || ms > maxMillis {
		return time.Time{}, instantError(text, "outside of the years 1 to 9999")
	}
	return t, nil
}

func instantError(text, hint string) error {
	return &FieldError{Field: "time", Value: text, Allowed: instantAllowed, Hint: hint}
}

// formatInstant prints an instant in UTC, with milliseconds only when there
// are any.
func formatInstant(t time.Time) string {
	t = t.UTC()
	if t.Nanosecond() == 0 {
		return t.Format("2006-01-02T15:04:05Z")
	}
	return t.Format("2006-01-02T15:04:05.000Z")
}

// parseWeekday reads a weekday, three letters or in full, in lower case.
func parseWeekday(word string) (time.Weekday, bool) {
	for d := time.Sunday; d <= time.Saturday; d++ {
		name := strings.ToLower(d.String())
		if word == name || word == name[:3] {
			return d, true
		}
	}
	return 0, false
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// atoi reads digits that a pattern has matched; "" is 0.
func atoi(digits string) int {
	n, _ := strconv.Atoi(digits) // at most four digits
	return n
}

func itoa(n int) string { return strconv.Itoa(n) }
