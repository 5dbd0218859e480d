package redisstore

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/scripts/lua"
)

// tokenSlack is how far the tokens of a shard may be ahead of the clock before
// TokensAhead names it: clocks are set back by hours, hardly by days.
const tokenSlack = 24 * time.Hour

// A TokenAhead is a shard that granted, or holds as granted, tokens that its
// clock does not explain, as after a clock that was wrong for a while or a slip
// in its field token. Tokens follow the clock in microseconds, and where it is
// behind they are counted on: they stay in order. A schedule that is put
// meanwhile shows the token's time as that of its creation.
type TokenAhead struct {
	Shard int
	Token claim.Token   // the last one granted
	At    time.Time     // when a right clock would have granted it
	Ahead time.Duration // how far that is ahead of the store's clock
	// Left is how many more can be granted before nothing can be claimed or
	// begun: one for each claim and each attempt.
	Left int64
}

// TokensAhead names the shards whose tokens are more than a day ahead of the
// store's clock. Nothing is broken there, so Check does not name them, and no
// repair lowers a token: it could be granted twice. A field that holds no token
// is left to Check.
func (s *Store) TokensAhead(ctx context.Context) ([]TokenAhead, error) {
	const doing = "look at the tokens"
	l, err := s.peek(ctx)
	if err != nil {
		return nil, err
	}
	var all []TokenAhead
	for shard, keys := range l.keys {
		answer, err := s.runShard(ctx, doing, lua.Look, l, shard)
		if err != nil {
			return nil, err
		}
		fields, err := s.client.HMGet(ctx, keys[keyMeta], "token").Result()
		if err != nil {
			return nil, wrap(doing, err)
		}
		now := answer.time(0)
		if answer.err != nil {
			return nil, answer.err
		}
		text, _ := fields[0].(string)
		f := fieldReader{rest: text + "|"}
		token := f.number()
		at := time.UnixMicro(token).UTC()
		if ahead := at.Sub(now); !f.bad && token <= lastToken && ahead > tokenSlack {
			all = append(all, TokenAhead{Shard: shard, Token: claim.Token(token), At: at, Ahead: ahead, Left: lastToken - token})
		}
	}
	return all, nil
}
