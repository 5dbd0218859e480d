package admincli

import (
	"fmt"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A contentJSON says what an extra firing has of its own.
type contentJSON struct {
	// The length of the payload; absent: that of the definition is used.
	PayloadBytes *int `json:"payload_bytes,omitempty"`
	// The policy for this firing alone; absent: it runs beside whatever is open,
	// or by the schedule's own policy with --obey-overlap.
	Overlap string `json:"overlap,omitempty"`
	// The scheduled time that it stands for; absent: none.
	StandsFor *standsForJSON `json:"stands_for,omitempty"`
	// With a duplicate: the first call asked for another payload or instant.
	Differs bool `json:"differs,omitempty"`
}

// A standsForJSON is the scheduled time that an extra firing stands for.
type standsForJSON struct {
	At   *string `json:"at"`
	AtMS *int64  `json:"at_ms"`
	// Whether it is a scheduled time of the present definition.
	Scheduled bool `json:"scheduled"`
	// What became of it, as admin schedule why answers.
	Answer string `json:"answer"`
	Text   string `json:"text"`
}

// An instantOf is a scheduled time to stand for, and what is known of it.
type instantOf struct {
	question
	answer answer
}

// options are what the flags ask of the store.
func (f *triggerFlags) options(at *instantOf) schedule.TriggerOptions {
	o := schedule.TriggerOptions{RequestID: f.requestID, ObeyOverlap: f.obey, Overlap: schedule.Overlap(f.overlap), Payload: f.payload}
	if at != nil {
		o.ScheduledAt = at.at
	}
	return o
}

// readContent reads the flags that give the firing something of its own.
func (s *session) readContent(f *triggerFlags) (err error) {
	if f.obey && f.overlap != "" {
		return usageErrorf("--overlap and --obey-overlap exclude each other: --obey-overlap is the schedule's own policy")
	}
	if f.payloadSet {
		if f.payload, err = s.readPayload(f.payloadText, schedule.MaxTriggerPayload); err != nil {
			return err
		}
		if f.payload == nil { // null: no payload, not that of the definition
			f.payload = []byte{}
		}
	}
	return f.options(nil).Validate()
}

// instants finds out what the instant is to each schedule, before anything is
// opened.
func (s *session) instants(f *triggerFlags, entries []schedule.Entry) (map[schedule.ID]*instantOf, error) {
	found := map[schedule.ID]*instantOf{}
	for _, e := range entries {
		q := question{entry: e, r: s.read(e.Schedule), now: s.env.Now(), at: f.at}
		if f.atText != "" {
			at, err := s.askedAt(f.atText, s.location(q.r.zone))
			if err != nil {
				return nil, renamed(err, "at-instant")
			}
			q.at = at.Truncate(time.Millisecond)
		}
		if q.at.IsZero() {
			continue
		}
		if err := (schedule.TriggerOptions{ScheduledAt: q.at}).Validate(); err != nil {
			return nil, renamed(err, "at-instant")
		}
		q.in = s.location(q.r.zoneAt(q.at))
		if err := checkShown(q.at, f.atText, q.in); err != nil {
			return nil, renamed(err, "at-instant")
		}
		if err := s.learn(&q); err != nil {
			return nil, err
		}
		found[e.Schedule.ID] = &instantOf{question: q, answer: q.answer()}
	}
	return found, nil
}

// content describes what the flags give a firing, as data and as lines.
func (f *triggerFlags) content(at *instantOf) (contentJSON, []string) {
	out := contentJSON{Overlap: f.overlap}
	var lines []string
	if f.payload != nil {
		n := len(f.payload)
		out.PayloadBytes = &n
		lines = append(lines, fmt.Sprintf("its payload is %s, instead of the definition's", count(n, "byte")))
	}
	if at != nil {
		out.StandsFor = &standsForJSON{At: iso(at.at, at.in), AtMS: millis(at.at), Scheduled: at.scheduled(), Answer: at.answer.word, Text: at.answer.text}
		what := "a scheduled time"
		if !out.StandsFor.Scheduled {
			what = "no scheduled time of it"
		}
		lines = append(lines, fmt.Sprintf("it stands for %s, %s; %s: %s", when(at.at, at.now, at.in), what,
			strings.ReplaceAll(at.answer.word, "_", " "), at.answer.text))
	}
	if f.overlap != "" {
		lines = append(lines, "its overlap policy is "+f.overlap+", for this firing only")
	}
	return out, lines
}

// duplicateLines say what stands when a request was made before.
func duplicateLines(f *triggerFlags, at *instantOf, differs bool) []string {
	switch {
	case differs:
		return []string{"the first request asked for another payload or instant, and that stands: what was asked for now is dropped"}
	case f.payload != nil || at != nil:
		return []string{"the first request asked for the same payload and instant"}
	}
	return nil
}

// repeatOf finds what a firing carried, so that another can carry the same. The
// notes say what nobody knows any more.
func (s *session) repeatOf(e schedule.Entry, firing claim.Firing) (f *triggerFlags, notes []string, err error) {
	f = &triggerFlags{at: firing.ScheduledAt}
	payload, at, known, err := s.carried(e, firing)
	if err != nil {
		return nil, nil, err
	}
	if f.at.IsZero() {
		f.at = at
	}
	switch {
	case !known && firing.Kind == claim.KindManual:
		notes = []string{"its task is gone, and with it the payload and the instant that its trigger may have given it: it runs with the payload of the definition"}
	case !known:
		notes = []string{"its task is gone: it runs with the payload of the present definition"}
	case len(payload) > schedule.MaxTriggerPayload && string(payload) != string(e.Schedule.Payload):
		return nil, nil, codedErrorf(exitCondition, "firing %q had a payload of %d bytes, an extra firing can carry %d, and that of the definition is another now; to run with that: admin schedule trigger %s",
			string(firing.ID()), len(payload), schedule.MaxTriggerPayload, e.Schedule.ID)
	case string(payload) != string(e.Schedule.Payload):
		f.payload = append([]byte{}, payload...)
	}
	return f, notes, nil
}
