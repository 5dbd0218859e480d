package redisstore

import (
	"context"
	"fmt"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/scripts/lua"
)

var _ claim.Canceller = (*Store)(nil)

// Cancel ends an open firing, or asks whoever has it to end it.
func (s *Store) Cancel(ctx context.Context, request claim.CancelRequest) (claim.CancelResult, error) {
	l, id, err := s.openFiring(ctx, request.Firing)
	if err != nil {
		return claim.CancelResult{}, err
	}
	doing := fmt.Sprintf("cancel %q", request.Firing)
	answer, err := s.run(ctx, doing, lua.Cancel, s.withRunLog(l, id), s.clock(string(request.Firing.WithoutRedrives()),
		max(0, request.KeepRuns), note(request.By, request.Reason), s.keys.wakeChannel(), shardTag(l.shardOf(id)))...)
	if err != nil {
		return claim.CancelResult{}, err
	}
	result := claim.CancelResult{Answer: claim.CancelAnswer(answer.text(0))}
	rows := answer.list(1)
	for _, f := range openRows(&rows) {
		result.Firing = f
	}
	if answer.err != nil {
		return claim.CancelResult{}, answer.err
	}
	return result, rows.err
}
