package admincli

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A fleet is a worker of a rig that plans as the real one does, and remembers
// what it made of each scheduled time.
type fleet struct {
	r      *rig
	word   map[string]string // by schedule and scheduled time, as why should answer
	open   []claim.FiringID  // that have not ended
	fails  func() bool
	busy   func() bool // whether a run goes on after the step
	pushed int
}

func (f *fleet) key(id schedule.ID, at time.Time) string {
	return string(id) + " " + at.UTC().Format(time.RFC3339)
}

// work claims what is due and carries out what is planned.
func (f *fleet) work() {
	r := f.r
	r.t.Helper()
	r.claimDue(func(c claim.Claim, compiled *schedule.Compiled) {
		f.complete(c, schedule.Plan(compiled, schedule.PlanInput{ScheduledAt: c.ScheduledAt, Now: r.clock(), Again: c.Again, Fired: c.Fired,
			Settled: c.Kind == claim.ClaimAdvance, SkipAsked: c.Kind == claim.ClaimSkip, Overlaps: c.Kind == claim.ClaimOverlap}))
	})
}

func (f *fleet) complete(c claim.Claim, p schedule.Planned) {
	r := f.r
	done := claim.Completion{Schedule: c.Schedule, Token: c.Token, ScheduledAt: c.ScheduledAt, Next: p.Next, NotBefore: p.NotBefore, Range: p.Range}
	switch {
	case p.Push:
		done.Decision = claim.DecideEnqueued
		f.word[f.key(c.Schedule, c.ScheduledAt)] = "fired"
	case p.Overlap:
		done.Decision = claim.DecideOverlap
		f.word[f.key(c.Schedule, c.ScheduledAt)] = "overlap" // or fired, when it is buffered
	case p.Advance:
		done.Decision = claim.DecideAdvance
	default:
		done.Decision, done.Verdict = claim.DecideVerdict, p.Verdict
		f.word[f.key(c.Schedule, c.ScheduledAt)] = verdictWords[p.Verdict]
	}
	result, err := r.backend().Complete(context.Background(), claim.CompleteRequest{AuditBuffered: time.Second, Completions: []claim.Completion{done}})
	if err != nil || result.Outcomes[0] != claim.CompleteOK {
		r.t.Fatalf("Complete(%s) = %+v, %v", c.Firing(), result, err)
	}
	if p.Push {
		f.pushed++
		f.open = append(f.open, c.Firing())
	}
}

// run lets open firings end, in the order in which they fired.
func (f *fleet) run() {
	for i := 0; i < len(f.open); i++ {
		if f.busy != nil && f.busy() {
			continue
		}
		outcome, text := claim.OutcomeSucceeded, ""
		if f.fails != nil && f.fails() {
			outcome, text = claim.OutcomeFailed, "exit status 1"
		}
		f.r.runThrough(f.open[i], outcome, text)
		f.open = slices.Delete(f.open, i, i+1)
		i--
	}
}

// The two nights of a year on which clocks change, in six zones; Apia left out
// a whole day.
var clockNights = map[string][2]string{
	"America/New_York":    {"2027-03-14", "2027-11-07"},
	"Europe/Berlin":       {"2027-03-28", "2027-10-31"},
	"America/Santiago":    {"2027-09-05", "2027-04-04"},
	"Australia/Lord_Howe": {"2027-10-03", "2027-04-04"},
	"Asia/Beirut":         {"2027-03-28", "2027-10-31"},
	"Pacific/Apia":        {"2011-12-30", "2011-04-02"},
}

// What preview shows is what later fires, over the nights of clock changes.
func TestPreviewIsWhatFires(t *testing.T) {
	for zone, nights := range clockNights {
		location, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, night := range nights {
			day, err := time.ParseInLocation(time.DateOnly, night, time.UTC)
			if err != nil {
				t.Fatal(err)
			}
			from, to := day.Add(-36*time.Hour), day.Add(48*time.Hour)
			if _, before := from.In(location).Zone(); !changes(location, from, to) {
				t.Fatalf("%s: no clock change near %s, offset %d", zone, night, before)
			}
			for i, spec := range []string{"--cron=30 2 * * *", "--cron=30 0 * * *", "--cron=*/20 0-4 * * *", "--cron=15 * * * *", "--every=45m"} {
				previewIsWhatFires(t, fmt.Sprintf("s%d", i), zone, spec, from, to)
			}
		}
	}
}

func changes(location *time.Location, from, to time.Time) bool {
	_, a := from.In(location).Zone()
	_, b := to.In(location).Zone()
	return a != b
}

