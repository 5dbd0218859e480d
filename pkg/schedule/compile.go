package schedule

import "time"

// maxSteps bounds the work of one search through windows, in months,
// wall times, clock changes and stretches looked at: less than a millisecond. A
// search that meets the bound is not lost: see [Compiled.Next].
const maxSteps = 4_000

// maxCountSteps bounds a count in the same way; it is made once for a range that
// was missed, not for each firing.
const maxCountSteps = 250 * maxSteps

// A Compiled schedule computes scheduled times. It is immutable and safe for
// use by many goroutines. Build one with [Compile].
type Compiled struct {
	definition Schedule
	spec       Spec
	named      []namedSpec
	windows    windows
}

// Compile checks a definition and prepares it. Calendars are given by value:
// every one that the definition names must be among them, others are ignored.
// It returns all *FieldErrors joined. Do not change lists and maps of the
// definition afterwards; the result shares them.
func Compile(definition Schedule, calendars []Calendar) (*Compiled, error) {
	definition.Normalize()
	var p problems
	definition.check(&p)
	c := &Compiled{definition: definition}
	c.spec, c.named = c.definition.buildSpec(&p)
	c.definition.checkAfter(&p, c.spec)
	lookup := &almanac{calendars}
	c.windows.except = c.definition.buildWindows(&p, "except", c.definition.Except, lookup)
	c.windows.only = c.definition.buildWindows(&p, "only", c.definition.Only, lookup)
	if err := p.join(); err != nil {
		return nil, err
	}
	return c, nil
}

// Definition returns the normalised definition. Treat it as read-only.
func (c *Compiled) Definition() Schedule { return c.definition }

// Spec returns the "when" without bounds and windows.
func (c *Compiled) Spec() Spec { return c.spec }

// Delay returns the delay of a schedule whose "when" is after, and false for
// any other. While a run of such a schedule is open it waits; when the run
// ends, its next scheduled time is the end plus the delay, which is what
// Next(end) returns.
func (c *Compiled) Delay() (time.Duration, bool) {
	s, ok := c.spec.(afterSpec)
	return time.Duration(s.delay) * time.Millisecond, ok
}

// Next returns the smallest scheduled time strictly after the given instant,
// with bounds and windows applied, and false when there is none. The search
// gives up when it has met some thousand excluded stretches, and then says
// false as well; what [Plan] and [PlanPut] do in that case is to go on from
// there later.
func (c *Compiled) Next(after time.Time) (time.Time, bool) {
	t, found, _ := c.search(after)
	return t, found
}

// search is Next. When it gives up, it returns the excluded time that it had
// reached, so that a later search can go on from there.
func (c *Compiled) search(after time.Time) (t time.Time, found, gaveUp bool) {
	if starts := c.definition.Starts; !starts.IsZero() && after.Before(starts) {
		if delay, ok := c.Delay(); ok {
			after = maxTime(after, starts.Add(-delay))
		} else {
			after = starts.Add(-time.Millisecond)
		}
	}
	var e effort
	w := newWalk(c.spec, false)
	for e.work() < maxSteps {
		next, ok := w.next(after, &e)
		if !ok || c.ended(next) {
			return time.Time{}, false, false
		}
		fires, _, until := c.windows.span(next.UnixMilli(), &e)
		if fires {
			return next, true, false
		}
		if until > maxMillis {
			return time.Time{}, false, false
		}
		t, after = next, time.UnixMilli(until-1)
	}
	return t, false, true
}

// Prev returns the largest scheduled time strictly before the given instant,
// with bounds and windows applied, and false when there is none or when the
// search gave up as that of Next does. A schedule with after has none.
func (c *Compiled) Prev(before time.Time) (time.Time, bool) {
	return c.prevAfter(before, time.UnixMilli(minMillis-1))
}

