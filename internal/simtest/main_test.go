package simtest

import (
	"context"
	"os"
	"runtime/debug"
	"testing"

	"github.com/redis/go-redis/v9"
)

// TestMain lets the heap grow: miniredis builds a Lua state for every script
// that it runs, some 100,000 in these tests, and what lives is small. What
// go-redis would print are the faults that were asked for.
func TestMain(m *testing.M) {
	redis.SetLogger(mute{})
	debug.SetGCPercent(1000)
	os.Exit(m.Run())
}

type mute struct{}

// Printf prints nothing.
func (mute) Printf(context.Context, string, ...any) {}
