package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/belfryhq/belfry/pkg/gocronx"
)

const (
	stopTime   = 2 * time.Second        // for jobs under way
	gocronTime = 100 * time.Millisecond // for what gocron itself has to end
)

// Chores are the jobs of a gocron scheduler. gocron waits for jobs under way in
// a loop that never sleeps, so that a call to a Redis that hangs would cost a
// core until it is given up. They are waited for in here instead, first.
type chores struct {
	scheduler gocron.Scheduler
	logger    *slog.Logger

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// newChores returns chores without a job.
func newChores(logger *slog.Logger, options ...gocron.SchedulerOption) (*chores, error) {
	scheduler, err := gocron.NewScheduler(append(options, gocron.WithLocation(time.UTC), gocron.WithStopTimeout(gocronTime),
		gocron.WithLogger(gocronLogger{logger}))...)
	if err != nil {
		return nil, fmt.Errorf("worker: housekeeping: %w", err)
	}
	return &chores{scheduler: scheduler, logger: logger}, nil
}

// guard returns a job as gocron is to call it: it does nothing after stop.
func (c *chores) guard(run func()) func() {
	return func() {
		if !c.enter() {
			return
		}
		defer c.running.Done()
		run()
	}
}

// add adds a job. After an error the scheduler has been shut down.
func (c *chores) add(name, cron string, run func(), options ...gocron.JobOption) error {
	_, err := c.scheduler.NewJob(gocron.CronJob(cron, true), gocron.NewTask(c.guard(run)), append(options, gocron.WithName(name),
		gocron.WithCronImplementation(gocronx.NewCron(gocronx.CronOptions{})), gocron.WithSingletonMode(gocron.LimitModeReschedule))...)
	if err != nil {
		_ = c.scheduler.Shutdown() // the error below says more
		return fmt.Errorf("worker: housekeeping job %s: %w", name, err)
	}
	return nil
}

func (c *chores) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.running.Add(1)
	return true
}

// stop ends the scheduler, after the jobs under way; one that does not end in
// time is left behind.
func (c *chores) stop() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	ended := waitFor(&c.running, stopTime)
	err := c.scheduler.Shutdown()
	if !ended || err != nil && !errors.Is(err, gocron.ErrStopJobsTimedOut) {
		c.logger.Warn("housekeeping did not stop in time", "error", err)
	}
}

// waitFor reports whether a group ended within the limit. What did not is left
// behind: nothing can kill a goroutine.
func waitFor(group *sync.WaitGroup, limit time.Duration) bool {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		group.Wait()
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
		return false
	}
}
