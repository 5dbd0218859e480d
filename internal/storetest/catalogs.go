package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var catalogCases = []testCase{
	{"what was put is what get returns", catalogRoundTrip},
	{"payloads keep every byte", catalogBytes},
	{"IDs and labels may hold every allowed character", catalogCharacters},
	{"get many leaves out what it does not find", catalogGetMany},
	{"a schedule deleted and created again is another generation", catalogRecreate},
	{"removing another generation removes nothing", catalogRemoveGeneration},
	{"remove settles everything that is open", catalogRemoveOpen},
	{"stats sum up the namespace", catalogStats},
	{"stats know the next schedule and how late the oldest is", catalogStatsNext},
}

// wantField wants a *FieldError for the field.
func wantField(e *env, what string, err error, field string) {
	e.Helper()
	var refused *schedule.FieldError
	if !errors.As(err, &refused) || refused.Field != field {
		e.Errorf("%s: error %v, want a FieldError for %q", what, err, field)
	}
}

func catalogRoundTrip(e *env) {
	retries := 7
	s := schedule.Schedule{ID: "nightly-report", Description: "täglich, \"quoted\" | ,:", Expression: "0 2 * * *", Timezone: "Europe/Berlin",
		Labels: map[string]string{"team": "billing", "env": "prod"}, Metadata: []byte(`{"a":[1,null]}`),
		Starts: Epoch, Ends: Epoch.AddDate(1, 0, 0), Limit: 10, Jitter: 30 * time.Second, Type: "report:build", Queue: "reports",
		Payload: []byte(`{"x":1}`), Headers: map[string]string{"k": "v"}, MaxRetry: &retries, Timeout: time.Minute,
		Retention: time.Hour, Missed: schedule.MissedAll, CatchUp: 24 * time.Hour, Overlap: schedule.OverlapBufferAll, BufferLimit: 5,
		Effect: schedule.AtMostOnce, Priority: -3, MaxFailures: 4, CoolDown: time.Hour}
	put := e.put(s)
	want(e, "Created", put.Created, true)
	want(e, "Version", put.Version, 1)
	want(e, "Generation is positive", put.Generation > 0, true)
	wantTime(e, "NextAt", put.NextAt, time.Date(2030, 1, 1, 1, 0, 0, 0, time.UTC))
	entry, err := e.Catalog.Get(e.Context(), s.ID)
	e.must("Get", err)
	if entry.Invalid != nil {
		e.Errorf("Invalid = %v", entry.Invalid)
	}
	s.Normalize()
	want(e, "definition", text(e, entry.Schedule), text(e, s))
	status := entry.Status
	want(e, "State", status.State, schedule.StateActive)
	want(e, "Version", status.Version, 1)
	want(e, "Generation", status.Generation, put.Generation)
	wantTime(e, "NextAt", status.NextAt, put.NextAt)
	wantTime(e, "CreatedAt", status.CreatedAt, Epoch)
	wantTime(e, "UpdatedAt", status.UpdatedAt, Epoch)
	want(e, "LastStatus", status.LastStatus, schedule.LastNone)
	want(e, "LastRunAt is zero", status.LastRunAt.IsZero(), true)
	want(e, "RunCount", status.RunCount, 0)
	e.advance(time.Minute)
	s.Description = "changed"
	e.put(s)
	status = e.status(s.ID)
	wantTime(e, "CreatedAt after an edit", status.CreatedAt, Epoch)
	wantTime(e, "UpdatedAt after an edit", status.UpdatedAt, e.Now())
}

// text renders a definition so that two can be compared: Go's %+v shows
// pointers, so those are followed here.
func text(e *env, s schedule.Schedule) string {
	e.Helper()
	retries := "default"
	if s.MaxRetry != nil {
		retries = fmt.Sprint(*s.MaxRetry)
	}
	s.MaxRetry = nil
	s.Starts, s.Ends = s.Starts.UTC(), s.Ends.UTC()
	return fmt.Sprintf("%+v retries %s", s, retries)
}

