package schedule

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

// The tests of this file are bug reports of people who run schedulers, as far
// as they are about what fires when. The stores, the queue and the fleet test
// the rest.

// claims plays one worker that looks at the times given, in order, and claims
// whatever is due. It returns the scheduled times that it pushed. The schedule
// is compiled anew for every look, as after a restart.
func claims(t *testing.T, s Schedule, created time.Time, looks ...time.Time) (pushed []time.Time) {
	t.Helper()
	pending, ok := compile(t, s).First(created)
	if !ok {
		t.Fatal("never fires")
	}
	for _, now := range looks {
		c := compile(t, s)
		for steps := 0; !pending.IsZero() && !c.NotBefore(pending).After(now); steps++ {
			if steps > 1000 {
				t.Fatal("more than a thousand claims at one look")
			}
			p := Plan(c, PlanInput{ScheduledAt: pending, Now: now, Fired: int64(len(pushed))})
			if p.Push {
				pushed = append(pushed, pending)
			}
			pending = p.Next
		}
	}
	return pushed
}

// every returns n instants, step apart, the first one step after from.
func every(from time.Time, step time.Duration, n int) []time.Time {
	all := make([]time.Time, n)
	for i := range all {
		all[i] = from.Add(time.Duration(i+1) * step)
	}
	return all
}

// A worker that restarts every minute keeps the phase of a ten-minute interval.
func TestB019RestartsDoNotMoveTheGrid(t *testing.T) {
	created := utc(t, "2026-06-01T10:03:20Z")
	got := claims(t, Schedule{Expression: "10m"}, created, every(created, time.Minute, 31)...)
	want := []string{"10:10:00", "10:20:00", "10:30:00"}
	if len(got) != len(want) {
		t.Fatalf("pushed %v, want %v", got, want)
	}
	for i := range want {
		if got[i].Format(time.TimeOnly) != want[i] {
			t.Errorf("push %d is %v, want %s", i, got[i], want[i])
		}
	}
}

// Applying the same definition again, before and after firings, is no change.
func TestB026ApplyingAgainChangesNothing(t *testing.T) {
	text := `{"id":"a","type":"t","expression":"*/2 * * * *","metadata":{"b":1,"a":2}}`
	first := decode(t, text)
	first.Normalize()
	pending := utc(t, "2026-06-01T10:02:00Z")
	for range 100 {
		again := decode(t, text)
		again.Normalize()
		if !bytes.Equal(encode(t, first), encode(t, again)) {
			t.Fatal("the same file gives another definition")
		}
		p := PlanPut(compile(t, first), pending, compile(t, again), pending.Add(30*time.Second))
		if p.SpecChanged || !p.Next.Equal(pending) || p.Superseded != nil {
			t.Fatalf("PlanPut = %+v, want pending %v kept", p, pending)
		}
		pending = pending.Add(2 * time.Minute)
	}
}

// A changed rule replaces the pending time; none of the old rule comes any more.
func TestB027AChangedRuleReplacesThePendingTime(t *testing.T) {
	now := utc(t, "2026-06-01T10:01:30Z")
	old, updated := compile(t, Schedule{Expression: "*/2 * * * *"}), compile(t, Schedule{Expression: "10 * * * * *"})
	p := PlanPut(old, utc(t, "2026-06-01T10:02:00Z"), updated, now)
	if want := utc(t, "2026-06-01T10:02:10Z"); !p.SpecChanged || !p.Next.Equal(want) || p.Superseded != nil {
		t.Errorf("PlanPut = %+v, want next %v", p, want)
	}
}

