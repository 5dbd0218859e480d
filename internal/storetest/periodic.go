package storetest

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A PeriodicBackend opens an empty catalog of periodic tasks that no other
// test uses. Its clock is now; with nil it is the clock that production uses.
type PeriodicBackend func(t *testing.T, now func() time.Time) claim.PeriodicStore

const periodicTTL = 30 * time.Second

// Periodic runs the contract of claim.PeriodicStore against a backend.
func Periodic(t *testing.T, open PeriodicBackend) {
	for _, c := range periodicCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := &periodicEnv{T: t, clock: &clock{now: Epoch}}
			e.PeriodicStore = open(t, e.clock.Now)
			c.run(e)
		})
	}
	t.Run("the store's own clock drives it too", func(t *testing.T) {
		t.Parallel()
		e := &periodicEnv{T: t, PeriodicStore: open(t, nil), clock: &clock{now: time.Now()}}
		e.ensure("own", time.Time{})
		c := e.claims("own", "a", "1")
		if !c.Valid(time.Now()) || c.Valid(time.Now().Add(periodicTTL)) {
			t.Errorf("claim %+v is not trusted for its TTL", c)
		}
		e.completes(c, time.Now().Add(time.Hour), claim.PeriodicCompleteOK)
		e.answers("own", "a", "2", claim.PeriodicNotDue)
	})
}

var periodicCases = []struct {
	name string
	run  func(e *periodicEnv)
}{
	{"ensure makes an entry, and keeps what exists", periodicEnsure},
	{"a task is due at its first run", periodicFirstRun},
	{"one owner gets a due task, the others are told how long", periodicClaimOnce},
	{"of many that ask at once one gets it", periodicCompete},
	{"the same call sent again gets the same grant", periodicResend},
	{"a claim that ran out goes to another owner, with a larger token", periodicReclaim},
	{"renewing extends for the owner, and never revives a lost claim", periodicRenew},
	{"a claim that ran out and that nobody took is still its owner's", periodicLateOwner},
	{"completing advances to the next time, once", periodicComplete},
	{"completing is refused after the ownership changed", periodicZombie},
	{"the last run is remembered", periodicOutcome},
	{"a claim that is handed back is due at once", periodicHandBack},
	{"without a next time it is never due again", periodicNoNext},
	{"a paused task is not granted, and a run under way goes on", periodicPause},
	{"a pause with an end ends by itself", periodicPauseUntil},
	{"a trigger makes it due now, also when it is paused", periodicTrigger},
	{"a trigger during a run runs it again after it", periodicTriggerWhileRunning},
	{"entries are listed by name", periodicList},
	{"what has no entry is said so", periodicUnknown},
	{"input that is refused changes nothing", periodicRefused},
}

// A periodicEnv is a fresh catalog with a clock, and verbs to act on it.
type periodicEnv struct {
	*testing.T
	claim.PeriodicStore
	*clock
}

func (e *periodicEnv) must(doing string, err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("%s: %v", doing, err)
	}
}

func (e *periodicEnv) ensure(name string, first time.Time) claim.PeriodicEntry {
	e.Helper()
	entry, _, err := e.Ensure(e.Context(), claim.PeriodicTask{Name: name, FirstRun: first})
	e.must("Ensure", err)
	return entry
}

func (e *periodicEnv) ask(name, owner, nonce string) claim.PeriodicResult {
	e.Helper()
	result, err := e.Claim(e.Context(), claim.PeriodicRequest{Name: name, Owner: owner, Nonce: nonce, TTL: periodicTTL})
	e.must("Claim", err)
	return result
}

// claims wants to be granted the task.
func (e *periodicEnv) claims(name, owner, nonce string) claim.PeriodicClaim {
	e.Helper()
	result := e.ask(name, owner, nonce)
	if result.Answer != claim.PeriodicGranted || result.Wait != 0 {
		e.Fatalf("Claim(%s, %s, %s) = %+v, want a grant", name, owner, nonce, result)
	}
	if result.Claim.Lease.Name != name || result.Claim.Lease.Owner != owner || result.Claim.Lease.Token <= 0 {
		e.Errorf("claim %+v does not say whose it is", result.Claim)
	}
	return result.Claim
}

