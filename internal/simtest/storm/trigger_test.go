package storm

import (
	"slices"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// noTime is the scheduled time of a trigger that stands for none.
var noTime = time.Time{}.UnixMilli()

// payload is that of every definition.
const payload = "of the definition"

// A content is what a handler gets: a payload and a scheduled time in
// milliseconds. In a trigger "" is the payload of the definition.
type content struct {
	payload string
	at      int64
}

func contentOf(o schedule.TriggerOptions) content {
	return content{string(o.Payload), o.ScheduledAt.UnixMilli()}
}

// trigger is asked for by several clients with one request ID. Most ask for the
// same payload and scheduled time; then the policies differ, and now and then
// the payloads.
func (a *admin) trigger(d *dice, id schedule.ID) {
	options := schedule.TriggerOptions{RequestID: a.request()}
	if d.chance(0.5) {
		options.Payload = []byte("of " + options.RequestID + "|")
	}
	if d.chance(0.5) {
		options.ScheduledAt = epochStart.Add(d.between(-time.Hour, time.Hour).Truncate(time.Millisecond))
	}
	policies := []schedule.Overlap{"", schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapBufferOne,
		schedule.OverlapBufferAll, schedule.OverlapCancelOther}
	for range 2 + d.pick(2) {
		options.Overlap, options.ObeyOverlap = "", d.chance(0.4)
		if !options.ObeyOverlap {
			options.Overlap = policies[d.pick(len(policies))]
		}
		if d.chance(0.15) {
			options.Payload = []byte("other of " + options.RequestID)
		}
		_, _ = a.store.Trigger(a.s.ctx, id, options) // its error is one of the faults
	}
	a.s.happened("trigger")
}

// triggered notes a manual run, and what it was asked to carry.
func (w *witness) triggered(r schedule.TriggerResult, o schedule.TriggerOptions) {
	if r.Duplicate {
		w.sim.count("trigger repeated")
	}
	if r.FiringID == "" || r.Refused {
		return
	}
	t, asked := w.track(claim.FiringID(r.FiringID)), contentOf(o)
	t.manual = true
	if !r.Duplicate {
		t.asked = append(t.asked, asked)
		if o.Overlap == schedule.OverlapCancelOther {
			w.cancelOpen(t)
		}
		return
	}
	same := len(t.asked) > 0 && t.asked[len(t.asked)-1] == asked
	if !same {
		w.sim.count("trigger repeated with other content")
	}
	if same == r.Differs && !w.rolled() {
		w.violate("wrong answer to a repeat", r.FiringID, "differs is %t, first %v, now %v", r.Differs, t.asked, asked)
	}
}

// cancelOpen notes that the trigger asked everything that is open to end.
func (w *witness) cancelOpen(t *track) {
	for _, other := range w.tracks {
		if other != t && other.key.Schedule == t.key.Schedule && other.key.Generation == t.key.Generation && other.outcome == "" {
			other.unwanted = true
		}
	}
	w.sim.count("trigger ended what was open")
}

// judgeContent wants a handler to get what the trigger gave, or else what the
// definition and the firing ID say.
func (w *witness) judgeContent(t *track, got content) {
	allowed := []content{{"", t.key.ScheduledAt.UnixMilli()}}
	if t.manual {
		allowed = slices.Clone(t.asked)
	}
	for i := range allowed {
		if allowed[i].payload != "" {
			w.sim.count("payload of a trigger seen")
			continue
		}
		allowed[i].payload = payload
	}
	if t.manual && got.at != noTime {
		w.sim.count("scheduled time of a trigger seen")
	}
	if !slices.Contains(allowed, got) {
		w.violate("wrong content", string(t.id), "a handler got %v, allowed %v", got, allowed)
	}
}
