package storm

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A backend is a store of the product.
type backend interface {
	schedule.Catalog
	claim.Store
	claim.Ledger
	claim.Waker
	claim.Backfills
	claim.Canceller
	claim.FiringReader
	schedule.Skipper
	schedule.CalendarStore
	Check(ctx context.Context) error
}

// A gated store passes every command through the gate of a process, and shows
// every reply to the witness, whether the process gets to see it or not.
type gated struct {
	schedule.Catalog // what this simulation does not use
	p                *process
	direct           backend
	readings         []reading // needs the lock of the simulation
}

// witnessed runs a command of the store and shows what came of it.
func witnessed[T any](g *gated, ctx context.Context, op, key string, do func(context.Context) (T, error), see func(*witness, T)) (T, error) {
	return call(ctx, g.p, op, key, func(ctx context.Context) (T, error) {
		var v T
		var err error
		g.p.sim.atomically(func() {
			if v, err = do(ctx); err == nil && see != nil {
				see(g.p.sim.witness, v)
			}
		})
		return v, err
	})
}

// Shards implements claim.Store.
func (g *gated) Shards(ctx context.Context) (int, error) {
	return witnessed(g, ctx, "shards", "", g.direct.Shards, nil)
}

// ClaimDue implements claim.Store.
func (g *gated) ClaimDue(ctx context.Context, r claim.ClaimRequest) (claim.Batch, error) {
	return witnessed(g, ctx, "claim", fmt.Sprint(r.Shard), func(ctx context.Context) (claim.Batch, error) {
		return g.direct.ClaimDue(ctx, r)
	}, func(w *witness, b claim.Batch) { w.claimed(b) })
}

// Renew implements claim.Store.
func (g *gated) Renew(ctx context.Context, ttl time.Duration, holds []claim.Hold) ([]bool, error) {
	return witnessed(g, ctx, "renew", "", func(ctx context.Context) ([]bool, error) { return g.direct.Renew(ctx, ttl, holds) }, nil)
}

// Complete implements claim.Store.
func (g *gated) Complete(ctx context.Context, r claim.CompleteRequest) (claim.CompleteResult, error) {
	var keys []string
	for _, c := range r.Completions {
		keys = append(keys, fmt.Sprintf("%s@%s %s%s", c.Schedule, clock(c.ScheduledAt), c.Decision, word(c)))
	}
	return witnessed(g, ctx, "complete", strings.Join(keys, ", "), func(ctx context.Context) (claim.CompleteResult, error) {
		g.p.sim.overtake(g.p.id)
		return g.direct.Complete(ctx, r)
	}, func(w *witness, result claim.CompleteResult) {
		w.completing = true
		for i, c := range r.Completions {
			w.sim.count("complete " + string(result.Outcomes[i]))
			w.observe(c.Schedule)
			if result.Outcomes[i] == claim.CompleteOK {
				w.judgeNext(c)
			}
		}
		w.completing = false
	})
}

func word(c claim.Completion) string {
	text := ""
	if c.Verdict != 0 {
		text = fmt.Sprintf(" %d", c.Verdict)
	}
	if c.Range != nil {
		text += fmt.Sprintf(" and %d to %s", c.Range.Count, clock(c.Range.Last))
	}
	return text + " next " + clock(c.Next)
}

// Release implements claim.Store.
func (g *gated) Release(ctx context.Context, r claim.Release) (bool, error) {
	return witnessed(g, ctx, "release", string(r.Schedule), func(ctx context.Context) (bool, error) { return g.direct.Release(ctx, r) },
		func(w *witness, held bool) {
			if lives := w.lives[r.Schedule]; held && r.EnqueueFailed && len(lives) > 0 {
				w.ended(claim.Firing{Schedule: r.Schedule, Generation: lives[len(lives)-1].generation}, claim.OutcomeFailed)
			}
			w.observe(r.Schedule)
		})
}

// Begin implements claim.Ledger.
func (g *gated) Begin(ctx context.Context, r claim.BeginRequest) (claim.BeginResult, error) {
	return witnessed(g, ctx, "begin", string(r.Firing), func(ctx context.Context) (claim.BeginResult, error) { return g.direct.Begin(ctx, r) },
		func(w *witness, b claim.BeginResult) { w.began(g.p.id, r, b) })
}

