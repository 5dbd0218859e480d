package doctor

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

func healthy() Facts {
	return Facts{TimeZone: "tz", Members: []claim.Member{{ID: "w1", TimeZone: "tz", Claims: true, Queues: map[string]int{"default": 1}, Types: []string{"log"}}},
		Queues: map[string]Queue{"default": {Listed: true, Served: true}},
		Nodes: []Node{{Address: "a:1", Info: map[string]string{"redis_version": "8.2.2", "used_memory": "1", "role": "master", "connected_slaves": "1"},
			Config: map[string]string{"maxmemory-policy": "noeviction", "maxmemory": "0", "appendonly": "yes"}}}}
}

// find returns the level of a check, or "" when it is not there.
func find(all []Finding, check string) (Finding, bool) {
	for _, f := range all {
		if f.Check == check {
			return f, true
		}
	}
	return Finding{}, false
}

func TestWhatIsWrongIsFound(t *testing.T) {
	if worst := Worst(Examine(healthy())); worst != OK {
		t.Fatalf("a healthy fleet is %s: %+v", worst, Examine(healthy()))
	}
	tests := map[string]struct {
		check string
		want  Level
		spoil func(*Facts)
	}{
		"evicts":            {"eviction", Error, func(f *Facts) { f.Nodes[0].Config["maxmemory-policy"] = "volatile-lru" }},
		"full":              {"memory", Error, func(f *Facts) { f.Nodes[0].Config["maxmemory"] = "1" }},
		"nearly full":       {"memory", Warning, func(f *Facts) { f.Nodes[0].Info["used_memory"], f.Nodes[0].Config["maxmemory"] = "99", "100" }},
		"snapshots":         {"persistence", Warning, func(f *Facts) { f.Nodes[0].Config["appendonly"] = "no" }},
		"disk full":         {"persistence", Error, func(f *Facts) { f.Nodes[0].Info["aof_last_write_status"] = "err" }},
		"fsync off":         {"persistence", Error, func(f *Facts) { f.Nodes[0].Config["appendfsync"], f.Production = "no", true }},
		"replica":           {"role", Error, func(f *Facts) { f.Nodes[0].Info["role"] = "slave" }},
		"no replica":        {"role", Warning, func(f *Facts) { f.Nodes[0].Info["connected_slaves"], f.Production = "0", true }},
		"old":               {"version", Warning, func(f *Facts) { f.Nodes[0].Info["redis_version"] = "7.2.5" }},
		"old in production": {"version", Error, func(f *Facts) { f.Nodes[0].Info["redis_version"], f.Production = "7.2.5", true }},
		"ancient":           {"version", Error, func(f *Facts) { f.Nodes[0].Info["redis_version"] = "5.0.7" }},
		"odd version":       {"version", Unknown, func(f *Facts) { f.Nodes[0].Info["redis_version"] = "unstable" }},
		"clock ahead":       {"clock", Warning, func(f *Facts) { f.Nodes[0].Ahead = time.Second }},
		"clock far behind":  {"clock", Error, func(f *Facts) { f.Nodes[0].Ahead = -time.Minute }},
		"embedded":          {"store", Warning, func(f *Facts) { f.Nodes[0].Embedded = true }},
		"no scripts":        {"scripts", Error, func(f *Facts) { f.ScriptErr = errors.New("NOPERM") }},
		"no worker":         {"workers", Error, func(f *Facts) { f.Members = nil }},
		"nobody claims":     {"workers", Error, func(f *Facts) { f.Members[0].Claims = false }},
		"all drain":         {"workers", Error, func(f *Facts) { f.Members[0].State = claim.MemberDraining }},
		"one worker":        {"workers", Warning, func(f *Facts) { f.Production = true }},
		"versions": {"versions", Warning, func(f *Facts) {
			f.Members[0].Version = "1"
			f.Members = append(f.Members, claim.Member{ID: "w2", Version: "2", TimeZone: "tz"})
		}},
		"zone data":          {"timezones", Warning, func(f *Facts) { f.Members[0].TimeZone = "other" }},
		"late":               {"lateness", Error, func(f *Facts) { f.Stats.Lateness = time.Minute }},
		"nobody serves":      {"queues", Error, func(f *Facts) { f.Schedules.Add(entry("x", "elsewhere", "log"), time.Time{}, 0) }},
		"no handler":         {"queues", Error, func(f *Facts) { f.Schedules.Add(entry("x", "default", "other"), time.Time{}, 0) }},
		"paused queue":       {"queues", Warning, func(f *Facts) { paused(f) }},
		"abandoned tasks":    {"queues", Warning, func(f *Facts) { f.Queues["old"] = Queue{Listed: true, Pending: 3} }},
		"unreadable queue":   {"queues", Unknown, func(f *Facts) { f.Queues["torn"] = Queue{Listed: true, Err: errors.New("no record")} }},
		"torn queue":         {"queues", Error, func(f *Facts) { f.Queues["torn"] = Queue{Listed: true, Torn: "1 pending entry", Fixable: true} }},
		"strange key":        {"queues", Error, func(f *Facts) { f.Queues["torn"] = Queue{Listed: true, Torn: "the key x"} }},
		"broken":             {"invariants", Error, func(f *Facts) { f.Violations = []redisstore.Violation{{Kind: redisstore.ViolationIndex, Text: "x"}} }},
		"unreadable":         {"invariants", Unknown, func(f *Facts) { f.CheckErr = errors.New("NOPERM") }},
		"config/info denied": {"eviction", Unknown, func(f *Facts) { f.Nodes[0].Config, f.Nodes[0].Info = nil, nil }},
	}
	for name, test := range tests {
		f := healthy()
		test.spoil(&f)
		got, ok := find(Examine(f), test.check)
		if !ok || got.Level != test.want || got.Do == "" || got.Seen == "" {
			t.Errorf("%s: %+v, want %s", name, got, test.want)
		}
	}
}