func catalogBytes(e *env) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	payloads := map[schedule.ID][]byte{
		"bytes": all,
		"large": bytes.Repeat(all, schedule.MaxPayload/len(all)),
		"text":  []byte("null"),
		"zero":  {0},
		"html":  []byte(`{"a":"<b>&amp;\u2028</b>"}`), // in both spellings: handlers get what was put
		"html2": []byte(`{"a":"\u003cb\u003e\u0026amp;\u003c/b\u003e"}`),
	}
	for id, payload := range payloads {
		e.put(every(id, func(s *schedule.Schedule) { s.Payload = payload }))
		entry, err := e.Catalog.Get(e.Context(), id)
		e.must("Get", err)
		if !bytes.Equal(entry.Schedule.Payload, payload) {
			e.Errorf("payload of %s: %d bytes came back, %d were put, or they differ", id, len(entry.Schedule.Payload), len(payload))
		}
		again, err := e.Catalog.Put(e.Context(), entry.Schedule, schedule.PutOptions{})
		e.must("Put again", err)
		if !again.Unchanged {
			e.Errorf("payload of %s: putting what was read is a change", id)
		}
	}
}

func catalogCharacters(e *env) {
	ids := []schedule.ID{"a", "Z9", "0", "with.dot_under-hyphen", "0123456789._-", schedule.ID(strings.Repeat("x", 128)),
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", "9-", "a--", "a.."}
	for _, id := range ids {
		e.put(every(id, func(s *schedule.Schedule) { s.Labels = map[string]string{"id": string(id)[:1]} }))
	}
	e.advance(period)
	fired := map[schedule.ID]bool{}
	for _, c := range e.claim() {
		e.completes(enqueued(c), claim.CompleteOK)
		e.runToEnd(c.Firing(), claim.OutcomeSucceeded)
		fired[c.Schedule] = true
	}
	for _, id := range ids {
		want(e, "fired "+string(id), fired[id], true)
		want(e, "Remove of "+string(id), e.remove(id), true)
	}
	for _, id := range []schedule.ID{"", "-a", ".a", "a b", "a:b", "a,b", "a|b", "a\x01b", "ä", schedule.ID(strings.Repeat("x", 129))} {
		_, err := e.Catalog.Put(e.Context(), every(id), schedule.PutOptions{})
		wantField(e, "Put of ID "+string(id), err, "id")
	}
}

func catalogGetMany(e *env) {
	e.put(every("a"))
	e.put(every("b"))
	got, err := e.Catalog.GetMany(e.Context(), []schedule.ID{"b", "nobody", "a"})
	e.must("GetMany", err)
	if len(got) != 2 || got["a"].Schedule.ID != "a" || got["b"].Schedule.ID != "b" {
		e.Errorf("GetMany = %+v, want a and b", got)
	}
	got, err = e.Catalog.GetMany(e.Context(), nil)
	e.must("GetMany of nothing", err)
	want(e, "entries for no IDs", len(got), 0)
}

func catalogRecreate(e *env) {
	first := e.put(every("a"))
	want(e, "Remove", e.remove("a"), true)
	want(e, "Remove again", e.remove("a"), false)
	second := e.put(every("a"))
	want(e, "Created", second.Created, true)
	want(e, "Version", second.Version, 1)
	if second.Generation <= first.Generation {
		e.Errorf("generation %d after %d, want a larger one", second.Generation, first.Generation)
	}
	status := e.status("a")
	want(e, "Fired", status.Fired, 0)
	want(e, "verdict ranges", len(status.Verdicts), 0)
}

func catalogRemoveGeneration(e *env) {
	first := e.put(every("a"))
	e.remove("a")
	second := e.put(every("a"))
	try := func(generation int64, wanted bool) {
		existed, err := e.Catalog.Remove(e.Context(), "a", schedule.RemoveOptions{Generation: generation})
		e.must("Remove", err)
		want(e, fmt.Sprintf("Remove of generation %d", generation), existed, wanted)
	}
	try(first.Generation, false) // a delayed duplicate
	want(e, "Generation", e.status("a").Generation, second.Generation)
	try(second.Generation, true)
	try(second.Generation, false)
}

func catalogRemoveOpen(e *env) {
	e.put(every("a", overlap(schedule.OverlapBufferOne)))
	first := e.fireNext()
	run := e.runs(first, "one")
	second := e.buffered()
	manual := claim.FiringID(e.trigger("a", schedule.TriggerOptions{}).FiringID)
	e.retryLater(run)
	e.remove("a")
	e.advance(asleep)
	want(e, "overdue firings", len(e.audit()), 0)
	for _, id := range []claim.FiringID{first, second, manual} {
		e.begins(id, "late", claim.BeginGone)
	}
	e.finishes(run, claim.OutcomeSucceeded, claim.FinishAlready)
	e.none("of a deleted schedule")
	page, err := e.Catalog.List(e.Context(), schedule.ListOptions{})
	e.must("List", err)
	want(e, "listed schedules", len(page.Entries), 0)
	stats, err := e.Catalog.Stats(e.Context())
	e.must("Stats", err)
	want(e, "Open", stats.Open, 0)
	want(e, "Buffered", stats.Buffered, 0)
	want(e, "Total", stats.Total, 0)
}

// retryLater keeps an entry in the run log of a firing that stays open.
func (e *env) retryLater(run claim.Run) {
	e.Helper()
	got := e.finish(claim.FinishRequest{Run: run, Outcome: claim.OutcomeRetrying, Error: "later", KeepRuns: 5})
	want(e, "Finish", got.Answer, claim.FinishOK)
}

func catalogStats(e *env) {
	stats := func() schedule.Stats {
		e.Helper()
		got, err := e.Catalog.Stats(e.Context())
		e.must("Stats", err)
		return got
	}
	empty := stats()
	wantTime(e, "Now", empty.Now, Epoch)
	want(e, "Total of an empty namespace", empty.Total, 0)
	want(e, "NextAt of an empty namespace is zero", empty.NextAt.IsZero(), true)
	e.put(every("active"))
	e.put(every("buffering", overlap(schedule.OverlapBufferOne)))
	e.put(every("fragile", fragile(1, 0)))
	e.put(every("last"))
	e.put(every("paused", func(s *schedule.Schedule) { s.Paused = true }))
	e.advance(period)
	for _, c := range e.claim() {
		switch c.Schedule {
		case "last":
			last := enqueued(c)
			last.Next = time.Time{}
			e.completes(last, claim.CompleteOK)
			e.runToEnd(c.Firing(), claim.OutcomeSucceeded)
		case "fragile":
			e.completes(enqueued(c), claim.CompleteOK)
			e.fail(c.Firing(), claim.FinishDisabled)
		case "buffering":
			e.completes(enqueued(c), claim.CompleteOK)
		}
	}
	e.advance(claimTTL + 3*time.Second) // "active" is due again: its claim ran out
	for _, c := range e.claim() {
		if c.Schedule == "buffering" {
			e.completes(decided(c, claim.DecideOverlap), claim.CompleteOK)
		}
	}
	got := stats()
	want(e, "Total", got.Total, 5)
	want(e, "Active", got.Active, 2)
	want(e, "Paused", got.Paused, 1)
	want(e, "Disabled", got.Disabled, 1)
	want(e, "Completed", got.Completed, 1)
	want(e, "Claimed", got.Claimed, 1)
	want(e, "Due", got.Due, 0)
	want(e, "Open", got.Open, 2)
	want(e, "Buffered", got.Buffered, 1)
}

func catalogStatsNext(e *env) {
	e.put(every("far", func(s *schedule.Schedule) { s.Specs[0].Every = time.Hour }))
	e.put(every("near"))
	e.put(every("paused", func(s *schedule.Schedule) { s.Specs[0].Every = time.Second; s.Paused = true }))
	stats, err := e.Catalog.Stats(e.Context())
	e.must("Stats", err)
	want(e, "NextID", stats.NextID, "near")
	wantTime(e, "NextAt", stats.NextAt, slot(1))
	want(e, "Lateness", stats.Lateness, 0)
	e.advance(period + 4*time.Second)
	stats, err = e.Catalog.Stats(e.Context())
	e.must("Stats", err)
	want(e, "Due", stats.Due, 1)
	want(e, "Lateness", stats.Lateness, 4*time.Second)
	wantTime(e, "Now", stats.Now, e.Now())
	e.claimOne(claim.ClaimFire)
	stats, err = e.Catalog.Stats(e.Context())
	e.must("Stats", err)
	want(e, "NextID while the near one is claimed", stats.NextID, "far")
	want(e, "Due", stats.Due, 0)
	want(e, "Claimed", stats.Claimed, 1)
}
