package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// errTrust reports that claims are not believed in any more: they may belong
// to another worker now.
var errTrust = errors.New("worker: claims ran out before they were acted upon")

// maxRenewals bounds how long a stuck worker keeps its claims, as a number of
// renewals.
const maxRenewals = 30

// A hold keeps the claims of a batch while the worker acts on them, and knows
// until when they are trusted.
type hold struct {
	claims claim.Store
	ttl    time.Duration
	margin time.Duration
	now    func() time.Time

	cancel context.CancelCauseFunc
	done   chan struct{}

	mu    sync.Mutex
	lease claim.Lease
	held  map[schedule.ID]claim.Token
}

// newHold holds the claims of a batch that was requested at sent. The returned
// context ends when the claims are not trusted any more, or with ctx. Call
// stop when the batch is done.
func newHold(ctx context.Context, s *Scheduler, batch claim.Batch, sent time.Time) (context.Context, *hold) {
	h := &hold{claims: s.claims, ttl: s.options.ClaimTTL, margin: min(time.Second, s.options.ClaimTTL/5), now: s.now,
		done: make(chan struct{}), held: make(map[schedule.ID]claim.Token, len(batch.Claims))}
	for _, c := range batch.Claims {
		h.held[c.Schedule] = c.Token
	}
	h.lease = h.trust(sent)
	ctx, h.cancel = context.WithCancelCause(ctx)
	trust := h.ttl - h.margin - h.now().Sub(sent)
	if trust <= 0 { // the reply came too late; no timer is to race with the work on it
		h.cancel(errTrust)
	}
	go h.renewUntilStopped(ctx, trust)
	return ctx, h
}

func (h *hold) trust(sent time.Time) claim.Lease {
	return claim.NewLease("", "", 0, time.Time{}, sent, h.ttl, h.margin)
}

// valid reports whether the claim may still be acted upon.
func (h *hold) valid(c claim.Claim) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held[c.Schedule] == c.Token && h.lease.Valid(h.now())
}

// drop stops renewing a claim that was completed or released.
func (h *hold) drop(c claim.Claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held[c.Schedule] == c.Token {
		delete(h.held, c.Schedule)
	}
}

// stop ends the renewals and waits for the one under way.
func (h *hold) stop() {
	h.cancel(nil)
	<-h.done
}

// renewUntilStopped renews; the claims are trusted that long at first.
func (h *hold) renewUntilStopped(ctx context.Context, trust time.Duration) {
	defer close(h.done)
	renew := time.NewTicker(h.ttl / 3)
	defer renew.Stop()
	trusted := time.NewTimer(trust)
	defer trusted.Stop()
	for renewals := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-trusted.C:
			h.cancel(errTrust)
			return
		case <-renew.C:
			if renewals >= maxRenewals {
				continue // trusted ends it
			}
			renewals++
			if h.renew(ctx) {
				trusted.Reset(h.ttl - h.margin)
			}
		}
	}
}

// renew reports whether the claims are trusted for another TTL. An error says
// nothing: the trust in the last grant stands.
func (h *hold) renew(ctx context.Context) bool {
	h.mu.Lock()
	var holds []claim.Hold
	for id, token := range h.held {
		holds = append(holds, claim.Hold{Schedule: id, Token: token})
	}
	stillTrusted := h.lease.Valid(h.now())
	h.mu.Unlock()
	if len(holds) == 0 || !stillTrusted {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, h.ttl/3)
	defer cancel()
	sent := h.now()
	kept, err := h.claims.Renew(ctx, h.ttl, holds)
	if err != nil || len(kept) != len(holds) {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, hold := range holds {
		if !kept[i] && h.held[hold.Schedule] == hold.Token {
			delete(h.held, hold.Schedule)
		}
	}
	h.lease = h.trust(sent)
	return true
}
