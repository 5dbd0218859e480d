package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// AuditorOptions configure an Auditor.
type AuditorOptions struct {
	Ledger   claim.Ledger
	Catalog  schedule.Catalog
	Enqueuer *Enqueuer
	Redis    redis.UniversalClient // of the queues; stays the caller's to close
	Reader   claim.FiringReader    // for Look; nil: Look finds nothing

	Limit       int           // firings of one Sweep; 0 is 100
	Hide        time.Duration // when a firing that was left alone is looked at again; 0 is 15 s
	AuditAfter  time.Duration // when a firing that was enqueued again is looked at; 0 is 15 s
	LostAfter   time.Duration // how long a task may be active with no worker before it counts as lost; 0 is 3 min, which leaves asynq's own recovery its time
	MaxRedrives int           // re-drives of a firing before it is settled as lost; 0 is 3
	KeepRuns    int           // length of the run log; 0: none
	Concurrency int           // look-ups at a time; 0 is 16
	Observer    Observer      // may be nil
}

// An Auditor closes or re-drives firings that were open for too long. Every
// worker runs one. It is safe for concurrent use.
type Auditor struct {
	ledger      claim.Ledger
	reader      claim.FiringReader // may be nil
	releaser    releaser
	tasks       tasks
	limit       int
	hide        time.Duration
	auditAfter  time.Duration
	lostAfter   time.Duration
	maxRedrives int
	keepRuns    int
	concurrency int
	observer    Observer
	memory      *memory
}

// SweepResult counts what a Sweep did. A firing may count more than once.
type SweepResult struct {
	Now       time.Time // the store's clock
	NextAudit time.Time // earliest audit time left in the shard; zero: none
	Looked    int       // firings that were due for an audit
	Left      int       // of those, left alone
	Enqueued  int       // tasks that were owed, enqueued or found under the ID that they were to have: no re-drives
	Redriven  int       // lost tasks, enqueued again under a new ID
	Settled   int       // firings closed
	Lost      int       // of those, given up after the last re-drive
	Released  int       // buffered firings that became free
	Failed    int       // firings that could not be audited; they are due again after Hide
}

// NewAuditor returns a *schedule.FieldError for options that are refused.
func NewAuditor(options AuditorOptions) (*Auditor, error) {
	if err := checkCollaborators(options.Ledger, options.Catalog, options.Enqueuer); err != nil {
		return nil, err
	}
	if options.Redis == nil {
		return nil, &schedule.FieldError{Field: "redis", Value: "nil", Allowed: "a Redis client"}
	}
	a := &Auditor{
		ledger: options.Ledger, reader: options.Reader, tasks: newTasks(options.Redis, options.Enqueuer.namespace), keepRuns: options.KeepRuns,
		observer: observerOr(options.Observer), memory: newMemory(),
	}
	var errs [7]error
	a.limit, errs[0] = numberOr("limit", options.Limit, 100)
	a.maxRedrives, errs[1] = numberOr("max_redrives", options.MaxRedrives, 3)
	a.concurrency, errs[2] = numberOr("concurrency", options.Concurrency, 16)
	a.hide, errs[3] = durationOr("hide", options.Hide, 15*time.Second, time.Millisecond)
	a.auditAfter, errs[4] = durationOr("audit_after", options.AuditAfter, 15*time.Second, time.Millisecond)
	a.lostAfter, errs[5] = durationOr("lost_after", options.LostAfter, 3*time.Minute, time.Millisecond)
	errs[6] = notNegative("keep_runs", options.KeepRuns)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	a.releaser = releaser{options.Ledger, options.Catalog, options.Enqueuer, a.auditAfter}
	return a, nil
}

// numberOr returns n, or otherwise for 0, and refuses less than 0.
func numberOr(field string, n, otherwise int) (int, error) {
	if n < 0 {
		return 0, &schedule.FieldError{Field: field, Value: strconv.Itoa(n), Allowed: "0 for " + strconv.Itoa(otherwise) + ", or more"}
	}
	if n == 0 {
		return otherwise, nil
	}
	return n, nil
}

// Release enqueues buffered firings that became free and marks them. Calling it
// again is harmless, and what it does not achieve is done by a later Sweep of
// any worker.
func (a *Auditor) Release(ctx context.Context, released []claim.Released) error {
	return a.releaser.release(ctx, released)
}

// Sweep looks at the firings of one shard that are due for an audit, at most
// AuditorOptions.Limit, and does what each needs. When SweepResult.Looked is
// that limit there may be more. The error joins what went wrong with single
// firings; those are due again after AuditorOptions.Hide, and the result is
// valid all the same.
func (a *Auditor) Sweep(ctx context.Context, shard int) (SweepResult, error) {
	batch, err := a.ledger.Audit(ctx, claim.AuditRequest{Shard: shard, Limit: a.limit, Hide: a.hide})
	if err != nil {
		return SweepResult{}, fmt.Errorf("queue: audit shard %d: %w", shard, err)
	}
	a.memory.trim(batch.Now)
	s := &sweep{Auditor: a, batch: batch, result: SweepResult{Now: batch.Now, NextAudit: batch.NextAudit, Looked: len(batch.Firings)}}
	s.working = a.tasks.workingOnce(ctx)
	s.released(ctx, batch.Released)
	s.each(ctx, s.inspect)
	s.define(ctx)
	s.each(ctx, s.act)
	return s.result, errors.Join(s.errs...)
}

// A sweep is one call of Sweep.
type sweep struct {
	*Auditor
	batch   claim.AuditBatch
	working func() (map[string]bool, error) // tasks that asynq servers run; asked once, when first needed

	decisions   []decision // one per firing of the batch
	definitions map[claim.FiringID]schedule.Schedule

	mu     sync.Mutex
	result SweepResult
	closed []claim.FiringID // settled by this sweep, or before
	errs   []error
}

// maxSweepErrors bounds the errors of single firings that Sweep returns.
const maxSweepErrors = 5

// count changes the result under its lock.
func (s *sweep) count(change func(*SweepResult)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.result)
}

func (s *sweep) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result.Failed++
	if len(s.errs) < maxSweepErrors {
		s.errs = append(s.errs, err)
	}
}

// each calls f for every firing of the batch, several at a time.
func (s *sweep) each(ctx context.Context, f func(context.Context, int)) {
	if s.decisions == nil {
		s.decisions = make([]decision, len(s.batch.Firings))
	}
	var group errgroup.Group
	group.SetLimit(s.concurrency)
	for i := range s.batch.Firings {
		group.Go(func() error {
			f(ctx, i)
			return nil
		})
	}
	_ = group.Wait() // errors are in s.errs
}

func (s *sweep) released(ctx context.Context, released []claim.Released) {
	if len(released) == 0 {
		return
	}
	s.count(func(r *SweepResult) { r.Released += len(released) })
	if err := s.releaser.release(ctx, released); err != nil {
		s.fail(err)
	}
}

// define reads the definitions that the decisions need.
func (s *sweep) define(ctx context.Context) {
	var firings []claim.FiringID
	for i, d := range s.decisions {
		if d.what == doEnqueue || d.what == doRedrive {
			firings = append(firings, s.batch.Firings[i].Firing)
		}
	}
	definitions, errs := s.releaser.definitions(ctx, firings)
	for _, err := range errs {
		s.fail(err)
	}
	s.definitions = definitions
}
