package schedule

import (
	"errors"
	"strings"
	"time"
)

// problems collects what is wrong with a definition.
type problems []error

func (p *problems) add(err error) {
	if err != nil {
		*p = append(*p, err)
	}
}

func (p *problems) refuse(field, value, allowed string) {
	*p = append(*p, &FieldError{Field: field, Value: value, Allowed: allowed})
}

func (p problems) join() error { return errors.Join(p...) }

// maxParts bounds the specs, and the windows in each list, of one definition.
const maxParts = 64

// buildSpec parses the "when" of a definition. The specs are returned one by
// one as well, with their fields, for checks that are about each.
func (s *Schedule) buildSpec(p *problems) (Spec, []namedSpec) {
	zone, zoned := s.zone(p, "timezone", s.Timezone, nil) // nil without one: what is wrong besides is found as well
	var named []namedSpec
	switch {
	case (s.Expression != "") == (len(s.Specs) > 0):
		p.refuse("expression", s.Expression, "exactly one of expression and specs")
		return nil, nil
	case s.Expression != "":
		spec, err := ParseWith(s.Expression, CronOptions{Location: zone, ScheduleID: s.ID})
		if err != nil {
			p.add(err)
			return nil, nil
		}
		named = []namedSpec{{"expression", spec}}
		if union, isUnion := spec.(unionSpec); isUnion {
			named = nil
			for _, part := range union.parts {
				named = append(named, namedSpec{"expression", part})
			}
		}
	case len(s.Specs) > maxParts:
		p.refuse("specs", itoa(len(s.Specs))+" specs", "at most "+itoa(maxParts))
		return nil, nil
	}
	before, instants := len(*p), 0
	for i, definition := range s.Specs {
		if instants += len(definition.At); instants > maxInstants {
			p.refuse("specs", itoa(instants)+" instants", "at most "+itoa(maxInstants)+" instants in at, together")
			break
		}
		field := indexed("specs", i)
		if local, ok := s.zone(p, field+".timezone", definition.Timezone, zone); ok {
			spec, err := definition.build(field, s.ID, local)
			p.add(err)
			named = append(named, namedSpec{field, spec})
		}
	}
	if len(*p) > before || !zoned {
		return nil, nil
	}
	return uniteNamed(named, p), named
}

// A namedSpec is a spec and the field that it was read from.
type namedSpec struct {
	field string
	spec  Spec
}

// uniteNamed unites the specs of a definition; after must be alone.
func uniteNamed(named []namedSpec, p *problems) Spec {
	parts := make([]Spec, len(named))
	for i, n := range named {
		parts[i] = n.spec
		if _, isAfter := n.spec.(afterSpec); isAfter && len(named) > 1 {
			p.refuse(n.field+".after", n.spec.String(), "after alone, without other specs")
			return nil
		}
	}
	return newUnion(parts)
}

// zone loads a time zone; "" is the one given, which may be nil for UTC.
func (s *Schedule) zone(p *problems, field, name string, given *time.Location) (*time.Location, bool) {
	if name == "" {
		return given, true
	}
	location, err := loadLocation(name)
	p.add(inField(err, field))
	return location, err == nil
}

// build parses one spec.
func (d SpecDefinition) build(field string, id ID, location *time.Location) (Spec, error) {
	set := 0
	for _, is := range []bool{d.Cron != "", d.Every != 0, len(d.At) > 0, d.After != 0} {
		if is {
			set++
		}
	}
	switch {
	case set == 0:
		return nil, &FieldError{Field: field, Value: "nothing", Allowed: "one of cron, every (from " + FormatDuration(MinInterval) + "), at and after (more than 0s)"}
	case set > 1:
		return nil, &FieldError{Field: field, Value: itoa(set) + " of them", Allowed: "exactly one of cron, every, at and after"}
	case !d.Anchor.IsZero() && d.Every == 0:
		return nil, &FieldError{Field: field + ".anchor", Value: formatInstant(d.Anchor), Allowed: "an anchor only with every"}
	case d.Every != 0:
		return newEvery(field+".every", d.Every, d.Anchor, orUTC(location))
	case d.After != 0:
		return newAfter(field+".after", d.After, orUTC(location))
	case len(d.At) > 0:
		return newAt(field+".at", d.At, orUTC(location))
	}
	return d.buildCron(field+".cron", id, location)
}

func (d SpecDefinition) buildCron(field string, id ID, location *time.Location) (Spec, error) {
	if err := checkExpression(field, d.Cron); err != nil {
		return nil, err
	}
	if word, rest, _ := strings.Cut(strings.TrimSpace(d.Cron), " "); strings.EqualFold(word, "@every") {
		spec, err := parseEvery(rest, orUTC(location))
		return spec, inField(err, field)
	}
	spec, err := ParseCronWith(d.Cron, CronOptions{Location: location, ScheduleID: id})
	return spec, inCronField(err, field)
}

