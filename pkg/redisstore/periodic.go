package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/scripts/lua"
)

// Periodic is the catalog of periodic tasks of a namespace. Get it from
// [Store.Periodic].
type Periodic struct{ store *Store }

var (
	_ claim.PeriodicStore = (*Periodic)(nil)
	_ claim.Waker         = (*Periodic)(nil)
)

// Periodic returns the periodic tasks of the namespace.
func (s *Store) Periodic() *Periodic { return &Periodic{store: s} }

func (p *Periodic) run(ctx context.Context, doing, name string, script *redis.Script, args ...any) (reply, error) {
	if name != "" {
		doing = fmt.Sprintf("%s periodic task %q", doing, name)
	}
	return p.store.run(ctx, doing, script, []string{p.store.keys.periodic()}, p.store.clock(append([]any{name}, args...)...)...)
}

// Ensure makes an entry, or keeps it as it is.
func (p *Periodic) Ensure(ctx context.Context, task claim.PeriodicTask) (claim.PeriodicEntry, bool, error) {
	if err := task.Validate(); err != nil {
		return claim.PeriodicEntry{}, false, err
	}
	answer, err := p.run(ctx, "ensure", task.Name, lua.PeriodicEnsure, cmp.Or(task.Display, task.Name), millis(task.FirstRun))
	if err != nil {
		return claim.PeriodicEntry{}, false, err
	}
	made := answer.number(1) == 1
	entry, _, err := readPeriodic(&answer, task.Name, 2)
	return entry, made, err
}

// Claim grants the task when it is due and nobody has it.
func (p *Periodic) Claim(ctx context.Context, request claim.PeriodicRequest) (claim.PeriodicResult, error) {
	if err := request.Validate(); err != nil {
		return claim.PeriodicResult{}, err
	}
	sent := p.store.options.Wall()
	answer, err := p.run(ctx, "claim", request.Name, lua.PeriodicClaim, request.Owner, request.Nonce, request.TTL.Milliseconds())
	if err != nil {
		return claim.PeriodicResult{}, err
	}
	result := claim.PeriodicResult{Answer: claim.PeriodicAnswer(answer.text(0))}
	left := time.Duration(answer.number(1)) * time.Millisecond
	if result.Answer != claim.PeriodicGranted {
		result.Wait = left
		return result, answer.err
	}
	// A grant that a repeated call gets back is trusted for what is left of it.
	left = min(request.TTL, left)
	result.Claim = claim.PeriodicClaim{
		Lease: claim.NewLease(request.Name, request.Owner, claim.Token(answer.number(2)), answer.time(3), sent, left, left/10),
		Nonce: request.Nonce, Due: answer.time(4), Attempt: int(answer.number(5)), Manual: answer.number(6) == 1}
	return result, answer.err
}

// Renew extends a claim that nobody else took; it is trusted for its TTL less
// a tenth.
func (p *Periodic) Renew(ctx context.Context, held claim.PeriodicClaim, ttl time.Duration) (claim.PeriodicClaim, bool, error) {
	if err := claim.ValidatePeriodicTTL(ttl); err != nil {
		return held, false, err
	}
	lease, sent := held.Lease, p.store.options.Wall()
	answer, err := p.run(ctx, "renew", lease.Name, lua.PeriodicRenew, lease.Owner, int64(lease.Token), ttl.Milliseconds())
	if err != nil {
		return held, false, err
	}
	until, _ := answer.single.(int64)
	if until == 0 {
		return held, false, nil
	}
	held.Lease = claim.NewLease(lease.Name, lease.Owner, lease.Token, instant(until), sent, ttl, ttl/10)
	return held, true, nil
}

// Complete ends a claim that nobody else took.
func (p *Periodic) Complete(ctx context.Context, completion claim.PeriodicCompletion) (claim.PeriodicCompleted, error) {
	if err := completion.Validate(); err != nil {
		return "", err
	}
	lease, outcome := completion.Claim.Lease, 1
	if completion.Outcome == claim.OutcomeFailed {
		outcome = 2
	}
	answer, err := p.run(ctx, "complete", lease.Name, lua.PeriodicComplete, lease.Owner, int64(lease.Token), millis(completion.Next),
		flag(completion.HandBack), outcome, clip(completion.Error), millis(completion.Started),
		completion.Duration.Milliseconds())
	return claim.PeriodicCompleted(answer.word()), err
}

// Lookup returns an entry.
func (p *Periodic) Lookup(ctx context.Context, name string) (claim.PeriodicEntry, bool, error) {
	if claim.ValidatePeriodicName(name) != nil {
		return claim.PeriodicEntry{}, false, nil // nothing can have that name
	}
	entries, err := p.list(ctx, name)
	if err != nil || len(entries) == 0 {
		return claim.PeriodicEntry{}, false, err
	}
	return entries[0], true, nil
}

// List returns all entries by name.
func (p *Periodic) List(ctx context.Context) ([]claim.PeriodicEntry, error) { return p.list(ctx, "") }

