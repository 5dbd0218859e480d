package admincli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// maxCompared bounds how many scheduled times of each side are compared,
// listedTimes how many the output lists of those that differ, and shownTimes
// how many a table shows.
const (
	maxCompared = 64
	listedTimes = 10
	shownTimes  = 3
)

// A firingsDiff holds the scheduled times that a change makes appear and
// vanish, in ascending order.
type firingsDiff struct {
	appear, vanish []time.Time
	until          time.Time // what is later was not compared; zero: everything was
}

// A firingsJSON is a firingsDiff in the output. The lists hold the first ones.
type firingsJSON struct {
	Appear      []string `json:"appear"`
	AppearCount int      `json:"appear_count"`
	Vanish      []string `json:"vanish"`
	VanishCount int      `json:"vanish_count"`
	Until       *string  `json:"compared_until"` // what is later was not compared; null: everything was
}

// A firer is a schedule as it is, or as it would be.
type firer struct {
	compiled *schedule.Compiled // nil: it fires never
	left     int64              // firings until its limit; below 0: no limit
	held     schedule.State     // paused and disabled ones do not fire
}

// times lists the next scheduled times, and says whether there are more.
func (f firer) times(now time.Time) (times []time.Time, more bool) {
	if f.compiled == nil || f.held == schedule.StatePaused || f.held == schedule.StateDisabled {
		return nil, false
	}
	if _, delay := f.compiled.Delay(); delay {
		return nil, false // it depends on when runs end
	}
	most := maxCompared
	if f.left >= 0 {
		most = int(min(f.left, maxCompared))
	}
	times = upcoming(f.compiled, now, time.Time{}, most)
	return times, len(times) == maxCompared
}

// compareFirings compares what two would fire after now. Only the time that
// both lists cover is compared, so that the end of one is no difference.
func compareFirings(before, after firer, now time.Time) firingsDiff {
	old, moreOld := before.times(now)
	updated, moreNew := after.times(now)
	var d firingsDiff
	for _, side := range []struct {
		times []time.Time
		more  bool
	}{{old, moreOld}, {updated, moreNew}} {
		if last := len(side.times) - 1; side.more && (d.until.IsZero() || side.times[last].Before(d.until)) {
			d.until = side.times[last]
		}
	}
	d.vanish, d.appear = without(old, updated, d.until), without(updated, old, d.until)
	return d
}

// without lists the times up to until that the others lack.
func without(times, others []time.Time, until time.Time) []time.Time {
	there := make(map[int64]bool, len(others))
	for _, t := range others {
		there[t.UnixMilli()] = true
	}
	var left []time.Time
	for _, t := range times {
		if !there[t.UnixMilli()] && (until.IsZero() || !t.After(until)) {
			left = append(left, t)
		}
	}
	return left
}

func (d firingsDiff) empty() bool { return len(d.appear)+len(d.vanish) == 0 }

// json is nil when nothing differs.
func (d firingsDiff) json(s *session) *firingsJSON {
	if d.empty() {
		return nil
	}
	texts := func(times []time.Time) []string {
		out := []string{}
		for _, t := range times[:min(listedTimes, len(times))] {
			out = append(out, t.In(s.location(t.Location())).Format(rfc3339Milli))
		}
		return out
	}
	return &firingsJSON{Appear: texts(d.appear), AppearCount: len(d.appear), Vanish: texts(d.vanish), VanishCount: len(d.vanish),
		Until: iso(d.until, s.location(d.until.Location()))}
}

// lines renders a firingsDiff for people.
func (d firingsDiff) lines(s *session) []string {
	var lines []string
	if len(d.vanish) > 0 {
		lines = append(lines, "vanish: "+d.some(s, d.vanish, d.appear))
	}
	if len(d.appear) > 0 {
		lines = append(lines, "appear: "+d.some(s, d.appear, d.vanish))
	}
	return lines
}

// some renders the first times of one side. When the other side is empty, all
// of them go or come, and how many were compared means nothing.
func (d firingsDiff) some(s *session, times, other []time.Time) string {
	most := shownTimes
	if len(other) > 0 {
		most-- // leaves room for how many more
	}
	var shown []string
	for _, t := range times[:min(most, len(times))] {
		shown = append(shown, stamp(t, s.location(t.Location())))
	}
	text := strings.Join(shown, ", ")
	more := len(times) - len(shown)
	switch {
	case len(other) == 0 && more > 0:
		return text + ", …"
	case more > 0:
		text += fmt.Sprintf(" and %d more", more)
	}
	if !d.until.IsZero() && len(other) > 0 {
		text += " until " + d.until.In(s.location(times[0].Location())).Format(time.DateOnly)
	}
	return text
}

// storedFirer is an entry as it fires now, with the calendars that are stored
// and not with those of files.
func (s *session) storedFirer(e schedule.Entry) firer {
	f := firer{left: -1, held: e.Status.State}
	if e.Invalid != nil {
		return f
	}
	var err error
	if s.stored != nil {
		f.compiled, err = schedule.Compile(e.Schedule, slices.Collect(maps.Values(s.stored)))
	} else {
		f.compiled, err = s.compile(e.Schedule)
	}
	if err != nil {
		return firer{left: -1}
	}
	if e.Schedule.Limit > 0 {
		f.left = max(0, e.Schedule.Limit-e.Status.Fired)
	}
	return f
}

// firings compares a row of apply with what is stored.
func (a *applied) firings(row appliedRow) firingsDiff {
	if row.compiled == nil || row.result.Err != nil {
		return firingsDiff{}
	}
	before := firer{}
	after := firer{compiled: row.compiled, left: -1, held: row.held}
	if row.definition.Limit > 0 {
		after.left = row.definition.Limit
	}
	if row.before != nil {
		if len(row.changes) == 0 && a.s.stored == nil {
			return firingsDiff{}
		}
		before = a.s.storedFirer(*row.before)
		if after.left > 0 {
			after.left = max(0, after.left-row.before.Status.Fired)
		}
	}
	return compareFirings(before, after, a.s.env.Now())
}
