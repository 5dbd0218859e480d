package admincli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// stamp renders an instant in a zone, with seconds only when there are some.
func stamp(t time.Time, location *time.Location) string {
	t = t.In(writable(t, location))
	layout := "2006-01-02 15:04"
	switch {
	case t.Nanosecond() != 0:
		layout += ":05.000"
	case t.Second() != 0:
		layout += ":05"
	}
	return t.Format(layout + " MST")
}

// writable is the location, unless an instant has no year of four digits there:
// what is stored already is shown in UTC then.
func writable(t time.Time, location *time.Location) *time.Location {
	if !hasYear(t, location) {
		return time.UTC
	}
	return location
}

// hasYear reports whether RFC 3339 can write an instant in a zone.
func hasYear(t time.Time, location *time.Location) bool {
	year := t.In(location).Year()
	return year >= 1 && year <= 9999
}

// when renders an instant absolutely and relative to now.
func when(t, now time.Time, location *time.Location) string {
	if t.IsZero() {
		return none
	}
	return stamp(t, location) + " (" + relative(t, now) + ")"
}

// none stands where there is nothing to show.
const none = "-"

// relative says how far t is from now.
func relative(t, now time.Time) string {
	const longest = time.Duration(1<<63 - 1) // 292 years, at which Sub stays
	switch d := t.Sub(now); {
	case d == longest:
		return fmt.Sprintf("in %dy", t.Year()-now.Year())
	case d == -longest-1:
		return fmt.Sprintf("%dy ago", now.Year()-t.Year())
	case d > -time.Second && d < time.Second:
		return "now"
	case d > 0:
		return "in " + span(d)
	default:
		return span(-d) + " ago"
	}
}

// units of span. A month is 30 days and a year 365: it is for the eye only,
// the absolute time stands beside it.
var units = []struct {
	length time.Duration
	name   string
}{
	{365 * 24 * time.Hour, "y"}, {30 * 24 * time.Hour, "mo"}, {24 * time.Hour, "d"},
	{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"},
}

// span renders a duration by its two largest units, as 3mo 14d.
func span(d time.Duration) string {
	if d < 0 {
		d = 0 // two clocks may disagree; nothing took less than no time
	}
	if d < time.Second {
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	}
	var parts []string
	for i, unit := range units {
		n := d / unit.length
		if n == 0 && len(parts) == 0 {
			continue
		}
		d -= n * unit.length
		if n > 0 {
			parts = append(parts, strconv.FormatInt(int64(n), 10)+unit.name)
		}
		if len(parts) == 2 || (len(parts) == 1 && i > 0 && n == 0) {
			break
		}
	}
	return strings.Join(parts, " ")
}
