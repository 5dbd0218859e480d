// Package lua holds the scripts that decide everything in Redis, one
// transition a file.
//
// The folder is the package, because go:embed cannot reach above it. A script
// begins with a header, its contract: KEYS, ARGV, what it returns, what a
// second execution with the same arguments does, what it writes and what it
// costs. docs/PROTOCOL.md is made from the headers. Lines of the exact form
// "-- @include lib/x.lua" are replaced by that file, once, when the package is
// loaded.
//
// Scripts know nothing of their callers. Package redisstore builds the keys
// and calls them.
package lua

import (
	"embed"
	"fmt"
	"maps"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed *.lua lib/*.lua
var files embed.FS

// The scripts. Each is described by the header of its file.
var (
	Announce       = load("announce")
	Audit          = load("audit")
	BackfillDue    = load("backfill_due")
	BackfillHalt   = load("backfill_halt")
	BackfillStart  = load("backfill_start")
	BackfillStep   = load("backfill_step")
	Begin          = load("begin")
	Calendars      = load("calendars")
	Cancel         = load("cancel")
	CalendarsDone  = load("calendars_done")
	CalendarsRaise = load("calendars_raise")
	Claim          = load("claim")
	Complete       = load("complete")
	Configure      = load("configure")
	Drain          = load("drain")
	Finish         = load("finish")
	Heartbeat      = load("heartbeat")
	Insist         = load("insist")
	LeaseAcquire   = load("lease_acquire")
	LeaseLookup    = load("lease_lookup")
	LeaseRelease   = load("lease_release")
	LeaseRenew     = load("lease_renew")
	Look           = load("look")
	Mark           = load("mark")
	Members        = load("members")
	Pause          = load("pause")
	Put            = load("put")
	Read           = load("read")
	Redrive        = load("redrive")
	Release        = load("release")
	Remove         = load("remove")
	Renew          = load("renew")
	Resume         = load("resume")
	Settle         = load("settle")
	Skip           = load("skip")
	Stats          = load("stats")
	Trigger        = load("trigger")
)

// all are the scripts by name.
var all = map[string]*redis.Script{}

// All returns every script by its name, and what its header says. It is for
// tests and tools; the map is the caller's.
func All() (scripts map[string]*redis.Script, headers map[string]string) {
	headers = map[string]string{}
	for name := range all {
		text := source(name + ".lua")
		header, _, _ := strings.Cut(text, "\n-- @include")
		headers[name] = header
	}
	return maps.Clone(all), headers
}

// load returns a script with its includes. A missing file panics when the
// program starts: the set is fixed when it is built, so a test sees it first.
func load(name string) *redis.Script {
	script := redis.NewScript(source(name + ".lua"))
	all[name] = script
	return script
}

// source returns the text of a file with its includes replaced.
func source(path string) string {
	text, err := files.ReadFile(path)
	if err != nil {
		panic(fmt.Sprintf("lua: %s: %v", path, err))
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if include, ok := strings.CutPrefix(line, "-- @include "); ok {
			lines[i] = source(include)
		}
	}
	return strings.Join(lines, "\n")
}
