package worker

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// visits runs rounds over one shard for a while and returns when it was looked
// at, from the start. A look asks for the next one after an hour.
func visits(t *testing.T, takes time.Duration, during func(rope chan struct{}, hints chan hint)) []time.Duration {
	t.Helper()
	rope, hints := make(chan struct{}, 1), make(chan hint, 8)
	s := &Scheduler{ranking: ranking{self: "a"}, gate: newGate()}
	r := newRounds(s, 1, rope, hints)
	ctx, cancel := context.WithCancel(t.Context())
	start := time.Now()
	var looks []time.Duration
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.run(ctx, s.watch.loop("test", time.Hour), func(context.Context, int) (time.Time, error) {
			looks = append(looks, time.Since(start))
			next := time.Now().Add(time.Hour)
			time.Sleep(takes)
			return next, nil
		})
	}()
	during(rope, hints)
	time.Sleep(time.Minute)
	cancel()
	<-done
	return looks
}

func TestALookThatWasAskedForIsNotForgottenWhenTheBellRingsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := visits(t, 0, func(rope chan struct{}, hints chan hint) {
			time.Sleep(time.Second)
			hints <- hint{at: time.Now().Add(5 * time.Second)}
			time.Sleep(time.Second)
			rope <- struct{}{}
		})
		if want := []time.Duration{0, 2 * time.Second, 6 * time.Second}; !slices.Equal(got, want) {
			t.Errorf("looked at %v, want %v", got, want)
		}
	})
}

func TestOneLookAnswersTheBellAndAHintThatCameDuringALook(t *testing.T) {
	for range 50 { // the order of the two must not matter
		synctest.Test(t, func(t *testing.T) {
			got := visits(t, 3*time.Second, func(rope chan struct{}, hints chan hint) {
				time.Sleep(time.Second)
				hints <- hint{at: time.Now().Add(10 * time.Second)}
				rope <- struct{}{}
			})
			if want := []time.Duration{0, 3 * time.Second, 11 * time.Second}; !slices.Equal(got, want) {
				t.Fatalf("looked at %v, want %v", got, want)
			}
		})
	}
}