func entry(id schedule.ID, queue, kind string) schedule.Entry {
	return schedule.Entry{Schedule: schedule.Schedule{ID: id, Queue: queue, Type: kind}, Status: schedule.Status{State: schedule.StateActive}}
}

func paused(f *Facts) {
	f.Queues["default"] = Queue{Listed: true, Served: true, Paused: true}
	f.Schedules.Add(entry("x", "default", "log"), time.Time{}, 0)
}

// A queue that a plain asynq server serves is served, though nobody knows its
// types; one that asynq's list lacks can be repaired.
func TestQueuesOfPlainConsumers(t *testing.T) {
	f := healthy()
	f.Queues["other"] = Queue{Served: true, Pending: 1}
	f.Schedules.Add(entry("x", "other", "theirs"), time.Time{}, 0)
	got, _ := find(Examine(f), "queues")
	if got.Fix != FixQueue || got.About != "other" || got.Level != Warning {
		t.Errorf("%+v", got)
	}
	f.Queues["other"] = Queue{Served: true, Listed: true, Pending: 1}
	if got, _ := find(Examine(f), "queues"); got.Level != OK {
		t.Errorf("%+v", got)
	}
}

// With no worker alive nothing is served, and nobody says that it is.
func TestNoWorkerServesNothing(t *testing.T) {
	f := healthy()
	f.Members, f.Queues = nil, map[string]Queue{"default": {Listed: true}, "other": {Served: true}}
	f.Schedules.Add(entry("x", "default", "log"), time.Time{}, 0)
	f.Schedules.Add(entry("y", "other", "theirs"), time.Time{}, 0)
	if got, _ := find(Examine(f), "queues"); got.Level != Error || got.Seen != "nobody serves default (1 schedule)" {
		t.Errorf("%+v", got)
	}
	f.Queues["default"] = Queue{Listed: true, Served: true}
	if got, _ := find(Examine(f), "queues"); got.Level != OK {
		t.Errorf("plain asynq servers serve all: %+v", got)
	}
	none := Facts{Queues: map[string]Queue{}}
	if got, _ := find(Examine(none), "queues"); got.Seen != "no schedule that can fire uses a queue" {
		t.Errorf("no schedule: %+v", got)
	}
}

// While one run decides whether a disabled schedule goes on, nothing of it is
// due; a program that does not say its version is no roll-out.
func TestWhatIsNoFinding(t *testing.T) {
	f := healthy()
	f.Members = append(f.Members, claim.Member{ID: "own", TimeZone: f.Members[0].TimeZone})
	now := time.Unix(1_800_000_000, 0)
	e := entry("probing", "default", "log")
	e.Schedule.MaxFailures, e.Status.ConsecutiveFails, e.Status.Open = 3, 3, 1
	e.Status.DueAt = now.Add(-time.Hour)
	f.Schedules.Add(e, now, 0)
	for _, check := range []string{"overdue", "versions"} {
		if got, ok := find(Examine(f), check); ok {
			t.Errorf("%+v", got)
		}
	}
	e.Status.Open = 0
	f.Schedules.Add(e, now, 0)
	if got, _ := find(Examine(f), "overdue"); got.Level != Error {
		t.Errorf("a schedule that waits for nothing is due: %+v", got)
	}
}

