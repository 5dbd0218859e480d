package claim_test

import (
	"context"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/internal/memstore"
	"github.com/belfryhq/belfry/pkg/claim"
)

// A periodic task runs in one process at a time, and its interval may change
// while it runs. In production the store is redisstore's Store.Periodic.
func ExamplePeriodicRunner() {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	runner, err := claim.NewPeriodicRunner(claim.PeriodicOptions{Store: store.Periodic(), Tasks: []claim.Periodic{{
		Name:  "sweep",
		Every: func() time.Duration { return time.Minute },
		Run: func(_ context.Context, held func() claim.PeriodicClaim) error {
			fmt.Println("sweeping, attempt", held().Attempt)
			return nil
		},
		Record: func(_ context.Context, run claim.PeriodicRun) error {
			fmt.Println(run.Claim.Lease.Name, run.Outcome)
			stop()
			return nil
		},
	}}})
	if err != nil {
		panic(err)
	}
	fmt.Println(runner.Run(ctx))
	// Output:
	// sweeping, attempt 1
	// sweep succeeded
	// <nil>
}

// A group runs in exactly one process of a fleet. In production the leases are
// redisstore's Store.Leases.
func ExampleSupervisor() {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	supervisor, err := claim.NewSupervisor(claim.SupervisorOptions{
		Name: "main", Leases: store.Leases(), Periodic: store.Periodic(),
		Build: func(group *claim.Group) error {
			group.Worker("tail", func(ctx context.Context) error {
				fmt.Println("tailing; writes are fenced by a token:", group.Lease().Token > 0)
				stop()
				<-ctx.Done()
				return nil
			})
			group.Periodic(claim.Periodic{Name: "compact", Every: func() time.Duration { return time.Hour },
				Run: func(context.Context, func() claim.PeriodicClaim) error { return nil }})
			return nil
		}})
	if err != nil {
		panic(err)
	}
	fmt.Println(supervisor.Run(ctx))
	// Output:
	// tailing; writes are fenced by a token: true
	// <nil>
}
