package schedule

import "time"

// A Spec is one "when": cron, every, at, after or a union. The set of
// implementations is closed.
type Spec interface {
	// Next returns the smallest scheduled time strictly after the given
	// instant, in the spec's location at whole milliseconds, and false when
	// there is none.
	Next(after time.Time) (time.Time, bool)
	// Prev returns the largest scheduled time strictly before the given
	// instant, and false when there is none.
	Prev(before time.Time) (time.Time, bool)
	// String returns the canonical form, which parses to an equal Spec.
	String() string

	sealed()
}

// CronOptions refine [ParseCronWith].
type CronOptions struct {
	Location   *time.Location // nil is UTC, unless the expression has a TZ= prefix
	ScheduleID ID             // what H is hashed from; "" refuses H
}
