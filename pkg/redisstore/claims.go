package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/scripts/lua"
)

// maxBatch bounds how many schedules or firings one script touches: a script
// stops everybody else while it runs.
const maxBatch = 1000

// claimColumns is how many values claim.lua returns for each claim.
const claimColumns = 12

// checkLimit returns a *schedule.FieldError for a limit out of bounds.
func checkLimit(limit int) error {
	if limit < 1 || limit > maxBatch {
		return &schedule.FieldError{Field: "limit", Value: strconv.Itoa(limit), Allowed: "1 to " + strconv.Itoa(maxBatch)}
	}
	return nil
}

// checkTerm returns a *schedule.FieldError for a term below a millisecond.
func checkTerm(field string, term time.Duration) error {
	if term < time.Millisecond {
		return &schedule.FieldError{Field: field, Value: term.String(), Allowed: "1ms or more"}
	}
	return nil
}

// ClaimDue grants due schedules, oldest first.
func (s *Store) ClaimDue(ctx context.Context, request claim.ClaimRequest) (claim.Batch, error) {
	l, err := s.peek(ctx)
	if err != nil {
		return claim.Batch{}, err
	}
	if err := l.checkShard(request.Shard); err != nil {
		return claim.Batch{}, err
	}
	if err := checkLimit(request.Limit); err != nil {
		return claim.Batch{}, err
	}
	if err := checkTerm("ttl", request.TTL); err != nil {
		return claim.Batch{}, err
	}
	if request.AuditOverlap == 0 {
		request.AuditOverlap = request.AuditAfter
	}
	answer, err := s.runShard(ctx, "claim due firings", lua.Claim, l, request.Shard, request.Limit,
		request.TTL.Milliseconds(), request.AuditAfter.Milliseconds(), request.AuditOverlap.Milliseconds())
	if err != nil {
		return claim.Batch{}, err
	}
	batch := claim.Batch{Now: answer.time(0), NextDue: answer.time(1), Released: answer.released(2), Calendars: answer.number(5)}
	claims := answer.list(3)
	for i := 0; i+claimColumns <= len(claims.values); i += claimColumns {
		batch.Claims = append(batch.Claims, readClaim(&claims, i))
	}
	if claims.err != nil {
		return claim.Batch{}, claims.err
	}
	damaged := answer.list(4)
	for i := range damaged.values {
		batch.Damaged = append(batch.Damaged, schedule.ID(damaged.text(i)))
	}
	return batch, errors.Join(answer.err, damaged.err)
}

func readClaim(r *reply, i int) claim.Claim {
	c := claim.Claim{Schedule: schedule.ID(r.text(i)), Generation: r.number(i + 1), ScheduledAt: r.time(i + 2),
		Token: claim.Token(r.number(i + 3)), Kind: claim.ClaimKind(r.text(i + 4)), Version: r.number(i + 5),
		Again: r.number(i+6) == 1, Redrives: int(r.number(i + 7)), Fired: r.number(i + 8), OpenOthers: int(r.number(i + 9)), Queue: r.text(i + 11)}
	for _, id := range openFirings(c.Schedule, r.text(i+10)) {
		c.Open = append(c.Open, claim.FiringID(id))
	}
	return c
}

// released reads a flat list of firings, queues and extras.
func (r *reply) released(i int) []claim.Released {
	list := r.list(i)
	var all []claim.Released
	for j := 0; j+2 < len(list.values); j += 3 {
		all = append(all, claim.Released{Firing: claim.FiringID(list.text(j)), Queue: list.text(j + 1), Extra: list.extra(j + 2)})
	}
	if list.err != nil && r.err == nil {
		r.err = list.err
	}
	return all
}

// byShard groups positions of a batch by shard, in chunks that one script may
// touch.
func byShard(l *layout, n int, id func(i int) schedule.ID) []group {
	var groups []group
	current := map[int]int{} // shard -> index of its last group
	for i := range n {
		shard := l.shardOf(id(i))
		at, ok := current[shard]
		if !ok || len(groups[at].positions) >= maxBatch {
			at = len(groups)
			groups = append(groups, group{shard: shard})
			current[shard] = at
		}
		groups[at].positions = append(groups[at].positions, i)
	}
	return groups
}

