package simtest

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// An oracle says when a plain five-field expression fires, by walking every
// minute there is and looking at the wall clock. It shares nothing with the
// engine that it judges, and knows numbers, lists, * and */n only.
type oracle struct {
	minute, hour, day, month, weekday field
	zone                              *time.Location
	interval                          bool // it runs in both passes of a repeated hour
}

// A field is the set of values that match, and whether it is a bare star.
type field struct {
	values map[int]bool
	star   bool
}

func newOracle(cron, zone string) (oracle, error) {
	location, err := time.LoadLocation(zone)
	if err != nil {
		return oracle{}, err
	}
	f := strings.Fields(cron)
	if len(f) != 5 {
		return oracle{}, fmt.Errorf("oracle: %q has %d fields, want 5", cron, len(f))
	}
	o := oracle{zone: location, interval: strings.ContainsAny(f[0]+f[1], "*-/")}
	for i, to := range []*field{&o.minute, &o.hour, &o.day, &o.month, &o.weekday} {
		bounds := [][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}}[i]
		if *to, err = newField(f[i], bounds[0], bounds[1]); err != nil {
			return oracle{}, fmt.Errorf("oracle: %q: %w", cron, err)
		}
	}
	return o, nil
}

func newField(text string, low, high int) (field, error) {
	f := field{values: map[int]bool{}, star: text == "*"}
	for item := range strings.SplitSeq(text, ",") {
		step, isStep := strings.CutPrefix(item, "*/")
		if item == "*" {
			step, isStep = "1", true
		}
		n, err := strconv.Atoi(step)
		switch {
		case err != nil || n < 0 || isStep && n == 0:
			return field{}, fmt.Errorf("%q is beyond this oracle", item)
		case !isStep && (n < low || n > high):
			return field{}, fmt.Errorf("%q is not in %d to %d", item, low, high)
		case !isStep:
			f.values[n] = true
		}
		for v := low; isStep && v <= high; v += n {
			f.values[v] = true
		}
	}
	return f, nil
}

// matches reports whether a wall time, written as if it were UTC, matches.
func (o oracle) matches(wall time.Time) bool {
	if !o.minute.values[wall.Minute()] || !o.hour.values[wall.Hour()] || !o.month.values[int(wall.Month())] {
		return false
	}
	day, weekday := o.day.values[wall.Day()], o.weekday.values[int(wall.Weekday())]
	if o.day.star || o.weekday.star {
		return day && weekday
	}
	return day || weekday
}

// between returns the scheduled times from first to last, both inclusive. It
// starts a day early to know which wall times were there before.
func (o oracle) between(first, last time.Time) []time.Time {
	var times []time.Time
	o.walk(first, func(at time.Time) bool {
		if at.After(last) {
			return false
		}
		times = append(times, at)
		return true
	}, last)
	return times
}

// after returns the first scheduled time after t, looking up to a year ahead;
// the zero time when there is none.
func (o oracle) after(t time.Time) (next time.Time) {
	o.walk(t.Truncate(time.Minute).Add(time.Minute), func(at time.Time) bool {
		next = at
		return false
	}, t.AddDate(1, 0, 0))
	return next
}

// walk calls yield for every scheduled time from first on, until it returns
// false or last has passed.
func (o oracle) walk(first time.Time, yield func(time.Time) bool, last time.Time) {
	first = first.UTC().Truncate(time.Minute)
	newest := o.wall(first.AddDate(0, 0, -1).Add(-time.Minute)) // latest wall time there has been
	for at := first.AddDate(0, 0, -1); !at.After(last); at = at.Add(time.Minute) {
		wall := o.wall(at)
		fires := o.matches(wall) && (wall.After(newest) || o.interval)
		if len(o.hour.values) < 24 { // every-hour jobs do not move out of a gap
			for missing := newest.Add(time.Minute); missing.Before(wall); missing = missing.Add(time.Minute) {
				fires = fires || o.matches(missing)
			}
		}
		if wall.After(newest) {
			newest = wall
		}
		if fires && !at.Before(first) && !yield(at) {
			return
		}
	}
}

// wall returns what a clock on the wall of the zone shows at an instant, as if
// it were UTC.
func (o oracle) wall(at time.Time) time.Time {
	_, offset := at.In(o.zone).Zone()
	return at.UTC().Add(time.Duration(offset) * time.Second)
}
