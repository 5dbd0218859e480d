package storm

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/queue"
)

// slots is how many tasks a consumer runs at a time.
const slots = 3

// A consumer is a model of an asynq server. What its handlers are wrapped in is
// the product's middleware, unless it is a plain one.
type consumer struct {
	p       *process
	handler asynq.Handler
	failure func(error) bool
	delay   asynq.RetryDelayFunc
	hook    redis.Hook // nil: asynq alone
	slots   chan struct{}
	bell    chan struct{}
	leased  map[string]*delivery // by key; needs the lock of the simulation
}

// A delivery is one hand-out of a task.
type delivery struct {
	key   string
	task  task // as it was then
	until time.Time
}

// String is for traces.
func (d *delivery) String() string {
	if d == nil {
		return "nothing"
	}
	return d.task.info.ID
}

// consume starts the consumer of a process.
func (s *sim) consume(p *process) error {
	c := &consumer{p: p, slots: make(chan struct{}, slots), leased: map[string]*delivery{}}
	handler := asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error { return s.work(ctx, p, t) })
	c.handler, c.delay = handler, c.retryDelay
	c.failure = func(err error) bool { return err != nil }
	if !s.c.plain {
		store := s.gate(p, 0)
		enqueuer, err := queue.NewEnqueuer(queue.EnqueuerOptions{Redis: p.client(), Concurrency: 1})
		if err != nil {
			return err
		}
		m, err := queue.NewMiddleware(queue.MiddlewareOptions{Ledger: store, Enqueuer: enqueuer, Catalog: store, Worker: p.id, KeepRuns: 5,
			RetryDelay: func(int, error, *asynq.Task) time.Duration { return 2 * time.Second }})
		if err != nil {
			return err
		}
		c.handler, c.failure, c.delay, c.hook = m.Wrap(handler), m.IsFailure, m.RetryDelay, queue.NewBackoffHook()
	} else if s.c.hooked {
		c.hook = queue.NewBackoffHook()
	}
	s.atomically(func() { c.bell = s.broker.joined(p.id) })
	s.group.Go(c.run)
	s.group.Go(c.beat)
	s.group.Go(c.recover)
	return nil
}

// run takes tasks whenever there are some and a slot is free.
func (c *consumer) run() {
	for c.p.ctx.Err() == nil {
		d := roll(c.p.sim.seed, c.p.id, "poll")
		timer := time.NewTimer(d.between(2*time.Second, 3*time.Second))
		select {
		case <-c.p.ctx.Done():
		case <-c.bell:
		case <-timer.C:
		}
		timer.Stop()
		_ = c.p.wait(c.p.ctx, "poll", d.between(time.Millisecond, 200*time.Millisecond)) // its end ends the loop
		for c.take() {
		}
	}
}

// take runs one task and reports whether there was one.
func (c *consumer) take() bool {
	select {
	case c.slots <- struct{}{}:
	case <-c.p.ctx.Done():
		return false
	}
	free := func() { <-c.slots }
	s := c.p.sim
	got, err := call(c.p.ctx, c.p, "dequeue", "", func(context.Context) (*delivery, error) {
		var got *delivery
		s.atomically(func() {
			d := roll(s.seed, c.p.id, "duplicate")
			again := s.faults().on && d.chance(s.c.dup)
			if key := s.broker.dequeue(c.p.id, again, d); key != "" {
				got = &delivery{key: key, task: *s.broker.tasks[key], until: time.Now().Add(taskLease)}
			}
		})
		return got, nil
	})
	if err != nil || got == nil {
		free()
		return false
	}
	s.group.Go(func() {
		defer free()
		c.process(got)
	})
	return true
}

// process is what asynq's processor does with a task.
func (c *consumer) process(d *delivery) {
	s, id := c.p.sim, d.task.info.ID
	ctx, cancel := context.WithTimeout(delivered(c.p.ctx, &d.task), max(d.task.info.Timeout, time.Second))
	defer cancel()
	s.atomically(func() {
		c.leased[d.key] = d
		s.broker.cancels[id] = append(s.broker.cancels[id], cancel)
	})
	defer s.atomically(func() {
		delete(c.leased, d.key)
		s.broker.ended(c.p.id, id)
	})
	done := make(chan error, 1)
	s.group.Go(func() {
		done <- c.handler.ProcessTask(ctx, asynq.NewTaskWithHeaders(d.task.info.Type, d.task.info.Payload, d.task.info.Headers))
	})
	for time.Now().Before(c.leaseEnd(d)) {
		timer := time.NewTimer(time.Until(c.leaseEnd(d)))
		var cause error
		select {
		case cause = <-done:
		case <-ctx.Done():
		case <-timer.C:
			continue
		}
		timer.Stop()
		if ctx.Err() != nil { // also when the handler returned because of it, at the same instant
			cause = ctx.Err()
		}
		if time.Now().Before(c.leaseEnd(d)) {
			c.finish(d, cause)
		}
		return
	}
	// asynq writes nothing after the end of a lease: the recoverer takes care.
}

// retryDelay is asynq.DefaultRetryDelayFunc with chance from the dice.
func (c *consumer) retryDelay(n int, _ error, t *asynq.Task) time.Duration {
	d := roll(c.p.sim.seed, c.p.id, "retry", t.Headers()[queue.HeaderFiring])
	return time.Duration(n*n*n*n+15+d.pick(30)*(n+1)) * time.Second
}

