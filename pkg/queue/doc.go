// Package queue gets firings run through asynq: it enqueues their tasks, guards
// the handlers that consume them, and looks after firings whose tasks are lost.
//
// # Parts
//
// An [Enqueuer] pushes one asynq task per firing. The task ID is the firing ID,
// so pushing again is harmless: a conflict means that it was pushed before.
//
// A [Middleware] stands before the handlers of an asynq server. It asks the
// ledger for the right to run (begin), keeps that right alive while the handler
// runs (heartbeat) and reports the end (finish). asynq delivers a task more than
// once after a crash, a pause or a failed completion; the ledger lets one
// attempt at a time run, and none after the firing is settled.
//
// An [Auditor] looks at firings that have been open for too long and compares
// them with their tasks. It settles what a plain asynq server has finished and
// enqueues again, under the task ID with the suffix "~n", what asynq has lost.
//
// # What asynq sees
//
// All metadata travels in task headers that start with "Belfry-"; the payload
// is handed over untouched. Tasks without those headers keep asynq's behaviour.
//
// # Limits
//
// Runs are at least once. The promise that no two owners run a firing at once
// holds behind the Middleware; a plain asynq server has the retention of the
// completed task instead, and its client needs [NewBackoffHook], or a completion
// that Redis refuses makes the handler run again. A handler that ignores its
// context after the lease is lost keeps running: it must refuse smaller tokens
// where it writes.
package queue