func previewIsWhatFires(t *testing.T, id, zone, spec string, from, to time.Time) {
	t.Helper()
	r := newRig(t)
	r.now = from
	create := []string{"schedule", "create", id, spec, "--type", "log"}
	if !strings.HasPrefix(spec, "--every") {
		create = append(create, "--tz", zone)
	}
	r.must(create...)
	var shown []struct {
		AtMS int64 `json:"at_ms"`
	}
	text := r.must("schedule", "preview", id, "--to", to.Format(time.RFC3339), "-n", "1000", "-o", "json").stdout
	if err := json.Unmarshal([]byte(text), &shown); err != nil || len(shown) < 2 {
		t.Fatalf("%d times, %v", len(shown), err)
	}
	f := &fleet{r: r, word: map[string]string{}}
	for _, one := range shown {
		entry, err := r.backend().Get(t.Context(), schedule.ID(id))
		if err != nil {
			t.Fatal(err)
		}
		r.now = time.UnixMilli(one.AtMS).UTC().Add(-time.Millisecond)
		if f.work(); f.pushed != 0 {
			t.Fatalf("%s %s: fired before %s", zone, spec, r.now)
		}
		r.now = r.now.Add(time.Millisecond)
		if f.work(); f.pushed != 1 || f.word[f.key(schedule.ID(id), r.now)] != "fired" {
			t.Fatalf("%s %s: preview shows %s, next is %s", zone, spec, r.now.In(time.UTC), entry.Status.NextAt)
		}
		f.run()
		f.pushed = 0
	}
	r.now = to
	if f.work(); f.pushed != 0 {
		t.Errorf("%s %s: fired once more before %s: %v", zone, spec, to, f.open)
	}
}

// A week in which workers stop for hours, runs fail and take long, schedules
// are paused, edited, skipped, triggered and disabled: in the end there is an
// answer for each scheduled time, and it is the one that was given then.
func TestWhyAfterAWeekOfChaos(t *testing.T) {
	words := map[string]int{}
	for seed := range uint64(4) {
		r := newRig(t)
		began := r.now
		dice := rand.New(rand.NewPCG(seed, 7))
		f := &fleet{r: r, word: map[string]string{}, fails: func() bool { return dice.IntN(4) == 0 }, busy: func() bool { return dice.IntN(3) == 0 }}
		ids := []string{"latest", "all", "none", "breaker"}
		r.stdin = `
- {id: latest, specs: [{every: 2h}], type: log, overlap: skip}
- {id: all, specs: [{cron: "30 */3 * * *", timezone: Europe/Berlin}], type: log, missed: all, catch_up: 8h, overlap: buffer_one}
- {id: none, specs: [{cron: "15 1-23/2 * * *", timezone: America/New_York}], type: log, missed: skip}
- {id: breaker, specs: [{every: 4h}], type: log, max_failures: 2}
`
		r.must("apply", "-f", "-", "-q")
		for outage := 0; r.now.Before(began.AddDate(0, 0, 7)); r.advance(10 * time.Minute) {
			if outage--; outage < 0 {
				f.work()
				f.run()
			}
			if dice.IntN(60) == 0 {
				outage = dice.IntN(60)
			}
			disturb(r, dice, ids[dice.IntN(len(ids))])
		}
		for _, id := range ids {
			askAboutTheWeek(t, f, id, began, words)
		}
	}
	for _, word := range []string{"fired", "coalesced", "missed", "overlap", "skipped", "pending", "ahead"} {
		if words[word] == 0 {
			t.Errorf("no scheduled time was answered with %q: %v", word, words)
		}
	}
	t.Logf("answers: %v", words)
}

// disturb does one of the things that operators do, seldom.
func disturb(r *rig, dice *rand.Rand, id string) {
	switch dice.IntN(160) {
	case 0:
		r.must("schedule", "pause", id, "--reason", "chaos")
	case 1, 2:
		r.must("schedule", "resume", id)
	case 3:
		r.must("schedule", "trigger", id)
	case 4:
		r.run("schedule", "skip", id, "next") // refused when nothing lies ahead
	case 5:
		r.must("schedule", "update", id, "--description", fmt.Sprint(dice.IntN(9)))
	}
}

func askAboutTheWeek(t *testing.T, f *fleet, id string, began time.Time, words map[string]int) {
	t.Helper()
	entry, err := f.r.backend().Get(t.Context(), schedule.ID(id))
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := schedule.Compile(entry.Schedule, nil)
	if err != nil {
		t.Fatal(err)
	}
	for at, ok := compiled.Next(began); ok && at.Before(f.r.now.Add(4*time.Hour)); at, ok = compiled.Next(at) {
		var why whyJSON
		if err := json.Unmarshal([]byte(f.r.must("schedule", "why", id, at.Format(time.RFC3339), "-o", "json").stdout), &why); err != nil {
			t.Fatal(err)
		}
		words[why.Answer]++
		was := f.word[f.key(schedule.ID(id), at)]
		switch {
		case why.Text == "" || slices.Contains([]string{"", "unknown", "not_scheduled", "before_creation", "unusable"}, why.Answer):
			t.Errorf("%s at %s: no answer: %+v, was %q", id, at, why, was)
		case why.Answer == "forgotten" && !at.Before(entry.Status.Verdicts[0].First):
			t.Errorf("%s at %s is forgotten, though the history goes back to %s", id, at, entry.Status.Verdicts[0].First)
		case was == "", why.Answer == "forgotten", why.Answer == "open":
		case why.Answer != was && (was != "overlap" || why.Answer != "fired"):
			t.Errorf("%s at %s: %s, was %q: %s", id, at, why.Answer, was, why.Text)
		}
	}
}