// Heartbeat implements claim.Ledger.
func (g *gated) Heartbeat(ctx context.Context, lease time.Duration, runs []claim.Run) ([]claim.Pulse, error) {
	return witnessed(g, ctx, "heartbeat", "", func(ctx context.Context) ([]claim.Pulse, error) { return g.direct.Heartbeat(ctx, lease, runs) },
		func(w *witness, pulses []claim.Pulse) {
			for i, pulse := range pulses {
				w.beat(runs[i], pulse, lease)
			}
		})
}

// Finish implements claim.Ledger.
func (g *gated) Finish(ctx context.Context, r claim.FinishRequest) (claim.FinishResult, error) {
	return witnessed(g, ctx, "finish "+string(r.Outcome), string(r.Run.Firing),
		func(ctx context.Context) (claim.FinishResult, error) { return g.direct.Finish(ctx, r) },
		func(w *witness, f claim.FinishResult) { w.finished(r, f) })
}

// Mark implements claim.Ledger.
func (g *gated) Mark(ctx context.Context, after time.Duration, firings []claim.FiringID) error {
	_, err := witnessed(g, ctx, "mark", fmt.Sprint(firings), func(ctx context.Context) (bool, error) {
		return true, g.direct.Mark(ctx, after, firings)
	}, nil)
	return err
}

// Audit implements claim.Ledger.
func (g *gated) Audit(ctx context.Context, r claim.AuditRequest) (claim.AuditBatch, error) {
	return witnessed(g, ctx, "audit", fmt.Sprint(r.Shard), func(ctx context.Context) (claim.AuditBatch, error) { return g.direct.Audit(ctx, r) }, nil)
}

// Redrive implements claim.Ledger.
func (g *gated) Redrive(ctx context.Context, r claim.RedriveRequest) (claim.RedriveResult, error) {
	return witnessed(g, ctx, "redrive", string(r.Firing), func(ctx context.Context) (claim.RedriveResult, error) { return g.direct.Redrive(ctx, r) },
		func(w *witness, v claim.RedriveResult) { w.redriven(r.Firing, v) })
}

// Settle implements claim.Ledger.
func (g *gated) Settle(ctx context.Context, r claim.SettleRequest) (claim.RedriveResult, error) {
	return witnessed(g, ctx, "settle "+string(r.Outcome), string(r.Firing),
		func(ctx context.Context) (claim.RedriveResult, error) { return g.direct.Settle(ctx, r) },
		func(w *witness, s claim.RedriveResult) {
			if s.Answer == claim.RedriveOK {
				w.sim.count("settled by the auditor")
				w.settled(r.Firing, r.Outcome)
			}
		})
}

// Runs implements claim.Ledger.
func (g *gated) Runs(ctx context.Context, id schedule.ID, limit int) ([]claim.RunRecord, error) {
	return g.direct.Runs(ctx, id, limit)
}

// GetMany implements worker.Definitions and schedule.Catalog.
func (g *gated) GetMany(ctx context.Context, ids []schedule.ID) (map[schedule.ID]schedule.Entry, error) {
	return witnessed(g, ctx, "definitions", fmt.Sprint(ids), func(ctx context.Context) (map[schedule.ID]schedule.Entry, error) {
		return g.direct.GetMany(ctx, ids)
	}, nil)
}

// Put implements schedule.Catalog.
func (g *gated) Put(ctx context.Context, definition schedule.Schedule, o schedule.PutOptions) (schedule.PutResult, error) {
	return witnessed(g, ctx, "put", string(definition.ID), func(ctx context.Context) (schedule.PutResult, error) {
		return g.direct.Put(ctx, definition, o)
	}, func(w *witness, _ schedule.PutResult) { w.observe(definition.ID) })
}

// Pause implements schedule.Catalog.
func (g *gated) Pause(ctx context.Context, id schedule.ID, o schedule.PauseOptions) (schedule.PauseResult, error) {
	return witnessed(g, ctx, "pause schedule", string(id), func(ctx context.Context) (schedule.PauseResult, error) {
		return g.direct.Pause(ctx, id, o)
	}, func(w *witness, _ schedule.PauseResult) { w.observe(id) })
}

