package worker

import (
	"context"
	"math/rand/v2"
	"time"
)

// rounds go from shard to shard: to each when its time has come or when
// somebody asked for it, and to all at once when the bell rings.
type rounds struct {
	s     *Scheduler
	rope  <-chan struct{}
	hints <-chan hint // nil: nobody asks

	next   []time.Time // by shard, on our clock
	wanted []time.Time // a look that was asked for; one before that time does not forget it
}

// A hint asks for a look at a shard that its state does not tell of.
type hint struct {
	shard int
	at    time.Time // on our clock
}

func newRounds(s *Scheduler, shards int, rope <-chan struct{}, hints <-chan hint) rounds {
	return rounds{s: s, rope: rope, hints: hints, next: make([]time.Time, shards), wanted: make([]time.Time, shards)}
}

// run calls look until ctx ends. It returns when it wants to be called for the
// shard again; the zero time, with an error, leaves that as it was.
func (r *rounds) run(ctx context.Context, loop *watched, look func(context.Context, int) (time.Time, error)) {
	failed, refused := 0, false
	for r.s.gate.pass(ctx, loop.turned) {
		looked, err := r.lookDue(ctx, look)
		r.s.gate.leave()
		if err != nil {
			refused = true
			if !r.s.outage.failed(ctx, r, err, failed) {
				return
			}
			failed++
			continue
		}
		if refused && looked {
			r.s.outage.recovered(r)
			refused = false
		}
		failed = 0
		loop.turned()
		r.sleep(ctx)
	}
}

// lookDue looks into the shards whose time has come, in random order, and tells
// whether there was one.
func (r *rounds) lookDue(ctx context.Context, look func(context.Context, int) (time.Time, error)) (looked bool, err error) {
	for _, shard := range rand.Perm(len(r.next)) {
		now := time.Now()
		if ctx.Err() != nil || now.Before(r.at(shard)) {
			continue
		}
		looked = true
		next, err := look(ctx, shard)
		if !next.IsZero() {
			r.next[shard] = next
			if !now.Before(r.wanted[shard]) {
				r.wanted[shard] = time.Time{}
			}
		}
		if err != nil {
			return looked, err
		}
	}
	return looked, nil
}

// at is when the shard is looked at.
func (r *rounds) at(shard int) time.Time {
	if wanted := r.wanted[shard]; !wanted.IsZero() && wanted.Before(r.next[shard]) {
		return wanted
	}
	return r.next[shard]
}

func (r *rounds) want(h hint) {
	if w := r.wanted[h.shard]; w.IsZero() || h.at.Before(w) {
		r.wanted[h.shard] = h.at
	}
}

// sleep waits for the next look, for a hint, or for the bell.
func (r *rounds) sleep(ctx context.Context) {
	select {
	case <-r.rope: // rung during a look: one more answers that and what is due
		r.rung()
		return
	default:
	}
	next := r.at(0)
	for shard := range r.next {
		if at := r.at(shard); at.Before(next) {
			next = at
		}
	}
	timer := time.NewTimer(max(time.Until(next), shortest))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case h := <-r.hints:
		r.want(h)
	case <-r.rope:
		r.rung()
	}
}

// rung makes every shard due, after the workers that are to serve it.
func (r *rounds) rung() {
	now := time.Now()
	for shard := range r.next {
		r.next[shard] = now.Add(r.s.ranking.wait(shard))
	}
}
