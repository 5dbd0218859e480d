// Package handler has the task handlers of the stock worker: http sends a
// request, exec starts a command, log writes a line.
//
// Whoever may write a schedule, or put a task into a queue, chooses what these
// handlers do. Each therefore does nothing until its options allow it: http
// needs a list of hosts, exec a list of commands. A payload that is refused is
// not retried; the error names the field and what is allowed, and never repeats
// secrets such as header values or the query of a URL.
//
// All handlers pass the firing ID on as the idempotency key, because a firing
// may run more than once after a crash.
package handler