// buildWindows prepares a list of windows. Without an almanac
// calendars are left out, for a definition that is checked without them.
func (s *Schedule) buildWindows(p *problems, field string, list []Window, lookup *almanac) []window {
	if len(list) > maxParts {
		p.refuse(field, itoa(len(list))+" windows", "at most "+itoa(maxParts))
		return nil
	}
	schedule, ok := s.zone(&problems{}, "", s.Timezone, nil)
	if !ok {
		return nil // reported with the spec
	}
	var all []window
	dates := 0
	for i, definition := range list {
		at := indexed(field, i)
		if dates += len(definition.Dates); dates > maxDates {
			p.refuse(field, itoa(dates)+" dates", "at most "+itoa(maxDates)+" dates together; use a calendar")
			return nil
		}
		location, ok := s.zone(p, at+".timezone", definition.Timezone, schedule)
		switch {
		case !ok:
		case definition.Calendar != "":
			all = append(all, definition.fromCalendar(p, at, lookup)...)
		default:
			w, err := definition.build(at, s.ID, location)
			p.add(err)
			all = append(all, w)
		}
	}
	return all
}

func (w Window) fromCalendar(p *problems, field string, lookup *almanac) []window {
	if len(w.Dates) > 0 || w.Weekly != "" || w.Cron != "" || w.Timezone != "" {
		p.refuse(field, w.Calendar, "exactly one of calendar, dates, weekly and cron; a calendar has its own zone")
		return nil
	}
	if ID(w.Calendar).Validate() != nil {
		p.refuse(field+".calendar", w.Calendar, "the name of a calendar: letters, digits, '.', '_' and '-'")
		return nil
	}
	if lookup == nil {
		return nil
	}
	all, found := lookup.windows(p, w.Calendar)
	if !found {
		*p = append(*p, &FieldError{Field: field + ".calendar", Value: w.Calendar, Allowed: "the name of a stored calendar; create it first",
			Hint: nearestName(w.Calendar, lookup.names())})
	}
	return all
}

// An almanac is the calendars that a definition may name.
type almanac struct{ calendars []Calendar }

// windows returns the windows of a calendar, and false when there is none of
// that name. What is wrong with it is a problem of the definition.
func (a *almanac) windows(p *problems, name string) ([]window, bool) {
	for _, calendar := range a.calendars {
		if calendar.Name != name {
			continue
		}
		all, err := calendar.build()
		if err != nil {
			p.add(errors.Join(&FieldError{Field: "calendar", Value: name, Allowed: "a valid calendar"}, err))
		}
		return all, true
	}
	return nil, false
}

func (a *almanac) names() []string {
	names := make([]string, len(a.calendars))
	for i := range a.calendars {
		names[i] = a.calendars[i].Name
	}
	return names
}

// build prepares a window that is no calendar.
func (w Window) build(field string, id ID, location *time.Location) (window, error) {
	switch {
	case len(w.Dates) > 0 && w.Weekly == "" && w.Cron == "":
		set, err := newDateSet(field+".dates", w.Dates)
		return window{set: set, location: orUTC(location)}, err
	case len(w.Dates) == 0 && w.Weekly != "" && w.Cron == "":
		set, err := newWeeklySet(field+".weekly", w.Weekly)
		return window{set: set, location: orUTC(location)}, err
	case len(w.Dates) == 0 && w.Weekly == "" && w.Cron != "":
		set, zone, err := newMatchSet(field+".cron", w.Cron, CronOptions{Location: location, ScheduleID: id})
		return window{set: set, location: zone}, err
	}
	return window{}, &FieldError{Field: field, Value: "", Allowed: "exactly one of calendar, dates, weekly and cron"}
}

// Validate returns all *FieldErrors of the calendar, joined.
func (c Calendar) Validate() error {
	_, err := c.build()
	return err
}

// build prepares the windows of a calendar.
func (c Calendar) build() ([]window, error) {
	var p problems
	if ID(c.Name).Validate() != nil {
		p.refuse("name", c.Name, "1 to 128 letters, digits, '.', '_' or '-', starting with a letter or digit")
	}
	location, err := loadLocation(c.Timezone)
	if err != nil {
		p.add(inField(err, "timezone"))
		return nil, p.join()
	}
	if n := len(c.Dates) + len(c.Weekly) + len(c.Cron); n == 0 || n > maxDates {
		p.refuse("dates", itoa(n)+" windows", "1 to "+itoa(maxDates)+" dates, weekly and cron windows together")
		return nil, p.join()
	}
	var all []window
	if len(c.Dates) > 0 {
		set, err := newDateSet("dates", c.Dates)
		p.add(err)
		all = append(all, window{set: set, location: location})
	}
	for i, text := range c.Weekly {
		set, err := newWeeklySet(indexed("weekly", i), text)
		p.add(err)
		all = append(all, window{set: set, location: location})
	}
	for i, text := range c.Cron {
		given := location
		if c.Timezone == "" {
			given = nil
		}
		set, zone, err := newMatchSet(indexed("cron", i), text, CronOptions{Location: given})
		p.add(err)
		all = append(all, window{set: set, location: zone})
	}
	for i := range all {
		all[i].calendar = c.Name
	}
	return all, p.join()
}
