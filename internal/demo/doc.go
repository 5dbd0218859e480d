// Package demo is the embedded default of the worker: a Redis inside the
// process, example schedules, and one readable line for everything that
// happens. Nothing of it survives the process.
//
// The Redis is miniredis. It is fine for a look and for trying out the CLI; it
// is no store for schedules that matter.
package demo
