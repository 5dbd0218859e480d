package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// TypeFlaky is a task type that fails now and then.
const TypeFlaky = "demo:flaky"

// Schedules are the examples. They use the handlers log and TypeFlaky.
func Schedules() []schedule.Schedule {
	two := 2
	return []schedule.Schedule{
		{ID: "tick", Description: "every two seconds", Expression: "2s", Type: "log", Payload: []byte(`{"message":"tick"}`)},
		{ID: "cron-berlin", Description: "a cron line with seconds, in a time zone", Expression: "*/5 * * * * *", Timezone: "Europe/Berlin",
			Type: "log", Payload: []byte(`{"message":"on the fives"}`)},
		{ID: "flaky", Description: "fails now and then and is retried", Expression: "6s", Type: TypeFlaky, MaxRetry: &two},
		{ID: "minutely", Description: "at the full minute", Expression: "* * * * *", Type: "log", Payload: []byte(`{"message":"a minute has passed"}`)},
		{ID: "nightly-report", Description: "waits for 02:30 in New York, also when clocks change", Expression: "30 2 * * *",
			Timezone: "America/New_York", Type: "log", Payload: []byte(`{"message":"report"}`)},
	}
}

// errFlaky is how a flaky task fails.
var errFlaky = errors.New("the service did not answer (this example fails now and then)")

// flakiness is the share of attempts that fail.
const flakiness = 0.4

// Flaky is the handler of TypeFlaky.
func Flaky(context.Context, *asynq.Task) error {
	if rand.Float64() < flakiness {
		return errFlaky
	}
	return nil
}

// RetryDelay is short, so that a retry is seen.
func RetryDelay(int, error, *asynq.Task) time.Duration { return time.Second }

// A Putter stores schedules. A schedule.Catalog is one.
type Putter interface {
	PutMany(ctx context.Context, definitions []schedule.Schedule, options schedule.PutOptions) ([]schedule.PutResult, error)
}

// Create stores the examples.
func Create(ctx context.Context, store Putter) error {
	results, err := store.PutMany(ctx, Schedules(), schedule.PutOptions{})
	for _, result := range results {
		err = errors.Join(err, result.Err)
	}
	if err != nil {
		return fmt.Errorf("demo: create the example schedules: %w", err)
	}
	return nil
}
