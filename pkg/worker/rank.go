package worker

import (
	"hash/fnv"
	"strconv"
	"sync"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
)

// How long a worker that is not the preferred one of a shard waits before it
// serves it: the second of the ranking, and each one after that.
const (
	patience     = 250 * time.Millisecond
	morePatience = 50 * time.Millisecond
	mostPatience = time.Second
)

// A ranking knows which of the living workers prefers which shard, by
// rendezvous hashing: when a worker comes or goes, only its own shards move.
// It is a courtesy that saves Redis useless claims; nothing depends on it.
type ranking struct {
	self string

	mu    sync.Mutex
	peers []string // others that claim
}

// update takes over who is alive.
func (r *ranking) update(members []claim.Member) {
	var peers []string
	for _, m := range members {
		stops := m.State != "" && m.State != claim.MemberWorking
		if m.Claiming() && !stops && m.ID != r.self {
			peers = append(peers, m.ID)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.peers = peers
}

// wait returns how long this worker leaves the shard to others; 0 when nobody
// prefers it more.
func (r *ranking) wait(shard int) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	mine, rank := weight(r.self, shard), 0
	for _, peer := range r.peers {
		if theirs := weight(peer, shard); theirs > mine || theirs == mine && peer > r.self {
			rank++
		}
	}
	if rank == 0 {
		return 0
	}
	return min(mostPatience, patience+time.Duration(rank-1)*morePatience)
}

func weight(worker string, shard int) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(worker + "/" + strconv.Itoa(shard))) // never fails
	// FNV alone keeps the order of names that differ early; mix it.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x
}
