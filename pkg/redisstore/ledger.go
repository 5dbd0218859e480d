package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/scripts/lua"
)

// auditColumns is how many values audit.lua returns for each firing.
const auditColumns = 12

// handedBack is the outcome by which finish.lua knows that nothing ran.
const handedBack = "handed_back"

// openFiring checks a firing ID and returns its schedule.
func (s *Store) openFiring(ctx context.Context, id claim.FiringID) (*layout, schedule.ID, error) {
	firing, err := claim.ParseFiringID(string(id))
	if err != nil {
		return nil, "", err
	}
	l, err := s.peek(ctx)
	return l, firing.Schedule, err
}

// Begin asks for the right to run an attempt.
func (s *Store) Begin(ctx context.Context, request claim.BeginRequest) (claim.BeginResult, error) {
	l, id, err := s.openFiring(ctx, request.Firing)
	if err != nil {
		return claim.BeginResult{}, err
	}
	if request.Owner == "" || plain(request.Owner) != request.Owner {
		return claim.BeginResult{}, &schedule.FieldError{Field: "owner", Value: request.Owner, Allowed: "a nonce without control characters and '|'"}
	}
	if err := checkTerm("lease", request.Lease); err != nil {
		return claim.BeginResult{}, err
	}
	answer, err := s.begins.call(ctx, s, l, id, fmt.Sprintf("begin %q", request.Firing), string(request.Firing.WithoutRedrives()), request.Owner,
		plain(request.Worker), request.Lease.Milliseconds(), flag(request.Effect == schedule.AtMostOnce), max(0, request.KeepRuns))
	if err != nil {
		return claim.BeginResult{}, err
	}
	result := claim.BeginResult{Answer: claim.Answer(answer.text(0)), Token: claim.Token(answer.number(1)), Attempt: int(answer.number(2)),
		Wait: time.Duration(answer.number(3)) * time.Millisecond, Released: answer.released(4)}
	return result, answer.err
}

// Heartbeat extends the leases of running attempts.
func (s *Store) Heartbeat(ctx context.Context, lease time.Duration, runs []claim.Run) ([]claim.Pulse, error) {
	if err := checkTerm("lease", lease); err != nil {
		return nil, err
	}
	l, err := s.peek(ctx)
	if err != nil {
		return nil, err
	}
	ids, err := schedulesOf(len(runs), func(i int) claim.FiringID { return runs[i].Firing })
	if err != nil {
		return nil, err
	}
	pulses := make([]claim.Pulse, len(runs))
	for _, g := range byShard(l, len(runs), func(i int) schedule.ID { return ids[i] }) {
		args := []any{lease.Milliseconds()}
		for _, i := range g.positions {
			args = append(args, string(runs[i].Firing.WithoutRedrives()), int64(runs[i].Token))
		}
		answer, err := s.runShard(ctx, "extend executions", lua.Heartbeat, l, g.shard, args...)
		if err != nil {
			return nil, err
		}
		for n, i := range g.positions {
			pulses[i] = claim.Pulse(answer.text(n))
		}
		if answer.err != nil {
			return nil, answer.err
		}
	}
	return pulses, nil
}

// schedulesOf returns the schedules of firings.
func schedulesOf(n int, firing func(i int) claim.FiringID) ([]schedule.ID, error) {
	ids := make([]schedule.ID, n)
	for i := range n {
		parsed, err := claim.ParseFiringID(string(firing(i)))
		if err != nil {
			return nil, err
		}
		ids[i] = parsed.Schedule
	}
	return ids, nil
}

// Finish reports the end of an attempt.
func (s *Store) Finish(ctx context.Context, request claim.FinishRequest) (claim.FinishResult, error) {
	outcome := string(request.Outcome)
	switch {
	case request.HandBack:
		outcome = handedBack
	case request.Outcome == claim.OutcomeSucceeded, request.Outcome == claim.OutcomeFailed,
		request.Outcome == claim.OutcomeRetrying, request.Outcome == claim.OutcomeCancelled:
	default:
		return claim.FinishResult{}, &schedule.FieldError{Field: "outcome", Value: outcome, Allowed: "succeeded, failed, retrying or cancelled"}
	}
	l, id, err := s.openFiring(ctx, request.Run.Firing)
	if err != nil {
		return claim.FinishResult{}, err
	}
	answer, err := s.finishes.call(ctx, s, l, id, fmt.Sprintf("finish %q", request.Run.Firing), string(request.Run.Firing.WithoutRedrives()),
		int64(request.Run.Token), outcome, max(0, request.RetryAfter).Milliseconds(), millis(request.Started),
		max(0, request.Duration).Milliseconds(), request.Attempt, plain(request.Worker), max(0, request.KeepRuns), clip(request.Error))
	if err != nil {
		return claim.FinishResult{}, err
	}
	return claim.FinishResult{Answer: claim.FinishAnswer(answer.text(0)), Released: answer.released(1)}, answer.err
}

