package queue

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// slowly answers every command after a second with err.
type slowly struct {
	err   error
	asked atomic.Int64
}

func (s *slowly) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *slowly) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s *slowly) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		s.asked.Add(1)
		time.Sleep(time.Second)
		cmd.SetErr(s.err)
		return s.err
	}
}

// Several firings of one sweep that need to know what servers run wait for one
// answer, and the clock of a bubble moves on meanwhile. With a lock held over
// the question it stands still, and this test ends by its timeout.
func TestWorkingIsAskedOnceAndHoldsNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := redis.NewClient(&redis.Options{
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		defer client.Close()
		hook := &slowly{err: errors.New("no answer")}
		client.AddHook(hook)
		working := newTasks(client, "").workingOnce(t.Context())
		start := time.Now()
		errs := make(chan error)
		for range 3 {
			go func() {
				_, err := working()
				errs <- err
			}()
		}
		for range 3 {
			if err := <-errs; !errors.Is(err, hook.err) {
				t.Errorf("error %v, want %v", err, hook.err)
			}
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %v, want one answer's second", took)
		}
		if asked := hook.asked.Load(); asked != 1 {
			t.Errorf("asked %d times", asked)
		}
	})
}