func TestArithmeticOfSchedules(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	short := entry("short", "default", "log")
	short.Schedule.Retention = 3 * time.Minute
	every := entry("every", "default", "log")
	every.Schedule.Specs = []schedule.SpecDefinition{{Every: time.Hour}}
	every.Schedule.Missed, every.Schedule.CatchUp = schedule.MissedAll, time.Minute
	late := entry("late", "default", "log")
	late.Status.DueAt = now.Add(-2 * time.Minute)
	off := entry("off", "default", "log")
	off.Status.State = schedule.StateDisabled
	bad := schedule.Entry{Schedule: schedule.Schedule{ID: "bad"}, Invalid: errors.New("no such zone")}
	f := healthy()
	for _, e := range []schedule.Entry{short, every, late, off, bad} {
		f.Schedules.Add(e, now, 2*time.Minute)
	}
	for range 7 {
		f.Schedules.Add(off, now, 2*time.Minute)
	}
	all := Examine(f)
	for check, name := range map[string]string{"retention": "short", "catch_up": "every", "overdue": "late", "disabled": "off", "definitions": "bad"} {
		got, ok := find(all, check)
		if !ok || !strings.HasPrefix(got.Seen, name) {
			t.Errorf("%s: %+v", check, got)
		}
	}
	if got, _ := find(all, "disabled"); !strings.Contains(got.Seen, "and 3 more") {
		t.Errorf("%+v", got)
	}
	f = healthy()
	f.Schedules.Add(short, now, 0)
	if got, found := find(Examine(f), "retention"); found {
		t.Errorf("3 m are enough at the default audit: %+v", got)
	}
}

func TestVersionFloors(t *testing.T) {
	tests := []struct {
		product, version, floor string
		old                     bool
	}{
		{"redis", "6.2.19", "6.2.20", true}, {"redis", "6.2.20", "6.2.20", false}, {"redis", "7.2.10", "7.2.11", true}, {"redis", "7.4.6", "7.4.6", false},
		{"redis", "8.1.0", "8.2.2", true}, {"redis", "8.4.0", "", false}, {"valkey", "8.1.3", "8.1.4", true}, {"valkey", "9.0.0", "", false},
	}
	for _, test := range tests {
		v, ok := parseVersion(test.version)
		floor, old := below(test.product, v)
		if !ok || floor != test.floor || old != test.old {
			t.Errorf("%s %s: %s %v", test.product, test.version, floor, old)
		}
	}
}

func TestProbe(t *testing.T) {
	for _, backend := range redistest.Backends() {
		t.Run(backend.Name, func(t *testing.T) {
			all, err := Probe(t.Context(), backend.Dial(t), time.Now)
			if err != nil || len(all) == 0 || backend.Name == "cluster" && len(all) < 3 {
				t.Fatalf("%d nodes, %v", len(all), err)
			}
			for _, n := range all {
				if n.Embedded != (backend.Name == "miniredis") {
					t.Errorf("embedded %v: %v", n.Embedded, n.InfoErr)
				}
				if n.ClockErr != nil || n.Ahead.Abs() > time.Second {
					t.Errorf("clock %s ahead, %v", n.Ahead, n.ClockErr)
				}
				if backend.Name != "miniredis" && (n.Info["redis_version"] == "" || n.Config["maxmemory-policy"] == "" || n.Info["used_memory"] == "") {
					t.Errorf("%+v", n)
				}
			}
		})
	}
}

// Each kind of violation has a remedy of its own, whatever its words are.
func TestARemedyForEachKindOfViolation(t *testing.T) {
	seen := map[string]bool{}
	for kind := redisstore.ViolationIndex; kind <= redisstore.ViolationCalendars; kind++ {
		v := redisstore.Violation{Kind: kind, Shard: 3, Text: "x puts it aside"}
		got := Broken([]redisstore.Violation{v})
		if len(got) != 1 || got[0].Seen != "shard 03: x puts it aside" || !got[0].Tells(v) || got[0].Do == "" || seen[got[0].Do] {
			t.Errorf("kind %d: %+v", kind, got)
		}
		seen[got[0].Do] = true
	}
}