// answers wants another answer than a grant, and returns the wait.
func (e *periodicEnv) answers(name, owner, nonce string, want claim.PeriodicAnswer) time.Duration {
	e.Helper()
	result := e.ask(name, owner, nonce)
	if result.Answer != want || result.Claim != (claim.PeriodicClaim{}) {
		e.Fatalf("Claim(%s, %s, %s) = %+v, want %s", name, owner, nonce, result, want)
	}
	return result.Wait
}

func (e *periodicEnv) completes(c claim.PeriodicClaim, next time.Time, want claim.PeriodicCompleted) {
	e.Helper()
	got, err := e.Complete(e.Context(), claim.PeriodicCompletion{Claim: c, Next: next, Outcome: claim.OutcomeSucceeded})
	e.must("Complete", err)
	if got != want {
		e.Errorf("Complete(%s by %s) = %s, want %s", c.Lease.Name, c.Lease.Owner, got, want)
	}
}

func (e *periodicEnv) renews(c claim.PeriodicClaim, want bool) claim.PeriodicClaim {
	e.Helper()
	renewed, ok, err := e.Renew(e.Context(), c, periodicTTL)
	e.must("Renew", err)
	if ok != want {
		e.Errorf("Renew(%s by %s) = %t, want %t", c.Lease.Name, c.Lease.Owner, ok, want)
	}
	return renewed
}

func (e *periodicEnv) entry(name string) claim.PeriodicEntry {
	e.Helper()
	entry, ok, err := e.Lookup(e.Context(), name)
	e.must("Lookup", err)
	if !ok {
		e.Fatalf("Lookup(%s): no entry", name)
	}
	return entry
}

func (e *periodicEnv) equal(what string, got, want any) {
	e.Helper()
	if g, ok := got.(time.Time); ok && g.Equal(want.(time.Time)) {
		return
	}
	if got != want {
		e.Errorf("%s = %v, want %v", what, got, want)
	}
}

func periodicEnsure(e *periodicEnv) {
	task := claim.PeriodicTask{Name: "sweep", Display: "Sweep | the floor", FirstRun: Epoch.Add(time.Minute)}
	entry, made, err := e.Ensure(e.Context(), task)
	e.must("Ensure", err)
	e.equal("made", made, true)
	e.equal("Display", entry.Display, "Sweep | the floor")
	e.equal("Next", entry.Next, Epoch.Add(time.Minute))
	e.equal("Created", entry.Created, Epoch)
	e.equal("Token", entry.Token, claim.Token(0))
	e.advance(time.Second)
	again, made, err := e.Ensure(e.Context(), claim.PeriodicTask{Name: "sweep", Display: "Other", FirstRun: Epoch})
	e.must("Ensure again", err)
	e.equal("made again", made, false)
	e.equal("entry", again, entry)
	e.equal("Lookup", e.entry("sweep"), entry)
	e.equal("Display without one", e.ensure("plain", time.Time{}).Display, "plain")
}

func periodicFirstRun(e *periodicEnv) {
	e.ensure("now", time.Time{})
	e.ensure("later", Epoch.Add(time.Minute))
	e.ensure("past", Epoch.Add(-time.Hour))
	e.claims("now", "a", "1")
	e.equal("Due", e.claims("past", "a", "1").Due, Epoch.Add(-time.Hour))
	e.equal("Wait", e.answers("later", "a", "1", claim.PeriodicNotDue), time.Minute)
	e.advance(time.Minute - time.Millisecond)
	e.equal("Wait", e.answers("later", "a", "1", claim.PeriodicNotDue), time.Millisecond)
	e.advance(time.Millisecond)
	e.equal("Due", e.claims("later", "a", "1").Due, Epoch.Add(time.Minute))
}