// prevAfter is Prev for those after the given instant.
func (c *Compiled) prevAfter(before, after time.Time) (time.Time, bool) {
	if ends := c.definition.Ends; !ends.IsZero() && before.After(ends) {
		before = ends
	}
	var e effort
	w := newWalk(c.spec, true)
	for e.work() < maxSteps {
		t, ok := w.next(before, &e)
		if !ok || !t.After(after) || t.Before(c.definition.Starts) {
			return time.Time{}, false
		}
		fires, from, _ := c.windows.span(t.UnixMilli(), &e)
		if fires {
			return t, true
		}
		if from < minMillis {
			return time.Time{}, false
		}
		before = time.UnixMilli(from)
	}
	return time.Time{}, false
}

// ended reports whether the bounds exclude a scheduled time at its end.
func (c *Compiled) ended(t time.Time) bool {
	return !c.definition.Ends.IsZero() && !t.Before(c.definition.Ends)
}

// First returns the first scheduled time of a schedule that is created at now:
// strictly after now, and false when there is none.
func (c *Compiled) First(now time.Time) (time.Time, bool) { return c.Next(now) }

// CountBetween counts the scheduled times from first to last, both inclusive,
// with bounds and windows applied. The work is bounded; false means that there
// are too many to count.
func (c *Compiled) CountBetween(first, last time.Time) (int64, bool) {
	from, to := ceilMillis(first), floorMillis(last)
	if starts := c.definition.Starts; !starts.IsZero() {
		from = max(from, starts.UnixMilli())
	}
	if ends := c.definition.Ends; !ends.IsZero() {
		to = min(to, ends.UnixMilli()-1)
	}
	total, enumerated := int64(0), int64(0)
	_, closed := c.spec.(counter)
	var e effort
	w := newWalk(c.spec, false)
	for e.work() < maxCountSteps {
		next, ok := w.next(time.UnixMilli(from-1), &e)
		if !ok || next.UnixMilli() > to {
			return total, true
		}
		from = next.UnixMilli()
		fires, _, until := c.windows.span(from, &e)
		if fires {
			n, ok := w.count(from, min(to, until-1), &e)
			if !closed {
				enumerated += n
			}
			if total += n; !ok || enumerated > maxCounted {
				return 0, false
			}
		}
		if until > to {
			return total, true
		}
		from = until
	}
	return 0, false
}

// CheckCreate refuses what only a creation must not have, as joined
// *FieldErrors: a one-shot that is not later than now, and a spec, bounds or
// windows that leave nothing to fire. Call it for a schedule that does not
// exist yet; an existing one may keep one-shots that are past.
func (c *Compiled) CheckCreate(now time.Time) error {
	var p problems
	if ends := c.definition.Ends; !ends.IsZero() && !ends.After(now) {
		p.refuse("ends", formatInstant(ends), "later than now, which is "+formatInstant(now))
		return p.join()
	}
	for _, n := range c.named {
		if at, ok := n.spec.(atSpec); ok {
			at.checkFuture(&p, n.field, now)
			continue
		}
		if reason, hint, never := neverFires(n.spec); never {
			p = append(p, &FieldError{Field: n.field, Value: n.spec.String(), Allowed: "a date that exists: " + reason, Hint: hint})
			continue
		}
		if _, ok := n.spec.Next(now); !ok {
			p.refuse(n.field, n.spec.String(), "a spec that fires at some time; this one never does")
		}
	}
	if len(p) > 0 {
		return p.join()
	}
	if _, found, gaveUp := c.search(now); gaveUp {
		p.refuse("except", "some thousand excluded stretches", "windows that leave a scheduled time nearer than that")
	} else if !found {
		p.refuse("expression", c.spec.String(), "a scheduled time that starts, ends, except and only let through; none is left")
	}
	return p.join()
}

// checkFuture refuses instants that are not later than now.
func (s atSpec) checkFuture(p *problems, field string, now time.Time) {
	for _, ms := range s.millis {
		if ms <= floorMillis(now) {
			p.refuse(field, formatInstant(time.UnixMilli(ms)), "later than now, which is "+formatInstant(now))
		}
	}
}

// whenKey is equal for definitions with the same scheduled times: specs, zone,
// bounds and windows as written, named calendars by name.
func (c *Compiled) whenKey() string {
	bound := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return formatInstant(t)
	}
	return specKey(c.spec) + "\n" + bound(c.definition.Starts) + "\n" + bound(c.definition.Ends) + "\n" + c.windows.key()
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
