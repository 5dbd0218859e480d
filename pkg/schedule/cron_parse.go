package schedule

import (
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// cronMacros are the expressions that macros stand for. The first of two names
// is the canonical one.
var cronMacros = map[string]string{
	"@YEARLY": "0 0 1 1 *", "@ANNUALLY": "0 0 1 1 *", "@MONTHLY": "0 0 1 * *", "@WEEKLY": "0 0 * * 0",
	"@DAILY": "0 0 * * *", "@MIDNIGHT": "0 0 * * *", "@HOURLY": "0 * * * *", "@MINUTELY": "* * * * *",
	"@EVERY_MINUTE": "* * * * *", "@EVERY_SECOND": "* * * * * *",
}

const cronAllowed = "5 fields (minute hour day-of-month month day-of-week), 6 (seconds first), 7 (seconds first, year last) or a macro such as @daily"

// ParseCron parses a cron expression for a location; nil is UTC. It takes 5
// fields (minute hour day-of-month month day-of-week), 6 (seconds first) or 7
// (seconds first, year last), or a macro; see docs/CONFIGURATION.md for the
// dialect. H is refused, because it needs a schedule ID: use [ParseCronWith].
//
// An expression that names a date which no month has, such as "0 0 30 2 *",
// parses; its Next returns false. The error is a *FieldError that names the
// field, what was given, what is allowed and, if it can be guessed, what was
// meant.
func ParseCron(expression string, location *time.Location) (Spec, error) {
	return ParseCronWith(expression, CronOptions{Location: location})
}

// ParseCronWith is [ParseCron] with options. A TZ= or CRON_TZ= prefix must
// name the same zone as a non-nil location.
func ParseCronWith(expression string, options CronOptions) (Spec, error) {
	spec, err := parseCron(expression, options)
	if err != nil {
		return nil, err
	}
	return spec, nil
}

func parseCron(expression string, options CronOptions) (*cronSpec, error) {
	if len(expression) > MaxExpression {
		return nil, &FieldError{Field: "cron", Value: expression,
			Allowed: "at most " + strconv.Itoa(MaxExpression) + " bytes"}
	}
	// Most expressions need no memory of their own while they are read.
	var fields [8]string
	var room [12]cronItem
	words := fields[:0]
	for word := range strings.FieldsSeq(expression) {
		words = append(words, word)
	}
	words, location, err := cutZonePrefix(words, options.Location)
	if err != nil {
		return nil, err
	}
	if _, offset := time.Unix(0, 0).In(location).Zone(); offset < -maxShift || offset > maxShift {
		return nil, &FieldError{Field: "timezone", Value: location.String(), Allowed: "an offset of at most 27 hours"}
	}
	items, err := parseCronWords(words, options.ScheduleID, room[:])
	if err != nil {
		return nil, err
	}
	spec := newCronSpec(&items, location)
	spec.text = items.text(expression)
	return spec, nil
}

// cutZonePrefix takes TZ=name or CRON_TZ=name off the front.
func cutZonePrefix(words []string, given *time.Location) ([]string, *time.Location, error) {
	location := given
	if given == nil {
		location = time.UTC
	}
	if len(words) == 0 {
		return words, location, nil
	}
	name, prefixed := strings.CutPrefix(words[0], "CRON_TZ=")
	if !prefixed {
		name, prefixed = strings.CutPrefix(words[0], "TZ=")
	}
	if !prefixed {
		return words, location, nil
	}
	if name == "" {
		return nil, nil, &FieldError{Field: "timezone", Value: words[0], Allowed: "TZ= directly followed by an IANA time zone name"}
	}
	named, err := loadLocation(name)
	if err != nil {
		return nil, nil, err
	}
	if given != nil && given.String() != named.String() {
		return nil, nil, &FieldError{Field: "timezone", Value: name,
			Allowed: "the schedule's own time zone, " + given.String(), Hint: "give the zone in one place only"}
	}
	return words[1:], named, nil
}

// cronItems holds the parsed lists of the seven fields.
type cronItems struct {
	lists [7][]cronItem
	count int  // fields written: 5, 6 or 7
	both  bool // day-of-week is written with +
}

// parseCronWords reads the fields. It puts their lists into room as far as that
// goes.
func parseCronWords(given []string, id ID, room []cronItem) (items cronItems, err error) {
	refuse := func(hint string) error {
		return &FieldError{Field: "cron", Value: strings.Join(given, " "), Allowed: cronAllowed, Hint: hint}
	}
	words, hint, ok := expandMacro(given)
	if !ok {
		return items, refuse(hint)
	}
	items.count = len(words)
	var first int
	switch len(words) {
	case 5:
		first = fieldMinute
		items.lists[fieldSecond] = onlyZero
	case 6, 7:
	default:
		return items, refuse(countHint(words))
	}
	for i, word := range words {
		f := &cronFields[first+i]
		word = strings.ToUpper(word)
		if f.days == 'w' && len(word) > 1 && word[0] == '+' {
			items.both, word = true, word[1:]
		}
		list, err := parseCronList(f, word, id, room)
		if err != nil {
			return items, err
		}
		items.lists[first+i] = list
		room = room[min(len(list), len(room)):]
	}
	if items.count < 7 {
		items.lists[fieldYear] = everyYear
	}
	return items, nil
}

// What the fields that are not written stand for.
var (
	onlyZero  = []cronItem{{}}
	everyYear = []cronItem{{star: true, from: minCronYear, to: maxCronYear}}
)

// expandMacro replaces a macro by its fields. It is not ok, with a hint, when
// the words can be no expression at all.
func expandMacro(words []string) (expanded []string, hint string, ok bool) {
	switch {
	case len(words) == 0:
		return nil, "", false
	case strings.HasPrefix(words[0], "TZ="), strings.HasPrefix(words[0], "CRON_TZ="):
		return nil, "one time zone is enough", false
	case !strings.HasPrefix(words[0], "@"):
		return words, "", true
	}
	name := strings.ToUpper(words[0])
	macro, known := cronMacros[name]
	switch {
	case !known:
		return nil, macroHint(name), false
	case len(words) > 1:
		return nil, "a macro stands alone", false
	}
	return strings.Fields(macro), "", true
}

// countHint guesses at what a wrong number of fields was meant to be.
func countHint(words []string) string {
	switch {
	case len(words) == 1 && strings.Count(words[0], "_") >= 4:
		return "separate the fields by blanks"
	case len(words) == 4:
		return "one field is missing; for any value write *"
	}
	return plural(int64(len(words)), "field")
}

// newCronSpec turns the parsed fields into sets.
func newCronSpec(items *cronItems, location *time.Location) *cronSpec {
	c := &cronSpec{location: location}
	c.both = items.both
	c.anyDay, c.anyWeekday, c.anyYear = bare(items.lists[fieldDay]), bare(items.lists[fieldWeekday]) && !items.both, bare(items.lists[fieldYear])
	var months, weekdays uint64
	c.seconds = cronSet(items, fieldSecond)
	c.minutes = cronSet(items, fieldMinute)
	c.hours = uint32(cronSet(items, fieldHour))
	months, weekdays = cronSet(items, fieldMonth), cronSet(items, fieldWeekday)
	c.months, c.weekdays = uint16(months), uint8(weekdays)
	c.days = uint32(cronSet(items, fieldDay))
	for _, item := range items.lists[fieldDay] {
		switch item.kind {
		case itemLast:
			c.fromLast |= 1 << item.from
		case itemNearest:
			c.nearest |= 1 << item.from
		case itemNearestLast:
			c.nearestLast |= 1 << item.from
		}
	}
	for _, item := range items.lists[fieldWeekday] {
		if item.kind == itemNth {
			item.each(&cronFields[fieldWeekday], func(day int) { c.nth[day] |= 1 << item.nth })
		}
	}
	for _, item := range items.lists[fieldYear] {
		if c.anyYear {
			break
		}
		item.each(&cronFields[fieldYear], func(year int) {
			i := year - minCronYear
			c.years[i>>6] |= 1 << (i & 63)
		})
	}
	c.everyDay = c.anyDay && c.anyWeekday && c.anyYear && bits.OnesCount16(c.months) == 12
	c.kinds = c.findKinds()
	c.everyHour = bits.OnesCount32(c.hours) == 24
	c.interval = items.intervalLike()
	c.finish()
	c.never = c.dateless()
	return c
}

// bare reports whether a field is unrestricted: written as * or ?, alone.
func bare(list []cronItem) bool {
	return len(list) == 1 && list[0].star && list[0].step == 0
}

// cronSet collects the plain values of a field; years do not fit.
func cronSet(items *cronItems, field int) uint64 {
	var set uint64
	for _, item := range items.lists[field] {
		switch {
		case item.kind != itemRange:
		case item.step <= 1 && item.from <= item.to && item.to <= cronFields[field].last:
			set |= 1<<(item.to+1) - 1<<item.from
		default:
			item.each(&cronFields[field], func(value int) { set |= 1 << value })
		}
	}
	return set
}

// intervalLike reports whether second, minute or hour is written with *, - or /.
func (c *cronItems) intervalLike() bool {
	for field := fieldSecond; field <= fieldHour; field++ {
		for _, item := range c.lists[field] {
			if item.star || item.ranged || item.step > 0 {
				return true
			}
		}
	}
	return false
}

// text writes the fields in canonical form: numbers for names, no leading
// zeros, one blank between fields, H replaced. Written so, it is the expression
// itself.
func (c *cronItems) text(expression string) string {
	b := make([]byte, 0, 64)
	first := 0
	if c.count == 5 {
		first = fieldMinute
	}
	for field := first; field < first+c.count; field++ {
		if field > first {
			b = append(b, ' ')
		}
		if field == fieldWeekday && c.both {
			b = append(b, '+')
		}
		for i, item := range c.lists[field] {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.appendTo(b)
		}
	}
	if string(b) == expression {
		return expression
	}
	return string(b)
}

// String returns the canonical form: a TZ= prefix unless the zone is UTC or
// has no IANA name, then the fields with H replaced by what it stands for.
// Parsed without a location it gives an equal Spec; of a location without an
// IANA name, such as one of [time.FixedZone], parse it with that location.
func (c *cronSpec) String() string {
	name := c.location.String()
	if name == "UTC" {
		return c.text
	}
	if _, err := loadLocation(name); err != nil {
		return c.text
	}
	return "TZ=" + name + " " + c.text
}
