package admincli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/memstore"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// backend is the store of the rig.
func (r *rig) backend() *memstore.Store { return r.stores.Catalog.(*memstore.Store) }

// claimOne claims the one schedule that is due.
func (r *rig) claimOne() claim.Claim {
	r.t.Helper()
	batch, err := r.backend().ClaimDue(context.Background(), claim.ClaimRequest{Owner: "w1", Limit: 10, TTL: 10 * time.Second, AuditAfter: 15 * time.Second})
	if err != nil || len(batch.Claims) != 1 {
		r.t.Fatalf("ClaimDue = %+v, %v, want one claim", batch, err)
	}
	return batch.Claims[0]
}

// judge completes a claim with a decision or a verdict, and what follows.
func (r *rig) judge(c claim.Claim, decision claim.Decision, verdict schedule.Verdict) {
	r.t.Helper()
	result, err := r.backend().Complete(context.Background(), claim.CompleteRequest{AuditBuffered: time.Second, Completions: []claim.Completion{{
		Schedule: c.Schedule, Token: c.Token, ScheduledAt: c.ScheduledAt, Decision: decision, Verdict: verdict, Next: c.ScheduledAt.Add(time.Minute)}}})
	if err != nil || result.Outcomes[0] != claim.CompleteOK {
		r.t.Fatalf("Complete = %+v, %v", result, err)
	}
}

func (r *rig) runThrough(id claim.FiringID, outcome claim.RunOutcome, text string) {
	r.t.Helper()
	ctx := context.Background()
	grant, err := r.backend().Begin(ctx, claim.BeginRequest{Firing: id, Owner: "o-" + string(id), Worker: "w1", Lease: time.Minute})
	if err != nil || grant.Answer != claim.BeginRun {
		r.t.Fatalf("Begin = %+v, %v", grant, err)
	}
	_, err = r.backend().Finish(ctx, claim.FinishRequest{Run: claim.Run{Firing: id, Token: grant.Token}, Outcome: outcome, Error: text,
		Started: r.clock(), Duration: 2 * time.Second, Attempt: 1, Worker: "w1", KeepRuns: 20})
	if err != nil {
		r.t.Fatal(err)
	}
}

// wantWhy asks about the minute number n after the epoch.
func (r *rig) wantWhy(n int, word, text string) whyJSON {
	r.t.Helper()
	at := epoch.Truncate(time.Minute).Add(time.Duration(n) * time.Minute)
	got := r.must("schedule", "why", "m", at.Format(time.RFC3339), "-o", "json")
	var why whyJSON
	if err := json.Unmarshal([]byte(got.stdout), &why); err != nil {
		r.t.Fatal(err)
	}
	if why.Answer != word || !strings.Contains(why.Text, text) {
		r.t.Errorf("why minute %d: %s %q, want %s with %q", n, why.Answer, why.Text, word, text)
	}
	return why
}

// TestWhyKnowsEveryVerdict drives a schedule of every minute through all that
// can become of a scheduled time, and asks about each of them in the end.
func TestWhyKnowsEveryVerdict(t *testing.T) {
	r := newRig(t)
	r.must("schedule", "create", "m", "--every", "1m", "--type", "log", "--overlap", "buffer_one")
	next := func() claim.Claim {
		r.advance(time.Minute)
		return r.claimOne()
	}
	first := next()
	r.wantWhy(1, "open", "a worker claimed it")
	r.judge(first, claim.DecideEnqueued, 0)
	if err := r.backend().Mark(context.Background(), time.Hour, []claim.FiringID{first.Firing()}); err != nil {
		t.Fatal(err)
	}
	r.wantWhy(1, "open", "its task is in queue default")
	second := next()
	r.wantWhy(2, "pending", "a worker acts on it now")
	r.judge(second, claim.DecideOverlap, 0)
	r.wantWhy(2, "open", "waits in the buffer")
	r.judge(next(), claim.DecideOverlap, 0) // the buffer is full
	r.runThrough(first.Firing(), claim.OutcomeSucceeded, "")
	r.runThrough(second.Firing(), claim.OutcomeFailed, "no such account")
	for _, verdict := range []schedule.Verdict{schedule.VerdictCoalesced, schedule.VerdictMissed, schedule.VerdictPaused, schedule.VerdictExcluded, schedule.VerdictSuperseded} {
		r.judge(next(), claim.DecideVerdict, verdict)
	}
	r.must("schedule", "skip", "m", "next")
	r.wantWhy(9, "skip_asked", "an operator asked")
	r.judge(next(), claim.DecideVerdict, schedule.VerdictSkipped)
	for n, want := range map[int][2]string{
		-5: {"before_creation", "it was created"}, 1: {"fired", "it fired, and ran"}, 2: {"fired", "it fired, and ran"},
		3: {"overlap", "the buffer was full"}, 4: {"coalesced", "the newest only"}, 5: {"missed", "no worker claimed it in time"},
		6: {"paused", "while the schedule was paused"}, 7: {"excluded", "a calendar that changed"}, 8: {"superseded", "an edit replaced"},
		9: {"skipped", "an operator asked"}, 10: {"ahead", "it lies ahead"}, 11: {"ahead", "it lies ahead"},
	} {
		r.wantWhy(n, want[0], want[1])
	}
	if why := r.wantWhy(2, "fired", ""); len(why.Runs) != 1 || why.Runs[0].Outcome != "failed" || why.Runs[0].Error != "no such account" || why.Runs[0].DurationMS != 2000 {
		t.Errorf("runs of the second: %+v", why.Runs)
	}
	if got := r.must("schedule", "why", "m", epoch.Truncate(time.Minute).Add(2*time.Minute).Format(time.RFC3339)); !strings.Contains(got.stdout, "no such account") {
		t.Errorf("why prints %q, want the error of the run", got.stdout)
	}
	r.advance(2 * time.Minute)
	r.wantWhy(10, "pending", "no worker has claimed it yet")
	r.must("schedule", "pause", "m", "--reason", "move")
	r.wantWhy(10, "pending", "paused by ana: move")
	r.wantWhy(20, "ahead", "the schedule is paused now")
	// An edit: what was decided before stays told, what was not is.
	r.must("schedule", "update", "m", "--every", "7m")
	r.wantWhy(3, "overlap", "the present definition has no scheduled time there")
}

