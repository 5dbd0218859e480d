package claim

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

func TestAfterIntervalRefusesOverflow(t *testing.T) {
	year := func(y int) time.Time { return time.Date(y, 6, 1, 0, 0, 0, 0, time.UTC) }
	tests := []struct {
		name     string
		end      time.Time
		interval time.Duration
		ok       bool
	}{
		{"a minute", year(2030), time.Minute, true},
		{"the least", year(2030), time.Millisecond, true},
		{"the longest", year(2030), math.MaxInt64, true},
		{"past the last year", year(9900), math.MaxInt64, false},
		{"into the last year", year(9999), 24 * time.Hour, true},
		{"zero", year(2030), 0, false},
		{"negative", year(2030), -time.Second, false},
		{"less than a millisecond", year(2030), time.Microsecond, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			next, err := afterInterval(tt.end, tt.interval)
			if tt.ok && (err != nil || next.Sub(tt.end) != tt.interval) {
				t.Errorf("afterInterval(%s, %s) = %s, %v", tt.end, tt.interval, next, err)
			}
			var field *schedule.FieldError
			if !tt.ok && (!errors.As(err, &field) || !next.IsZero()) {
				t.Errorf("afterInterval(%s, %s) = %s, %v, want a refusal", tt.end, tt.interval, next, err)
			}
		})
	}
}