// A group is a part of a batch that goes to one shard in one call.
type group struct {
	shard     int
	positions []int
}

// Renew extends claims.
func (s *Store) Renew(ctx context.Context, ttl time.Duration, holds []claim.Hold) ([]bool, error) {
	if err := checkTerm("ttl", ttl); err != nil {
		return nil, err
	}
	l, err := s.peek(ctx)
	if err != nil {
		return nil, err
	}
	held := make([]bool, len(holds))
	for _, g := range byShard(l, len(holds), func(i int) schedule.ID { return holds[i].Schedule }) {
		args := []any{ttl.Milliseconds()}
		for _, i := range g.positions {
			args = append(args, string(holds[i].Schedule), int64(holds[i].Token))
		}
		answer, err := s.runShard(ctx, "renew claims", lua.Renew, l, g.shard, args...)
		if err != nil {
			return nil, err
		}
		for n, i := range g.positions {
			held[i] = answer.number(n) == 1
		}
		if answer.err != nil {
			return nil, answer.err
		}
	}
	return held, nil
}

// Complete settles claims. When a batch spans shards and one fails, the error
// says nothing about the others: complete all of them again.
func (s *Store) Complete(ctx context.Context, request claim.CompleteRequest) (claim.CompleteResult, error) {
	l, err := s.peek(ctx)
	if err != nil {
		return claim.CompleteResult{}, err
	}
	all := request.Completions
	result := claim.CompleteResult{Outcomes: make([]claim.Outcome, len(all))}
	for _, g := range byShard(l, len(all), func(i int) schedule.ID { return all[i].Schedule }) {
		args := []any{request.AuditBuffered.Milliseconds(), request.Calendars}
		for _, i := range g.positions {
			packed, err := completion(&all[i])
			if err != nil {
				return claim.CompleteResult{}, err
			}
			args = append(args, packed...)
		}
		answer, err := s.runShard(ctx, "complete claims", lua.Complete, l, g.shard, args...)
		if err != nil {
			return claim.CompleteResult{}, err
		}
		result.Released = append(result.Released, answer.released(0)...)
		outcomes := answer.list(1)
		for n, i := range g.positions {
			result.Outcomes[i] = claim.Outcome(outcomes.text(n))
		}
		if outcomes.err != nil {
			return claim.CompleteResult{}, outcomes.err
		}
		if answer.err != nil {
			return claim.CompleteResult{}, answer.err
		}
	}
	return result, nil
}

// completion packs one completion as complete.lua reads it.
func completion(c *claim.Completion) ([]any, error) {
	decision := string(c.Decision)
	switch c.Decision {
	case claim.DecideEnqueued, claim.DecideOverlap, claim.DecideAdvance:
	case claim.DecideVerdict:
		if c.Verdict <= schedule.VerdictFired || c.Verdict > schedule.VerdictSuperseded {
			return nil, &schedule.FieldError{Field: "verdict", Value: strconv.Itoa(int(c.Verdict)), Allowed: "one that says why it does not fire, 2 to 8"}
		}
		decision = strconv.Itoa(int(c.Verdict))
	default:
		return nil, &schedule.FieldError{Field: "decision", Value: decision, Allowed: "E, O, A or V"}
	}
	return []any{string(c.Schedule), int64(c.Token), millis(c.ScheduledAt), decision, c.Why, millis(c.Next), delayed(c.Next, c.NotBefore),
		rangeText(c.Range)}, nil
}

// Release hands a claim back.
func (s *Store) Release(ctx context.Context, release claim.Release) (bool, error) {
	l, err := s.peek(ctx)
	if err != nil {
		return false, err
	}
	doing := fmt.Sprintf("release the claim on %q", release.Schedule)
	answer, err := s.runShard(ctx, doing, lua.Release, l, l.shardOf(release.Schedule), string(release.Schedule),
		int64(release.Token), millis(release.NotBefore), flag(release.EnqueueFailed), strings.TrimSpace(clip(release.Error)))
	if err != nil {
		return false, err
	}
	return answer.word() == "OK", nil
}
