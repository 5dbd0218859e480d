package schedule

import "time"

// ParseDuration reads a duration; see FormatDuration.
func ParseDuration(text string) (time.Duration, error) { return time.ParseDuration(text) }

// FormatDuration prints a duration so that ParseDuration reads it back.
func FormatDuration(d time.Duration) string { return d.String() }