func (p *Periodic) list(ctx context.Context, name string) ([]claim.PeriodicEntry, error) {
	answer, err := p.run(ctx, "read the periodic tasks", name, lua.PeriodicList)
	if err != nil {
		return nil, err
	}
	var entries []claim.PeriodicEntry
	for i := 1; i+1 < len(answer.values); i += 2 {
		entry, _, err := readPeriodic(&answer, answer.text(i), i+1)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	slices.SortFunc(entries, func(a, b claim.PeriodicEntry) int { return cmp.Compare(a.Name, b.Name) })
	return entries, answer.err
}

// Pause stops new claims.
func (p *Periodic) Pause(ctx context.Context, name string, options schedule.PauseOptions) (claim.PeriodicEntry, error) {
	if err := claim.ValidatePeriodicPause(name, options); err != nil {
		return claim.PeriodicEntry{}, err
	}
	answer, err := p.run(ctx, "pause", name, lua.PeriodicPause, millis(options.Until), options.By, options.Reason)
	if err != nil {
		return claim.PeriodicEntry{}, err
	}
	return mustFindPeriodic(&answer, name, 1)
}

// Resume ends a pause.
func (p *Periodic) Resume(ctx context.Context, name string) (claim.PeriodicEntry, error) {
	if err := claim.ValidatePeriodicName(name); err != nil {
		return claim.PeriodicEntry{}, err
	}
	answer, err := p.run(ctx, "resume", name, lua.PeriodicResume)
	if err != nil {
		return claim.PeriodicEntry{}, err
	}
	p.wake(ctx, name)
	return mustFindPeriodic(&answer, name, 1)
}

// Trigger asks for an extra run, unless one is asked for that no claim has
// answered yet.
func (p *Periodic) Trigger(ctx context.Context, name string) (claim.PeriodicEntry, bool, error) {
	if err := claim.ValidatePeriodicName(name); err != nil {
		return claim.PeriodicEntry{}, false, err
	}
	answer, err := p.run(ctx, "trigger", name, lua.PeriodicTrigger)
	if err != nil {
		return claim.PeriodicEntry{}, false, err
	}
	p.wake(ctx, name)
	fresh := answer.number(1) == 1
	entry, err := mustFindPeriodic(&answer, name, 2)
	return entry, fresh, err
}

// Wake subscribes, until ctx ends, to triggers and resumes of periodic tasks.
func (p *Periodic) Wake(ctx context.Context) (<-chan struct{}, func() bool, error) {
	return p.store.listen(ctx, p.store.keys.periodicChannel(), wakePing)
}

// wake tells sleeping runners. A message that is lost only makes them later.
func (p *Periodic) wake(ctx context.Context, name string) {
	_ = p.store.client.Publish(ctx, p.store.keys.periodicChannel(), name).Err()
}

// mustFindPeriodic reads an entry; none is an error.
func mustFindPeriodic(answer *reply, name string, at int) (claim.PeriodicEntry, error) {
	entry, found, err := readPeriodic(answer, name, at)
	if err == nil && !found {
		err = fmt.Errorf("redisstore: periodic task %q: %w", name, schedule.ErrNotFound)
	}
	return entry, err
}

// readPeriodic reads what lib/periodic.lua calls an entry, at a position of a
// reply that begins with the time; false when there is none.
func readPeriodic(answer *reply, name string, at int) (claim.PeriodicEntry, bool, error) {
	now, texts := answer.time(0), answer.list(at)
	record := fieldReader{rest: texts.text(0)}
	entry := claim.PeriodicEntry{Name: name, Owner: texts.text(1), Display: texts.text(2), LastError: texts.text(3)}
	by, reason := texts.text(4), texts.text(5)
	if err := cmp.Or(answer.err, texts.err); err != nil || record.rest == "" {
		return claim.PeriodicEntry{}, false, err
	}
	entry.Next, entry.Token, entry.Until, entry.Attempt = record.time(), claim.Token(record.number()), record.time(), record.int()
	_ = record.number() // the token completed last is for scripts
	asked, _, ended := record.number(), record.number(), record.number()
	entry.Trigger = asked > ended
	paused, until := record.number() == 1, record.time()
	if paused && (until.IsZero() || until.After(now)) {
		entry.Paused, entry.PausedBy, entry.PauseReason, entry.PausedUntil = true, by, reason, until
	}
	entry.Created, entry.Runs, entry.Fails, entry.LastStarted = record.time(), record.number(), record.number(), record.time()
	entry.LastDuration = time.Duration(record.number()) * time.Millisecond
	switch record.number() {
	case 1:
		entry.LastOutcome = claim.OutcomeSucceeded
	case 2:
		entry.LastOutcome = claim.OutcomeFailed
	}
	if record.bad {
		return entry, false, fmt.Errorf("redisstore: the record of periodic task %q is damaged: %q", name, texts.text(0))
	}
	return entry, true, nil
}
