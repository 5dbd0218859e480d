// Package schedule decides what fires when.
//
// It is pure: it knows no Redis, no network, no file and no clock. Every
// function that depends on the present takes it as an argument, so the same
// definition, state and time give the same answer on every worker.
//
// A [Schedule] is a durable, named definition: when to fire, which task to
// push, under which policies. Its "when" is a [Spec], or several united.
// [Compile] turns a definition and the calendars that it names into a
// [Compiled] schedule, which computes scheduled times and, with [Plan], what
// must become of a claimed one. A scheduled time is an exact UTC instant at
// millisecond precision; wall-clock times never take part in identity.
//
// What this package does not promise: that a firing runs. It says only when
// one is due and what the policies make of it. Package claim decides who may
// act on it and package queue gets it run.
package schedule
