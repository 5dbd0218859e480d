package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
)

// Why the context of a handler ended. context.Cause tells the handler.
var (
	// ErrLeaseLost ends a handler whose right to run was lost: another attempt
	// may be running. Stop without further effects.
	ErrLeaseLost = errors.New("queue: execution lease lost")
	// ErrCancelRequested ends a handler because an operator wants it, or because
	// the overlap policy cancel_other lets a newer firing replace it. Return an
	// error when the work was not done.
	ErrCancelRequested = errors.New("queue: the run was asked to end")
)

// beatBatch bounds the runs of one heartbeat call.
const beatBatch = 100

// A heart extends the leases of all runs of a process, in one call for many.
// Its goroutine lives only while there are runs.
type heart struct {
	ledger claim.Ledger
	lease  time.Duration
	margin time.Duration // how long before the end of a lease it is no longer trusted

	mu   sync.Mutex
	runs map[*life]struct{}
	stop chan struct{} // closed to end the goroutine; nil when there is none
}

func newHeart(ledger claim.Ledger, lease time.Duration) *heart {
	return &heart{ledger: ledger, lease: lease, margin: lease / 10, runs: make(map[*life]struct{})}
}

// A life is the lease of one run, as far as this process believes in it.
type life struct {
	run    claim.Run
	cancel context.CancelCauseFunc // of the handler

	mu        sync.Mutex
	lease     claim.Lease
	trusted   time.Time   // end of the trust in lease
	deadline  *time.Timer // gives up then
	ended     bool
	lost      bool
	cancelled bool // cancel_other asked for the end
}

// start keeps the lease of a run alive that was granted by a request sent at
// sent. It cancels the handler when the lease is lost.
func (h *heart) start(run claim.Run, sent time.Time, cancel context.CancelCauseFunc) *life {
	l := &life{run: run, cancel: cancel}
	l.mu.Lock()
	l.trust(sent, h.lease, h.margin)
	l.deadline = time.AfterFunc(time.Until(l.trusted), l.expire)
	l.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs[l] = struct{}{}
	if h.stop == nil {
		h.stop = make(chan struct{})
		go h.beat(h.stop)
	}
	return l
}

// end stops extending the lease.
func (h *heart) end(l *life) {
	l.mu.Lock()
	l.ended = true
	l.deadline.Stop()
	l.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.runs, l)
	if len(h.runs) == 0 && h.stop != nil {
		close(h.stop)
		h.stop = nil
	}
}

// beat extends leases every third of the lease, and sooner after an error.
func (h *heart) beat(stop chan struct{}) {
	every := h.lease / 3
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case <-timer.C:
		}
		if h.once() {
			timer.Reset(every)
		} else {
			timer.Reset(every / 5)
		}
	}
}

// once extends all leases and reports whether the ledger answered.
func (h *heart) once() bool {
	h.mu.Lock()
	lives := make([]*life, 0, len(h.runs))
	for l := range h.runs {
		lives = append(lives, l)
	}
	h.mu.Unlock()
	answered := true
	for len(lives) > 0 {
		batch := lives[:min(len(lives), beatBatch)]
		lives = lives[len(batch):]
		answered = h.extend(batch) && answered
	}
	return answered
}

// extend sends one heartbeat. An error says nothing about the leases: their
// deadlines decide.
func (h *heart) extend(batch []*life) bool {
	runs, lives := make([]claim.Run, 0, len(batch)), make([]*life, 0, len(batch))
	for _, l := range batch {
		if l.held(time.Now()) {
			runs, lives = append(runs, l.run), append(lives, l)
		} else {
			l.lose() // also after a suspended host: the timer slept, the wall clock did not
		}
	}
	if len(runs) == 0 {
		return true
	}
	// The heartbeat serves many runs and outlives the context of each.
	ctx, cancel := context.WithTimeout(context.Background(), h.lease/3)
	defer cancel()
	sent := time.Now()
	pulses, err := h.ledger.Heartbeat(ctx, h.lease, runs)
	if err != nil || len(pulses) != len(runs) {
		return false
	}
	for i, pulse := range pulses {
		switch pulse {
		case claim.PulseOK:
			lives[i].extend(sent, h.lease, h.margin)
		case claim.PulseCancel:
			lives[i].extend(sent, h.lease, h.margin)
			lives[i].stop()
		case claim.PulseLost:
			lives[i].lose()
		}
	}
	return true
}

// ask asks the ledger, without waiting for the next heartbeat, whether the run
// is to end: asynq may have been told so first, and the handler with it.
func (h *heart) ask(l *life) {
	if !l.asked() {
		h.extend([]*life{l})
	}
}

// trust believes in a lease that a request sent at sent was granted. The caller
// holds l.mu.
func (l *life) trust(sent time.Time, ttl, margin time.Duration) {
	l.lease = claim.NewLease("", "", l.run.Token, sent.Add(ttl), sent, ttl, margin)
	l.trusted = sent.Add(ttl - margin)
}

func (l *life) extend(sent time.Time, ttl, margin time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost { // a late answer never revives it: the handler was told
		return
	}
	l.trust(sent, ttl, margin)
	if l.deadline.Stop() { // otherwise expire waits for l.mu and sees the new lease
		l.deadline.Reset(time.Until(l.trusted))
	}
}

// expire is the deadline's.
func (l *life) expire() {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return
	}
	if l.lease.Valid(time.Now()) {
		l.deadline.Reset(time.Until(l.trusted))
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	l.lose()
}

func (l *life) lose() {
	l.mu.Lock()
	l.lost = true
	l.mu.Unlock()
	l.cancel(ErrLeaseLost)
}

func (l *life) stop() {
	l.mu.Lock()
	l.cancelled = true
	l.mu.Unlock()
	l.cancel(ErrCancelRequested)
}

// held reports whether the lease may be trusted at now.
func (l *life) held(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.lost && l.lease.Valid(now)
}

// asked reports whether the run was asked to end.
func (l *life) asked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cancelled
}
