package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/scripts/lua"
)

var (
	_ claim.Backfills    = (*Store)(nil)
	_ claim.FiringReader = (*Store)(nil)
)

// StartBackfill begins to fire scheduled times of the past.
func (s *Store) StartBackfill(ctx context.Context, request claim.BackfillRequest) (claim.Backfill, error) {
	doing := fmt.Sprintf("start a backfill of %q", request.Schedule)
	if request.ID == "" {
		request.ID = rand.Text()
	}
	l, err := s.peek(ctx)
	if err != nil {
		return claim.Backfill{}, err
	}
	o, now, err := s.readOne(ctx, doing, l, request.Schedule)
	if err != nil {
		return claim.Backfill{}, err
	}
	if !o.exists() {
		return claim.Backfill{}, o.absent(doing, request.Schedule)
	}
	if err := request.Complete(now); err != nil {
		return claim.Backfill{}, err
	}
	if err := s.checkBackfilled(ctx, definitionOf(&o)); err != nil {
		return claim.Backfill{}, err
	}
	shard := l.shardOf(request.Schedule)
	answer, err := s.runShard(ctx, doing, lua.BackfillStart, l, shard, string(request.Schedule), o.record.generation, request.ID,
		millis(request.From), millis(request.To), request.Every.Milliseconds(), request.MaxOpen, overlapNumbers[request.Overlap],
		flag(request.Again), request.Limit, s.keys.wakeChannel(), shardTag(shard))
	if err != nil {
		return claim.Backfill{}, err
	}
	status := answer.text(0)
	if status == "GONE" {
		return claim.Backfill{}, notFound(doing)
	}
	b, err := readBackfill(backfillField(request.Schedule, request.ID), answer.text(1))
	b.Existed = status == "KNOWN"
	return b, errors.Join(answer.err, err)
}

// checkBackfilled refuses schedules whose scheduled times depend on their
// runs.
func (s *Store) checkBackfilled(ctx context.Context, definition schedule.Schedule) error {
	all, err := s.calendarsFor(ctx, definition)
	if err != nil {
		return err
	}
	compiled, err := schedule.Compile(definition, all.calendars)
	if err != nil {
		return err
	}
	if _, delay := compiled.Delay(); delay {
		return &schedule.FieldError{Field: "schedule", Value: string(definition.ID), Allowed: "one without after, whose times depend on its runs"}
	}
	return nil
}

// backfillField is the field of a backfill in its shard.
func backfillField(id schedule.ID, backfill string) string { return string(id) + ":" + backfill }

// longestBackfill bounds the record of a backfill in bytes, as scripts do.
const longestBackfill = 4096

// readBackfill decodes a record of scripts/lua/lib/backfill.lua. It refuses
// what get_backfill there refuses.
func readBackfill(field, text string) (claim.Backfill, error) {
	id, backfill, _ := strings.Cut(field, ":")
	f := fieldReader{rest: text}
	b := claim.Backfill{Schedule: schedule.ID(id), ID: backfill, Generation: f.number(), From: f.time(), To: f.time(), Cursor: f.time()}
	_ = f.time() // not before: scripts hold it
	b.Every, b.MaxOpen = f.duration(), f.int()
	overlap := int(f.number())
	for policy, number := range overlapNumbers {
		if number == overlap {
			b.Overlap = policy
		}
	}
	b.Again, b.Limit = f.number() == 1, f.number()
	b.StartedAt, b.HaltedAt, b.EndedAt = f.time(), f.time(), f.time()
	b.Open, b.Opened, b.Passed, b.Failed = f.int(), f.number(), f.number(), f.number()
	if f.bad || len(text) > longestBackfill {
		return claim.Backfill{}, fmt.Errorf("redisstore: %.200q is not the record of a backfill", text)
	}
	return b, nil
}

// Backfill returns where a backfill stands.
func (s *Store) Backfill(ctx context.Context, id schedule.ID, backfill string) (claim.Backfill, error) {
	doing := fmt.Sprintf("read backfill %q of %q", backfill, id)
	l, err := s.peek(ctx)
	if err != nil {
		return claim.Backfill{}, err
	}
	o, _, err := s.readOne(ctx, doing, l, id)
	if err != nil {
		return claim.Backfill{}, err
	}
	text, err := s.client.HGet(ctx, l.keys[l.shardOf(id)][keyBackfill], backfillField(id, backfill)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return claim.Backfill{}, wrap(doing, err)
	}
	if err != nil {
		return claim.Backfill{}, wrap(doing, claim.ErrNoBackfill)
	}
	b, err := readBackfill(backfillField(id, backfill), text)
	if err == nil && b.Generation != o.record.generation {
		err = wrap(doing, claim.ErrNoBackfill)
	}
	return b, err
}

