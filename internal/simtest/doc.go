// Package simtest runs whole fleets in virtual time and judges what every
// scheduled time came to.
//
// Everything of a simulation lives in one testing/synctest bubble: the workers,
// the consumers, and a miniredis that they reach over in-memory connections.
// Days pass in seconds, and a goroutine that is left behind fails the test.
//
// What was seen is compared with an oracle of this package, which walks the
// minutes one by one and shares no code with the engine under test.
package simtest