// Resume implements schedule.Catalog.
func (g *gated) Resume(ctx context.Context, id schedule.ID, o schedule.ResumeOptions) (schedule.ResumeResult, error) {
	return witnessed(g, ctx, "resume schedule", string(id), func(ctx context.Context) (schedule.ResumeResult, error) {
		return g.direct.Resume(ctx, id, o)
	}, func(w *witness, _ schedule.ResumeResult) {
		w.resumed(id)
		w.observe(id)
	})
}

// Trigger implements schedule.Catalog.
func (g *gated) Trigger(ctx context.Context, id schedule.ID, o schedule.TriggerOptions) (schedule.TriggerResult, error) {
	return witnessed(g, ctx, "trigger", string(id)+" "+o.RequestID, func(ctx context.Context) (schedule.TriggerResult, error) {
		return g.direct.Trigger(ctx, id, o)
	}, func(w *witness, r schedule.TriggerResult) { w.triggered(r, o) })
}

// Remove implements schedule.Catalog.
func (g *gated) Remove(ctx context.Context, id schedule.ID, o schedule.RemoveOptions) (bool, error) {
	return witnessed(g, ctx, "remove schedule", string(id), func(ctx context.Context) (bool, error) {
		return g.direct.Remove(ctx, id, o)
	}, func(w *witness, removed bool) {
		if removed {
			w.removed(id)
		}
	})
}

// Wake implements claim.Waker. A subscription is not part of the faults: the
// contract lets every wake-up be lost.
func (g *gated) Wake(ctx context.Context) (<-chan struct{}, func() bool, error) {
	return g.direct.Wake(ctx)
}

// outcome is a reply as a trace shows it.
func outcome(v any, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	switch v := v.(type) {
	case fmt.Stringer:
		return v.String()
	case claim.Batch:
		var texts []string
		for _, c := range v.Claims {
			text := fmt.Sprintf("%s@%s %s", c.Schedule, clock(c.ScheduledAt), c.Kind)
			if c.Again {
				text += " again"
			}
			texts = append(texts, text)
		}
		return strings.Join(texts, ", ") + releases(v.Released)
	case claim.BackfillResult:
		return string(v.Answer) + releases(v.Released)
	case claim.CompleteResult:
		return fmt.Sprint(v.Outcomes) + releases(v.Released)
	case claim.BeginResult:
		return fmt.Sprintf("%s %d", v.Answer, v.Attempt) + releases(v.Released)
	case claim.FinishResult:
		return string(v.Answer) + releases(v.Released)
	case claim.RedriveResult:
		return fmt.Sprintf("%s %d", v.Answer, v.Redrives) + releases(v.Released)
	case claim.CancelResult:
		return fmt.Sprintf("%s %s", v.Answer, v.Firing.State)
	case claim.AuditBatch:
		var texts []string
		for _, f := range v.Firings {
			texts = append(texts, fmt.Sprintf("%s %s %s", f.Firing, f.State, f.Position))
		}
		return strings.Join(texts, ", ") + releases(v.Released)
	case map[schedule.ID]schedule.Entry:
		return fmt.Sprint(len(v))
	case schedule.PutResult:
		return fmt.Sprintf("version %d, generation %d, next %s", v.Version, v.Generation, clock(v.NextAt))
	case []bool: // the order is that of a map
		held := slices.DeleteFunc(slices.Clone(v), func(held bool) bool { return !held })
		return fmt.Sprintf("%d of %d", len(held), len(v))
	case []claim.Pulse: // likewise
		return fmt.Sprint(slices.Sorted(slices.Values(v)))
	case bool, int, int64, string, schedule.TriggerResult:
		return fmt.Sprint(v)
	}
	return ""
}

func releases(released []claim.Released) string {
	text := ""
	for _, r := range released {
		text += " releases " + string(r.Firing)
	}
	return text
}

// epochStart is where the clock of a bubble starts.
var epochStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// clock is an instant as a trace shows it: seconds of the simulation.
func clock(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return fmt.Sprintf("%.3f", t.Sub(epochStart).Seconds())
}
