// Package storm runs whole fleets in virtual time while everything goes wrong
// that can, and judges what became of every scheduled time.
//
// # What runs
//
// A run is a testing/synctest bubble with three planners and three consumers,
// each a process that can stand still, crash and come back, an operator, and a
// Redis that misbehaves. These are the product's own code: the claim loops
// (worker.Scheduler), the planning, the auditor, the enqueuer with asynq's own
// client and inspector, the middleware with its heartbeats, and the store's
// protocol as package memstore has it. These are models: asynq's side of Redis
// (broker_test.go) and the server that takes tasks from it (consumer_test.go),
// both after asynq v0.26, with its leases, recovery, unfenced completions,
// retries that do not happen, and stubs of lost tasks. The protocol
// runs in memstore, which the contract in package storetest compares with the
// scripts operation by operation; with -store lua, and in TestScripts, it is
// redisstore with its scripts on a miniredis in the bubble (lua_test.go).
//
// Every command of a process passes a gate (gate_test.go). There it may be
// refused, delayed until long after its sender gave up, executed twice, or
// repeated later, or lose its reply, and its process may stand still or crash
// before and after it. What pauses is the process's contact with the world: its
// timers run on, so it wakes with everything it had in hand, as after SIGSTOP.
//
// # Seeds
//
// All chance comes from the seed, the virtual time and the name of the event
// (dice_test.go), and what would happen at one nanosecond is kept apart, in an
// order of its own (moments_test.go), so that a seed replays
// event by event whatever the scheduler of the runtime does. A failing seed
// prints the part of its trace that leads to the violation and the command
// that runs it again:
//
//	go test ./internal/simtest/storm -run TestSeeds -seeds 1 -first-seed 7 -events -v
//
// # The checker
//
// The witness sees every reply of the store at the instant at which it is
// given, also when it never arrives, and every effect. It lists scheduled times
// by arithmetic on the spec. At every step it wants: one verdict for each of
// them up to the mark, for ever, one that the policies allow, counted right;
// claims only while a schedule is active and, under skip and the buffers, while
// nothing is open; at most one owner who may trust its lease; runs kept apart
// by the overlap policy; tokens that grow; reports and heartbeats of the owner
// alone; no run after a settlement or a deletion; no scheduled time of a backfill
// opened twice, out of its bounds or left out; nothing fired that was to be
// skipped or that the calendar excluded when it was claimed; the first time that
// the newest calendar allows after each completion, however old the worker's
// calendars are; a breaker that opens
// at the failure that reaches its bound, and then lets one run at a time through; nothing
// early; the store's own invariants. At the end: an effect for everything that fired, no second
// one unless an attempt crashed, stood still or lost its store after the first,
// never a second one under at_most_once, nothing open, nothing queued.
//
// golden_test.go replays a few short storms against committed traces.
//
// mutants_test.go breaks the rules one by one and wants each to be seen.
package storm
