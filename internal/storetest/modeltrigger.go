package storetest

import (
	"fmt"
	"strings"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// trigger opens an extra firing, under one of the policies and often with a
// payload or a scheduled time of its own. The request IDs are few, so that many
// repeat, with the same content or with another.
func (w *twin) trigger() {
	id := w.id()
	options := schedule.TriggerOptions{RequestID: fmt.Sprintf("r%d", w.random.IntN(6)), ObeyOverlap: w.chance(2)}
	if !options.ObeyOverlap && w.chance(2) {
		options.Overlap = everyPolicy[w.random.IntN(len(everyPolicy))]
	}
	if w.chance(3) {
		payloads := []string{"", "1", "a|b|", strings.Repeat("long|", 500)}
		options.Payload = []byte(payloads[w.random.IntN(len(payloads))])
	}
	if w.chance(3) {
		options.ScheduledAt = slot(1 + w.random.IntN(3))
	}
	var opened pair[claim.FiringID]
	what := fmt.Sprintf("trigger %s %s obey %t overlap %q payload %.8q at %s", id, options.RequestID, options.ObeyOverlap,
		options.Overlap, options.Payload, short(options.ScheduledAt))
	w.both(what, func(side int, e *env) string {
		got, err := e.Catalog.Trigger(e.Context(), id, options)
		if err != nil {
			return failed(err)
		}
		if !got.Refused {
			opened[side] = claim.FiringID(got.FiringID)
		}
		return fmt.Sprintf("%s duplicate %t differs %t buffered %t refused %t", plain(opened[side]), got.Duplicate, got.Differs, got.Buffered, got.Refused)
	})
	if opened[0] != "" {
		w.firings = append(w.firings, opened)
	}
}

// plainExtra renders what a firing carries, "" for nothing.
func plainExtra(x *claim.Extra) string {
	if x == nil {
		return ""
	}
	return fmt.Sprintf(" carries %t %q for %s", x.Payload != nil, x.Payload, short(x.ScheduledAt))
}
