package storetest

import (
	"errors"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var putCases = []testCase{
	{"an equal definition changes nothing, not even a claim", putUnchanged},
	{"a definition that is refused changes nothing", putRefused},
	{"a version that is not stored is a conflict", putVersion},
	{"a request ID takes effect once", putRequest},
	{"a request ID that was used does not bring a deleted schedule back", putRequestDeleted},
	{"a dry run says what would happen and does nothing", putDryRun},
	{"put many answers one by one, in order", putMany},
	{"an edit that keeps the spec keeps the pending time, counters and history", putKeepsSpec},
	{"an edit of the spec supersedes what was due and not claimed", putSupersedes},
	{"an edit of the spec replaces a pending time that is not due", putReplaces},
	{"put never resumes a paused schedule", putPaused},
	{"a schedule can be created paused", putCreatedPaused},
	{"an edit with a time left brings a completed schedule back", putCompleted},
	{"a one-shot that is past is refused when created", putPast},
	{"put many takes as many as there are", putVeryMany},
}

func (e *env) putWith(s schedule.Schedule, options schedule.PutOptions) (schedule.PutResult, error) {
	return e.Catalog.Put(e.Context(), s, options)
}

func putUnchanged(e *env) {
	first := e.put(every("a"))
	want(e, "Unchanged of a creation", first.Unchanged, false)
	e.advance(period)
	c := e.claimOne(claim.ClaimFire)
	same := every("a")
	same.Queue, same.Overlap, same.Missed = schedule.DefaultQueue, schedule.OverlapAllow, schedule.MissedLatest // the defaults, spelt out
	again := e.put(same)
	want(e, "Unchanged", again.Unchanged, true)
	want(e, "Created", again.Created, false)
	want(e, "Version", again.Version, first.Version)
	want(e, "Generation", again.Generation, first.Generation)
	want(e, "Renew of the claim", e.renew(c), true)
	e.completes(enqueued(c), claim.CompleteOK)
	wantTime(e, "UpdatedAt", e.status("a").UpdatedAt, Epoch)
}

func putRefused(e *env) {
	e.put(every("a"))
	bad := every("a", func(s *schedule.Schedule) { s.Queue = "no spaces allowed" })
	_, err := e.putWith(bad, schedule.PutOptions{})
	wantField(e, "Put", err, "queue")
	bad = every("b", func(s *schedule.Schedule) { s.Specs[0].Every = -time.Second })
	if _, err = e.putWith(bad, schedule.PutOptions{}); err == nil {
		e.Error("Put of a negative interval succeeded")
	}
	_, err = e.putWith(every("b"), schedule.PutOptions{RequestID: "not one"})
	wantField(e, "Put", err, "request_id")
	_, err = e.Catalog.Get(e.Context(), "b")
	wantNotFound(e, "Get", err)
	want(e, "Version", e.status("a").Version, 1)
}

func putVersion(e *env) {
	version := func(n int64) schedule.PutOptions { return schedule.PutOptions{IfVersion: &n} }
	conflict := func(s schedule.Schedule, n int64) {
		e.Helper()
		if _, err := e.putWith(s, version(n)); !errors.Is(err, schedule.ErrConflict) {
			e.Errorf("Put if version %d: %v, want ErrConflict", n, err)
		}
	}
	conflict(every("a"), 1)
	_, err := e.putWith(every("a"), version(0))
	e.must("Put if absent", err)
	changed := every("a", func(s *schedule.Schedule) { s.Description = "changed" })
	conflict(changed, 0)
	conflict(changed, 2)
	conflict(every("a"), 7) // equal, but the caller has not seen it
	got, err := e.putWith(changed, version(1))
	e.must("Put if version 1", err)
	want(e, "Version", got.Version, 2)
	conflict(every("a"), 1)
	entry, err := e.Catalog.Get(e.Context(), "a")
	e.must("Get", err)
	want(e, "Description", entry.Schedule.Description, "changed")
	want(e, "Version", entry.Status.Version, 2)
}

func putRequest(e *env) {
	described := func(text string) schedule.Schedule {
		return every("a", func(s *schedule.Schedule) { s.Description = text })
	}
	first, err := e.putWith(described("one"), schedule.PutOptions{RequestID: "r1"})
	e.must("Put", err)
	again, err := e.putWith(described("one"), schedule.PutOptions{RequestID: "r1"})
	e.must("Put again", err)
	want(e, "Version", again.Version, first.Version)
	want(e, "Generation", again.Generation, first.Generation)
	e.put(described("two"))
	_, err = e.putWith(described("one"), schedule.PutOptions{RequestID: "r1"}) // delayed
	e.must("Put, delayed", err)
	entry, err := e.Catalog.Get(e.Context(), "a")
	e.must("Get", err)
	want(e, "Description", entry.Schedule.Description, "two")
	e.advance(24*time.Hour + time.Millisecond)
	_, err = e.putWith(described("three"), schedule.PutOptions{RequestID: "r1"})
	e.must("Put a day later", err)
	want(e, "Version a day later", e.status("a").Version, 3)
	_, err = e.putWith(every("b"), schedule.PutOptions{RequestID: "r1"})
	e.must("Put of another schedule", err)
	want(e, "Version of another schedule", e.status("b").Version, 1)
}

func putRequestDeleted(e *env) {
	_, err := e.putWith(every("a"), schedule.PutOptions{RequestID: "r1"})
	e.must("Put", err)
	e.remove("a")
	_, err = e.putWith(every("a"), schedule.PutOptions{RequestID: "r1"})
	e.must("Put, delayed", err)
	_, err = e.Catalog.Get(e.Context(), "a")
	wantNotFound(e, "Get", err)
}

func putDryRun(e *env) {
	got, err := e.putWith(every("a"), schedule.PutOptions{DryRun: true})
	e.must("Put", err)
	want(e, "Created", got.Created, true)
	wantTime(e, "NextAt", got.NextAt, slot(1))
	_, err = e.Catalog.Get(e.Context(), "a")
	wantNotFound(e, "Get after a dry run", err)
	e.put(every("a"))
	changed := every("a", func(s *schedule.Schedule) { s.Specs[0].Every = time.Hour })
	got, err = e.putWith(changed, schedule.PutOptions{DryRun: true})
	e.must("Put", err)
	want(e, "Created of an edit", got.Created, false)
	want(e, "Unchanged of an edit", got.Unchanged, false)
	wantTime(e, "NextAt of an edit", got.NextAt, Epoch.Add(time.Hour))
	got, err = e.putWith(every("a"), schedule.PutOptions{DryRun: true})
	e.must("Put", err)
	want(e, "Unchanged", got.Unchanged, true)
	status := e.status("a")
	want(e, "Version", status.Version, 1)
	wantTime(e, "NextAt", status.NextAt, slot(1))
}

func putMany(e *env) {
	e.put(every("same"))
	definitions := []schedule.Schedule{every("new"), every("bad", func(s *schedule.Schedule) { s.Queue = "?" }), every("same")}
	got, err := e.Catalog.PutMany(e.Context(), definitions, schedule.PutOptions{RequestID: "r"})
	e.must("PutMany", err)
	want(e, "results", len(got), 3)
	want(e, "Created of new", got[0].Created, true)
	wantTime(e, "NextAt of new", got[0].NextAt, slot(1))
	wantField(e, "result of bad", got[1].Err, "queue")
	want(e, "Unchanged of same", got[2].Unchanged, true)
	for _, i := range []int{0, 2} {
		if got[i].Err != nil {
			e.Errorf("result %d: %v", i, got[i].Err)
		}
	}
	_, err = e.Catalog.Get(e.Context(), "bad")
	wantNotFound(e, "Get", err)
	got, err = e.Catalog.PutMany(e.Context(), nil, schedule.PutOptions{})
	e.must("PutMany of nothing", err)
	want(e, "results for nothing", len(got), 0)
}

func putKeepsSpec(e *env) {
	e.put(every("a"))
	e.runToEnd(e.fireNext(), claim.OutcomeFailed)
	before := e.status("a")
	e.advance(3 * period) // due, not claimed
	got := e.put(every("a", func(s *schedule.Schedule) { s.Queue = "other" }))
	want(e, "Version", got.Version, 2)
	want(e, "Generation", got.Generation, before.Generation)
	wantTime(e, "NextAt", got.NextAt, before.NextAt)
	status := e.status("a")
	want(e, "Fired", status.Fired, 1)
	want(e, "RunCount", status.RunCount, 1)
	want(e, "ConsecutiveFails", status.ConsecutiveFails, 1)
	e.verdicts("a", span(1, 0, 1, 1))
	c := e.claimOne(claim.ClaimFire)
	want(e, "Version of the claim", c.Version, 2)
	wantTime(e, "ScheduledAt", c.ScheduledAt, slot(2))
}

func putSupersedes(e *env) {
	e.put(every("a"))
	e.advance(3*period + 5*time.Second)
	got := e.put(every("a", func(s *schedule.Schedule) { s.Specs[0].Every = time.Minute }))
	wantTime(e, "NextAt", got.NextAt, Epoch.Add(time.Minute))
	e.verdicts("a", span(schedule.VerdictSuperseded, 0, 1, 3))
	e.none("before the new time")
	want(e, "Fired", e.status("a").Fired, 0)
}

func putReplaces(e *env) {
	e.put(every("a", func(s *schedule.Schedule) { s.Specs[0].Every = time.Hour }))
	got := e.put(every("a"))
	wantTime(e, "NextAt", got.NextAt, slot(1))
	want(e, "verdict ranges", len(e.status("a").Verdicts), 0)
	e.fireNext()
}

func putPaused(e *env) {
	e.put(every("a"))
	e.pause("a", schedule.PauseOptions{By: "ops", Reason: "why"})
	e.put(every("a", func(s *schedule.Schedule) { s.Description = "changed" }))
	e.put(every("a", func(s *schedule.Schedule) { s.Specs[0].Every = time.Minute }))
	status := e.status("a")
	want(e, "State", status.State, schedule.StatePaused)
	want(e, "PausedBy", status.PausedBy, "ops")
	e.advance(time.Hour)
	e.none("while paused")
}

func putCreatedPaused(e *env) {
	e.put(every("a", func(s *schedule.Schedule) { s.Paused = true }))
	want(e, "State", e.status("a").State, schedule.StatePaused)
	e.advance(time.Hour)
	e.none("of a schedule created paused")
	e.put(every("a")) // Paused false never un-pauses
	want(e, "State after a put without Paused", e.status("a").State, schedule.StatePaused)
	e.resume("a")
	want(e, "State after Resume", e.status("a").State, schedule.StateActive)
	e.claimOne(claim.ClaimFire)
}

func putCompleted(e *env) {
	e.put(every("a"))
	e.advance(period)
	e.fireLast()
	want(e, "State", e.status("a").State, schedule.StateCompleted)
	got := e.put(every("a", func(s *schedule.Schedule) { s.Specs[0].Every = 30 * time.Second }))
	wantTime(e, "NextAt", got.NextAt, Epoch.Add(30*time.Second))
	want(e, "State", e.status("a").State, schedule.StateActive)
	e.advance(30 * time.Second)
	e.claimOne(claim.ClaimFire)
}

func putPast(e *env) {
	once := schedule.Schedule{ID: "a", Type: "t", Specs: []schedule.SpecDefinition{{At: []string{"2029-12-31T23:59:59Z"}}}}
	if _, err := e.putWith(once, schedule.PutOptions{}); err == nil {
		e.Error("Put of a past one-shot succeeded")
	}
	_, err := e.Catalog.Get(e.Context(), "a")
	wantNotFound(e, "Get", err)
	once.Specs[0].At = []string{"2030-01-01T00:00:10Z"}
	wantTime(e, "NextAt", e.put(once).NextAt, slot(1))
}

func putVeryMany(e *env) {
	const n = 1200
	definitions := make([]schedule.Schedule, n)
	for i := range definitions {
		definitions[i] = every(numbered(i))
	}
	got, err := e.Catalog.PutMany(e.Context(), definitions, schedule.PutOptions{})
	e.must("PutMany", err)
	want(e, "results", len(got), n)
	for i, result := range got {
		if result.Err != nil || !result.Created {
			e.Fatalf("result %d = %+v, want a creation", i, result)
		}
	}
	stats, err := e.Catalog.Stats(e.Context())
	e.must("Stats", err)
	want(e, "Total", stats.Total, n)
}
