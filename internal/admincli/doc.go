// Package admincli is the command line of operators: cmd/admin is a main
// around [Run].
//
// Standard output holds data and nothing else; notes, warnings, questions and
// errors go to standard error. Every error is one line that names what was
// wrong, what was given and what is accepted, and ends the process with one of
// the codes of [Run]. What is printed is escaped, so that no stored text
// reaches the terminal as a control sequence. Everything that a command takes
// from outside, such as the clock and the store, comes in through [Env].
package admincli