// Every ID works or is refused with a reason.
func TestB036NamesWorkOrAreRefused(t *testing.T) {
	for _, id := range []string{"a", "A.b_c-9", "0", strings.Repeat("x", 128)} {
		s := sound()
		s.ID = ID(id)
		if err := s.Validate(); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{"", "a:b", "a b", "a/b", "{a}", "a*", "a\n", "a\nb", "\x00", "😀", "é", "-a", ".", "..", "_a", strings.Repeat("x", 129), strings.Repeat("x", 200)} {
		s := sound()
		s.ID = ID(id)
		var field *FieldError
		if err := s.Validate(); !errors.As(err, &field) || field.Field != "id" || field.Value != id {
			t.Errorf("%q: %v, want it refused", id, err)
		}
	}
}

// Ten hours of missed seconds are one catch-up, two claims and one range.
func TestB052ALongOutageCostsOneCatchUp(t *testing.T) {
	created := utc(t, "2026-06-01T00:00:00Z")
	back := created.Add(10 * time.Hour)
	for _, policy := range []Missed{MissedLatest, MissedSkip} {
		s := Schedule{Expression: "1s", Missed: policy}
		if got := claims(t, s, created, back); len(got) != 1 || !got[0].Equal(back) {
			t.Errorf("%s pushed %v, want the newest alone", policy, got)
		}
		p := Plan(compile(t, s), PlanInput{ScheduledAt: created.Add(time.Second), Now: back})
		if p.Range == nil || p.Range.Count != 10*3600-2 || !p.Next.Equal(back) {
			t.Errorf("%s: %+v, range %+v", policy, p, p.Range)
		}
	}
	all := Schedule{Expression: "1s", Missed: MissedAll, CatchUp: time.Minute}
	if got := claims(t, all, created, back); len(got) != 61 || !got[0].Equal(back.Add(-time.Minute)) {
		t.Errorf("all pushed %d, the first %v", len(got), got[:min(1, len(got))])
	}
}

// A stored schedule whose zone is unknown is an error with a reason, not a panic.
func TestB056AStoredScheduleWithAnUnknownZone(t *testing.T) {
	s := decode(t, `{"id":"a","type":"t","expression":"@daily","timezone":"Mars/Phobos"}`)
	_, err := Compile(s, nil)
	if all := fieldErrors(t, err); len(all) != 1 || all[0].Field != "timezone" || all[0].Value != "Mars/Phobos" {
		t.Errorf("Compile() = %v", err)
	}
}

// Dates that no month has are refused on create; stored ones are completed.
func TestB067ImpossibleDatesAreRefused(t *testing.T) {
	now := utc(t, "2026-06-01T00:00:00Z")
	for _, expression := range []string{"0 0 31 4 *", "0 0 30 2 *", "0 0 31 2,4,6 *"} {
		c := compile(t, Schedule{Expression: expression})
		calls := countCalls(c)
		if all := fieldErrors(t, c.CheckCreate(now)); len(all) != 1 || all[0].Field != "expression" ||
			!strings.Contains(all[0].Allowed, " days") || !strings.Contains(all[0].Hint, "L") {
			t.Errorf("%s: %v, want it refused with the reason and the last day as a hint", expression, all)
		}
		if p := Plan(c, PlanInput{ScheduledAt: now, Now: now}); !p.Push || !p.Next.IsZero() {
			t.Errorf("%s: %+v, want it done after a stored pending time", expression, p)
		}
		if *calls > 20 {
			t.Errorf("%s: %d calls of the spec", expression, *calls)
		}
	}
}

// Far one-shots are exact and fire when they are due, not at once.
func TestB071FarOneShots(t *testing.T) {
	now := utc(t, "2026-06-01T00:00:00Z")
	for _, at := range []string{"2026-07-01T00:00:00Z", "2031-06-01T00:00:00Z", "2262-04-12T00:00:00Z", "9999-12-31T23:59:59.999Z"} {
		c := compile(t, Schedule{Expression: "once:" + at})
		if err := c.CheckCreate(now); err != nil {
			t.Errorf("%s: %v", at, err)
		}
		if next, ok := c.First(now); !ok || formatInstant(next) != at {
			t.Errorf("%s: first %v, %v", at, next, ok)
		}
	}
}

// Below the minimum is an error that names the minimum, never a rounding.
func TestB072BelowTheMinimumIsRefused(t *testing.T) {
	for _, text := range []string{"1ns", "50ms", "99ms", "@every 99ms", "100.5ms", "0s"} {
		_, err := Parse(text)
		var field *FieldError
		if !errors.As(err, &field) || !strings.Contains(field.Allowed, "100ms") {
			t.Errorf("%s: %v, want the minimum in the message", text, err)
		}
	}
	spec, err := Parse("100ms")
	if err != nil {
		t.Fatal(err)
	}
	now := utc(t, "2026-06-01T00:00:00Z")
	if next, _ := spec.Next(now); next.Sub(now) != 100*time.Millisecond {
		t.Errorf("100ms fires after %v", next.Sub(now))
	}
}

// Jitter spreads a thousand hourly schedules over its minute; a restart
// changes nothing, and the scheduled time stays nominal.
func TestB078JitterSpreadsTheHerd(t *testing.T) {
	hour := utc(t, "2026-06-01T12:00:00Z")
	perSecond := map[int]int{}
	for i := range 1000 {
		s := Schedule{ID: ID("job-" + itoa(i)), Expression: "@hourly", Jitter: time.Minute}
		c := compile(t, s)
		next, _ := c.First(hour.Add(-time.Minute))
		due := c.NotBefore(next)
		if !next.Equal(hour) || !compile(t, s).NotBefore(next).Equal(due) {
			t.Fatalf("%s: %v due %v", s.ID, next, due)
		}
		perSecond[int(due.Sub(hour)/time.Second)]++
	}
	for second := range 60 {
		if n := perSecond[second]; n == 0 || n > 50 {
			t.Errorf("%d of 1000 are due in second %d", n, second)
		}
	}
}

// A weekly interval fires in a service that restarts every day.
func TestB082AWeeklyIntervalSurvivesDailyRestarts(t *testing.T) {
	created := utc(t, "2026-06-01T10:00:00Z")
	got := claims(t, Schedule{Expression: "1w"}, created, every(created, 24*time.Hour, 30)...)
	if len(got) != 4 {
		t.Errorf("pushed %v, want 4 in 30 days", got)
	}
}

// A claim that is five seconds late still fires, under its nominal time.
func TestB086LateIsNotMissed(t *testing.T) {
	created := utc(t, "2026-06-01T10:00:00Z")
	got := claims(t, Schedule{Expression: "1m"}, created, created.Add(65*time.Second))
	if len(got) != 1 || !got[0].Equal(created.Add(time.Minute)) {
		t.Errorf("pushed %v", got)
	}
}

// With missed: skip, a resume fires nothing that passed; the next push is at
// the next regular time.
func TestB090ResumeWithSkipCatchesNothingUp(t *testing.T) {
	paused := utc(t, "2026-06-01T10:00:01Z")
	c := compile(t, Schedule{Expression: "*/5 * * * * *", Missed: MissedSkip})
	resumed := paused.Add(20 * time.Second)
	pending, _ := c.Next(paused)
	p := PlanResume(c, pending, resumed, ResumeOptions{})
	if want := utc(t, "2026-06-01T10:00:25Z"); !p.Next.Equal(want) {
		t.Errorf("next = %v, want %v", p.Next, want)
	}
	if r := p.Superseded; r == nil || r.Verdict != VerdictPaused || r.Count != 4 || !r.First.Equal(pending) {
		t.Errorf("range = %+v, want the four that passed", p.Superseded)
	}
}

// The next time follows from the nominal one, not from the clock of a host.
func TestB096NextFollowsFromTheNominalTime(t *testing.T) {
	at := utc(t, "2026-06-01T10:00:00Z")
	p := Plan(compile(t, Schedule{Expression: "*/10 * * * *"}), PlanInput{ScheduledAt: at, Now: at.Add(time.Hour), Again: true})
	if want := at.Add(10 * time.Minute); !p.Push || !p.Next.Equal(want) {
		t.Errorf("Plan = %+v, want a push and next %v", p, want)
	}
}

// A day of one-minute firings, each claimed up to 0.9 s late, does not drift.
func TestB104NoDrift(t *testing.T) {
	start := utc(t, "2026-06-01T00:00:00Z")
	var looks []time.Time
	for i, at := range every(start, time.Minute, 24*60) {
		looks = append(looks, at.Add(time.Duration(i*37%900)*time.Millisecond))
	}
	got := claims(t, Schedule{Expression: "60s"}, start, looks...)
	if len(got) != 1440 || !got[1439].Equal(start.Add(24*time.Hour)) {
		t.Errorf("%d pushes, the last %v", len(got), got[len(got)-1])
	}
}

// Payloads come back byte for byte, or are refused with their size.
func TestB106PayloadsAreExactOrRefused(t *testing.T) {
	for _, payload := range [][]byte{bytes.Repeat([]byte("x"), 64<<10), {0, 1, 2}, []byte("\xff\xfe"), bytes.Repeat([]byte{0}, MaxPayload), []byte(`{"n": 9007199254740993}`)} {
		s := sound()
		s.Payload = payload
		if err := s.Validate(); err != nil {
			t.Errorf("%d bytes: %v", len(payload), err)
		}
		if back := decode(t, string(encode(t, s))); !bytes.Equal(back.Payload, payload) {
			t.Errorf("%d bytes starting %q came back as %d bytes", len(payload), payload[:3], len(back.Payload))
		}
	}
	s := sound()
	s.Payload = make([]byte, 1<<20)
	var field *FieldError
	if err := s.Validate(); !errors.As(err, &field) || field.Field != "payload" || field.Value != "1048576 bytes" {
		t.Errorf("1 MiB: %v, want it refused with its size", err)
	}
}

// A one-shot that is not in the future gets the same refusal on each try.
func TestB112PastOneShotsAreRefusedEachTime(t *testing.T) {
	now := utc(t, "2026-06-01T10:00:00Z")
	for _, at := range []time.Time{now.Add(-time.Second), now} {
		c := compile(t, Schedule{Expression: "once:" + formatInstant(at)})
		var texts []string
		for range 3 {
			all := fieldErrors(t, c.CheckCreate(now))
			if len(all) != 1 || all[0].Field != "expression" {
				t.Fatalf("%v: %v, want it refused", at, all)
			}
			texts = append(texts, all[0].Error())
		}
		if texts[0] != texts[1] || texts[1] != texts[2] {
			t.Errorf("%v: %q", at, texts)
		}
	}
}

// An edit of a paused schedule says where it goes on, and nothing un-pauses it.
func TestB087AnEditOfAPausedScheduleKeepsItPaused(t *testing.T) {
	now := utc(t, "2026-06-01T10:00:30Z")
	edited := Schedule{Expression: "0 12 * * *", Paused: true}
	c := compile(t, edited)
	p := PlanPut(compile(t, Schedule{Expression: "* * * * *", Paused: true}), utc(t, "2026-06-01T10:01:00Z"), c, now)
	if want := utc(t, "2026-06-01T12:00:00Z"); !p.Next.Equal(want) || !c.Definition().Paused {
		t.Errorf("PlanPut = %+v, paused %v, want the new rule and still paused", p, c.Definition().Paused)
	}
}
