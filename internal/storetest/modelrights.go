package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// Operations on what is not a schedule, on reading, and on repairs.

// putMany puts several schedules at once.
func (w *twin) putMany() {
	all := []schedule.Schedule{w.modelSchedule("allow"), w.modelSchedule("one")}
	options := schedule.PutOptions{DryRun: w.chance(5)}
	w.both(fmt.Sprintf("put many, dry run %t", options.DryRun), func(_ int, e *env) string {
		results, err := e.Catalog.PutMany(e.Context(), all, options)
		e.must("PutMany", err)
		text := ""
		for _, r := range results {
			text += fmt.Sprintf("[created %t unchanged %t v%d next %s %t]", r.Created, r.Unchanged, r.Version, short(r.NextAt), r.Err != nil)
		}
		return text
	})
}

// list reads a page.
func (w *twin) list() {
	options := schedule.ListOptions{Limit: 1 + w.random.IntN(4), After: w.id()}
	if w.chance(2) {
		options.State = schedule.StateActive
	}
	w.both(fmt.Sprintf("list %+v", options), func(_ int, e *env) string {
		page, err := e.Catalog.List(e.Context(), options)
		e.must("List", err)
		text := "next " + string(page.Next)
		for _, entry := range page.Entries {
			text += fmt.Sprintf(" %s:%s", entry.Schedule.ID, entry.Status.State)
		}
		return text
	})
}

// look reads a firing.
func (w *twin) look() {
	id, ok := pick(w.random, w.firings)
	if !ok || w.sides[1].Firings == nil {
		return
	}
	w.both("look at "+plain(id[0]), func(side int, e *env) string {
		found, now, err := e.Firings.Firings(e.Context(), []claim.FiringID{id[side]})
		e.must("Firings", err)
		f, known := found[id[side]]
		if !known || f.Position == claim.PositionGone { // one store forgets those of a deleted schedule later
			return short(now)
		}
		return fmt.Sprintf("%s %s %s attempt %d redrives %d queue %s cancel %t worker %s", short(now), f.State, f.Position, f.Attempt,
			f.Redrives, f.Queue, f.CancelWanted, f.Worker)
	})
}

// repair finds nothing: whatever happened, the indexes are right.
func (w *twin) repair() {
	e := w.sides[1]
	if e.Repair == nil {
		return
	}
	w.trace = append(w.trace, "repair")
	if err := e.Repair(e.Context()); err != nil {
		w.fail("a repair of what is whole", [2]string{"nothing", err.Error()})
	}
}

// lease acquires, renews, releases or looks a lease up.
func (w *twin) lease() {
	name, owner := fmt.Sprintf("l%d", w.random.IntN(2)), fmt.Sprintf("o%d", w.random.IntN(2))
	nonce := fmt.Sprint(w.random.IntN(3))
	act := w.random.IntN(4)
	held, ok := pick(w.random, w.leases)
	if !ok && act > 1 {
		act = 0
	}
	var got pair[claim.Lease]
	w.both(fmt.Sprintf("lease %d %s by %s nonce %s", act, name, owner, nonce), func(side int, e *env) string {
		var granted bool
		var err error
		switch act {
		case 0:
			got[side], granted, err = e.Leases.Acquire(e.Context(), claim.LeaseRequest{Name: name, Owner: owner, Nonce: nonce, TTL: leaseTTL})
		case 1:
			var info claim.LeaseInfo
			info, granted, err = e.Leases.Lookup(e.Context(), name)
			got[side] = claim.Lease{Owner: info.Owner, Until: info.Until}
		case 2:
			got[side], granted, err = e.Leases.Renew(e.Context(), held[side], leaseTTL)
		default:
			granted, err = e.Leases.Release(e.Context(), held[side])
		}
		e.must("the lease", err)
		if !granted && act != 1 {
			return "no"
		}
		return fmt.Sprintf("%t %s until %s", granted, got[side].Owner, short(got[side].Until))
	})
	if act == 0 && got[0].Token != 0 {
		w.leases = append(w.leases, got)
	}
}

// periodic does something to a periodic task.
func (w *twin) periodic() {
	if w.sides[1].Periodic == nil {
		return
	}
	name, owner, nonce := fmt.Sprintf("t%d", w.random.IntN(2)), fmt.Sprintf("o%d", w.random.IntN(2)), fmt.Sprint(w.random.IntN(3))
	held, ok := pick(w.random, w.tasks)
	act, until := w.random.IntN(8), time.Time{}
	if w.chance(2) {
		until = w.sides[0].Now().Add(15 * time.Second)
	}
	completion := claim.PeriodicCompletion{Next: w.sides[0].Now().Add(20 * time.Second), HandBack: w.chance(4),
		Outcome: claim.OutcomeFailed, Error: "model", Started: w.sides[0].Now(), Duration: time.Second}
	var got pair[claim.PeriodicClaim]
	w.both(fmt.Sprintf("periodic %d %s by %s nonce %s until %s", act, name, owner, nonce, short(until)), func(side int, e *env) string {
		ctx := e.Context()
		switch {
		case act <= 1:
			entry, made, err := e.Periodic.Ensure(ctx, claim.PeriodicTask{Name: name, Display: "task"})
			return plainTask(entry, made, err)
		case act == 2:
			entry, err := e.Periodic.Pause(ctx, name, schedule.PauseOptions{By: "ops", Until: until})
			return plainTask(entry, true, err)
		case act == 3:
			entry, err := e.Periodic.Resume(ctx, name)
			return plainTask(entry, true, err)
		case act == 4:
			entry, asked, err := e.Periodic.Trigger(ctx, name)
			return plainTask(entry, asked, err)
		case act == 5 && ok:
			renewed, kept, err := e.Periodic.Renew(ctx, held[side], periodicTTL)
			e.must("Renew", err)
			return fmt.Sprint(kept, kept && renewed.Lease.Until.After(e.Now()))
		case act == 6 && ok:
			completion.Claim = held[side]
			answer, err := e.Periodic.Complete(ctx, completion)
			e.must("Complete", err)
			return string(answer)
		}
		result, err := e.Periodic.Claim(ctx, claim.PeriodicRequest{Name: name, Owner: owner, Nonce: nonce, TTL: periodicTTL})
		e.must("Claim", err)
		got[side] = result.Claim
		return fmt.Sprintf("%s wait %s due %s attempt %d manual %t", result.Answer, result.Wait, short(result.Claim.Due), result.Claim.Attempt, result.Claim.Manual)
	})
	if got[0].Lease.Token != 0 {
		w.tasks = append(w.tasks, got)
	}
}

// plainTask renders an entry without tokens.
func plainTask(e claim.PeriodicEntry, done bool, err error) string {
	if errors.Is(err, schedule.ErrNotFound) {
		return "not found"
	}
	if err != nil {
		return "error " + err.Error()
	}
	e.Token = 0
	return fmt.Sprintf("%t %+v", done, e)
}
