// Package schema holds the JSON Schemas of what the command line reads and
// prints. They are generated from its types by a test of package admincli,
// which fails when they differ; names are only ever added.
package schema

import (
	_ "embed" // the schemas are files, so that editors and other programs can use them
)

//go:embed file.json
var file []byte

//go:embed output.json
var output []byte

// File returns the schema of a schedule file, as apply, diff and validate read
// it. The caller may change what it gets.
func File() []byte { return append([]byte(nil), file...) }

// Output returns the schemas of what each command prints with -o json; with -o
// jsonl each element of a list is a line. The caller may change what it gets.
func Output() []byte { return append([]byte(nil), output...) }
