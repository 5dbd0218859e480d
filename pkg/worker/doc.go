// Package worker is a member of the fleet: it claims due schedules, enqueues
// their firings, runs tasks and looks after what was lost. Every member is
// equal; there is no leader.
//
// A [Worker] is the whole: give it a Redis client and handlers, and Run it.
// Its scheduling half alone is a [Scheduler], which works on any stores.
//
// # The loop
//
// For each shard: claim a batch of due schedules, compute with schedule.Plan
// what becomes of each, enqueue the tasks, complete the claims with one call,
// and claim the next batch meanwhile. When nothing is due, sleep until the
// first due time; a put, resume or trigger by anybody wakes it earlier. A
// worker prefers some shards over others, by a hash of its ID, and waits a
// moment before it serves the rest: little contention, and no election.
//
// # What it does when things go wrong
//
//   - Redis is away: it says so once, waits with growing pauses, and goes on.
//   - It was paused or suspended: a claim is trusted until a deadline fixed
//     before it was requested; past it nothing is enqueued or completed.
//   - An enqueue fails: the claim goes back, due again after a pause; what was
//     decided for a claim is never decided a second time.
//   - A schedule cannot be computed, whatever the reason: it alone is put
//     aside for a while, with its error recorded. Others go on.
//   - It stops: claims that were not acted upon go back at once.
//   - It dies: its claims run out and another worker takes them.
//
// # Stopping
//
// When the context of Run ends: stop claiming, finish what is being enqueued,
// hand back the other claims, let handlers end, leave the roster. All of it
// within Options.Drain.
package worker
