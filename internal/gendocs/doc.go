// Command gendocs writes the reference of the admin program: a page of Markdown
// and a manual page for each of its commands, from the same text as its --help.
//
//	go run ./internal/gendocs docs/cli
//
// A test fails when the pages differ from the commands.
package main
