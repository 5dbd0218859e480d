package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/scripts/lua"
)

// A ledgerCount counts what the ledger of a shard holds, as it was read piece
// by piece.
type ledgerCount struct {
	schedules map[string]openCount // by schedule:generation
	backfills map[string]openCount // by schedule:generation:backfill
	names     map[string][]string  // backfills by schedule
}

type openCount struct{ open, buffered int }

func (c *ledgerCount) add(id, text string) {
	f, ok := ledgerFiring(id)
	if !ok {
		return
	}
	if c.schedules == nil {
		c.schedules, c.backfills = map[string]openCount{}, map[string]openCount{}
	}
	name := countName(f.Schedule, f.Generation)
	n := c.schedules[name]
	if claim.FiringState(text[:min(len(text), 1)]) == claim.FiringBuffered {
		n.buffered++
	} else {
		n.open++
	}
	c.schedules[name] = n
	if f.Kind == claim.KindBackfill {
		name += ":" + f.Request
		b := c.backfills[name]
		b.open++
		c.backfills[name] = b
	}
}

// ledgerFiring reads the name of an entry of the ledger, which knows firings and
// not their tasks. False: it is none.
func ledgerFiring(id string) (claim.Firing, bool) {
	f, err := claim.ParseFiringID(id)
	return f, err == nil && !strings.Contains(id, "~")
}

// countName tells what was counted for a schedule from what is left of one of
// the same name that was deleted.
func countName(id schedule.ID, generation int64) string {
	return string(id) + ":" + strconv.FormatInt(generation, 10)
}

// known notes a backfill of a schedule.
func (c *ledgerCount) known(b claim.Backfill) {
	if c.names == nil {
		c.names = map[string][]string{}
	}
	c.names[string(b.Schedule)] = append(c.names[string(b.Schedule)], backfillField(b.Schedule, b.ID))
}

func (r *Repair) suspect(id string) {
	if len(r.suspects) < mostSuspects {
		r.suspects[id] = true
	}
}

// recount counts again what suspects have open. Most are none: they changed
// while the ledger was read. One that changes this time too waits for the next
// round.
func (r *Repair) recount(ctx context.Context, l *layout) (RepairStep, error) {
	keys, ids := l.keys[r.shard], slices.Sorted(maps.Keys(r.suspects))
	records := map[string]string{}
	for chunk := range slices.Chunk(ids, maxBatch) {
		texts, err := r.store.client.HMGet(ctx, keys[keyState], chunk...).Result()
		if err != nil {
			return RepairStep{}, wrap("repair", err)
		}
		for i, id := range chunk {
			records[id], _ = texts[i].(string)
		}
	}
	firings, err := r.readLedger(ctx, keys[keyFiring])
	if err != nil {
		return RepairStep{}, wrap("repair", err)
	}
	step := RepairStep{Looked: len(ids)}
	for _, id := range ids {
		found, err := r.recountOne(ctx, l, id, records[id], firings[id])
		if err != nil {
			return RepairStep{}, err
		}
		step.Repaired = append(step.Repaired, found...)
	}
	clear(r.suspects)
	return step, nil
}

// recountOne counts again what a schedule has open, unless its record agrees
// with the ledger.
func (r *Repair) recountOne(ctx context.Context, l *layout, id, text string, firings []string) ([]Repaired, error) {
	record, err := decodeRecord(text)
	if err != nil {
		return nil, nil // deleted meanwhile, or Check says so
	}
	names := r.ledger.names[id]
	ours := countName(schedule.ID(id), record.generation) + ":"
	firings = slices.DeleteFunc(firings, func(firing string) bool { return !strings.HasPrefix(firing, ours) })
	if len(firings) > mostRecounted {
		return nil, nil
	}
	if len(names) == 0 && record.open+record.buffered == len(firings) && record.buffered == 0 {
		return nil, nil
	}
	args := []any{id, text, len(names)}
	for _, name := range append(slices.Clone(names), firings...) {
		args = append(args, name)
	}
	answer, err := r.run(ctx, lua.RecountFirings, l, args...)
	if err != nil {
		return nil, err
	}
	return repaired(&answer, 1)
}