// Every instant of the life of a schedule has an answer, whatever happened.
func TestWhyAnswersEveryInstant(t *testing.T) {
	r := newRig(t)
	r.must("schedule", "create", "m", "--every", "1m", "--type", "log")
	for n := range 50 { // more verdict ranges than are kept
		r.advance(time.Minute)
		c := r.claimOne()
		if n%2 == 0 {
			r.judge(c, claim.DecideEnqueued, 0)
		} else {
			r.judge(c, claim.DecideVerdict, schedule.VerdictMissed)
		}
	}
	words := map[string]int{}
	for n := -3; n < 60; n++ {
		for _, offset := range []time.Duration{0, 30 * time.Second} {
			at := epoch.Truncate(time.Minute).Add(time.Duration(n)*time.Minute + offset)
			var why whyJSON
			if err := json.Unmarshal([]byte(r.must("schedule", "why", "m", at.Format(time.RFC3339), "-o", "json").stdout), &why); err != nil {
				t.Fatal(err)
			}
			if why.Text == "" || why.Answer == "" {
				t.Errorf("no answer for %s: %+v", at, why)
			}
			words[why.Answer]++
		}
	}
	for _, word := range []string{"before_creation", "open", "missed", "forgotten", "ahead", "not_scheduled"} {
		if words[word] == 0 {
			t.Errorf("no instant was answered with %q: %v", word, words)
		}
	}
}

func TestWhyReadsTimesOfDay(t *testing.T) {
	r := newRig(t)
	r.must("schedule", "create", "b", "--cron", "0 9 * * *", "--tz", "Europe/Berlin", "--type", "log")
	for text, want := range map[string]string{"09:00": "2026-11-29T09:00:00+01:00", "7:00": "2026-11-30T07:00:00+01:00", "06:30:15": "2026-11-30T06:30:15+01:00"} {
		if got := r.must("schedule", "why", "b", text, "-o", "json"); !strings.Contains(got.stdout, want) {
			t.Errorf("why %s answers about %s, want %s", text, got.stdout, want)
		}
	}
	if got := r.run("schedule", "why", "b", "25:00"); got.code != exitUsage {
		t.Errorf("why 25:00: exit %d, %s", got.code, got.stderr)
	}
}

// serveBackfills makes the steps of backfills and runs their firings until
// the context ends, as a worker does; it stops after so many steps.
func (r *rig) serveBackfills(ctx context.Context, steps int) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for steps > 0 {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		r.advance(time.Second)
		batch, err := r.backend().DueBackfills(ctx, claim.DueBackfillsRequest{Limit: 10, Hide: time.Second})
		if err != nil {
			return
		}
		for _, b := range batch.Backfills {
			entry, err := r.backend().Get(ctx, b.Schedule)
			if err != nil {
				return
			}
			compiled, err := schedule.Compile(entry.Schedule, nil)
			if err != nil {
				return
			}
			if step, ok := b.Plan(compiled, &entry.Status); ok {
				result, err := r.backend().StepBackfill(ctx, step)
				if err != nil {
					return
				}
				steps--
				for _, one := range result.Released {
					r.runThrough(one.Firing, claim.OutcomeSucceeded, "")
				}
			}
		}
	}
}

func TestBackfillShowsItsEnd(t *testing.T) {
	r := newRig(t)
	r.must("schedule", "create", "m", "--every", "1m", "--type", "log")
	r.terminal = Terminal{Stdin: true, Stdout: true, Stderr: true}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go r.serveBackfills(ctx, 1000)
	got := r.must("schedule", "backfill", "m", "--from", "-10m", "--to", "now")
	if !strings.Contains(got.stdout, "ended: 10 firings, 0 failed") || !strings.Contains(got.stderr, "Ctrl-C halts it") || !strings.Contains(got.stderr, "of 10 firings") {
		t.Errorf("backfill printed %q and %q", got.stdout, got.stderr)
	}
}

