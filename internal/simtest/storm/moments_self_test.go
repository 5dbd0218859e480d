package storm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestMomentsAreApart lets many wait for one instant, from goroutines in any
// order, and wants them to go on one by one in the order of their names.
func TestMomentsAreApart(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			var m moments
			var mu sync.Mutex
			var order []string
			var at []time.Time
			var group sync.WaitGroup
			for i := range 9 {
				group.Go(func() {
					name := fmt.Sprint(8 - i)
					_ = m.wait(t.Context(), nil, name, time.Second)
					mu.Lock()
					defer mu.Unlock()
					order, at = append(order, name), append(at, time.Now())
				})
			}
			group.Wait()
			if got := strings.Join(order, ""); got != "012345678" {
				t.Errorf("they went on as %s, want by name", got)
			}
			for i := 1; i < len(at); i++ {
				if !at[i].After(at[i-1]) {
					t.Errorf("two share an instant: %v", at)
				}
			}
		})
	}
}

// TestMomentsOfEndedContexts wants the end of a context to be heard after what
// ended it went on, by each waiter at a moment of its own.
func TestMomentsOfEndedContexts(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			var m moments
			ctx, cancel := context.WithCancel(t.Context())
			var mu sync.Mutex
			var order []string
			var group sync.WaitGroup
			ended := time.Now().Add(time.Second)
			for _, name := range []string{"c", "a", "b"} {
				group.Go(func() {
					err := m.wait(ctx, nil, name, time.Minute)
					if !errors.Is(err, context.Canceled) || !time.Now().After(ended) || time.Now().After(ended.Add(time.Millisecond)) {
						t.Errorf("%s: %v at %v, want %v soon after %v", name, err, time.Now(), context.Canceled, ended)
					}
					mu.Lock()
					defer mu.Unlock()
					order = append(order, name)
				})
			}
			pass(time.Second)
			cancel()
			group.Wait()
			if got := strings.Join(order, ""); got != "abc" {
				t.Errorf("they heard of it as %s, want by name", got)
			}
		})
	}
}

// TestMomentsOfTheDead wants a crash to end a wait at once.
func TestMomentsOfTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m moments
		over := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(over) })
		start := time.Now()
		if err := m.wait(t.Context(), over, "x", time.Minute); !errors.Is(err, errDead) || time.Since(start) != time.Second {
			t.Errorf("%v after %v, want %v after 1s", err, time.Since(start), errDead)
		}
	})
}
