package worker

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/claim"
)

// drainLook is how often a worker that drains looks whether it has.
const drainLook = 500 * time.Millisecond

// A draining knows whether an operator wants the worker to take no new work,
// and what it still runs. It ends with the process: the store forgets the wish.
type draining struct {
	gate    *gate
	busy    atomic.Int64  // tasks under way
	changed chan struct{} // the wish is another one; holds one
	failed  chan struct{} // an announcement did; holds one
	back    chan struct{} // the store answers again; holds one
	turn    chan struct{} // of announcements, which wait for Redis; holds one

	mu        sync.Mutex
	wish      claim.Drain
	announced claim.MemberState

	listed bool // the last announcement worked; of whose turn it is
}

func newDraining() *draining {
	return &draining{gate: newGate(), changed: make(chan struct{}, 1), failed: make(chan struct{}, 1), back: make(chan struct{}, 1), turn: make(chan struct{}, 1)}
}

// state is what the roster says of the worker. The caller holds d.mu.
func (d *draining) state() claim.MemberState {
	switch {
	case !d.wish.Wanted():
		return claim.MemberWorking
	case d.busy.Load() == 0 && d.gate.deserted():
		return claim.MemberDrained
	}
	return claim.MemberDraining
}

// obey takes over what is wanted, once the worker announced that it does
// something, and reports whether that is something else than before.
func (d *draining) obey(wish claim.Drain, announced claim.MemberState) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wish, d.announced = wish, announced
	if !d.gate.set(wish.Wanted()) {
		return false
	}
	note(d.changed)
	return true
}

// counted counts the tasks under way.
func (d *draining) counted(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		d.busy.Add(1)
		defer d.busy.Add(-1)
		return next.ProcessTask(ctx, task)
	})
}

// news reports whether the roster says something else than the worker does.
func (d *draining) news() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state() != d.announced
}

// wanted returns the wish that the worker obeys.
func (d *draining) wanted() claim.Drain {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wish
}

// Drain returns the operator's wish that the worker obeys, and whether it runs
// nothing any more. The zero wish: it works.
func (w *Worker) Drain() (claim.Drain, bool) {
	w.drain.mu.Lock()
	defer w.drain.mu.Unlock()
	return w.drain.wish, w.drain.state() == claim.MemberDrained
}

// note leaves a message in a channel that holds one.
func note(message chan<- struct{}) {
	select {
	case message <- struct{}{}:
	default:
	}
}

// missed reports whether the last announcement failed.
func (w *Worker) missed() bool {
	err := w.unlisted.Load()
	return err != nil && *err != nil
}

// attend announces the worker whenever something is wanted of a worker, as
// long as it drains whenever its state is another one, and soon after an
// announcement that failed: at once when the scheduling half sees that the store
// is back. The roster is asked by its cron, too: what is not heard here takes
// until then.
func (w *Worker) attend(ctx context.Context) {
	heed, err := w.heed(ctx)
	if err != nil {
		w.options.Logger.Warn("wishes for workers are heard late", "error", err)
	}
	look := time.NewTicker(drainLook)
	defer look.Stop()
	look.Stop() // until the worker drains
	soon := time.NewTimer(announceSoon)
	defer soon.Stop()
	soon.Stop() // until an announcement fails
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-heed:
			if !ok {
				return // ctx ended
			}
			w.announce(ctx)
		case <-w.drain.changed:
			if w.drain.wanted().Wanted() {
				look.Reset(drainLook)
			} else {
				look.Stop()
			}
		case <-look.C:
			if w.drain.news() {
				w.announce(ctx)
			}
		case <-w.drain.failed:
			soon.Reset(announceSoon/2 + rand.N(announceSoon/2))
		case <-w.drain.back:
			if w.missed() {
				w.announce(ctx)
			}
		case <-soon.C:
			if w.missed() {
				w.announce(ctx)
			}
		}
	}
}

// heed subscribes; a nil channel is never heard.
func (w *Worker) heed(ctx context.Context) (<-chan struct{}, error) {
	heed, _, err := w.store.Heed(ctx)
	return heed, err
}

// announce tells the fleet that this worker is alive, and learns who else is
// and what is wanted of it. A failure is logged when it is news.
func (w *Worker) announce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, announceTime)
	defer cancel()
	select {
	case w.drain.turn <- struct{}{}:
		defer func() { <-w.drain.turn }()
	case <-ctx.Done():
		return
	}
	before := w.drain.listed
	err := w.list(ctx)
	if err == nil {
		var members []claim.Member
		if members, err = w.store.Members(ctx, memberAge); err == nil {
			if w.scheduler != nil {
				w.scheduler.UpdatePeers(members)
			}
			w.warnTimeZones(members, before)
		}
	}
	if err != nil && before && ctx.Err() == nil && !w.away() {
		w.options.Logger.Warn("the roster does not answer", "error", err)
	}
	w.unlisted.Store(&err)
	w.drain.listed = err == nil
	switch {
	case err != nil:
		note(w.drain.failed)
	case !before:
		w.calm.forget()
	}
}

// forget drops what Redis refused before it was back: some scripts of asynq's
// come a minute apart, and would seem refused until then. One that still is will
// be noted anew.
func (c *calm) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.failing)
}

// list announces the worker, and once more when what is wanted of it is news.
func (w *Worker) list(ctx context.Context) error {
	for {
		member := w.member()
		wish, err := w.store.Announce(ctx, member)
		if err != nil {
			return err
		}
		if !w.drain.obey(wish, member.State) {
			return nil
		}
		if wish.Wanted() {
			w.options.Logger.Info("an operator wants the worker to drain: it takes no new work", "worker", w.options.ID, "by", wish.By, "reason", wish.Reason)
		} else {
			w.options.Logger.Info("the worker takes up its work again", "worker", w.options.ID)
		}
	}
}
