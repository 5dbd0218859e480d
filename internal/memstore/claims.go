package memstore

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var _ claim.Store = (*Store)(nil)

// Shards returns the number of shards.
func (s *Store) Shards(ctx context.Context) (int, error) {
	if _, err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	return len(s.tokens), nil
}

// ClaimDue grants due schedules, oldest first.
func (s *Store) ClaimDue(ctx context.Context, request claim.ClaimRequest) (claim.Batch, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return claim.Batch{}, err
	}
	defer s.mu.Unlock()
	if err := s.checkClaim(request); err != nil {
		return claim.Batch{}, err
	}
	batch := claim.Batch{Now: now}
	for _, r := range s.queue(request.Shard) {
		if at, _ := r.due(); at.After(now) || request.Limit == 0 {
			break
		}
		request.Limit--
		batch.Released = append(batch.Released, s.endTerm(r, now)...)
		s.tell(r, "by itself, its term is over", now)
		if r.claimable(now) {
			batch.Claims = append(batch.Claims, s.claimOne(r, request, now))
			if r.compiled.UsesCalendars() {
				batch.Calendars = s.calendarV
			}
		} else if r.token != 0 { // of a probe that ran out, beside what was opened since
			r.unclaim()
		}
	}
	if queue := s.queue(request.Shard); len(queue) > 0 {
		batch.NextDue, _ = queue[0].due()
	}
	return batch, nil
}

func (s *Store) checkClaim(request claim.ClaimRequest) error {
	if err := s.checkShard(request.Shard); err != nil {
		return err
	}
	if request.Limit < 1 {
		return &schedule.FieldError{Field: "limit", Value: strconv.Itoa(request.Limit), Allowed: "1 or more"}
	}
	if request.TTL < time.Millisecond {
		return &schedule.FieldError{Field: "ttl", Value: request.TTL.String(), Allowed: "1ms or more"}
	}
	return nil
}

func (d *data) checkShard(shard int) error {
	if shard < 0 || shard >= len(d.tokens) {
		return &schedule.FieldError{Field: "shard", Value: strconv.Itoa(shard), Allowed: "0 to " + strconv.Itoa(len(d.tokens)-1)}
	}
	return nil
}

// queue returns the schedules of a shard that will be due, earliest first and
// equal ones by ID.
func (d *data) queue(shard int) []*record {
	var queue []*record
	for id, r := range d.schedules {
		if _, ok := r.due(); ok && d.shardOf(id) == shard {
			queue = append(queue, r)
		}
	}
	slices.SortFunc(queue, func(a, b *record) int {
		dueA, _ := a.due()
		dueB, _ := b.due()
		return cmp.Or(dueA.Compare(dueB), cmp.Compare(a.id, b.id))
	})
	return queue
}

// endTerm ends a timed pause or a cool-down whose time has come. The pending
// scheduled time stays where it is: Missed decides what becomes of it.
func (d *data) endTerm(r *record, now time.Time) []claim.Released {
	if r.flag != paused && r.flag != disabled || r.until.IsZero() || r.until.After(now) {
		return nil
	}
	r.until = time.Time{}
	if r.flag == disabled {
		r.flag = halfOpen
		return nil
	}
	r.unpause()
	return d.drain(r, now.Add(releaseAudit))
}

// claimOne grants one claim and says what it is for.
func (d *data) claimOne(r *record, request claim.ClaimRequest, now time.Time) claim.Claim {
	c := claim.Claim{Schedule: r.id, Generation: r.generation, Version: r.version, ScheduledAt: r.next,
		Token: d.grant(r.id, now), Kind: claim.ClaimFire, Fired: r.fired}
	r.token, r.deadline = c.Token, millis(now.Add(request.TTL))
	others := r.others(c.Firing())
	c.OpenOthers = len(others)
	f := d.firings[c.Firing()]
	switch {
	case !r.next.After(r.hwm):
		c.Kind = claim.ClaimAdvance
	case f != nil && f.state != claim.FiringIntent:
		c.Kind, c.Again = claim.ClaimAdvance, true
		c.Redrives = f.redrives
	case f != nil:
		f.reclaimed = true
		c.Again, c.Redrives, c.Queue = true, f.redrives, f.queue
	case slices.ContainsFunc(r.skips, r.next.Equal):
		c.Kind = claim.ClaimSkip
	case len(others) > 0 && r.obeysOverlap():
		c.Kind = claim.ClaimOverlap
	default:
		if r.overlap() == schedule.OverlapCancelOther {
			r.cancelOpen(now)
		}
		audit := request.AuditAfter
		if r.overlap() != schedule.OverlapAllow && request.AuditOverlap > 0 {
			audit = request.AuditOverlap
		}
		f = d.openFiring(r, &firing{id: c.Firing(), state: claim.FiringIntent, openedAt: now, audit: millis(now.Add(audit))})
		c.Queue = f.queue
	}
	if c.Kind != claim.ClaimAdvance && r.overlap() != schedule.OverlapAllow {
		c.Open = others[:min(len(others), maxOpen)]
	}
	return c
}

// cancelOpen asks every open firing to end; the auditor looks at once.
func (r *record) cancelOpen(now time.Time) {
	for _, f := range r.open {
		if !f.cancel {
			f.cancel, f.audit = true, now
		}
	}
}

