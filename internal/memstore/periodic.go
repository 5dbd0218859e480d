package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// Periodic is the catalog of periodic tasks. Get it from [Store.Periodic].
type Periodic struct{ store *Store }

var _ claim.PeriodicStore = (*Periodic)(nil)

// A periodic is the record of one task.
type periodic struct {
	claim.PeriodicEntry
	nonce string
	done  claim.Token // of the last claim that was completed
	asked int64       // triggers so far
	taken int64       // of these, answered by the claim
	ended int64       // of these, run
}

// Periodic returns the catalog of periodic tasks.
func (s *Store) Periodic() *Periodic { return &Periodic{store: s} }

// Ensure makes an entry, or keeps it.
func (p *Periodic) Ensure(ctx context.Context, task claim.PeriodicTask) (claim.PeriodicEntry, bool, error) {
	if err := task.Validate(); err != nil {
		return claim.PeriodicEntry{}, false, err
	}
	now, err := p.store.enter(ctx)
	if err != nil {
		return claim.PeriodicEntry{}, false, err
	}
	defer p.store.mu.Unlock()
	if r := p.store.periodic[task.Name]; r != nil {
		return r.view(now), false, nil
	}
	r := &periodic{PeriodicEntry: claim.PeriodicEntry{Name: task.Name, Display: cmp.Or(task.Display, task.Name), Created: now, Next: millis(task.FirstRun)}}
	if r.Next.IsZero() {
		r.Next = now
	}
	p.store.periodic[task.Name] = r
	return r.view(now), true, nil
}

// view is the entry as others see it: a pause that is over is none.
func (r *periodic) view(now time.Time) claim.PeriodicEntry {
	entry := r.PeriodicEntry
	entry.Trigger = r.asked > r.ended
	if entry.Paused && !entry.PausedUntil.IsZero() && !entry.PausedUntil.After(now) {
		entry.Paused, entry.PausedBy, entry.PauseReason, entry.PausedUntil = false, "", "", time.Time{}
	}
	return entry
}

// Claim grants the task when it is due and nobody has it.
func (p *Periodic) Claim(ctx context.Context, request claim.PeriodicRequest) (claim.PeriodicResult, error) {
	if err := request.Validate(); err != nil {
		return claim.PeriodicResult{}, err
	}
	sent := p.store.wall()
	now, err := p.store.enter(ctx)
	if err != nil {
		return claim.PeriodicResult{}, err
	}
	defer p.store.mu.Unlock()
	r := p.store.periodic[request.Name]
	if r == nil {
		return claim.PeriodicResult{Answer: claim.PeriodicGone}, nil
	}
	entry, held := r.view(now), r.Owner != "" && r.Until.After(now)
	switch {
	case held && r.Owner == request.Owner && r.nonce == request.Nonce:
		// A repeat trusts what is left, which is less than the TTL.
		return r.granted(sent, min(request.TTL, r.Until.Sub(now))), nil
	case held:
		return claim.PeriodicResult{Answer: claim.PeriodicHeld, Wait: r.Until.Sub(now)}, nil
	case r.asked > r.ended:
	case entry.Paused && entry.PausedUntil.IsZero():
		return claim.PeriodicResult{Answer: claim.PeriodicPaused}, nil
	case entry.Paused:
		return claim.PeriodicResult{Answer: claim.PeriodicPaused, Wait: entry.PausedUntil.Sub(now)}, nil
	case r.Next.IsZero():
		return claim.PeriodicResult{Answer: claim.PeriodicNotDue}, nil
	case r.Next.After(now):
		return claim.PeriodicResult{Answer: claim.PeriodicNotDue, Wait: r.Next.Sub(now)}, nil
	}
	if r.Owner == "" {
		r.Attempt = 0
	}
	r.Owner, r.nonce, r.Until, r.taken = request.Owner, request.Nonce, millis(now.Add(request.TTL)), r.asked
	r.Attempt++
	r.Token = max(r.Token+1, claim.Token(now.UnixMilli()*1000))
	return r.granted(sent, request.TTL), nil
}

func (r *periodic) granted(sent time.Time, ttl time.Duration) claim.PeriodicResult {
	return claim.PeriodicResult{Answer: claim.PeriodicGranted, Claim: claim.PeriodicClaim{
		Lease: claim.NewLease(r.Name, r.Owner, r.Token, r.Until, sent, ttl, ttl/10),
		Nonce: r.nonce, Due: r.Next, Attempt: r.Attempt, Manual: r.taken > r.ended}}
}

// holds is the ownership predicate.
func (r *periodic) holds(lease claim.Lease) bool {
	return r.Owner != "" && r.Owner == lease.Owner && r.Token == lease.Token
}