// Ctrl-C leaves an ID with which the backfill goes on where it was.
func TestBackfillInterruptedCanBeResumed(t *testing.T) {
	r := newRig(t)
	r.must("schedule", "create", "m", "--every", "1m", "--type", "log")
	r.terminal = Terminal{Stdin: true, Stdout: true, Stderr: true}
	ctx, interrupt := context.WithCancel(t.Context())
	go func() {
		r.serveBackfills(t.Context(), 3)
		interrupt()
	}()
	got := r.runContext(ctx, "schedule", "backfill", "m", "--from", "-10m", "--to", "now", "-o", "json")
	var halted backfillJSON
	if err := json.Unmarshal([]byte(got.stdout), &halted); err != nil {
		t.Fatalf("%v: %s %s", err, got.stdout, got.stderr)
	}
	if got.code != exitInterrupted || halted.Action != "halted" || halted.Opened != 3 || halted.BackfillID == "" {
		t.Errorf("interrupted: exit %d, %+v", got.code, halted)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go r.serveBackfills(ctx, 1000)
	ended := r.must("schedule", "backfill", "m", "--resume", halted.BackfillID)
	if !strings.Contains(ended.stdout, "ended: 10 firings, 0 failed") {
		t.Errorf("resumed: %s", ended.stdout)
	}
}

func TestEventsFollow(t *testing.T) {
	r := newRig(t)
	r.must("schedule", "create", "a", "--every", "1m", "--type", "log")
	ctx, stop := context.WithCancel(t.Context())
	out := &lines{}
	done := make(chan int, 1)
	go func() {
		env := Env{Stdin: strings.NewReader(""), Stdout: out, Stderr: &lines{}, Now: r.clock, Environ: r.environ,
			Open: func(context.Context, Target) (*Stores, error) { return r.stores, nil }}
		done <- Run(ctx, env, []string{"events", "--follow", "-o", "jsonl"})
	}()
	out.wait(t, `"type":"created"`)
	if _, err := r.backend().Pause(t.Context(), "a", schedule.PauseOptions{By: "ana"}); err != nil {
		t.Fatal(err)
	}
	out.wait(t, `"type":"paused"`)
	stop()
	if code := <-done; code != exitInterrupted {
		t.Errorf("exit %d, want %d", code, exitInterrupted)
	}
	if n := strings.Count(out.String(), "\n"); n != 2 {
		t.Errorf("printed %d lines, want 2:\n%s", n, out.String())
	}
}

// lines is a stream that others wait for.
type lines struct {
	mu   sync.Mutex
	text []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

func (l *lines) wait(t *testing.T, part string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !strings.Contains(l.String(), part) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain for %q in %q", part, l.String())
		}
	}
}

// The same commands on a real server.
func TestPolicyCommandsOnRedis(t *testing.T) {
	r, _ := onRedis(t)
	r.must("schedule", "create", "a", "--every", "1m", "--type", "log")
	r.must("schedule", "skip", "a", "next")
	if got := r.must("schedule", "why", "a", "+1m"); got.stdout == "" {
		t.Error("why printed nothing")
	}
	r.must("schedule", "unskip", "a", "next")
	got := r.must("schedule", "backfill", "a", "--from", "-5m", "--to", "now", "-o", "json")
	var started backfillJSON
	if err := json.Unmarshal([]byte(got.stdout), &started); err != nil || started.Action != "started" || started.Wanted != 5 {
		t.Errorf("backfill: %+v, %v", started, err)
	}
	r.must("schedule", "backfill", "a", "--resume", started.BackfillID)
	events := r.must("events", "-o", "jsonl").stdout
	for _, kind := range []string{"created", "skip_asked", "skip_withdrawn", "backfill_started"} {
		if !strings.Contains(events, fmt.Sprintf("%q:%q", "type", kind)) {
			t.Errorf("no event %s in\n%s", kind, events)
		}
	}
}

// Who looks at a disabled schedule learns that it is tried again by itself.
func TestADisabledScheduleSaysWhenItIsTriedAgain(t *testing.T) {
	r := newRig(t)
	r.must("schedule", "create", "a", "--every", "5m", "--type", "log", "--max-failures", "1", "--cool-down", "10m")
	r.announce("default")
	f := &fleet{r: r, word: map[string]string{}, fails: func() bool { return true }}
	r.advance(5 * time.Minute)
	f.work()
	f.run()
	if got := r.must("schedule", "get", "a").stdout; !strings.Contains(got, "(disabled after 1 failure; one probe may run from 2026-11-30 06:22:02 UTC (in ") || !strings.Contains(got, "max_failures 1, cool_down 10m") {
		t.Error(got)
	}
	r.advance(5 * time.Minute)
	if got := r.must("schedule", "why", "a").stdout; !strings.Contains(got, "1 failure in a row disabled the schedule; one probe may run from 2026-11-30 06:22:02 UTC (in ") {
		t.Error(got)
	}
}
