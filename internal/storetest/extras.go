package storetest

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var extraCases = []testCase{
	{"a trigger without payload and scheduled time carries nothing", extraNone},
	{"a payload stays with the firing through re-drive, run, retry and hand-back", extraStays},
	{"a payload of any bytes and a scheduled time alone are kept", extraAnyBytes},
	{"an empty payload is one, no payload is none", extraEmpty},
	{"a payload comes out of the buffer with its firing, also when that is told twice", extraBuffered},
	{"a payload stays when its schedule is edited and moved to another queue", extraEdited},
	{"a payload is gone when its firing is settled, or its schedule removed", extraGone},
	{"a scheduled time that a trigger stands for gets no verdict", extraNoVerdict},
	{"a repeated request with other content is told so, and the first one stands", extraDiffers},
	{"an audit hands out many payloads little by little", extraMany},
	{"options of a trigger that are not allowed open nothing", extraRefused},
}

func (e *env) carries(id claim.FiringID, got *claim.Extra, payload string, at time.Time) {
	e.Helper()
	if got == nil || string(got.Payload) != payload || !got.ScheduledAt.Equal(at) {
		e.Fatalf("%s carries %+v, want %.60q and %s", id, got, payload, at)
	}
}

// looked returns the record of a firing, which must be open.
func (e *env) looked(id claim.FiringID) claim.OpenFiring {
	e.Helper()
	found, _, err := e.Firings.Firings(e.Context(), []claim.FiringID{id})
	e.must("Firings", err)
	f, ok := found[id]
	if !ok {
		e.Fatalf("%s is not open", id)
	}
	return f
}

// past is a time that no schedule of these tests fires at.
var past = Epoch.Add(-90*time.Minute + 7*time.Millisecond)

func payloadAt(payload string, at time.Time) schedule.TriggerOptions {
	return schedule.TriggerOptions{RequestID: "r", Payload: []byte(payload), ScheduledAt: at}
}

func extraNone(e *env) {
	e.put(every("a", func(s *schedule.Schedule) { s.Payload = []byte("7") }))
	id := claim.FiringID(e.trigger("a", schedule.TriggerOptions{}).FiringID)
	if f := e.audited(id); f.Extra != nil {
		e.Errorf("it carries %+v", f.Extra)
	}
	e.advance(period)
	if f := e.looked(e.fire()); f.Extra != nil {
		e.Errorf("a scheduled firing carries %+v", f.Extra)
	}
}

func extraStays(e *env) {
	e.put(every("a"))
	id := claim.FiringID(e.trigger("a", payloadAt(`{"n":1}`, past)).FiringID)
	found := e.audited(id)
	e.carries(id, found.Extra, `{"n":1}`, past)
	e.must("Mark", e.Ledger.Mark(e.Context(), auditTime, []claim.FiringID{id}))
	e.carries(id, e.looked(id).Extra, `{"n":1}`, past)
	want(e, "Redrive", e.redrive(id, 0, 0).Answer, claim.RedriveOK)
	e.advance(time.Minute)
	e.carries(id, e.audited(id).Extra, `{"n":1}`, past)
	run := e.runs(id, "one")
	want(e, "pulse", e.pulse(run), claim.PulseOK)
	e.carries(id, e.looked(id).Extra, `{"n":1}`, past)
	e.finishes(run, claim.OutcomeRetrying, claim.FinishOK)
	e.carries(id, e.looked(id).Extra, `{"n":1}`, past)
	run = e.runs(id, "two")
	want(e, "hand-back", e.finish(claim.FinishRequest{Run: run, HandBack: true, Outcome: claim.OutcomeRetrying}).Answer, claim.FinishOK)
	e.carries(id, e.audited(id).Extra, `{"n":1}`, past)
	e.runToEnd(id, claim.OutcomeSucceeded)
}

