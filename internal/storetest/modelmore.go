package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// refusedAs renders why a call was refused.
func refusedAs(err error) string {
	var field *schedule.FieldError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &field):
		return "refused " + field.Field
	case errors.Is(err, schedule.ErrLate):
		return "late"
	case errors.Is(err, claim.ErrNoBackfill):
		return "no backfill"
	}
	return failed(err)
}

func (w *twin) skip() {
	id, on := w.id(), !w.chance(4)
	entry, err := w.sides[0].Catalog.Get(w.t.Context(), id)
	if err != nil || w.sides[1].Skipper == nil {
		return
	}
	at := entry.Status.NextAt.Add(time.Duration(w.random.IntN(4)-1) * entry.Schedule.Specs[0].Every)
	if at.Before(Epoch) {
		at = Epoch
	}
	w.both(fmt.Sprintf("skip %s %s %t", id, short(at), on), func(_ int, e *env) string {
		if on {
			return refusedAs(e.Skipper.Skip(e.Context(), id, at))
		}
		return refusedAs(e.Skipper.Unskip(e.Context(), id, at))
	})
}

// plainBackfill renders where a backfill stands, without tokens.
func plainBackfill(b claim.Backfill) string {
	return fmt.Sprintf("%s/%s %s..%s at %s every %s %s most %d limit %d again %t started %s halted %s ended %s open %d opened %d passed %d failed %d existed %t",
		b.Schedule, b.ID, short(b.From), short(b.To), short(b.Cursor), b.Every, b.Overlap, b.MaxOpen, b.Limit, b.Again, short(b.StartedAt),
		short(b.HaltedAt), short(b.EndedAt), b.Open, b.Opened, b.Passed, b.Failed, b.Existed)
}

func (w *twin) startBackfill() {
	if w.sides[1].Backfills == nil {
		return
	}
	overlaps := []schedule.Overlap{"", schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapBufferAll}
	request := claim.BackfillRequest{Schedule: w.id(), ID: fmt.Sprintf("b%d", w.random.IntN(3)), From: slot(1 + w.random.IntN(3)),
		Every: time.Duration(1+w.random.IntN(2000)) * time.Millisecond, Overlap: overlaps[w.random.IntN(len(overlaps))],
		MaxOpen: w.random.IntN(4), Limit: int64(w.random.IntN(6)), Again: w.chance(2)}
	request.To = request.From.Add(time.Duration(w.random.IntN(6)) * period)
	w.both(fmt.Sprintf("start backfill %+v", request), func(_ int, e *env) string {
		b, err := e.Backfills.StartBackfill(e.Context(), request)
		if err != nil {
			return refusedAs(err)
		}
		return plainBackfill(b)
	})
}

func (w *twin) backfillID() (schedule.ID, string) {
	return w.id(), fmt.Sprintf("b%d", w.random.IntN(3))
}

func (w *twin) haltBackfill() {
	if w.sides[1].Backfills == nil {
		return
	}
	halt := w.chance(2)
	id, name := w.backfillID()
	w.both(fmt.Sprintf("halt %t backfill %s/%s", halt, id, name), func(_ int, e *env) string {
		call := e.Backfills.ResumeBackfill
		if halt {
			call = e.Backfills.HaltBackfill
		}
		b, err := call(e.Context(), id, name)
		if err != nil {
			return refusedAs(err)
		}
		return plainBackfill(b)
	})
}

func (w *twin) dueBackfills() {
	if w.sides[1].Backfills == nil {
		return
	}
	w.both("due backfills", func(_ int, e *env) string {
		due := e.dueBackfills()
		slices.SortFunc(due, func(a, b claim.Backfill) int {
			return cmp.Or(cmp.Compare(a.Schedule, b.Schedule), cmp.Compare(a.ID, b.ID))
		})
		text := ""
		for _, b := range due {
			text += "[" + plainBackfill(b) + "]"
		}
		return text
	})
}

// stepBackfill computes the next step from what the model knows, and now and
// then from an older cursor.
func (w *twin) stepBackfill() {
	if w.sides[1].Backfills == nil {
		return
	}
	id, name := w.backfillID()
	b, err := w.sides[0].Backfills.Backfill(w.t.Context(), id, name)
	if err != nil {
		b = claim.Backfill{Schedule: id, ID: name}
	}
	step := claim.BackfillStep{Schedule: id, ID: name, Expected: b.Cursor, Passed: int64(w.random.IntN(2))}
	at := b.Cursor
	for range min(w.random.IntN(3), max(0, b.Room())) {
		at = at.Truncate(period).Add(period)
		step.Open = append(step.Open, at)
	}
	if !w.chance(4) {
		step.Cursor = at
	}
	if w.chance(6) {
		step.Expected = step.Expected.Add(-period)
	}
	var opened pair[[]claim.FiringID]
	w.both(fmt.Sprintf("step backfill %s/%s %d from %s to %s", id, name, len(step.Open), short(step.Expected), short(step.Cursor)), func(side int, e *env) string {
		got, err := e.Backfills.StepBackfill(e.Context(), step)
		if err != nil {
			return refusedAs(err)
		}
		for _, r := range got.Released {
			opened[side] = append(opened[side], r.Firing)
		}
		return fmt.Sprint(got.Answer, plainBackfill(got.Backfill), plainReleased(got.Released))
	})
	for i := range opened[0] {
		w.firings = append(w.firings, pair[claim.FiringID]{opened[0][i], opened[1][i]})
	}
}

// plainEvents renders the events of one side since the last call.
func (w *twin) plainEvents(side int) string {
	if w.sides[1].Events == nil {
		return ""
	}
	events, next, err := w.sides[side].Events.Events(w.t.Context(), w.cursors[side], 1000)
	if err != nil {
		w.t.Fatalf("Events: %v", err)
	}
	w.cursors[side] = next
	var texts []string
	for _, e := range events {
		detail := e.Detail
		switch e.Kind {
		case schedule.EventTriggered, schedule.EventLost:
			detail = plain(claim.FiringID(detail))
		case schedule.EventCancelAsked:
			id, note, _ := strings.Cut(detail, " ")
			detail = plain(claim.FiringID(id)) + " " + note
		}
		texts = append(texts, fmt.Sprintf("%s %s %s %q", short(e.At), e.Kind, e.Schedule, detail))
	}
	slices.Sort(texts)
	return fmt.Sprint(texts)
}

// firstCursor is where events begin, before there are any.
func (w *twin) firstCursor(side int) string {
	if w.sides[1].Events == nil {
		return ""
	}
	_, cursor, err := w.sides[side].Events.Events(w.t.Context(), "", 1)
	if err != nil {
		w.t.Fatalf("Events: %v", err)
	}
	return cursor
}
