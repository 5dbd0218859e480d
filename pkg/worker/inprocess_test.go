package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/pkg/worker"
)

// A diary notes who did what, and keeps what is logged.
type diary struct {
	mu    sync.Mutex
	notes []string
	log   strings.Builder
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notes = append(d.notes, fmt.Sprintf(format, args...))
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.notes)
}

func (d *diary) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.Write(p)
}

func (d *diary) logged(words string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Count(d.log.String(), words)
}

// member is a node with a periodic task and a group, and no handler.
func (r *rig) member(id string, d *diary) *node {
	r.t.Helper()
	n := r.node(id, func(o *worker.Options) {
		o.Logger = slog.New(slog.NewTextHandler(d, nil))
		o.Periodic = []claim.Periodic{{Name: "sweep", Every: func() time.Duration { return time.Minute }, Jitter: 1,
			Run: func(_ context.Context, held func() claim.PeriodicClaim) error {
				d.note("sweep by %s", held().Lease.Owner)
				return nil
			}}}
		o.Groups = []claim.SupervisorOptions{{Name: "main", Build: func(group *claim.Group) error {
			group.Worker("tail", func(ctx context.Context) error {
				d.note("tail by %s", group.Lease().Owner)
				<-ctx.Done()
				d.note("tail ends by %s", group.Lease().Owner)
				return nil
			})
			return nil
		}}}
	})
	ctx, cancel := context.WithCancel(r.t.Context())
	n.stop = cancel
	go func() { n.done <- n.Run(ctx) }()
	return n
}

func TestAMemberRunsPeriodicTasksAndGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d := newRig(t), &diary{}
		a := r.member("a", d)
		time.Sleep(10 * time.Second)
		b := r.member("b", d)
		time.Sleep(5*time.Minute + 30*time.Second)
		sweeps := 0
		for _, note := range d.read() {
			if strings.HasPrefix(note, "sweep") {
				sweeps++
			}
		}
		if sweeps != 6 {
			t.Errorf("%d sweeps in 5 min 40 s, want one a minute: %v", sweeps, d.read())
		}
		if n := d.logged("statistics of the namespace"); n != 2 {
			t.Errorf("the statistics were logged %d times, want once at each of two times, by the elected worker", n)
		}
		info, ok, err := r.store.Leases().Lookup(t.Context(), "main")
		if err != nil || !ok || info.Owner != "a" {
			t.Errorf("lease of the group: %+v, %t, %v, want a", info, ok, err)
		}
		a.halt()
		time.Sleep(6 * time.Second)
		notes := slices.DeleteFunc(d.read(), func(note string) bool { return strings.HasPrefix(note, "sweep") })
		if want := []string{"tail by a", "tail ends by a", "tail by b"}; !slices.Equal(notes, want) {
			t.Errorf("the group went %v, want %v", notes, want)
		}
		b.halt()
		leases, err := r.store.Leases().List(t.Context())
		if err != nil || len(leases) != 2 {
			t.Fatalf("leases %+v, %v, want the group's and the election's", leases, err)
		}
		for _, info := range leases {
			if info.Owner != "" {
				t.Errorf("lease %s is held by %s after all have stopped", info.Name, info.Owner)
			}
		}
	})
}

func TestDrainBoundsPeriodicBodies(t *testing.T) {
	for _, obeys := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			free := make(chan struct{})
			n := r.node("a", func(o *worker.Options) {
				o.Drain = 10 * time.Second
				o.Periodic = []claim.Periodic{{Name: "long", Every: func() time.Duration { return time.Minute },
					Run: func(ctx context.Context, _ func() claim.PeriodicClaim) error {
						<-ctx.Done()
						if !obeys {
							<-free
						}
						return nil
					}}}
			})
			n.start()
			time.Sleep(2 * time.Second)
			began := time.Now()
			n.stop()
			if err := <-n.done; err != nil {
				t.Errorf("Run = %v", err)
			}
			if took := time.Since(began); took < 5*time.Second || took > 11*time.Second {
				t.Errorf("it stopped after %s, want the drain of 10s at most", took)
			}
			close(free)
			synctest.Wait()
			time.Sleep(time.Minute) // what was left behind sees its claim out
			if err := n.client.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWorkersRefuseTasksAndGroups(t *testing.T) {
	client := redisClient(t)
	build := func(*claim.Group) error { return nil }
	for name, options := range map[string]worker.Options{
		"a task without a body": {Periodic: []claim.Periodic{{Name: "a", Every: func() time.Duration { return 1 }}}},
		"a group without build": {Groups: []claim.SupervisorOptions{{Name: "a"}}},
		"two groups of a name":  {Groups: []claim.SupervisorOptions{{Name: "a", Build: build}, {Name: "a", Build: build}}},
	} {
		options.Redis = client
		var field *schedule.FieldError
		if _, err := worker.New(options); !errors.As(err, &field) {
			t.Errorf("%s: %v, want a *schedule.FieldError", name, err)
		}
	}
	w, err := worker.New(worker.Options{Redis: client})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no handlers") {
		t.Errorf("Run of a worker with nothing to do = %v", err)
	}
}

