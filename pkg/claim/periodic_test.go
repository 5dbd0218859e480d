package claim_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A stage runs periodic tasks in a bubble and notes when their bodies start.
type stage struct {
	t      *testing.T
	store  *faulty
	log    logbook
	begin  time.Time
	mu     sync.Mutex
	starts []time.Duration // since the beginning
	runs   []claim.PeriodicRun
}

func newStage(t *testing.T) *stage {
	return &stage{t: t, store: newFaulty(newStore(t).Periodic()), begin: time.Now()}
}

func every(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// A live is an interval that changes.
type live struct{ atomic.Int64 }

func newLive(d time.Duration) *live { l := &live{}; l.set(d); return l }

func (l *live) set(d time.Duration) { l.Store(int64(d)) }
func (l *live) read() time.Duration { return time.Duration(l.Load()) }

// task is one that notes its starts and its recorded runs, with a TTL of 30 s.
func (s *stage) task(body func(ctx context.Context, held func() claim.PeriodicClaim) error) claim.Periodic {
	return claim.Periodic{Name: "task", Every: every(time.Minute), Jitter: 1,
		Run: func(ctx context.Context, held func() claim.PeriodicClaim) error {
			s.mu.Lock()
			s.starts = append(s.starts, time.Since(s.begin).Truncate(time.Millisecond))
			s.mu.Unlock()
			if body == nil {
				return nil
			}
			return body(ctx, held)
		},
		Record: func(_ context.Context, run claim.PeriodicRun) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.runs = append(s.runs, run)
			return nil
		}}
}

// start runs the task in one more process.
func (s *stage) start(options claim.PeriodicOptions, tasks ...claim.Periodic) (stop func()) {
	s.t.Helper()
	if options.Store == nil {
		options.Store = s.store
	}
	options.Tasks, options.Logger = tasks, s.log.logger()
	runner, err := claim.NewPeriodicRunner(options)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := runner.Run(ctx); err != nil {
			s.t.Errorf("Run: %v", err)
		}
	}()
	return func() { cancel(); <-done }
}

func (s *stage) started() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.starts)
}

func (s *stage) recorded() []claim.PeriodicRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.runs)
}

func (s *stage) wantStarts(want ...time.Duration) {
	s.t.Helper()
	if got := s.started(); !slices.Equal(got, want) {
		s.t.Errorf("bodies started at %v, want %v", got, want)
	}
}

func (s *stage) entry() claim.PeriodicEntry {
	s.t.Helper()
	entry, ok, err := s.store.Lookup(s.t.Context(), "task")
	if err != nil || !ok {
		s.t.Fatalf("Lookup: %t, %v", ok, err)
	}
	return entry
}

// periodically runs the test in a bubble.
func periodically(t *testing.T, run func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { run(newStage(t)) })
}

func TestFirstRoundIsAtOnceThenAfterTheIntervalFromTheEnd(t *testing.T) {
	periodically(t, func(s *stage) {
		stop := s.start(claim.PeriodicOptions{}, s.task(func(context.Context, func() claim.PeriodicClaim) error {
			time.Sleep(10 * time.Second)
			return nil
		}))
		time.Sleep(3 * time.Minute)
		stop()
		s.wantStarts(0, 70*time.Second, 140*time.Second)
		run := s.recorded()[1]
		if run.Outcome != claim.OutcomeSucceeded || run.Err != nil || run.Ended.Sub(run.Started) != 10*time.Second ||
			run.Claim.Lease.Token <= s.recorded()[0].Claim.Lease.Token {
			t.Errorf("recorded %+v", run)
		}
		if e := s.entry(); e.Runs != 3 || e.LastDuration != 10*time.Second || e.LastOutcome != claim.OutcomeSucceeded {
			t.Errorf("entry %+v", e)
		}
	})
}

func TestIntervalIsReadAnewEachRound(t *testing.T) {
	periodically(t, func(s *stage) {
		task, interval := s.task(nil), newLive(time.Minute)
		task.Every = interval.read
		stop := s.start(claim.PeriodicOptions{}, task)
		time.Sleep(90 * time.Second)
		interval.set(10 * time.Second) // in force from the end of the next run on
		time.Sleep(52 * time.Second)
		stop()
		s.wantStarts(0, time.Minute, 2*time.Minute, 130*time.Second, 140*time.Second)
	})
}