// Renew extends a claim that nobody else took.
func (p *Periodic) Renew(ctx context.Context, held claim.PeriodicClaim, ttl time.Duration) (claim.PeriodicClaim, bool, error) {
	if err := claim.ValidatePeriodicTTL(ttl); err != nil {
		return held, false, err
	}
	sent := p.store.wall()
	now, err := p.store.enter(ctx)
	if err != nil {
		return held, false, err
	}
	defer p.store.mu.Unlock()
	r := p.store.periodic[held.Lease.Name]
	if r == nil || !r.holds(held.Lease) {
		return held, false, nil
	}
	r.Until = millis(now.Add(ttl))
	held.Lease = claim.NewLease(r.Name, r.Owner, r.Token, r.Until, sent, ttl, ttl/10)
	return held, true, nil
}

// Complete ends a claim that nobody else took.
func (p *Periodic) Complete(ctx context.Context, completion claim.PeriodicCompletion) (claim.PeriodicCompleted, error) {
	if err := completion.Validate(); err != nil {
		return "", err
	}
	if _, err := p.store.enter(ctx); err != nil {
		return "", err
	}
	defer p.store.mu.Unlock()
	r, lease := p.store.periodic[completion.Claim.Lease.Name], completion.Claim.Lease
	switch {
	case r == nil:
		return claim.PeriodicCompleteGone, nil
	case r.done == lease.Token && lease.Token != 0:
		return claim.PeriodicCompleteAlready, nil
	case !r.holds(lease):
		return claim.PeriodicCompleteStale, nil
	}
	r.done, r.Owner, r.nonce, r.Until = r.Token, "", "", time.Time{}
	if completion.HandBack {
		return claim.PeriodicCompleteOK, nil
	}
	r.Next, r.ended = millis(completion.Next), r.taken
	r.Runs++
	if completion.Outcome == claim.OutcomeFailed {
		r.Fails++
	}
	r.LastStarted, r.LastDuration = millis(completion.Started), completion.Duration.Truncate(time.Millisecond)
	r.LastOutcome, r.LastError = completion.Outcome, cut(completion.Error, claim.MaxPeriodicError)
	return claim.PeriodicCompleteOK, nil
}

// cut keeps at most so many bytes, and no half character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

// Lookup returns an entry.
func (p *Periodic) Lookup(ctx context.Context, name string) (claim.PeriodicEntry, bool, error) {
	now, err := p.store.enter(ctx)
	if err != nil {
		return claim.PeriodicEntry{}, false, err
	}
	defer p.store.mu.Unlock()
	r := p.store.periodic[name]
	if r == nil {
		return claim.PeriodicEntry{}, false, nil
	}
	return r.view(now), true, nil
}

// List returns all entries by name.
func (p *Periodic) List(ctx context.Context) ([]claim.PeriodicEntry, error) {
	now, err := p.store.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer p.store.mu.Unlock()
	var entries []claim.PeriodicEntry
	for _, r := range p.store.periodic {
		entries = append(entries, r.view(now))
	}
	slices.SortFunc(entries, func(a, b claim.PeriodicEntry) int { return cmp.Compare(a.Name, b.Name) })
	return entries, nil
}

// operate changes a task that exists.
func (p *Periodic) operate(ctx context.Context, name string, change func(r *periodic)) (claim.PeriodicEntry, error) {
	if err := claim.ValidatePeriodicName(name); err != nil {
		return claim.PeriodicEntry{}, err
	}
	now, err := p.store.enter(ctx)
	if err != nil {
		return claim.PeriodicEntry{}, err
	}
	defer p.store.mu.Unlock()
	r := p.store.periodic[name]
	if r == nil {
		return claim.PeriodicEntry{}, fmt.Errorf("memstore: periodic task %q: %w", name, schedule.ErrNotFound)
	}
	change(r)
	return r.view(now), nil
}

// Pause stops new claims.
func (p *Periodic) Pause(ctx context.Context, name string, options schedule.PauseOptions) (claim.PeriodicEntry, error) {
	if err := claim.ValidatePeriodicPause(name, options); err != nil {
		return claim.PeriodicEntry{}, err
	}
	return p.operate(ctx, name, func(r *periodic) {
		r.Paused, r.PausedBy, r.PauseReason, r.PausedUntil = true, options.By, options.Reason, millis(options.Until)
	})
}

// Resume ends a pause.
func (p *Periodic) Resume(ctx context.Context, name string) (claim.PeriodicEntry, error) {
	return p.operate(ctx, name, func(r *periodic) {
		r.Paused, r.PausedBy, r.PauseReason, r.PausedUntil = false, "", "", time.Time{}
	})
}

// Trigger asks for an extra run, unless one is asked for that no claim has
// answered yet.
func (p *Periodic) Trigger(ctx context.Context, name string) (claim.PeriodicEntry, bool, error) {
	fresh := false
	entry, err := p.operate(ctx, name, func(r *periodic) {
		waits := r.asked > r.ended
		if r.Owner != "" {
			waits = r.asked > r.taken
		}
		if fresh = !waits; fresh {
			r.asked++
		}
	})
	return entry, fresh, err
}
