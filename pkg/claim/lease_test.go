package claim_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
)

func TestLeaseValid(t *testing.T) {
	t.Parallel()
	sent := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	const ttl, margin = 30 * time.Second, 2 * time.Second
	until := sent.Add(ttl + 5*time.Second) // the store's clock is ahead; it is for display
	lease := claim.NewLease("main", "w1", 7, until, sent, ttl, margin)
	tests := []struct {
		name  string
		lease claim.Lease
		after time.Duration // since the request was sent
		want  bool
	}{
		{"the zero lease", claim.Lease{}, 0, false},
		{"a lease made without NewLease", claim.Lease{Name: "main", Owner: "w1", Token: 7, Until: until}, 0, false},
		{"at the request", lease, 0, true},
		{"the last trusted instant", lease, ttl - margin - 1, true},
		{"the first instant of the margin", lease, ttl - margin, false},
		{"the end on the store's clock", lease, ttl + 5*time.Second, false},
		{"a clock that stepped back", lease, -time.Hour, true},
		{"a margin of the whole TTL", claim.NewLease("main", "w1", 7, until, sent, ttl, ttl), 0, false},
		{"a margin beyond the TTL", claim.NewLease("main", "w1", 7, until, sent, ttl, 2*ttl), 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.lease.Valid(sent.Add(tt.after)); got != tt.want {
				t.Errorf("Valid(sent+%s) = %v, want %v", tt.after, got, tt.want)
			}
		})
	}
	if lease.Name != "main" || lease.Owner != "w1" || lease.Token != 7 || !lease.Until.Equal(until) {
		t.Errorf("NewLease = %+v, want what was given", lease)
	}
}

// A reading of the wall clock alone ends the lease too: the monotonic clock
// stands still while a host is suspended, so it alone would trust for ever.
func TestLeaseEndsOnEitherClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := time.Now() // with a monotonic reading
		lease := claim.NewLease("main", "w1", 7, sent.Add(time.Minute), sent, time.Minute, time.Second)
		if resumed := sent.Round(0).Add(time.Hour); lease.Valid(resumed) {
			t.Error("Valid after an hour on the wall clock alone")
		}
		time.Sleep(time.Minute - time.Second - 1)
		if !lease.Valid(time.Now()) {
			t.Error("not Valid at the last trusted instant")
		}
		time.Sleep(1)
		if lease.Valid(time.Now()) {
			t.Error("Valid inside the margin")
		}
	})
}
