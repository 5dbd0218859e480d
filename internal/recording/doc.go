// Command recording records a session of admin against a running demo worker.
//
// The programs are built and run for real: the worker with --demo, and admin in
// a shell inside tmux, whose screen is looked at ten times a second. What was
// seen becomes an asciicast (version 2), and its scenes, one for each command,
// an SVG for README. Only the host in the worker's name is replaced. make recording
// makes both anew.
package main
