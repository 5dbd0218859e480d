// Package app puts the worker program together: it builds clients, logger,
// health endpoints and the worker from a configuration, starts them and stops
// them in order.
//
// Start: configuration, logger, the demo's Redis where asked for, Redis
// client, health endpoints, worker. Stop, when the context of [Run] ends: the
// worker stops claiming, finishes its enqueues, hands back its claims and
// drains its handlers; then the health endpoints close, the Redis client, and
// the demo's Redis. Readiness is refused from the first of these moments on.
package app