// Mark records that tasks are in their queues.
func (s *Store) Mark(ctx context.Context, auditAfter time.Duration, firings []claim.FiringID) error {
	l, err := s.peek(ctx)
	if err != nil {
		return err
	}
	ids, err := schedulesOf(len(firings), func(i int) claim.FiringID { return firings[i] })
	if err != nil {
		return err
	}
	for _, g := range byShard(l, len(firings), func(i int) schedule.ID { return ids[i] }) {
		args := []any{auditAfter.Milliseconds()}
		for _, i := range g.positions {
			args = append(args, string(firings[i].WithoutRedrives()))
		}
		if _, err := s.runShard(ctx, "mark enqueued firings", lua.Mark, l, g.shard, args...); err != nil {
			return err
		}
	}
	return nil
}

// Audit returns overdue firings of a shard and hides them for a while.
func (s *Store) Audit(ctx context.Context, request claim.AuditRequest) (claim.AuditBatch, error) {
	l, err := s.peek(ctx)
	if err != nil {
		return claim.AuditBatch{}, err
	}
	if err := l.checkShard(request.Shard); err != nil {
		return claim.AuditBatch{}, err
	}
	if err := checkLimit(request.Limit); err != nil {
		return claim.AuditBatch{}, err
	}
	answer, err := s.runShard(ctx, "audit open firings", lua.Audit, l, request.Shard, request.Limit, request.Hide.Milliseconds())
	if err != nil {
		return claim.AuditBatch{}, err
	}
	batch := claim.AuditBatch{Now: answer.time(0), NextAudit: answer.time(1), Released: answer.released(2)}
	firings := answer.list(3)
	batch.Firings = openRows(&firings)
	if firings.err != nil {
		return claim.AuditBatch{}, firings.err
	}
	return batch, answer.err
}

// Redrive raises the number of re-drives of a firing whose task is lost.
func (s *Store) Redrive(ctx context.Context, request claim.RedriveRequest) (claim.RedriveResult, error) {
	l, id, err := s.openFiring(ctx, request.Firing)
	if err != nil {
		return claim.RedriveResult{}, err
	}
	doing := fmt.Sprintf("re-drive %q", request.Firing)
	answer, err := s.runShard(ctx, doing, lua.Redrive, l, l.shardOf(id), string(request.Firing.WithoutRedrives()), request.Expected,
		int64(request.Token), request.AuditAfter.Milliseconds())
	if err != nil {
		return claim.RedriveResult{}, err
	}
	return claim.RedriveResult{Answer: claim.RedriveAnswer(answer.text(0)), Redrives: int(answer.number(1))}, answer.err
}

// Settle closes a firing with an outcome that was found.
func (s *Store) Settle(ctx context.Context, request claim.SettleRequest) (claim.RedriveResult, error) {
	switch request.Outcome {
	case claim.OutcomeSucceeded, claim.OutcomeFailed, claim.OutcomeCancelled, claim.OutcomeLost, claim.OutcomeUnknown:
	default:
		return claim.RedriveResult{}, &schedule.FieldError{Field: "outcome", Value: string(request.Outcome), Allowed: "succeeded, failed, cancelled, lost or unknown"}
	}
	l, id, err := s.openFiring(ctx, request.Firing)
	if err != nil {
		return claim.RedriveResult{}, err
	}
	doing := fmt.Sprintf("settle %q", request.Firing)
	answer, err := s.run(ctx, doing, lua.Settle, s.withRunLog(l, id), s.clock(string(request.Firing.WithoutRedrives()), int64(request.Token),
		string(request.Outcome), max(0, request.KeepRuns), clip(request.Error))...)
	if err != nil {
		return claim.RedriveResult{}, err
	}
	return claim.RedriveResult{Answer: claim.RedriveAnswer(answer.text(0)), Redrives: int(answer.number(1)), Released: answer.released(2)}, answer.err
}

// Runs returns the run log of a schedule, newest first.
func (s *Store) Runs(ctx context.Context, id schedule.ID, limit int) ([]claim.RunRecord, error) {
	doing := fmt.Sprintf("read the runs of %q", id)
	l, err := s.peek(ctx)
	if err != nil {
		return nil, err
	}
	var texts []string
	if limit > 0 {
		texts, err = s.client.LRange(ctx, s.keys.runLog(l.shardOf(id), id), 0, int64(limit)-1).Result()
		if err != nil {
			return nil, wrap(doing, err)
		}
	}
	if len(texts) == 0 {
		o, _, err := s.readOne(ctx, doing, l, id)
		if err == nil && !o.exists() {
			err = o.absent(doing, id)
		}
		return nil, err
	}
	runs := make([]claim.RunRecord, len(texts))
	for i, text := range texts {
		if runs[i], err = decodeRun(text); err != nil {
			return nil, wrap(doing, err)
		}
	}
	return runs, nil
}