func TestJitterIsPositiveAndCapped(t *testing.T) {
	periodically(t, func(s *stage) {
		task := s.task(nil)
		task.Jitter = 5 * time.Second
		stop := s.start(claim.PeriodicOptions{Poll: time.Hour}, task)
		time.Sleep(time.Hour)
		stop()
		starts, late := s.started(), map[time.Duration]bool{}
		for i := 1; i < len(starts); i++ {
			wait := starts[i] - starts[i-1]
			if wait < time.Minute || wait > 65*time.Second {
				t.Errorf("waited %s, want 60 s to 65 s", wait)
			}
			late[wait] = true
		}
		if len(starts) < 50 || len(late) < 20 {
			t.Errorf("%d starts with %d different waits, want them spread", len(starts), len(late))
		}
	})
}

func TestSpecsGiveTheTimes(t *testing.T) {
	for expression, want := range map[string][]time.Duration{
		"*/5 * * * *": {5 * time.Minute, 15 * time.Minute}, // a run of six minutes passes one by
		"90s":         {90 * time.Second, 9 * time.Minute, 16*time.Minute + 30*time.Second},
	} {
		periodically(t, func(s *stage) {
			spec, err := schedule.Parse(expression)
			if err != nil {
				t.Fatal(err)
			}
			task := s.task(func(context.Context, func() claim.PeriodicClaim) error { time.Sleep(6 * time.Minute); return nil })
			task.Every, task.Spec = nil, spec
			stop := s.start(claim.PeriodicOptions{}, task)
			time.Sleep(17 * time.Minute)
			stop()
			s.wantStarts(want...)
		})
	}
}

func TestABodyOfTenTTLRunsOnceWhileThreeCompete(t *testing.T) {
	periodically(t, func(s *stage) {
		body := func(ctx context.Context, held func() claim.PeriodicClaim) error {
			for range 300 {
				time.Sleep(time.Second)
				if !held().Valid(time.Now()) || ctx.Err() != nil {
					t.Errorf("the claim is not trusted %s after the start", time.Since(s.begin))
				}
			}
			return nil
		}
		var stops []func()
		for range 3 {
			stops = append(stops, s.start(claim.PeriodicOptions{}, s.task(body)))
		}
		time.Sleep(301 * time.Second)
		s.wantStarts(0)
		for _, stop := range stops {
			stop()
		}
		if e := s.entry(); e.Runs != 1 || e.Attempt != 1 || e.LastDuration != 300*time.Second {
			t.Errorf("entry %+v", e)
		}
	})
}

func TestRenewalIsEveryThirdOfTheTTLAndLateTicksDoNotBurst(t *testing.T) {
	tests := []struct{ ttl, slow, period time.Duration }{
		{30 * time.Second, 0, 10 * time.Second},
		{12 * time.Millisecond, 0, 10 * time.Millisecond}, // not below 10 ms
		{30 * time.Second, 9 * time.Second, 10 * time.Second},
	}
	for _, tt := range tests {
		periodically(t, func(s *stage) {
			task := s.task(func(context.Context, func() claim.PeriodicClaim) error { time.Sleep(10 * tt.period); return nil })
			task.TTL = tt.ttl
			s.store.slow["renew"] = tt.slow
			stop := s.start(claim.PeriodicOptions{}, task)
			time.Sleep(11 * tt.period)
			stop()
			renewals := s.store.times("renew")
			if len(renewals) < 8 {
				t.Fatalf("%d renewals in ten periods", len(renewals))
			}
			last := s.begin
			for i, at := range renewals {
				want := tt.period
				if i == 1 {
					want += tt.slow // the tick after a slow renewal is late, and the next is a period after it
				}
				if gap := at.Sub(last); gap != want {
					t.Errorf("ttl %s: renewal %d came after %s, want %s", tt.ttl, i, gap, want)
				}
				last = at
			}
			if end := s.store.times("complete"); len(end) != 1 || end[0].Before(last) {
				t.Errorf("completed at %v, renewed last at %v", end, last)
			}
		})
	}
}

