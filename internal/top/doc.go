// Package top is the live view of a fleet in a terminal.
//
// [Model] is the whole of it and pure: it takes keys, sizes and snapshots, says
// what is to be done, and renders frames as text; it knows neither a terminal
// nor a store nor a clock. [Show] drives it with bubbletea, and is the only part
// that depends on it.
package top