func extraAnyBytes(e *env) {
	e.put(every("a"))
	odd := "|\x00,\xff\r\n|-1|7|" + strings.Repeat("|", 50)
	longest := strings.Repeat("p|", schedule.MaxTriggerPayload/2)
	for i, payload := range []string{odd, longest} {
		options := schedule.TriggerOptions{RequestID: fmt.Sprint("r", i), Payload: []byte(payload)}
		id := claim.FiringID(e.trigger("a", options).FiringID)
		e.carries(id, e.audited(id).Extra, payload, time.Time{})
		e.runToEnd(id, claim.OutcomeSucceeded)
	}
	at := past.Add(300 * time.Microsecond)
	id := claim.FiringID(e.trigger("a", schedule.TriggerOptions{ScheduledAt: at}).FiringID)
	f := e.audited(id)
	e.carries(id, f.Extra, "", past)
	want(e, "payload is the definition's", f.Extra.Payload == nil, true)
}

func extraEmpty(e *env) {
	e.put(every("a", func(s *schedule.Schedule) { s.Payload = []byte("7") }))
	id := claim.FiringID(e.trigger("a", schedule.TriggerOptions{Payload: []byte{}}).FiringID)
	f := e.audited(id)
	e.carries(id, f.Extra, "", time.Time{})
	want(e, "payload is the definition's", f.Extra.Payload == nil, false)
}

func extraBuffered(e *env) {
	e.put(every("a", overlap(schedule.OverlapBufferOne)))
	open := e.fireNext()
	options := payloadAt("later", past)
	options.ObeyOverlap = true
	got := e.trigger("a", options)
	want(e, "Buffered", got.Buffered, true)
	id := claim.FiringID(got.FiringID)
	run := e.runs(open, "first")
	for _, answer := range []claim.FinishAnswer{claim.FinishOK, claim.FinishAlready} {
		e.finishes(run, claim.OutcomeSucceeded, answer)
		e.released(id)
		e.carries(id, e.rest[0].Extra, "later", past)
	}
	e.advance(auditTime)
	e.carries(id, e.audited(id).Extra, "later", past)
	e.runToEnd(id, claim.OutcomeSucceeded)
}

func extraEdited(e *env) {
	e.put(every("a"))
	id := claim.FiringID(e.trigger("a", payloadAt("mine", past)).FiringID)
	e.put(every("a", func(s *schedule.Schedule) { s.Queue, s.Payload = "other", []byte("theirs") }))
	f := e.audited(id)
	want(e, "queue", f.Queue, schedule.DefaultQueue)
	e.carries(id, f.Extra, "mine", past)
}

func extraGone(e *env) {
	put := e.put(every("a"))
	for i, end := range []func(claim.FiringID){
		func(id claim.FiringID) { e.runToEnd(id, claim.OutcomeSucceeded) },
		func(id claim.FiringID) {
			want(e, "Settle", e.settle(claim.SettleRequest{Firing: id, Outcome: claim.OutcomeLost}).Answer, claim.RedriveOK)
		},
		func(claim.FiringID) { e.remove("a"); put = e.put(every("a")) },
	} {
		options := payloadAt("once", past)
		options.RequestID = fmt.Sprint("r", i)
		id := claim.FiringID(e.trigger("a", options).FiringID)
		end(id)
		found, _, err := e.Firings.Firings(e.Context(), []claim.FiringID{id, claim.ManualFiring("a", put.Generation, options.RequestID)})
		e.must("Firings", err)
		for id, f := range found {
			if f.Position != claim.PositionGone { // the auditor drops what was of a deleted schedule
				e.Errorf("end %d: %s is open and carries %+v", i, id, f.Extra)
			}
		}
		if again := e.trigger("a", schedule.TriggerOptions{RequestID: fmt.Sprint("n", i)}); e.looked(claim.FiringID(again.FiringID)).Extra != nil {
			e.Errorf("end %d: another trigger carries the payload", i)
		}
	}
	for _, f := range e.audit() {
		if f.Position == claim.PositionGone {
			e.settle(claim.SettleRequest{Firing: f.Firing, Token: f.Token, Outcome: claim.OutcomeCancelled})
		}
	}
}

