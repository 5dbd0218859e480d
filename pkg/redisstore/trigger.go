package redisstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/scripts/lua"
)

// auditTriggered is when the auditor first looks at a trigger that is
// buffered; one that is not is due for it at once.
const auditTriggered = 15 * time.Second

// maxCancelled bounds the open firings that one trigger asks to end where the
// schedule keeps no list of them.
const maxCancelled = 1000

// ErrTooManyOpen reports that a trigger with cancel_other could not be told
// what is open: more than 1,000 firings are, or they begin and end faster than
// they can be listed. Nothing was opened and nothing was asked to end. Try
// again, pause the schedule before, or trigger with another policy.
var ErrTooManyOpen = errors.New("redisstore: too many open firings to end them all")

// Trigger opens one extra firing now. Its error may be ErrTooManyOpen.
func (s *Store) Trigger(ctx context.Context, id schedule.ID, options schedule.TriggerOptions) (schedule.TriggerResult, error) {
	doing := fmt.Sprintf("trigger %q", id)
	if err := options.Validate(); err != nil {
		return schedule.TriggerResult{}, err
	}
	if options.RequestID == "" {
		options.RequestID = rand.Text()
	}
	l, err := s.peek(ctx)
	if err != nil {
		return schedule.TriggerResult{}, err
	}
	shard := l.shardOf(id)
	var open []string
	for attempt := range putAttempts {
		answer, err := s.runShard(ctx, doing, lua.Trigger, l, shard, s.triggerArgs(id, shard, options, open)...)
		if err != nil {
			return schedule.TriggerResult{}, err
		}
		switch status := answer.text(0); status {
		case "GONE":
			return schedule.TriggerResult{}, s.absent(ctx, doing, l, id)
		case "LOOK":
			if attempt > 0 {
				if err := afterRace(ctx, attempt-1); err != nil {
					return schedule.TriggerResult{}, wrap(doing, err)
				}
			}
			if open, err = s.openNow(ctx, doing, l, id); err != nil {
				return schedule.TriggerResult{}, err
			}
		default:
			return schedule.TriggerResult{FiringID: answer.text(1), Queue: answer.text(2), Duplicate: answer.number(4) == 1,
				Differs: answer.number(3) == 1, Buffered: status == "BUFFERED", Refused: status == "REFUSED"}, answer.err
		}
	}
	return schedule.TriggerResult{}, fmt.Errorf("redisstore: %s: %w", doing, ErrTooManyOpen)
}

func (s *Store) triggerArgs(id schedule.ID, shard int, options schedule.TriggerOptions, open []string) []any {
	overlap := strconv.Itoa(overlapNumbers[options.Overlap]) // 0 of "" is that of OverlapAllow
	if options.ObeyOverlap {
		overlap = "own"
	}
	length := -1
	if options.Payload != nil {
		length = len(options.Payload)
	}
	at, digest := millis(options.ScheduledAt), ""
	if length >= 0 || at != 0 {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d|%d|%s", at, length, options.Payload))
		digest = hex.EncodeToString(sum[:16])
	}
	args := []any{string(id), options.RequestID, requestTerm.Milliseconds(), overlap, auditTriggered.Milliseconds(),
		s.keys.wakeChannel(), shardTag(shard), at, length, string(options.Payload), digest}
	return append(args, anys(open)...)
}

// openNow lists the open firings of a schedule.
func (s *Store) openNow(ctx context.Context, doing string, l *layout, id schedule.ID) ([]string, error) {
	o, _, err := s.readOne(ctx, doing, l, id)
	if err != nil || !o.exists() {
		return nil, err // deleted meanwhile: the next call says so
	}
	return s.findOpen(ctx, doing, l, id, o.record.generation, maxCancelled)
}

// extra reads what a firing carries beside the definition of its schedule, see
// scripts/lua/lib/firing.lua.
func (r *reply) extra(i int) *claim.Extra {
	text := r.text(i)
	if text == "" {
		return nil
	}
	extra, err := decodeExtra(text)
	if err != nil && r.err == nil {
		r.err = err
	}
	return extra
}

// decodeExtra returns nil when a firing carries nothing that its task shows.
func decodeExtra(text string) (*claim.Extra, error) {
	f := fieldReader{rest: text}
	extra := claim.Extra{ScheduledAt: f.time()}
	f.text() // what it waits for
	length := f.int()
	if f.bad || text[0] == '-' || length < -1 || len(f.rest) <= length || !strings.HasPrefix(f.rest[max(0, length):], "|") {
		return nil, fmt.Errorf("redisstore: %.100q is not what a firing carries", text)
	}
	if length >= 0 {
		extra.Payload = []byte(f.rest[:length])
	}
	if extra.Payload == nil && extra.ScheduledAt.IsZero() {
		return nil, nil
	}
	return &extra, nil
}