func TestAPanicIsAnOutcomeWithMessageAndStack(t *testing.T) {
	bodies := map[string]func(context.Context, func() claim.PeriodicClaim) error{
		"panic: the floor is wet": func(context.Context, func() claim.PeriodicClaim) error { panic("the floor is wet") },
		"no broom":                func(context.Context, func() claim.PeriodicClaim) error { return errors.New("no broom") },
		"claim: the body ended its goroutine without returning": func(context.Context, func() claim.PeriodicClaim) error { runtime.Goexit(); return nil },
	}
	for message, body := range bodies {
		periodically(t, func(s *stage) {
			stop := s.start(claim.PeriodicOptions{}, s.task(body))
			time.Sleep(90 * time.Second)
			stop()
			s.wantStarts(0, time.Minute) // it goes on
			run := s.recorded()[0]
			if run.Outcome != claim.OutcomeFailed || run.Err.Error() != message {
				t.Errorf("recorded %s %v, want %q", run.Outcome, run.Err, message)
			}
			var fault *claim.PanicError
			if errors.As(run.Err, &fault) != strings.HasPrefix(message, "panic") {
				t.Errorf("%q is a %T", message, run.Err)
			}
			if fault != nil && !strings.Contains(fault.Stack, "TestAPanicIsAnOutcome") {
				t.Errorf("the stack does not show the body:\n%s", fault.Stack)
			}
			if e := s.entry(); e.Fails != 2 || e.LastError != message || e.LastOutcome != claim.OutcomeFailed {
				t.Errorf("entry %+v", e)
			}
		})
	}
}

func TestTheRecorderIsToldBeforeCompletion(t *testing.T) {
	periodically(t, func(s *stage) {
		task := s.task(nil)
		task.Every = every(time.Hour)
		task.Record = func(context.Context, claim.PeriodicRun) error {
			time.Sleep(2 * time.Minute) // longer than the TTL: the claim is renewed meanwhile
			if e := s.entry(); e.Owner != "a" || e.Runs != 0 || !e.Until.After(time.Now()) {
				t.Errorf("the claim was not held while the recorder was told: %+v", e)
			}
			return nil
		}
		stop := s.start(claim.PeriodicOptions{Owner: "a"}, task)
		time.Sleep(2*time.Minute + 30*time.Second)
		stop()
		if e := s.entry(); e.Runs != 1 {
			t.Errorf("entry %+v, want one run", e)
		}
	})
}

func TestARecorderThatFailsLeavesTheClaimToRunOut(t *testing.T) {
	recorders := map[string]func(context.Context, claim.PeriodicRun) error{
		"panic: no paper": func(context.Context, claim.PeriodicRun) error { panic("no paper") },
		"no ink":          func(context.Context, claim.PeriodicRun) error { return errors.New("no ink") },
	}
	for message, record := range recorders {
		periodically(t, func(s *stage) {
			bad, good := s.task(nil), s.task(nil)
			bad.Record = record
			stopBad := s.start(claim.PeriodicOptions{Owner: "bad"}, bad)
			synctest.Wait()
			stopGood := s.start(claim.PeriodicOptions{Owner: "good"}, good)
			time.Sleep(time.Second)
			stopBad()
			time.Sleep(59 * time.Second)
			stopGood()
			s.wantStarts(0, 30*time.Second) // the TTL later, by the other
			if e := s.entry(); e.Runs != 1 || e.Attempt != 2 {
				t.Errorf("entry %+v, want one run, claimed twice", e)
			}
			if run := s.recorded()[0]; run.Claim.Lease.Owner != "good" || run.Claim.Attempt != 2 {
				t.Errorf("recorded %+v", run)
			}
			if s.log.count(message) != 1 {
				t.Errorf("the log does not say %q once", message)
			}
		})
	}
}

func TestABadIntervalIsRefusedAndLogged(t *testing.T) {
	for _, interval := range []time.Duration{0, -time.Minute, time.Microsecond} {
		periodically(t, func(s *stage) {
			task, current := s.task(nil), newLive(time.Minute)
			task.Every = current.read
			stop := s.start(claim.PeriodicOptions{}, task)
			time.Sleep(30 * time.Second)
			current.set(interval)
			time.Sleep(10 * time.Minute)
			s.wantStarts(0) // nothing runs with such an interval
			if n := s.log.count("the interval is refused"); n != 1 {
				t.Errorf("%s was logged %d times, want once", interval, n)
			}
			current.set(time.Minute)
			time.Sleep(time.Second)
			stop()
			if n := len(s.started()); n != 2 {
				t.Errorf("%d starts after it was corrected, want 2", n)
			}
		})
	}
}

func TestAnIntervalRefusedAfterTheRunFallsBackToTheAcceptedOne(t *testing.T) {
	periodically(t, func(s *stage) {
		current := newLive(time.Minute)
		task := s.task(func(context.Context, func() claim.PeriodicClaim) error { current.set(-1); return nil })
		task.Every = current.read
		stop := s.start(claim.PeriodicOptions{}, task)
		synctest.Wait()
		stop()
		if e := s.entry(); e.Runs != 1 || !e.Next.Equal(s.begin.Add(time.Minute)) || s.log.count("the last one is used") != 1 {
			t.Errorf("entry %+v, want the next run in a minute, and a log line", e)
		}
	})
}

