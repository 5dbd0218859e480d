package redisstore_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A turnstile is a hook that holds the first script back until it is opened,
// and counts scripts by their number of arguments.
type turnstile struct {
	entered, open chan struct{}

	mu    sync.Mutex
	calls []int
}

func (h *turnstile) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (h *turnstile) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return next(ctx, cmds) }
}

func (h *turnstile) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "evalsha" {
			return next(ctx, cmd)
		}
		h.mu.Lock()
		h.calls = append(h.calls, len(cmd.Args()))
		first := len(h.calls) == 1
		h.mu.Unlock()
		if first {
			close(h.entered)
			<-h.open
		}
		return next(ctx, cmd)
	}
}

// gatheringBench has n schedules with an open firing each, in a bubble, and a
// turnstile before the scripts.
func gatheringBench(t *testing.T, n int) (*bench, []claim.FiringID, *turnstile) {
	t.Helper()
	b := newBench(t, redistest.InMemory(t).Client(), 1)
	for i := range n {
		b.put(every10(schedule.ID("s" + strconv.Itoa(i))))
	}
	b.clock.Add(10 * time.Second)
	firings := b.fireAll(t)
	if len(firings) != n {
		t.Fatalf("%d firings, want %d", len(firings), n)
	}
	h := &turnstile{entered: make(chan struct{}), open: make(chan struct{})}
	b.client.(*redis.Client).AddHook(h)
	return b, firings, h
}

func beginOf(id claim.FiringID, owner string) claim.BeginRequest {
	return claim.BeginRequest{Firing: id, Owner: owner, Worker: "w", Lease: 30 * time.Second}
}

func TestCallsThatMeetShareAScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, firings, h := gatheringBench(t, 20)
		results := make([]claim.BeginResult, 2*len(firings))
		var group sync.WaitGroup
		for i := range results {
			group.Go(func() {
				var err error
				results[i], err = b.Begin(t.Context(), beginOf(firings[i%len(firings)], "owner-"+strconv.Itoa(i)))
				if err != nil {
					t.Errorf("Begin %d: %v", i, err)
				}
			})
			if i == 0 {
				<-h.entered
			}
		}
		synctest.Wait()
		close(h.open)
		group.Wait()
		// One alone; 20 that came meanwhile, one of each schedule; the other 19.
		if len(h.calls) != 3 {
			t.Errorf("%d scripts with %v arguments, want 3", len(h.calls), h.calls)
		}
		tokens := map[claim.Token]bool{}
		for i := range firings {
			answers := string(results[i].Answer) + " " + string(results[i+len(firings)].Answer)
			if answers != "RUN BUSY" && answers != "BUSY RUN" {
				t.Errorf("%s: answers %s, want one RUN and one BUSY", firings[i], answers)
			}
			tokens[max(results[i].Token, results[i+len(firings)].Token)] = true
		}
		if len(tokens) != len(firings) {
			t.Errorf("%d tokens, want %d different ones", len(tokens), len(firings))
		}
	})
}

// A call that its caller gave up while it waited is not made.
func TestACallThatIsGivenUpWhileItWaitsIsNotMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, firings, h := gatheringBench(t, 3)
		var group sync.WaitGroup
		group.Go(func() {
			if _, err := b.Begin(t.Context(), beginOf(firings[0], "one")); err != nil {
				t.Error(err)
			}
		})
		<-h.entered
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		group.Go(func() {
			if _, err := b.Begin(short, beginOf(firings[1], "two")); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Begin past its deadline = %v", err)
			}
		})
		group.Go(func() {
			if _, err := b.Begin(t.Context(), beginOf(firings[2], "three")); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(2 * time.Second)
		close(h.open)
		group.Wait()
		got, err := b.Begin(t.Context(), beginOf(firings[1], "four"))
		if err != nil || got.Answer != claim.BeginRun || got.Attempt != 1 {
			t.Errorf("the firing of the call that was given up: %+v, %v, want a first attempt", got, err)
		}
	})
}

// What one call meets does not keep the others from ending, nor makes their
// entries in the run log double.
func TestACallThatIsRefusedStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, firings, h := gatheringBench(t, 8)
		runs := make([]claim.Run, len(firings))
		close(h.open)
		for i, id := range firings {
			grant, err := b.Begin(t.Context(), beginOf(id, "one"))
			if err != nil {
				t.Fatal(err)
			}
			runs[i] = claim.Run{Firing: id, Token: grant.Token}
		}
		name, _, _ := strings.Cut(string(firings[5]), ":")
		bad := "belfry:{" + b.Namespace() + ":00}:run:" + name
		if err := b.client.Set(t.Context(), bad, "no list", 0).Err(); err != nil {
			t.Fatal(err)
		}
		again := &turnstile{entered: make(chan struct{}), open: make(chan struct{})}
		b.client.(*redis.Client).AddHook(again)
		var group sync.WaitGroup
		for i, run := range runs {
			group.Go(func() {
				got, err := b.Finish(t.Context(), claim.FinishRequest{Run: run, Outcome: claim.OutcomeSucceeded, Attempt: 1, KeepRuns: 5})
				if err != nil || got.Answer != claim.FinishOK && got.Answer != claim.FinishAlready {
					t.Errorf("Finish(%s) = %+v, %v", run.Firing, got, err)
				}
			})
			if i == 0 {
				<-again.entered
			}
		}
		synctest.Wait()
		close(again.open)
		group.Wait()
		if want := 1 + 1 + 7; len(again.calls) != want { // one alone, seven together, which is refused, and each of them
			t.Errorf("%d scripts with %v arguments, want %d", len(again.calls), again.calls, want)
		}
		if err := b.client.Del(t.Context(), bad).Err(); err != nil {
			t.Fatal(err)
		}
		for i := range firings {
			id, want := schedule.ID("s"+strconv.Itoa(i)), 1
			if string(id) == name {
				want = 0
			}
			log, err := b.Runs(t.Context(), id, 10)
			if err != nil || len(log) != want {
				t.Errorf("the run log of %s has %d entries, want %d: %v", id, len(log), want, err)
			}
			if status := b.get(id); status.RunCount != 1 || status.Open != 0 {
				t.Errorf("%s: %d runs, %d open, want 1 and 0", id, status.RunCount, status.Open)
			}
		}
	})
}
