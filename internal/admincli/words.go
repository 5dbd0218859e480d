package admincli

import (
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// A reading is a definition prepared for showing.
type reading struct {
	definition schedule.Schedule
	compiled   *schedule.Compiled // nil when it cannot be compiled
	err        error
	zone       *time.Location
}

// read prepares a definition.
func (s *session) read(definition schedule.Schedule) reading {
	compiled, err := s.compile(definition)
	return s.reading(definition, compiled, err)
}

// reading is read for what was compiled already.
func (s *session) reading(definition schedule.Schedule, compiled *schedule.Compiled, err error) reading {
	name := definition.Timezone
	if name == "" && len(definition.Specs) == 1 {
		name = definition.Specs[0].Timezone
	}
	return reading{definition: definition, compiled: compiled, err: err, zone: s.zoneOr(name)}
}

// zoneOr loads a zone once; what is no zone is UTC, for showing only.
func (s *session) zoneOr(name string) *time.Location {
	if location, known := s.zones[name]; known {
		return location
	}
	location, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		location = time.UTC
	}
	if s.zones == nil {
		s.zones = map[string]*time.Location{}
	}
	s.zones[name] = location
	return location
}

// zoneAt is the zone in which the schedule means the scheduled time at; a
// union can have several.
func (r reading) zoneAt(at time.Time) *time.Location {
	if r.compiled == nil || at.IsZero() {
		return r.zone
	}
	if next, ok := r.compiled.Next(at.Add(-time.Millisecond)); ok && next.Equal(at) {
		return next.Location()
	}
	return r.zone
}

// words says in English when a schedule fires.
func (s *session) words(d schedule.Schedule) string { return s.read(d).words() }

func (r reading) words() string {
	if r.err != nil {
		return "cannot be read: " + describe(flatten(r.err)[0], "")
	}
	text := schedule.Explain(r.compiled.Spec())
	if len(r.definition.Only) > 0 {
		text += ", only in " + windowsText(r.definition.Only)
	}
	if len(r.definition.Except) > 0 {
		text += ", except " + windowsText(r.definition.Except)
	}
	return text
}

// windowsText names windows, calendars first by name only.
func windowsText(windows []schedule.Window) string {
	var parts []string
	for _, w := range windows {
		text := w.Calendar
		switch {
		case len(w.Dates) > 0:
			text = strings.Join(w.Dates, " ")
		case w.Weekly != "":
			text = w.Weekly
		case w.Cron != "":
			text = "cron " + w.Cron
		}
		if w.Timezone != "" {
			text += " in " + w.Timezone
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// comingAfter lists the scheduled times that follow at.
func (s *session) comingAfter(d schedule.Schedule, at time.Time, n int) []string {
	r := s.read(d)
	if r.err != nil || at.IsZero() {
		return nil
	}
	if _, delay := r.compiled.Delay(); delay {
		return nil // it depends on when the run ends
	}
	if d.Limit > 0 {
		n = int(min(int64(n), d.Limit-1))
	}
	var lines []string
	for _, t := range upcoming(r.compiled, at, time.Time{}, n) {
		lines = append(lines, when(t, s.env.Now(), s.location(t.Location())))
	}
	return lines
}

// soonChanges is how many clock changes ahead are looked at; with two a year,
// three years.
const soonChanges = 6

// clockChanges describes the next clock change of the schedule's zone, and the
// next one that moves or drops a time when that is a later one.
func (r reading) clockChanges(now time.Time) []string {
	if r.err != nil {
		return nil
	}
	return clockLines(r.compiled.Spec(), now)
}

func clockLines(spec schedule.Spec, from time.Time) []string {
	var lines []string
	for i, change := range schedule.ClockChanges(spec, from, soonChanges) {
		if i == 0 {
			lines = append(lines, change.String())
		}
		if affects(change) {
			if i > 0 {
				lines = append(lines, change.String())
			}
			break
		}
	}
	return lines
}

// affects reports whether a change does to a spec what its reader may not
// expect; a job of every hour goes by real time.
func affects(c schedule.ClockChange) bool {
	return c.Missing > 0 || c.Repeated > 0 && !c.Twice
}

// warnings says what about the spec may not be what was meant.
func (r reading) warnings() []string {
	if r.err != nil {
		return nil
	}
	return schedule.Warnings(r.compiled.Spec())
}

// maxNotes bounds how many clock changes a preview explains.
const maxNotes = 1000

// clockNotes explains clock changes beside the scheduled times that they
// touch; times are in ascending order. Keys are Unix milliseconds.
func clockNotes(spec schedule.Spec, times []time.Time) map[int64]string {
	notes := map[int64]string{}
	if len(times) == 0 {
		return notes
	}
	i := 0
	for _, change := range schedule.ClockChanges(spec, times[0].Add(-time.Hour), maxNotes) {
		if change.At.After(times[len(times)-1].Add(change.Before - change.After)) {
			break
		}
		twice := change.Before - change.After // how long wall times repeat; negative: skipped
		for ; i < len(times) && times[i].Before(change.At); i++ {
			if change.Twice && !times[i].Before(change.At.Add(-twice)) {
				notes[times[i].UnixMilli()] = "first pass"
			}
		}
		for j := i; j < len(times) && (j == i || change.Twice && times[j].Before(change.At.Add(twice))); j++ {
			_, text, _ := strings.Cut(change.String(), ": ")
			if j > i {
				text = "second pass"
			}
			notes[times[j].UnixMilli()] = text
		}
	}
	return notes
}