// A member of a fleet is declared in one place: handlers, periodic tasks and
// groups.
func ExampleOptions() {
	w, err := worker.New(worker.Options{
		Redis: exampleClient(),
		Periodic: []claim.Periodic{{
			Name:  "cache-sweep",
			Every: func() time.Duration { return time.Minute },
			Run: func(context.Context, func() claim.PeriodicClaim) error {
				return nil // runs in one process at a time
			},
		}},
		Groups: []claim.SupervisorOptions{{
			Name: "main",
			Build: func(group *claim.Group) error {
				group.Worker("tail", func(ctx context.Context) error {
					<-ctx.Done() // runs in one process of the fleet
					return nil
				})
				return nil
			},
		}},
	})
	if err != nil {
		panic(err)
	}
	w.HandleFunc("report:build", func(context.Context, *asynq.Task) error { return nil })
	fmt.Println(w.ID() != "")
	// Output: true
}

func exampleClient() *redis.Client { return redis.NewClient(redistest.Options("127.0.0.1:6379")) }

func redisClient(t *testing.T) *redis.Client {
	client := exampleClient()
	t.Cleanup(func() { _ = client.Close() }) // never used
	return client
}

// A periodic task that is not due costs one look in ten seconds, and a trigger
// or a resume is heard at once.
func TestPeriodicTasksAreWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		ran := make(chan time.Time, 10)
		n := r.node("a", func(o *worker.Options) {
			o.NoSchedules = true
			o.Periodic = []claim.Periodic{{Name: "seldom", Every: func() time.Duration { return 2 * time.Hour }, Jitter: 1,
				Run: func(context.Context, func() claim.PeriodicClaim) error { ran <- time.Now(); return nil }}}
		})
		looks := &periodicLooks{}
		n.client.AddHook(looks)
		n.start()
		<-ran // the first run is at once
		time.Sleep(time.Minute)
		before := looks.count()
		time.Sleep(10 * time.Minute)
		if n := looks.count() - before; n > 80 { // one in 10 s, and what else passes by
			t.Errorf("%d looks at an idle task in ten minutes, want about 60", n)
		}
		wantSoon := func(what string) {
			t.Helper()
			asked := time.Now()
			select {
			case at := <-ran:
				if took := at.Sub(asked); took > 100*time.Millisecond {
					t.Errorf("a %s took %s", what, took)
				}
			case <-time.After(time.Minute):
				t.Errorf("a %s was not heard in a minute", what)
			}
		}
		time.Sleep(3 * time.Second) // into a sleep
		if _, _, err := r.store.Periodic().Trigger(t.Context(), "seldom"); err != nil {
			t.Fatal(err)
		}
		wantSoon("trigger")
		if _, err := r.store.Periodic().Pause(t.Context(), "seldom", schedule.PauseOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Hour)
		if _, err := r.store.Periodic().Resume(t.Context(), "seldom"); err != nil {
			t.Fatal(err)
		}
		wantSoon("resume")
		n.halt()
	})
}

// periodicLooks counts the scripts that look at periodic tasks.
type periodicLooks struct{ counter }

func (c *periodicLooks) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		for _, arg := range cmd.Args() {
			if text, ok := arg.(string); ok && strings.HasSuffix(text, "}:periodic") {
				c.add(1)
				break
			}
		}
		return next(ctx, cmd)
	}
}

func (c *periodicLooks) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}