func periodicClaimOnce(e *periodicEnv) {
	e.ensure("t", time.Time{})
	c := e.claims("t", "a", "1")
	e.equal("Until", c.Lease.Until, Epoch.Add(periodicTTL))
	e.equal("Due", c.Due, Epoch)
	e.equal("Attempt", c.Attempt, 1)
	e.equal("Manual", c.Manual, false)
	e.advance(time.Second)
	e.equal("Wait of another", e.answers("t", "b", "1", claim.PeriodicHeld), periodicTTL-time.Second)
	e.equal("Wait of the same owner's other call", e.answers("t", "a", "2", claim.PeriodicHeld), periodicTTL-time.Second)
	entry := e.entry("t")
	e.equal("Owner", entry.Owner, "a")
	e.equal("Token", entry.Token, c.Lease.Token)
	e.equal("Until", entry.Until, c.Lease.Until)
	e.equal("trusted at once", c.Valid(Epoch), true)
	e.equal("trusted to the end", c.Valid(Epoch.Add(periodicTTL-time.Millisecond)), false)
}

func periodicCompete(e *periodicEnv) {
	e.ensure("t", time.Time{})
	var mu sync.Mutex
	var group sync.WaitGroup
	granted := 0
	for i := range 16 {
		group.Go(func() {
			owner := "w" + strconv.Itoa(i)
			result, err := e.Claim(e.Context(), claim.PeriodicRequest{Name: "t", Owner: owner, Nonce: owner, TTL: periodicTTL})
			if err != nil {
				e.Errorf("Claim: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			if result.Answer == claim.PeriodicGranted {
				granted++
			}
		})
	}
	group.Wait()
	e.equal("grants", granted, 1)
}

func periodicResend(e *periodicEnv) {
	e.ensure("t", time.Time{})
	first := e.claims("t", "a", "1")
	e.advance(10 * time.Second)
	again := e.claims("t", "a", "1")
	e.equal("Token", again.Lease.Token, first.Lease.Token)
	e.equal("Until", again.Lease.Until, first.Lease.Until)
	e.equal("trusted for what is left only", again.Valid(Epoch.Add(periodicTTL)), false)
}

func periodicReclaim(e *periodicEnv) {
	e.ensure("t", time.Time{})
	first := e.claims("t", "a", "1")
	e.advance(periodicTTL - time.Millisecond)
	e.answers("t", "b", "1", claim.PeriodicHeld)
	e.advance(time.Millisecond)
	second := e.claims("t", "b", "1")
	e.equal("token grows", second.Lease.Token > first.Lease.Token, true)
	e.equal("Attempt", second.Attempt, 2)
	e.equal("Due", second.Due, first.Due)
	e.advance(periodicTTL)
	third := e.claims("t", "b", "1")
	e.equal("token grows for the same owner and nonce", third.Lease.Token > second.Lease.Token, true)
	e.equal("Attempt", third.Attempt, 3)
	e.completes(third, e.Now().Add(time.Minute), claim.PeriodicCompleteOK)
	e.advance(time.Minute)
	e.equal("Attempt of the next time", e.claims("t", "c", "1").Attempt, 1)
}

func periodicRenew(e *periodicEnv) {
	e.ensure("t", time.Time{})
	c := e.claims("t", "a", "1")
	for range 3 {
		e.advance(periodicTTL - time.Second)
		c = e.renews(c, true)
		e.equal("Until", c.Lease.Until, e.Now().Add(periodicTTL))
		e.equal("trusted again", c.Valid(e.Now()), true)
		e.answers("t", "b", "1", claim.PeriodicHeld)
	}
	other := c
	other.Lease.Owner = "b"
	e.renews(other, false)
	e.advance(periodicTTL)
	e.claims("t", "b", "2")
	e.renews(c, false)
	e.equal("Owner", e.entry("t").Owner, "b")
	e.equal("Until", e.entry("t").Until, e.Now().Add(periodicTTL))
	e.renews(claim.PeriodicClaim{Lease: claim.Lease{Name: "never", Owner: "a", Token: 5}}, false)
}

func periodicLateOwner(e *periodicEnv) {
	e.ensure("t", time.Time{})
	c := e.claims("t", "a", "1")
	e.advance(3 * periodicTTL)
	c = e.renews(c, true)
	e.answers("t", "b", "1", claim.PeriodicHeld)
	e.advance(3 * periodicTTL)
	e.completes(c, e.Now().Add(time.Minute), claim.PeriodicCompleteOK)
	e.equal("Wait", e.answers("t", "b", "1", claim.PeriodicNotDue), time.Minute)
}

func periodicComplete(e *periodicEnv) {
	e.ensure("t", time.Time{})
	c := e.claims("t", "a", "1")
	e.advance(time.Second)
	next := Epoch.Add(time.Hour)
	e.completes(c, next, claim.PeriodicCompleteOK)
	entry := e.entry("t")
	e.equal("Next", entry.Next, next)
	e.equal("Owner", entry.Owner, "")
	e.equal("Runs", entry.Runs, int64(1))
	e.completes(c, next.Add(time.Hour), claim.PeriodicCompleteAlready)
	e.equal("entry after the repeat", e.entry("t"), entry)
	e.renews(c, false)
	e.equal("Wait", e.answers("t", "b", "1", claim.PeriodicNotDue), time.Hour-time.Second)
	e.advance(time.Hour)
	e.equal("token grows", e.claims("t", "b", "1").Lease.Token > c.Lease.Token, true)
	e.completes(c, next, claim.PeriodicCompleteAlready)
}

func periodicZombie(e *periodicEnv) {
	e.ensure("t", time.Time{})
	old := e.claims("t", "a", "1")
	e.advance(periodicTTL)
	current := e.claims("t", "b", "1")
	before := e.entry("t")
	e.completes(old, e.Now().Add(time.Hour), claim.PeriodicCompleteStale)
	forged := current
	forged.Lease.Owner = "a"
	e.completes(forged, e.Now().Add(time.Hour), claim.PeriodicCompleteStale)
	forged = old
	forged.Lease.Owner = "b"
	e.completes(forged, e.Now().Add(time.Hour), claim.PeriodicCompleteStale)
	e.equal("entry", e.entry("t"), before)
	e.completes(current, e.Now().Add(time.Minute), claim.PeriodicCompleteOK)
	e.completes(old, e.Now().Add(time.Hour), claim.PeriodicCompleteStale)
	e.equal("Next", e.entry("t").Next, e.Now().Add(time.Minute))
}

func periodicOutcome(e *periodicEnv) {
	e.ensure("t", time.Time{})
	long := strings.Repeat("x", claim.MaxPeriodicError-1) + "é and more"
	for i, c := range []claim.PeriodicCompletion{
		{Outcome: claim.OutcomeFailed, Error: long, Started: Epoch.Add(5 * time.Millisecond), Duration: 1500 * time.Millisecond},
		{Outcome: claim.OutcomeSucceeded, Started: Epoch.Add(time.Second), Duration: time.Second},
	} {
		c.Claim, c.Next = e.claims("t", "a", strconv.Itoa(i)), Epoch
		_, err := e.Complete(e.Context(), c)
		e.must("Complete", err)
		entry := e.entry("t")
		e.equal("Runs", entry.Runs, int64(i+1))
		e.equal("Fails", entry.Fails, int64(1))
		e.equal("LastOutcome", entry.LastOutcome, c.Outcome)
		e.equal("LastStarted", entry.LastStarted, c.Started)
		e.equal("LastDuration", entry.LastDuration, c.Duration)
		want := ""
		if c.Error != "" {
			want = long[:claim.MaxPeriodicError-1]
		}
		e.equal("LastError", entry.LastError, want)
	}
}

func periodicHandBack(e *periodicEnv) {
	e.ensure("t", time.Time{})
	c := e.claims("t", "a", "1")
	got, err := e.Complete(e.Context(), claim.PeriodicCompletion{Claim: c, HandBack: true})
	e.must("Complete", err)
	e.equal("HandBack", got, claim.PeriodicCompleteOK)
	e.equal("Runs", e.entry("t").Runs, int64(0))
	again := e.claims("t", "b", "1")
	e.equal("Due", again.Due, c.Due)
	e.equal("Attempt", again.Attempt, 1)
	got, err = e.Complete(e.Context(), claim.PeriodicCompletion{Claim: c, HandBack: true})
	e.must("Complete", err)
	e.equal("HandBack again", got, claim.PeriodicCompleteAlready)
}

func periodicNoNext(e *periodicEnv) {
	e.ensure("t", time.Time{})
	e.completes(e.claims("t", "a", "1"), time.Time{}, claim.PeriodicCompleteOK)
	e.advance(1000 * time.Hour)
	e.equal("Wait", e.answers("t", "a", "2", claim.PeriodicNotDue), time.Duration(0))
	e.equal("Next", e.entry("t").Next.IsZero(), true)
}

func periodicPause(e *periodicEnv) {
	e.ensure("t", time.Time{})
	running := e.claims("t", "a", "1")
	entry, err := e.Pause(e.Context(), "t", schedule.PauseOptions{By: "ana", Reason: "a | b"})
	e.must("Pause", err)
	e.equal("Paused", entry.Paused, true)
	e.equal("PausedBy", entry.PausedBy, "ana")
	e.equal("PauseReason", entry.PauseReason, "a | b")
	running = e.renews(running, true)
	e.completes(running, Epoch.Add(time.Second), claim.PeriodicCompleteOK)
	e.advance(time.Hour)
	e.equal("Wait", e.answers("t", "b", "1", claim.PeriodicPaused), time.Duration(0))
	entry, err = e.Resume(e.Context(), "t")
	e.must("Resume", err)
	e.equal("Paused", entry.Paused, false)
	e.equal("PausedBy", entry.PausedBy+entry.PauseReason, "")
	e.completes(e.claims("t", "b", "2"), e.Now().Add(time.Minute), claim.PeriodicCompleteOK)
	e.answers("t", "b", "3", claim.PeriodicNotDue) // what passed meanwhile was due once
}

func periodicPauseUntil(e *periodicEnv) {
	e.ensure("t", time.Time{})
	_, err := e.Pause(e.Context(), "t", schedule.PauseOptions{By: "ana", Until: Epoch.Add(time.Minute)})
	e.must("Pause", err)
	e.equal("PausedUntil", e.entry("t").PausedUntil, Epoch.Add(time.Minute))
	e.equal("Wait", e.answers("t", "a", "1", claim.PeriodicPaused), time.Minute)
	e.advance(time.Minute)
	e.equal("Paused", e.entry("t").Paused, false)
	e.equal("PausedBy", e.entry("t").PausedBy, "")
	e.claims("t", "a", "1")
}

func (e *periodicEnv) triggers(name string, want bool) {
	e.Helper()
	entry, fresh, err := e.Trigger(e.Context(), name)
	e.must("Trigger", err)
	e.equal("fresh", fresh, want)
	e.equal("Trigger", entry.Trigger, true)
}

func periodicTrigger(e *periodicEnv) {
	e.ensure("t", Epoch.Add(time.Hour))
	_, err := e.Pause(e.Context(), "t", schedule.PauseOptions{})
	e.must("Pause", err)
	e.triggers("t", true)
	e.triggers("t", false)
	lost := e.claims("t", "a", "1")
	e.equal("Manual", lost.Manual, true)
	e.equal("Due stays", lost.Due, Epoch.Add(time.Hour))
	e.advance(periodicTTL)
	c := e.claims("t", "b", "1") // the first owner never came back
	e.equal("Manual", c.Manual, true)
	e.completes(c, Epoch.Add(2*time.Hour), claim.PeriodicCompleteOK)
	e.equal("Trigger", e.entry("t").Trigger, false)
	e.answers("t", "a", "2", claim.PeriodicPaused)
}

func periodicTriggerWhileRunning(e *periodicEnv) {
	e.ensure("t", time.Time{})
	c := e.claims("t", "a", "1")
	e.triggers("t", true)
	e.triggers("t", false)
	e.answers("t", "b", "1", claim.PeriodicHeld)
	e.completes(c, Epoch.Add(time.Hour), claim.PeriodicCompleteOK)
	again := e.claims("t", "b", "1")
	e.equal("Manual", again.Manual, true)
	e.triggers("t", true) // during the run that the first one asked for
	e.completes(again, Epoch.Add(time.Hour), claim.PeriodicCompleteOK)
	e.completes(e.claims("t", "b", "2"), Epoch.Add(time.Hour), claim.PeriodicCompleteOK)
	e.equal("Wait", e.answers("t", "b", "3", claim.PeriodicNotDue), time.Hour)
}

func periodicList(e *periodicEnv) {
	none, err := e.List(e.Context())
	e.must("List", err)
	e.equal("entries of an empty catalog", len(none), 0)
	for _, name := range []string{"b", "c.d", "a"} {
		e.ensure(name, time.Time{})
	}
	e.completes(e.claims("b", "w", "1"), Epoch.Add(time.Hour), claim.PeriodicCompleteOK)
	all, err := e.List(e.Context())
	e.must("List", err)
	if len(all) != 3 || all[0].Name != "a" || all[1].Name != "b" || all[2].Name != "c.d" {
		e.Fatalf("List = %+v, want a, b and c.d", all)
	}
	e.equal("an entry", all[1], e.entry("b"))
}

func periodicUnknown(e *periodicEnv) {
	e.answers("t", "a", "1", claim.PeriodicGone)
	e.completes(claim.PeriodicClaim{Lease: claim.Lease{Name: "t", Owner: "a", Token: 7}}, Epoch, claim.PeriodicCompleteGone)
	if _, ok, err := e.Lookup(e.Context(), "t"); ok || err != nil {
		e.Errorf("Lookup = %t, %v, want nothing", ok, err)
	}
	_, err := e.Pause(e.Context(), "t", schedule.PauseOptions{})
	e.equal("Pause", errors.Is(err, schedule.ErrNotFound), true)
	_, err = e.Resume(e.Context(), "t")
	e.equal("Resume", errors.Is(err, schedule.ErrNotFound), true)
	_, _, err = e.Trigger(e.Context(), "t")
	e.equal("Trigger", errors.Is(err, schedule.ErrNotFound), true)
}

func periodicRefused(e *periodicEnv) {
	e.ensure("t", time.Time{})
	ctx, before := e.Context(), e.entry("t")
	good := claim.PeriodicRequest{Name: "t", Owner: "a", Nonce: "1", TTL: periodicTTL}
	held := claim.PeriodicClaim{Lease: claim.Lease{Name: "t", Owner: "a", Token: 5}}
	calls := map[string]func() error{
		"ensure no name":    func() error { _, _, err := e.Ensure(ctx, claim.PeriodicTask{}); return err },
		"ensure a bad name": func() error { _, _, err := e.Ensure(ctx, claim.PeriodicTask{Name: "a:b"}); return err },
		"ensure long": func() error {
			_, _, err := e.Ensure(ctx, claim.PeriodicTask{Name: "u", Display: strings.Repeat("x", 257)})
			return err
		},
		"ensure far": func() error {
			_, _, err := e.Ensure(ctx, claim.PeriodicTask{Name: "u", FirstRun: Epoch.AddDate(9000, 0, 0)})
			return err
		},
		"claim without name": func() error { r := good; r.Name = ""; _, err := e.Claim(ctx, r); return err },
		"claim for nobody":   func() error { r := good; r.Owner = ""; _, err := e.Claim(ctx, r); return err },
		"claim without call": func() error { r := good; r.Nonce = ""; _, err := e.Claim(ctx, r); return err },
		"claim for no time":  func() error { r := good; r.TTL = 0; _, err := e.Claim(ctx, r); return err },
		"renew for no time":  func() error { _, _, err := e.Renew(ctx, held, time.Microsecond); return err },
		"complete as what":   func() error { _, err := e.Complete(ctx, claim.PeriodicCompletion{Claim: held}); return err },
		"complete far": func() error {
			_, err := e.Complete(ctx, claim.PeriodicCompletion{Claim: held, Outcome: claim.OutcomeSucceeded, Next: Epoch.AddDate(9000, 0, 0)})
			return err
		},
		"pause a bad name": func() error { _, err := e.Pause(ctx, "a|b", schedule.PauseOptions{}); return err },
		"pause with much": func() error {
			_, err := e.Pause(ctx, "t", schedule.PauseOptions{Reason: strings.Repeat("x", 1025)})
			return err
		},
		"resume nothing":  func() error { _, err := e.Resume(ctx, ""); return err },
		"trigger nothing": func() error { _, _, err := e.Trigger(ctx, ""); return err },
	}
	for name, call := range calls {
		var field *schedule.FieldError
		if err := call(); !errors.As(err, &field) {
			e.Errorf("%s: %v, want a *schedule.FieldError", name, err)
		}
	}
	e.equal("entry", e.entry("t"), before)
	all, err := e.List(ctx)
	e.must("List", err)
	e.equal("entries", len(all), 1)
}
