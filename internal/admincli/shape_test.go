package admincli

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// full is a definition in which every field is set.
func full() schedule.Schedule {
	retries, at := 1, time.Unix(1_800_000_000, 0).UTC()
	window := schedule.Window{Calendar: "c", Dates: []string{"2026-12-25"}, Weekly: "Sat 00:00-Mon 06:00", Cron: "* * * * *", Timezone: "UTC"}
	return schedule.Schedule{ID: "a", Description: "d", Labels: map[string]string{"k": "v"}, Metadata: json.RawMessage(`{"a":1}`),
		Expression: "@daily", Timezone: "UTC", Except: []schedule.Window{window}, Only: []schedule.Window{window},
		Specs:  []schedule.SpecDefinition{{Cron: "@daily", Timezone: "UTC", Every: time.Hour, Anchor: at, At: []string{"2026-12-25"}, After: time.Hour}},
		Starts: at, Ends: at, Limit: 1, Jitter: time.Second, Type: "t", Queue: "q", Payload: []byte("{}"), Headers: map[string]string{"h": "v"},
		MaxRetry: &retries, Timeout: time.Minute, Retention: time.Hour, Missed: schedule.MissedAll, CatchUp: time.Hour,
		Overlap: schedule.OverlapBufferAll, BufferLimit: 1, Effect: schedule.AtMostOnce, Priority: 1, MaxFailures: 1, CoolDown: time.Minute,
		Paused: true}
}

// The names that a file may use are those of the definition's JSON form, at
// every level, and no more.
func TestShapesFollowTheDefinition(t *testing.T) {
	text, err := json.Marshal(full())
	if err != nil {
		t.Fatal(err)
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(text, &top); err != nil {
		t.Fatal(err)
	}
	top["payload_base64"] = nil // stands instead of payload
	sameNames(t, "schedule", scheduleShape, top)
	for name, s := range map[string]*shape{"specs": specShape, "except": windowShape, "only": windowShape} {
		var list []map[string]json.RawMessage
		if err := json.Unmarshal(top[name], &list); err != nil {
			t.Fatal(err)
		}
		sameNames(t, name, s, list[0])
	}
	calendar, err := json.Marshal(schedule.Calendar{Name: "c", Timezone: "UTC", Dates: []string{"d"}, Weekly: []string{"w"}, Cron: []string{"c"}})
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(calendar, &fields); err != nil {
		t.Fatal(err)
	}
	sameNames(t, "calendar", calendarShape, fields)
}

func sameNames(t *testing.T, what string, s *shape, fields map[string]json.RawMessage) {
	t.Helper()
	want, got := slices.Sorted(maps.Keys(fields)), s.keys()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s: a file may use %v, the definition has %v", what, got, want)
	}
}

// Every name that output adds is accepted, and dropped, when it is applied.
func TestStatusNamesAreThoseOfTheOutput(t *testing.T) {
	text, err := marshal(statusJSON{Invalid: "x", PausedBy: "x", PauseReason: "x"})
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	for name := range fields {
		if !slices.Contains(statusNames, name) {
			t.Errorf("output has %q, which a file may not use", name)
		}
	}
}

// Reading a rendered definition gives the same definition, in JSON and YAML.
// A payload keeps its bytes in JSON; in YAML its characters are stored as
// themselves, since the escapes there are of YAML's own.
func TestFilesRoundTrip(t *testing.T) {
	definition := full()
	const fromYAML = `{"n":9007199254740993,"e":1e400,"s":"no: # \\u0000 <b>é<"}`
	definition.Payload = []byte(`{"n":9007199254740993,"e":1e400,"s":"no: # \\u0000 <b>\u00e9\u003c"}`)
	text, err := marshal(definition)
	if err != nil {
		t.Fatal(err)
	}
	var yaml strings.Builder
	if err := writeYAML(&yaml, text); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{"json": string(text), "yaml": yaml.String()} {
		content, err := readFile(name, []byte(file))
		if err != nil || len(content.schedules) != 1 {
			t.Fatalf("%s: %d schedules, %v\n%s", name, len(content.schedules), err, file)
		}
		var got schedule.Schedule
		if err := json.Unmarshal(content.schedules[0].object, &got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again, err := marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		stored := fromYAML
		if name == "json" {
			stored = string(definition.Payload)
		}
		if !sameJSON(again, text) || string(got.Payload) != stored {
			t.Errorf("%s:\n got %s\nwant %s\npayload %s", name, again, text, got.Payload)
		}
	}
}

// Strings that YAML could take for something else stay strings.
func TestYAMLStringsStayStrings(t *testing.T) {
	for _, s := range []string{"", "no", "yes", "null", "~", "true", "1", "1e3", "0x10", "1_000", ".inf", "2026-01-01", "a: b", "a #b", "- a",
		"*a", "&a", "!a", "%a", "@a", "`a", "{a}", "[a]", "'a'", `"a"`, "a\nb", " a", "a ", "\u2028", "é", "日本", "\x1b[2J", "a\U000e0001b", "y", "<<"} {
		text, err := marshal([]map[string]any{{"id": "x", "description": s, "labels": map[string]string{"k": s}}})
		if err != nil {
			t.Fatal(err)
		}
		var yaml strings.Builder
		if err := writeYAML(&yaml, text); err != nil {
			t.Fatal(err)
		}
		content, err := readFile("f", []byte(yaml.String()))
		if err != nil || len(content.schedules) != 1 {
			t.Errorf("%q is written as %q: %v", s, yaml.String(), err)
			continue
		}
		var got struct {
			Description string
			Labels      map[string]string
		}
		if err := json.Unmarshal(content.schedules[0].object, &got); err != nil || got.Description != s || got.Labels["k"] != s {
			t.Errorf("%q came back as %q and %q (%v) from %q", s, got.Description, got.Labels["k"], err, yaml.String())
		}
	}
}

func TestSpan(t *testing.T) {
	tests := map[time.Duration]string{
		0: "0ms", 250 * time.Millisecond: "250ms", time.Second: "1s", 90 * time.Second: "1m 30s", time.Hour: "1h",
		time.Hour + 5*time.Second: "1h", 26 * time.Hour: "1d 2h", 104 * 24 * time.Hour: "3mo 14d", 800 * 24 * time.Hour: "2y 2mo", -time.Second: "0ms",
	}
	for d, want := range tests {
		if got := span(d); got != want {
			t.Errorf("span(%s) = %q, want %q", d, got, want)
		}
	}
}