func TestARenewalErrorIsTransient(t *testing.T) {
	periodically(t, func(s *stage) {
		stop := s.start(claim.PeriodicOptions{}, s.task(func(ctx context.Context, _ func() claim.PeriodicClaim) error {
			s.store.set(func() { s.store.fail["renew"] = 1 })
			time.Sleep(2 * time.Minute)
			return ctx.Err()
		}))
		time.Sleep(150 * time.Second)
		stop()
		s.wantStarts(0)
		if run := s.recorded()[0]; run.Outcome != claim.OutcomeSucceeded || run.Lost {
			t.Errorf("recorded %+v, want success", run)
		}
	})
}

// takeOver lets another owner take the task after its claim ran out, while
// renewals fail.
func (s *stage) takeOver() {
	s.store.set(func() { s.store.fail["renew"] = 4 })
	time.Sleep(31 * time.Second)
	result, err := s.store.PeriodicStore.Claim(s.t.Context(), claim.PeriodicRequest{Name: "task", Owner: "other", Nonce: "1", TTL: time.Hour})
	if err != nil || result.Answer != claim.PeriodicGranted {
		s.t.Errorf("taking over: %+v, %v", result, err)
	}
}

func TestALostClaimCancelsTheBodyUnlessOptedOutAndNeverKillsIt(t *testing.T) {
	for _, ignore := range []bool{false, true} {
		periodically(t, func(s *stage) {
			var cause error
			task := s.task(func(ctx context.Context, _ func() claim.PeriodicClaim) error {
				s.takeOver()
				time.Sleep(20 * time.Minute) // it goes on as long as it wants
				cause = context.Cause(ctx)
				return nil
			})
			task.IgnoreLoss = ignore
			stop := s.start(claim.PeriodicOptions{}, task)
			time.Sleep(30 * time.Minute)
			stop()
			if !ignore && !errors.Is(cause, claim.ErrUntrusted) || ignore && cause != nil {
				t.Errorf("ignore %t: the context ended with %v", ignore, cause)
			}
			run := s.recorded()[0]
			if !run.Lost || run.Ended.Sub(run.Started) < 20*time.Minute {
				t.Errorf("recorded %+v, want a lost run", run)
			}
			renewals := s.store.times("renew")
			if last := renewals[len(renewals)-1].Sub(s.begin); last > time.Minute {
				t.Errorf("the lost claim was renewed after %s", last)
			}
			if e := s.entry(); e.Owner != "other" || e.Runs != 0 {
				t.Errorf("entry %+v, want it untouched by the old owner", e)
			}
		})
	}
}

func TestAClaimThatAnotherTookEndsWithErrLost(t *testing.T) {
	periodically(t, func(s *stage) {
		cause := make(chan error, 10)
		stop := s.start(claim.PeriodicOptions{}, s.task(func(ctx context.Context, held func() claim.PeriodicClaim) error {
			got, err := s.store.PeriodicStore.Complete(ctx, claim.PeriodicCompletion{Claim: held(), HandBack: true})
			if err != nil || got != claim.PeriodicCompleteOK {
				t.Errorf("Complete = %s, %v", got, err)
			}
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return nil
		}))
		if got := <-cause; !errors.Is(got, claim.ErrLost) || time.Since(s.begin) != 10*time.Second {
			t.Errorf("the context ended with %v after %s, want ErrLost at the next renewal", got, time.Since(s.begin))
		}
		stop()
	})
}

func TestShutdownLetsTheBodyEnd(t *testing.T) {
	periodically(t, func(s *stage) {
		stop := s.start(claim.PeriodicOptions{}, s.task(func(ctx context.Context, _ func() claim.PeriodicClaim) error {
			time.Sleep(5 * time.Minute)
			return ctx.Err()
		}))
		time.Sleep(time.Second)
		stop()
		if took := time.Since(s.begin); took < 5*time.Minute {
			t.Errorf("Run returned after %s, before the body", took)
		}
		if e := s.entry(); e.Runs != 1 || e.Fails != 0 || e.Owner != "" {
			t.Errorf("entry %+v, want it completed", e)
		}
	})
}

func TestGraceBoundsAShutdown(t *testing.T) {
	periodically(t, func(s *stage) {
		stop := s.start(claim.PeriodicOptions{Grace: 20 * time.Second}, s.task(func(ctx context.Context, _ func() claim.PeriodicClaim) error {
			<-ctx.Done()
			return ctx.Err()
		}))
		time.Sleep(time.Minute)
		stop()
		if took := time.Since(s.begin); took != 80*time.Second {
			t.Errorf("Run returned after %s, want 80s", took)
		}
	})
}

