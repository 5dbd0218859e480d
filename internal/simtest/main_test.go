package simtest

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain lets the heap grow: miniredis builds a Lua state for every script
// that it runs, some 100,000 in these tests, and what lives is small.
func TestMain(m *testing.M) {
	debug.SetGCPercent(1000)
	os.Exit(m.Run())
}