func extraNoVerdict(e *env) {
	e.put(every("a"))
	e.fireNext()
	before := e.status("a")
	for i, at := range []time.Time{slot(1), slot(2), slot(3), past} {
		options := payloadAt("x", at)
		options.RequestID = fmt.Sprint("r", i)
		id := claim.FiringID(e.trigger("a", options).FiringID)
		e.runToEnd(id, claim.OutcomeSucceeded)
	}
	after := e.status("a")
	wantTime(e, "NextAt", after.NextAt, before.NextAt)
	want(e, "Fired", after.Fired, before.Fired)
	e.verdicts("a", before.Verdicts...)
	e.fireNext() // number 2 fires all the same
}

func extraDiffers(e *env) {
	e.put(every("a"))
	first := e.trigger("a", payloadAt("one", past))
	id := claim.FiringID(first.FiringID)
	others := []schedule.TriggerOptions{payloadAt("two", past), payloadAt("one", slot(1)), payloadAt("", past),
		{RequestID: "r"}, {RequestID: "r", ScheduledAt: past}}
	ask := func(when string) {
		again := e.trigger("a", payloadAt("one", past))
		want(e, "Duplicate "+when, again.Duplicate, true)
		want(e, "Differs of the same "+when, again.Differs, false)
		for i, other := range others {
			got := e.trigger("a", other)
			want(e, fmt.Sprintf("Duplicate of %d %s", i, when), got.Duplicate, true)
			want(e, fmt.Sprintf("Differs of %d %s", i, when), got.Differs, true)
		}
	}
	ask("while it is open")
	e.carries(id, e.audited(id).Extra, "one", past)
	e.runToEnd(id, claim.OutcomeSucceeded)
	ask("when it was settled")
	want(e, "Open", e.status("a").Open, 0)
	e.advance(24*time.Hour + time.Millisecond)
	want(e, "Duplicate after a day", e.trigger("a", others[0]).Duplicate, false)
	want(e, "Differs without a payload, of none", e.trigger("a", schedule.TriggerOptions{RequestID: "n"}).Differs, false)
	want(e, "Differs without a payload, of none", e.trigger("a", schedule.TriggerOptions{RequestID: "n"}).Differs, false)
}

func extraMany(e *env) {
	const most = 20 // more than a reply holds
	e.put(every("a"))
	payload := bytes.Repeat([]byte("m"), schedule.MaxTriggerPayload)
	for range most {
		e.trigger("a", schedule.TriggerOptions{Payload: payload})
	}
	first := e.audit()
	if len(first) == 0 || len(first) == most {
		e.Errorf("the first audit hands out %d of %d", len(first), most)
	}
	e.advance(100 * time.Millisecond)
	second := e.audit()
	want(e, "firings of two audits", len(first)+len(second), most)
	for id, f := range second {
		e.carries(id, f.Extra, string(payload), time.Time{})
		if _, twice := first[id]; twice {
			e.Errorf("%s was handed out twice", id)
		}
	}
}

func extraRefused(e *env) {
	e.put(every("a"))
	for field, options := range map[string]schedule.TriggerOptions{
		"payload":      {Payload: make([]byte, schedule.MaxTriggerPayload+1)},
		"scheduled_at": {ScheduledAt: time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC)},
		"overlap":      {Overlap: "sometimes"},
	} {
		_, err := e.Catalog.Trigger(e.Context(), "a", options)
		wantField(e, "Trigger with a bad "+field, err, field)
	}
	_, err := e.Catalog.Trigger(e.Context(), "a", schedule.TriggerOptions{ObeyOverlap: true, Overlap: schedule.OverlapSkip})
	wantField(e, "Trigger with two policies", err, "overlap")
	want(e, "Open", e.status("a").Open, 0)
}
