// Package redisstore keeps schedules, claims, the ledger of open firings and
// leases in Redis.
//
// A [Store] implements schedule.Catalog, claim.Store, claim.Ledger,
// claim.Waker and claim.Roster; [Store.Leases] returns a claim.Leases. Every
// decision is taken inside one script of package lua, which runs in one slot
// with every key declared; this package builds the keys, packs arguments and
// reads replies. What a script may not know, such as which time comes next, is
// planned here by package schedule from what was read, and the script is
// fenced by what the plan was made from.
//
// # Repeats
//
// Every script may be executed twice with the same arguments, because a client
// that lost a reply sends it again: the second execution changes nothing and
// gives the same answer, except where its header says otherwise.
//
// # Calls that meet
//
// Calls of Begin, and of Finish, for the same shard that are made while one is
// under way go together with one script, at most 64, each with its own answer
// as if it came alone. A lone call waits for nobody.
//
// # Errors
//
// Input that is refused gives a *schedule.FieldError and changes nothing.
// Errors of the client are wrapped once, with what was being done: the call
// may or may not have taken effect and may be repeated. [IsUnavailable] tells
// whether waiting helps.
//
// # Limits
//
// Redis must not evict (maxmemory-policy noeviction), and what it acknowledges
// may be lost in a failover. On a cluster give the client of a cluster, and on
// a namespace of several shards every shard must be served.
package redisstore