// readLedger collects the firings of the suspects. It is one step, so that
// little changes meanwhile: the ledger holds what is open only.
func (r *Repair) readLedger(ctx context.Context, key string) (map[string][]string, error) {
	firings := map[string][]string{}
	for cursor := uint64(0); ; {
		entries, next, err := r.store.client.HScan(ctx, key, cursor, "", checkPage).Result()
		if err != nil {
			return nil, err
		}
		for i := 0; i < len(entries); i += 2 {
			id, _, _ := strings.Cut(entries[i], ":")
			if _, ok := ledgerFiring(entries[i]); ok && r.suspects[id] {
				firings[id] = append(firings[id], entries[i])
			}
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	for id, found := range firings { // a scan may name one twice
		slices.Sort(found)
		firings[id] = slices.Compact(found)
	}
	return firings, nil
}

// recountFields are what scripts/lua/recount_schedules.lua keeps meanwhile.
var recountFields = []string{"recount", "recount_active", "recount_paused", "recount_disabled", "recount_completed", "recount_claimed",
	"recount_buffered"}

// noSchedules removes entries whose name no schedule can have, which no Put
// replaces, and returns the others.
func (r *Repair) noSchedules(ctx context.Context, l *layout, entries []string) ([]string, reply, error) {
	var kept, gone []string
	var answer reply
	for i := 0; i+1 < len(entries); i += 2 {
		if schedule.ID(entries[i]).Validate() == nil {
			kept = append(kept, entries[i], entries[i+1])
			continue
		}
		gone = append(gone, entries[i])
		answer.values = append(answer.values, entries[i], shardKeyNames[keyState])
	}
	if len(gone) == 0 {
		return entries, reply{}, nil
	}
	for _, key := range []int{keyState, keyDefinition} {
		if err := r.store.client.HDel(ctx, l.keys[r.shard][key], gone...).Err(); err != nil {
			return nil, reply{}, wrap("repair", err)
		}
	}
	return kept, answer, nil
}

// recountSchedules counts schedules by state, and ends a shard.
func (r *Repair) recountSchedules(ctx context.Context, l *layout) (RepairStep, error) {
	answer, err := r.store.run(ctx, "repair", lua.RecountSchedules, l.keys[r.shard], r.limit, r.counted)
	var refused redis.Error
	if errors.As(err, &refused) && !IsUnavailable(err) && !isWrongType(err) { // sums that are no numbers: count anew, next time
		return RepairStep{}, errors.Join(err, r.store.client.HDel(ctx, l.keys[r.shard][keyMeta], recountFields...).Err())
	}
	if err != nil {
		return RepairStep{}, err
	}
	step := RepairStep{Looked: r.limit}
	r.counted = answer.text(1)
	for i := 2; i < len(answer.values); i++ {
		step.Repaired = append(step.Repaired, Repaired{Name: answer.text(i), Key: "meta"})
	}
	if answer.number(0) == 1 {
		step.Done = r.leave(l)
	}
	return step, answer.err
}

// String says what was repaired, on one line and with nothing that a terminal obeys.
func (r Repaired) String() string {
	text := shown(r.Name) + " in " + r.Key
	if r.Was != "" {
		text += ", which was " + shown(r.Was)
	}
	return text
}

// mostShown bounds how much of a name or a record is told, in bytes.
const mostShown = 250

// shown is a text as logs and doctors tell it: quoted when that makes a
// difference, cut when it is long.
func shown(text string) string {
	left := ""
	if len(text) > mostShown {
		text, left = text[:mostShown], fmt.Sprintf("… and %d bytes more", len(text)-mostShown)
	}
	quoted := strconv.QuoteToASCII(text)
	if left == "" && text != "" && !strings.Contains(text, " ") && quoted == `"`+text+`"` {
		return text
	}
	return quoted + left
}
