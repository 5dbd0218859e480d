package lua

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/PROTOCOL.md from the headers")

const protocolFile = "../../docs/PROTOCOL.md"

const protocolIntro = `# The scripts

<!-- Made from the headers in scripts/lua: go test ./scripts/lua -update -->

Everything that Redis decides is decided by one of these scripts, each one transition. All keys of a shard share one hash
tag, so a script runs in one slot; every key is declared. Times are Unix milliseconds, tokens and generations are whole
numbers below 2^53. What a record holds is said in ` + "`scripts/lua/lib`" + `; what the words mean, in the documentation of
packages schedule and claim.
`

// TestProtocolDocumentIsUpToDate compares the document with the headers.
func TestProtocolDocumentIsUpToDate(t *testing.T) {
	var b strings.Builder
	b.WriteString(protocolIntro)
	section(&b, "The clock", read(t, "lib/clock.lua"))
	section(&b, "The keys of a shard", read(t, "lib/shard.lua"))
	for _, name := range names(t, ".") {
		section(&b, name, read(t, name+".lua"))
	}
	if *update {
		if err := os.WriteFile(protocolFile, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(protocolFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != b.String() {
		t.Errorf("docs/PROTOCOL.md differs from the headers; run go test ./scripts/lua -update")
	}
}

// section writes the header of a file, without its includes.
func section(b *strings.Builder, title, text string) {
	header, _ := split(text)
	b.WriteString("\n## " + title + "\n\n```\n")
	for _, line := range header {
		if !strings.HasPrefix(line, "-- @include ") {
			b.WriteString(strings.TrimPrefix(strings.TrimPrefix(line, "--"), " ") + "\n")
		}
	}
	b.WriteString("```\n")
}