func (c *consumer) leaseEnd(d *delivery) (end time.Time) {
	c.p.sim.atomically(func() { end = d.until })
	return end
}

// finish reports the end of a task, until the lease that it began under is over.
// Servers with the product's middleware have its hook too, which repeats what
// asynq tries once.
func (c *consumer) finish(d *delivery, cause error) {
	t := asynq.NewTaskWithHeaders(d.task.info.Type, d.task.info.Payload, d.task.info.Headers)
	end, failure, op := d.task.end(cause), cause != nil && c.failure(cause), "done"
	var delay time.Duration
	if cause != nil {
		op, delay = "not done", c.delay(d.task.retried, cause, t)
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(c.p.ctx), c.leaseEnd(d))
	defer cancel()
	run := func(ctx context.Context, _ redis.Cmder) error {
		_, err := call(ctx, c.p, op, d.key, func(context.Context) (string, error) {
			var err error
			c.p.sim.atomically(func() { err = c.p.sim.broker.finish(d.key, end, cause, delay, failure) })
			if cause != nil {
				return cause.Error(), err
			}
			return "", err
		})
		if errors.Is(err, errDead) {
			cancel()
		}
		return err
	}
	if c.hook != nil && end != retrying { // that it holds back with chance, which would not replay
		run = c.hook.ProcessHook(run)
	}
	_ = run(ctx, script(end, d.key)) // asynq logs it; its syncer's context has ended
}

// script is the call by which asynq ends a task, as far as hooks read it.
func script(end, key string) redis.Cmder {
	asynqs := func(name string) string { return "asynq:{" + queueOf(key) + "}:" + name }
	args := []any{"evalsha", end, 4}
	switch end {
	case completed:
		args = append(args, asynqs("active"), asynqs("lease"), asynqs(end), key)
	case gone:
		args = append(args, asynqs("active"), asynqs("lease"), key, asynqs("processed"))
	default:
		args = append(args, key, asynqs("active"), asynqs("lease"), asynqs(end))
	}
	return redis.NewCmd(context.Background(), args...)
}

// beat extends the leases of what runs.
func (c *consumer) beat() {
	s := c.p.sim
	for c.p.wait(c.p.ctx, "beat", leaseBeat+roll(s.seed, c.p.id, "beat").between(0, time.Millisecond)) == nil {
		var keys []string
		s.atomically(func() { keys = sorted(c.leased) })
		if len(keys) == 0 {
			continue
		}
		sent := time.Now()
		_, err := call(c.p.ctx, c.p, "extend", "", func(context.Context) (int, error) {
			s.atomically(func() { s.broker.extend(keys) })
			return len(keys), nil
		})
		if err != nil {
			continue
		}
		s.atomically(func() {
			for _, key := range keys {
				if d := c.leased[key]; d != nil && time.Now().Before(d.until) {
					d.until = sent.Add(taskLease)
				}
			}
		})
	}
}

// recover takes back the tasks of the dead, at the start and every minute.
func (c *consumer) recover() {
	s := c.p.sim
	for {
		_, err := call(c.p.ctx, c.p, "recover", "", func(context.Context) (int, error) {
			s.atomically(func() { s.broker.recover(c.delay) })
			return 0, nil
		})
		if errors.Is(err, errDead) || c.p.wait(c.p.ctx, "recover", recoverEvery+roll(s.seed, c.p.id, "recover").between(0, time.Second)) != nil {
			return
		}
	}
}

// errOnPurpose is a failure of the work itself.
var errOnPurpose = errors.New("failed on purpose")

// work is the handler: it works for a while, and then takes effect at the sink.
func (s *sim) work(ctx context.Context, p *process, t *asynq.Task) error {
	firing, ok := queue.FiringFrom(ctx)
	if s.c.plain {
		firing, ok = queue.FiringOf(t)
	}
	if !ok {
		s.atomically(func() { s.witness.violate("no firing", "", "a handler was not told its firing") })
		return nil
	}
	d := roll(s.seed, p.id, "work", string(firing.ID))
	var g *grant // of a plain consumer
	if s.c.plain {
		s.atomically(func() {
			g = &grant{who: p.id, at: time.Now()}
			s.witness.track(firing.ID).grants = append(s.witness.track(firing.ID).grants, g)
		})
		defer s.atomically(func() { g.end() })
	}
	if err := p.wait(ctx, "work "+string(firing.ID), d.between(s.c.work[0], s.c.work[1])); err != nil {
		return err
	}
	if s.faults().on && d.chance(s.c.failing) {
		s.happened("handler failed")
		return errOnPurpose
	}
	return s.affect(ctx, p, d, g, firing, content{string(t.Payload()), firing.ScheduledAt.UnixMilli()})
}

// affect writes to the sink. The process may stand still or crash before and
// after, and what was sent arrives however the context ended meanwhile.
func (s *sim) affect(ctx context.Context, p *process, d *dice, g *grant, firing queue.Firing, got content) error {
	f, name := s.faults(), "effect "+string(firing.ID)
	p.endanger(d, f)
	if err := p.wait(ctx, name, d.between(time.Microsecond, time.Millisecond)); err != nil {
		return err
	}
	s.note(p.id, "EFFECT", string(firing.ID), firing.Token.String())
	s.atomically(func() {
		s.witness.effect(firing.ID, firing.Token, got)
		if g != nil {
			g.effect = true
		}
	})
	p.endanger(d, f)
	return p.wait(context.WithoutCancel(ctx), name, d.between(time.Microsecond, time.Millisecond))
}