// Renew extends claims.
func (s *Store) Renew(ctx context.Context, ttl time.Duration, holds []claim.Hold) ([]bool, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	held := make([]bool, len(holds))
	for i, hold := range holds {
		r := s.schedules[hold.Schedule]
		if held[i] = r.holds(hold.Token); held[i] {
			r.deadline = millis(now.Add(ttl))
		}
	}
	return held, nil
}

// holds reports whether the token is that of the present claim, which may have
// run out but was not taken by another.
func (r *record) holds(token claim.Token) bool { return r != nil && token != 0 && r.token == token }

// Complete settles claims.
func (s *Store) Complete(ctx context.Context, request claim.CompleteRequest) (claim.CompleteResult, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return claim.CompleteResult{}, err
	}
	defer s.mu.Unlock()
	var result claim.CompleteResult
	for _, c := range request.Completions {
		c.ScheduledAt, c.Next, c.NotBefore = millis(c.ScheduledAt), millis(c.Next), millis(c.NotBefore)
		r := s.schedules[c.Schedule]
		outcome := s.refuse(r, c, request.Calendars)
		if outcome == claim.CompleteOK {
			s.decide(r, c, now, millis(now.Add(request.AuditBuffered)))
			result.Released = append(result.Released, s.moveOn(r, c, now)...)
			s.tell(r, "", now)
		}
		result.Outcomes = append(result.Outcomes, outcome)
	}
	return result, nil
}

// refuse returns why a completion changes nothing, or CompleteOK.
func (d *data) refuse(r *record, c claim.Completion, calendars int64) claim.Outcome {
	if r == nil {
		return claim.CompleteGone
	}
	if !r.holds(c.Token) || !r.next.Equal(c.ScheduledAt) {
		if !r.hwm.Before(c.ScheduledAt) {
			return claim.CompleteAlready
		}
		return claim.CompleteStale
	}
	last := c.ScheduledAt
	if c.Range != nil {
		last = later(last, millis(c.Range.Last))
	}
	if !c.Next.IsZero() && !c.Next.After(last) {
		return claim.CompleteBadNext
	}
	if r.compiled.UsesCalendars() && calendars < d.calendarV {
		return claim.CompleteCalendar
	}
	f := d.firings[r.pending()]
	noFire := c.Decision == claim.DecideVerdict || c.Decision == claim.DecideOverlap
	if noFire && f != nil && f.state == claim.FiringIntent && f.reclaimed {
		return claim.CompleteMustFire
	}
	return claim.CompleteOK
}

// decide gives the claimed scheduled time its verdict.
func (d *data) decide(r *record, c claim.Completion, now, auditBuffered time.Time) {
	f := d.firings[r.pending()]
	switch c.Decision {
	case claim.DecideEnqueued:
		r.advance(r.next, schedule.VerdictFired, 0) // the ledger keeps the intent until the auditor saw the task
	case claim.DecideAdvance:
		if f != nil {
			r.advance(r.next, schedule.VerdictFired, 0)
		}
	case claim.DecideOverlap:
		d.withdraw(r, f)
		if !r.next.After(r.hwm) {
			break
		}
		waiting := &firing{id: r.pending(), openedAt: now, audit: auditBuffered}
		switch policy := r.overlap(); {
		case slices.ContainsFunc(r.skips, r.next.Equal): // asked for since it was claimed
			at := r.next
			r.advance(at, schedule.VerdictSkipped, 0)
			r.dropSkips(at)
		case d.bufferFiring(r, waiting, r.overlap()):
			r.advance(r.next, schedule.VerdictFired, 1)
		case policy == schedule.OverlapBufferOne || policy == schedule.OverlapBufferAll:
			r.advance(r.next, schedule.VerdictOverlap, 1)
		default:
			r.advance(r.next, schedule.VerdictOverlap, 0)
		}
	case claim.DecideVerdict:
		d.withdraw(r, f)
		if c.Verdict == schedule.VerdictSkipped {
			r.dropSkips(r.next)
		}
		r.advance(r.next, c.Verdict, c.Why)
	}
	if c.Range != nil {
		r.cover(*c.Range)
	}
}

// withdraw takes back an intent that was not enqueued.
func (d *data) withdraw(r *record, f *firing) {
	if f != nil && f.state == claim.FiringIntent {
		d.closeFiring(r, f)
	}
}

// moveOn ends the claim and places the schedule at its next time.
func (d *data) moveOn(r *record, c claim.Completion, now time.Time) []claim.Released {
	r.next, r.notBefore = c.Next, c.NotBefore
	r.unclaim()
	limit := r.definition().Limit
	reached := limit > 0 && r.fired >= limit
	if reached && c.Decision == claim.DecideOverlap { // it was buffered, and is the last that may fire
		r.next, r.notBefore = time.Time{}, time.Time{}
	}
	_, after := r.compiled.Delay()
	r.waiting = after && r.next.IsZero() && !reached
	r.endProbing()
	return d.follow(r, now)
}

// Release hands a claim back.
func (s *Store) Release(ctx context.Context, release claim.Release) (bool, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	r := s.schedules[release.Schedule]
	if !r.holds(release.Token) {
		return false, nil
	}
	r.notBefore = millis(release.NotBefore)
	if release.EnqueueFailed {
		r.enqueueError = clip(release.Error)
		if s.failed(r, now) {
			r.notBefore = time.Time{}
		}
	}
	r.unclaim()
	s.tell(r, "", now)
	return true, nil
}

// clip cuts an error text to what is kept.
func clip(text string) string { return text[:min(len(text), maxError)] }
