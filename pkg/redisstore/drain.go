package redisstore

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/scripts/lua"
)

// Drain asks a member to take no new work.
func (s *Store) Drain(ctx context.Context, m claim.Member, by, reason string) (claim.Drain, bool, error) {
	const doing = "ask a worker to drain"
	note, err := json.Marshal(pauseNote{By: by, Reason: reason})
	if err != nil {
		return claim.Drain{}, false, wrap(doing, err)
	}
	return s.drain(ctx, doing, m, true, string(note))
}

// Undrain takes Drain back.
func (s *Store) Undrain(ctx context.Context, m claim.Member) (bool, error) {
	_, known, err := s.drain(ctx, "ask a worker to work again", m, false, "")
	return known, err
}

func (s *Store) drain(ctx context.Context, doing string, m claim.Member, on bool, note string) (claim.Drain, bool, error) {
	answer, err := s.run(ctx, doing, lua.Drain, []string{s.keys.workers(), s.keys.drains()},
		s.clock(m.ID, m.Process(), flag(on), note, s.keys.workersChannel(), m.ID)...)
	if err != nil {
		return claim.Drain{}, false, err
	}
	return drainOf(m, answer.text(1)), answer.text(0) == "OK", answer.err
}

// drainOf reads what scripts/lua/drain.lua keeps; a wish for an earlier process
// of that name is none.
func drainOf(m claim.Member, text string) claim.Drain {
	fields := &fieldReader{rest: text}
	process, since := fields.text(), fields.time()
	if fields.bad || process != m.Process() {
		return claim.Drain{}
	}
	var note pauseNote
	_ = json.Unmarshal([]byte(fields.rest), &note) // what a newer version says otherwise is not shown
	return claim.Drain{Since: since, By: note.By, Reason: note.Reason}
}

// heedReceive is how long after its context a subscription to wishes ends. No
// loop waits for its end, and to break a receive off means to wait for one that
// connects anew.
const heedReceive = time.Second

// Heed subscribes to what is wanted of workers, until ctx ends; the channel is
// closed a second later at most, or when a connection that hangs has been given
// up.
func (s *Store) Heed(ctx context.Context) (<-chan struct{}, func() bool, error) {
	return s.listen(ctx, s.keys.workersChannel(), heedReceive)
}

// note says who and why behind something that happened, "" when nobody said.
func note(by, reason string) string {
	text := strings.TrimSpace(plain(claim.Drain{By: by, Reason: reason}.String()))
	if text == "" {
		return ""
	}
	return " " + clip(text)
}