// HaltBackfill stops a backfill where it is.
func (s *Store) HaltBackfill(ctx context.Context, id schedule.ID, backfill string) (claim.Backfill, error) {
	return s.haltBackfill(ctx, fmt.Sprintf("halt backfill %q of %q", backfill, id), id, backfill, true)
}

// ResumeBackfill lets a halted backfill go on.
func (s *Store) ResumeBackfill(ctx context.Context, id schedule.ID, backfill string) (claim.Backfill, error) {
	return s.haltBackfill(ctx, fmt.Sprintf("resume backfill %q of %q", backfill, id), id, backfill, false)
}

func (s *Store) haltBackfill(ctx context.Context, doing string, id schedule.ID, backfill string, halt bool) (claim.Backfill, error) {
	l, err := s.peek(ctx)
	if err != nil {
		return claim.Backfill{}, err
	}
	shard := l.shardOf(id)
	answer, err := s.runShard(ctx, doing, lua.BackfillHalt, l, shard, string(id), backfill, flag(halt), s.keys.wakeChannel(), shardTag(shard))
	if err != nil {
		return claim.Backfill{}, err
	}
	if answer.text(0) == "GONE" {
		return claim.Backfill{}, wrap(doing, claim.ErrNoBackfill)
	}
	b, err := readBackfill(backfillField(id, backfill), answer.text(1))
	return b, errors.Join(answer.err, err)
}

// DueBackfills names backfills whose next step may run.
func (s *Store) DueBackfills(ctx context.Context, request claim.DueBackfillsRequest) (claim.BackfillBatch, error) {
	l, err := s.peek(ctx)
	if err != nil {
		return claim.BackfillBatch{}, err
	}
	if err := l.checkShard(request.Shard); err != nil {
		return claim.BackfillBatch{}, err
	}
	if err := checkLimit(request.Limit); err != nil {
		return claim.BackfillBatch{}, err
	}
	answer, err := s.runShard(ctx, "look for backfills", lua.BackfillDue, l, request.Shard, request.Limit, request.Hide.Milliseconds())
	if err != nil {
		return claim.BackfillBatch{}, err
	}
	batch := claim.BackfillBatch{Now: answer.time(0), NextDue: answer.time(1)}
	due := answer.list(2)
	for i := 0; i+1 < len(due.values); i += 2 {
		b, err := readBackfill(due.text(i), due.text(i+1))
		if err != nil {
			return claim.BackfillBatch{}, err
		}
		batch.Backfills = append(batch.Backfills, b)
	}
	return batch, errors.Join(answer.err, due.err)
}

// StepBackfill opens the next firings of a backfill.
func (s *Store) StepBackfill(ctx context.Context, step claim.BackfillStep) (claim.BackfillResult, error) {
	doing := fmt.Sprintf("step backfill %q of %q", step.ID, step.Schedule)
	if len(step.Open) > claim.MaxBackfillOpen {
		return claim.BackfillResult{}, &schedule.FieldError{Field: "open", Value: fmt.Sprint(len(step.Open)), Allowed: fmt.Sprintf("at most %d scheduled times", claim.MaxBackfillOpen)}
	}
	l, err := s.peek(ctx)
	if err != nil {
		return claim.BackfillResult{}, err
	}
	args := []any{string(step.Schedule), step.ID, millis(step.Expected), millis(step.Cursor), step.Passed}
	for _, at := range step.Open {
		args = append(args, millis(at))
	}
	answer, err := s.runShard(ctx, doing, lua.BackfillStep, l, l.shardOf(step.Schedule), args...)
	if err != nil {
		return claim.BackfillResult{}, err
	}
	result := claim.BackfillResult{Answer: claim.StepAnswer(answer.text(0)), Released: answer.released(2)}
	if result.Answer != claim.StepGone {
		result.Backfill, err = readBackfill(backfillField(step.Schedule, step.ID), answer.text(1))
	}
	return result, errors.Join(answer.err, err)
}
