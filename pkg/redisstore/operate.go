package redisstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/scripts/lua"
)

// maxOpen bounds the lists of open firings in replies.
const maxOpen = 100

// A pauseNote is what is kept of who paused a schedule.
type pauseNote struct {
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Pause stops new claims of a schedule.
func (s *Store) Pause(ctx context.Context, id schedule.ID, options schedule.PauseOptions) (schedule.PauseResult, error) {
	doing := fmt.Sprintf("pause %q", id)
	l, err := s.peek(ctx)
	if err != nil {
		return schedule.PauseResult{}, err
	}
	note, err := json.Marshal(pauseNote{By: options.By, Reason: options.Reason})
	if err != nil {
		return schedule.PauseResult{}, wrap(doing, err)
	}
	shard := l.shardOf(id)
	answer, err := s.runShard(ctx, doing, lua.Pause, l, shard,
		string(id), millis(options.Until), string(note), s.keys.wakeChannel(), shardTag(shard))
	if err != nil {
		return schedule.PauseResult{}, err
	}
	if answer.text(0) == "GONE" {
		return schedule.PauseResult{}, s.absent(ctx, doing, l, id)
	}
	generation, open, list := answer.number(1), answer.number(2), answer.text(3)
	if answer.err != nil {
		return schedule.PauseResult{}, answer.err
	}
	result := schedule.PauseResult{Open: openFirings(id, list)}
	if int64(len(result.Open)) < min(open, maxOpen) {
		// No list is kept without an overlap policy: look through the ledger.
		result.Open, err = s.findOpen(ctx, doing, l, id, generation, maxOpen)
	}
	return result, err
}

// openFirings expands a list of scripts/lua/lib/lists.lua.
func openFirings(id schedule.ID, list string) []string {
	var all []string
	for _, item := range strings.Split(list, ",") {
		if item != "" && len(all) < maxOpen {
			all = append(all, string(id)+":"+item)
		}
	}
	return all
}

// findOpen searches the ledger of a shard for firings of one schedule, at most
// so many.
func (s *Store) findOpen(ctx context.Context, doing string, l *layout, id schedule.ID, generation int64, most int) ([]string, error) {
	const page = 1000
	var found []string
	pattern := fmt.Sprintf("%s:%d:*", id, generation)
	for cursor := uint64(0); ; {
		fields, next, err := s.client.HScan(ctx, l.keys[l.shardOf(id)][keyFiring], cursor, pattern, page).Result()
		if err != nil {
			return nil, wrap(doing, err)
		}
		for i := 0; i < len(fields); i += 2 {
			if _, ok := ledgerFiring(fields[i]); ok && !strings.HasPrefix(fields[i+1], "B|") {
				found = append(found, fields[i])
			}
		}
		if cursor = next; cursor == 0 || len(found) >= most {
			slices.Sort(found)
			found = slices.Compact(found)
			return found[:min(len(found), most)], nil
		}
	}
}

// Resume lets a paused or disabled schedule go on.
func (s *Store) Resume(ctx context.Context, id schedule.ID, options schedule.ResumeOptions) (schedule.ResumeResult, error) {
	doing := fmt.Sprintf("resume %q", id)
	l, err := s.peek(ctx)
	if err != nil {
		return schedule.ResumeResult{}, err
	}
	shard := l.shardOf(id)
	var last observed
	for attempt := range putAttempts {
		o, now, err := s.readOne(ctx, doing, l, id)
		if err != nil {
			return schedule.ResumeResult{}, err
		}
		last = o
		if !o.exists() {
			return schedule.ResumeResult{}, o.absent(doing, id)
		}
		plan, second, calendars, err := s.planResume(ctx, &o, now, options)
		if err != nil {
			return schedule.ResumeResult{}, err
		}
		answer, err := s.runShard(ctx, doing, lua.Resume, l, shard, string(id), o.record.generation, millis(o.record.next),
			millis(plan.Next), delayed(plan.Next, plan.NotBefore), rangeText(plan.Superseded), millis(second), s.keys.wakeChannel(), shardTag(shard), calendars)
		if err != nil {
			return schedule.ResumeResult{}, err
		}
		status, next := answer.text(0), answer.time(1)
		if answer.err != nil || status == "OK" {
			return schedule.ResumeResult{NextAt: next}, answer.err
		}
		if err := afterRace(ctx, attempt); err != nil {
			return schedule.ResumeResult{}, wrap(doing, err)
		}
		s.healAfter(ctx, attempt, definitionOf(&o))
	}
	return schedule.ResumeResult{}, last.raced(doing)
}

// planResume decides where the pending time goes, and returns the scheduled
// time that follows the first that is passed over, and the version of the
// calendars that it planned with. A definition that cannot be
// used leaves the pending time where it is.
func (s *Store) planResume(ctx context.Context, o *observed, now time.Time, options schedule.ResumeOptions) (plan schedule.PutPlan, second time.Time, version int64, err error) {
	plan = schedule.PutPlan{Next: o.record.next, NotBefore: o.record.notBefore}
	definition := definitionOf(o)
	all, err := s.calendarsFor(ctx, definition)
	if err != nil {
		return plan, second, 0, err
	}
	compiled, err := schedule.Compile(definition, all.calendars)
	if err != nil {
		return plan, second, all.version, nil
	}
	plan = schedule.PlanResume(compiled, o.record.next, now, options)
	if plan.Superseded != nil {
		second, _ = compiled.Next(plan.Superseded.First)
	}
	return plan, second, all.version, nil
}

// Remove deletes a schedule.
func (s *Store) Remove(ctx context.Context, id schedule.ID, options schedule.RemoveOptions) (bool, error) {
	doing := fmt.Sprintf("remove %q", id)
	l, err := s.peek(ctx)
	if err != nil {
		return false, err
	}
	o, _, err := s.readOne(ctx, doing, l, id)
	if err != nil {
		return false, err
	}
	generation := o.record.generation
	if o.damaged != nil {
		return false, o.absent(doing, id)
	}
	if !o.exists() || options.Generation != 0 && options.Generation != generation {
		return false, nil
	}
	args := s.clock(append([]any{string(id), generation}, anys(indexMembers(id, definitionOf(&o)))...)...)
	answer, err := s.run(ctx, doing, lua.Remove, s.withRunLog(l, id), args...)
	if err != nil {
		return false, err
	}
	return answer.word() == "OK", nil
}

// statsScanned is how many of the earliest entries Stats looks at.
const statsScanned = 200

// Stats sums up the namespace.
func (s *Store) Stats(ctx context.Context) (schedule.Stats, error) {
	l, err := s.peek(ctx)
	if err != nil {
		return schedule.Stats{}, err
	}
	var sum schedule.Stats
	for shard := range l.keys {
		answer, err := s.runShard(ctx, "sum up", lua.Stats, l, shard, statsScanned)
		if err != nil {
			return schedule.Stats{}, err
		}
		sum.Now = answer.time(0)
		sum.Active += answer.number(1)
		sum.Paused += answer.number(2)
		sum.Disabled += answer.number(3)
		sum.Completed += answer.number(4)
		sum.Claimed += answer.number(5)
		sum.Buffered += answer.number(6)
		sum.Open += answer.number(7) - answer.number(6)
		sum.Due += answer.number(8)
		next := answer.time(10)
		if !next.IsZero() && (sum.NextAt.IsZero() || next.Before(sum.NextAt)) {
			sum.NextID, sum.NextAt = schedule.ID(answer.text(9)), next
		}
		sum.Lateness = max(sum.Lateness, time.Duration(answer.number(11))*time.Millisecond)
		if answer.err != nil {
			return schedule.Stats{}, answer.err
		}
	}
	sum.Total = sum.Active + sum.Paused + sum.Disabled + sum.Completed
	return sum, nil
}