func TestLostRepliesChangeNothing(t *testing.T) {
	periodically(t, func(s *stage) {
		s.store.lose["claim"], s.store.lose["complete"] = 1, 1
		stop := s.start(claim.PeriodicOptions{}, s.task(nil))
		time.Sleep(90 * time.Second)
		stop()
		s.wantStarts(time.Second, 61*time.Second) // the second attempt gets the grant of the first
		if s.store.requests[0].Nonce != s.store.requests[1].Nonce {
			t.Error("the repeated claim has another nonce")
		}
		if e := s.entry(); e.Runs != 2 || e.Attempt != 1 {
			t.Errorf("entry %+v, want two runs", e)
		}
	})
}

func TestTheStoreBeingAwayIsWaitedFor(t *testing.T) {
	periodically(t, func(s *stage) {
		s.store.fail["ensure"], s.store.fail["claim"], s.store.gone = 10, 10, 1
		stop := s.start(claim.PeriodicOptions{}, s.task(nil))
		time.Sleep(30 * time.Second)
		stop()
		if n := len(s.started()); n != 1 {
			t.Errorf("%d runs, want 1", n)
		}
		if n := s.log.count("the store of periodic tasks failed"); n != 1 {
			t.Errorf("the outage was logged %d times, want once", n)
		}
		if n := len(s.store.times("ensure")); n != 12 {
			t.Errorf("ensured %d times, want ten failures, one success, one after the entry was gone", n)
		}
	})
}

func TestPauseResumeAndTriggerAreNoticed(t *testing.T) {
	periodically(t, func(s *stage) {
		stop := s.start(claim.PeriodicOptions{}, s.task(nil))
		at := func(d time.Duration) { time.Sleep(d - time.Since(s.begin)) }
		at(10 * time.Second)
		if _, err := s.store.Pause(t.Context(), "task", schedule.PauseOptions{By: "ana"}); err != nil {
			t.Fatal(err)
		}
		at(2 * time.Minute)
		if _, _, err := s.store.Trigger(t.Context(), "task"); err != nil {
			t.Fatal(err)
		}
		at(10 * time.Minute)
		if _, err := s.store.Resume(t.Context(), "task"); err != nil {
			t.Fatal(err)
		}
		at(10*time.Minute + 30*time.Second)
		stop()
		starts := s.started()
		if len(starts) != 3 || starts[1] < 2*time.Minute || starts[1] > 2*time.Minute+time.Second ||
			starts[2] < 10*time.Minute || starts[2] > 10*time.Minute+time.Second {
			t.Errorf("starts %v, want at once, within a second of the trigger, and of the resume", starts)
		}
	})
}

func TestRunnersRefuse(t *testing.T) {
	run := func(context.Context, func() claim.PeriodicClaim) error { return nil }
	good := claim.Periodic{Name: "a", Every: every(time.Second), Run: run}
	spec, err := schedule.Parse("1m")
	if err != nil {
		t.Fatal(err)
	}
	change := func(f func(p *claim.Periodic)) []claim.Periodic { p := good; f(&p); return []claim.Periodic{p} }
	store := newStore(t).Periodic()
	for name, options := range map[string]claim.PeriodicOptions{
		"no store":      {Tasks: []claim.Periodic{good}},
		"twice":         {Store: store, Tasks: []claim.Periodic{good, good}},
		"long owner":    {Store: store, Owner: strings.Repeat("x", 257)},
		"negative poll": {Store: store, Poll: -1},
		"negative time": {Store: store, Grace: -1},
		"no name":       {Store: store, Tasks: change(func(p *claim.Periodic) { p.Name = "" })},
		"no body":       {Store: store, Tasks: change(func(p *claim.Periodic) { p.Run = nil })},
		"no interval":   {Store: store, Tasks: change(func(p *claim.Periodic) { p.Every = nil })},
		"two intervals": {Store: store, Tasks: change(func(p *claim.Periodic) { p.Spec = spec })},
		"tiny TTL":      {Store: store, Tasks: change(func(p *claim.Periodic) { p.TTL = time.Millisecond })},
		"jitter":        {Store: store, Tasks: change(func(p *claim.Periodic) { p.Jitter = -1 })},
	} {
		var field *schedule.FieldError
		if _, err := claim.NewPeriodicRunner(options); !errors.As(err, &field) {
			t.Errorf("%s: %v, want a *schedule.FieldError", name, err)
		}
	}
}
