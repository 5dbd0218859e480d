package redisstore

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/scripts/lua"
)

// Firings returns the records of those firings that are open.
func (s *Store) Firings(ctx context.Context, ids []claim.FiringID) (map[claim.FiringID]claim.OpenFiring, time.Time, error) {
	schedules, err := schedulesOf(len(ids), func(i int) claim.FiringID { return ids[i] })
	if err != nil {
		return nil, time.Time{}, err
	}
	l, err := s.peek(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	found, now := map[claim.FiringID]claim.OpenFiring{}, time.Time{}
	for _, g := range byShard(l, len(ids), func(i int) schedule.ID { return schedules[i] }) {
		var args []any
		for _, i := range g.positions {
			args = append(args, string(ids[i].WithoutRedrives()))
		}
		answer, err := s.runShard(ctx, "look at open firings", lua.Look, l, g.shard, args...)
		if err != nil {
			return nil, time.Time{}, err
		}
		now = answer.time(0)
		rows := answer.list(1)
		for _, f := range openRows(&rows) {
			found[f.Firing] = f
		}
		if rows.err != nil {
			return nil, time.Time{}, rows.err
		}
	}
	return found, now, nil
}

// openRows reads the rows of scripts/lua/lib/position.lua.
func openRows(r *reply) []claim.OpenFiring {
	var all []claim.OpenFiring
	for i := 0; i+auditColumns <= len(r.values); i += auditColumns {
		all = append(all, claim.OpenFiring{Firing: claim.FiringID(r.text(i)), State: claim.FiringState(r.text(i + 1)),
			Position: claim.SchedulePosition(r.text(i + 2)), Attempt: int(r.number(i + 3)), Redrives: int(r.number(i + 4)),
			Token: claim.Token(r.number(i + 5)), LeaseUntil: r.time(i + 6), OpenedAt: r.time(i + 7),
			Queue: r.text(i + 8), CancelWanted: r.number(i+9)&firingCancelBit != 0, CancelByHand: r.number(i+9)&firingHandBit != 0,
			TaskOwed: r.number(i+9)&firingOwedBit != 0, Worker: r.text(i + 10), Extra: r.extra(i + 11)})
	}
	return all
}
