package schedule

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// whole has a value in every field.
const whole = `{
	"id": "nightly-report", "description": "text", "labels": {"team": "billing", "a": "b"}, "metadata": {"z": 1e2, "a": [9007199254740993]},
	"specs": [{"cron": "0 2 * * *", "timezone": "Europe/Berlin"}, {"every": "15m", "anchor": "2026-01-01T01:00:00+01:00"},
	          {"at": ["2026-12-24T09:00:00+01:00"]}],
	"timezone": "Europe/Berlin",
	"except": [{"calendar": "holidays-de"}, {"dates": ["2026-12-25", "2026-12-24..2026-12-26"]},
	           {"weekly": "Sat 00:00-Mon 06:00"}, {"cron": "* 2-4 * * *", "timezone": "UTC"}],
	"only": [{"weekly": "Mon 00:00-Fri 24:00"}],
	"starts": "2026-01-01T00:00:00Z", "ends": "2027-01-01T00:00:00Z", "limit": 7, "jitter": "30s",
	"type": "report:build", "queue": "reports", "payload": {"account": 9007199254740993}, "headers": {"X-Tenant": "7"},
	"max_retry": 0, "timeout": "PT45M", "retention": "15m", "missed": "all", "catch_up": "24h", "overlap": "buffer_all",
	"buffer_limit": 5, "effect": "at_most_once", "priority": -3, "max_failures": 4, "cool_down": "1h", "paused": true
}`

func decode(t *testing.T, text string) Schedule {
	t.Helper()
	var s Schedule
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func encode(t rapid.TB, s Schedule) []byte {
	t.Helper()
	data, err := s.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestScheduleJSONHasEveryField(t *testing.T) {
	got := decode(t, whole)
	zero := 0
	want := Schedule{
		ID: "nightly-report", Description: "text", Labels: map[string]string{"team": "billing", "a": "b"},
		Metadata: json.RawMessage(`{"a":[9007199254740993],"z":1e2}`),
		Specs: []SpecDefinition{{Cron: "0 2 * * *", Timezone: "Europe/Berlin"},
			{Every: 15 * time.Minute, Anchor: utc(t, "2026-01-01T00:00:00Z")}, {At: []string{"2026-12-24T09:00:00+01:00"}}},
		Timezone: "Europe/Berlin",
		Except: []Window{{Calendar: "holidays-de"}, {Dates: []string{"2026-12-25", "2026-12-24..2026-12-26"}},
			{Weekly: "Sat 00:00-Mon 06:00"}, {Cron: "* 2-4 * * *", Timezone: "UTC"}},
		Only:   []Window{{Weekly: "Mon 00:00-Fri 24:00"}},
		Starts: utc(t, "2026-01-01T00:00:00Z"), Ends: utc(t, "2027-01-01T00:00:00Z"), Limit: 7, Jitter: 30 * time.Second,
		Type: "report:build", Queue: "reports", Payload: []byte(`{"account":9007199254740993}`),
		Headers: map[string]string{"X-Tenant": "7"}, MaxRetry: &zero, Timeout: 45 * time.Minute, Retention: 15 * time.Minute,
		Missed: MissedAll, CatchUp: 24 * time.Hour, Overlap: OverlapBufferAll, BufferLimit: 5, Effect: AtMostOnce,
		Priority: -3, MaxFailures: 4, CoolDown: time.Hour, Paused: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, decode(t, string(encode(t, got)))); diff != "" {
		t.Errorf("after a round trip (-want +got):\n%s", diff)
	}
	if err := got.Validate(); err != nil {
		t.Errorf("Validate() = %v", err)
	}
}

func TestScheduleJSONIsCanonical(t *testing.T) {
	short := decode(t, `{"id": "a", "type": "t", "expression": " 0 0\t* *  * ", "metadata": {"b": 1, "a": 2}, "labels": {}, "except": []}`)
	long := decode(t, `{"type": "t", "expression": "0 0 * * *", "queue": "default", "max_retry": 3, "timeout": "30m", "retention": "PT600S",
		"missed": "latest", "overlap": "allow", "effect": "at_least_once", "metadata": {"a": 2, "b": 1}, "id": "a", "paused": false, "jitter": "0s"}`)
	short.Normalize()
	long.Normalize()
	if a, b := encode(t, short), encode(t, long); !bytes.Equal(a, b) {
		t.Errorf("equal definitions differ:\n%s\n%s", a, b)
	}
	once := encode(t, short)
	short.Normalize()
	if twice := encode(t, short); !bytes.Equal(once, twice) {
		t.Errorf("Normalize twice differs:\n%s\n%s", once, twice)
	}
}

func TestNormalizeLeavesTheCallersListsAlone(t *testing.T) {
	specs := []SpecDefinition{{Every: time.Hour, Anchor: time.Unix(0, 1).UTC()}}
	s := Schedule{ID: "a", Type: "t", Specs: specs}
	s.Normalize()
	if specs[0].Anchor.Nanosecond() != 1 || s.Specs[0].Anchor.Nanosecond() != 0 {
		t.Errorf("anchors: caller's %v, normalised %v", specs[0].Anchor, s.Specs[0].Anchor)
	}
}

func TestScheduleJSONRefuses(t *testing.T) {
	tests := []struct{ name, text, field, hint string }{
		{"an unknown name", `{"id":"a","retension":"10m"}`, "retension", `"retention"`},
		{"a hyphen for an underscore", `{"max-retry":1}`, "max-retry", `"max_retry"`},
		{"a capital", `{"Type":"t"}`, "Type", `"type"`},
		{"a name from nowhere", `{"frobnicate":1}`, "frobnicate", ""},
		{"an unknown name in a spec", `{"specs":[{"cron":"@daily"},{"evry":"5m"}]}`, "specs[1].evry", `"every"`},
		{"an unknown name in a window", `{"except":[{"date":["2026-01-01"]}]}`, "except[0].date", `"dates"`},
		{"a name that appears twice", `{"id":"a","id":"b"}`, "id", ""},
		{"a number for a duration", `{"jitter":30}`, "jitter", ""},
		{"a text for a number", `{"limit":"7"}`, "limit", ""},
		{"a fraction for a number", `{"priority":1.5}`, "priority", ""},
		{"a text for a flag", `{"paused":"yes"}`, "paused", ""},
		{"a number among labels", `{"labels":{"a":1}}`, "labels", ""},
		{"an object for a list", `{"specs":{"cron":"@daily"}}`, "specs", ""},
		{"a duration that is none", `{"timeout":"30 minutes"}`, "timeout", ""},
		{"a duration in a spec that is none", `{"specs":[{"every":"1mo"}]}`, "specs[0].every", "months"},
		{"a local time for a bound", `{"starts":"2026-01-01 00:00"}`, "starts", ""},
		{"a bound that is no date", `{"ends":"2026-02-30T00:00:00Z"}`, "ends", ""},
		{"both payloads", `{"payload":1,"payload_base64":"MQ=="}`, "payload_base64", ""},
		{"base64 that is none", `{"payload_base64":"%%%"}`, "payload_base64", ""},
		{"a list", `[]`, "definition", ""},
		{"a word", `null`, "definition", ""},
		{"bytes that are no UTF-8", "{\"id\":\"\xff\"}", "definition", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := Schedule{ID: "before"}
			err := s.UnmarshalJSON([]byte(tt.text))
			var field *FieldError
			if !errors.As(err, &field) || field.Field != tt.field || !strings.Contains(field.Hint, tt.hint) {
				t.Errorf("UnmarshalJSON(%s) = %v, want a *FieldError for %s with hint %q", tt.text, err, tt.field, tt.hint)
			}
			if s.ID != "before" {
				t.Errorf("a refused definition changed the target to %+v", s)
			}
		})
	}
}

func TestSyntaxErrorsAreFieldErrors(t *testing.T) {
	for _, text := range []string{``, `{`, `{"id":`, `{"id":"a"`, `{"id" "a"}`, `{"id":"a"} x`} {
		var s Schedule
		var field *FieldError
		if err := s.UnmarshalJSON([]byte(text)); !errors.As(err, &field) {
			t.Errorf("UnmarshalJSON(%q) = %v, want a *FieldError", text, err)
		}
	}
}

func TestPayloadForms(t *testing.T) {
	tests := []struct{ name, payload, want string }{
		{"an object", `{"a":1}`, `"payload":{"a":1}`},
		{"a large number", `9007199254740993`, `"payload":9007199254740993`},
		{"a number that floats would change", `1.10`, `"payload":1.10`},
		{"a repeated name", `{"a":1,"a":2}`, `"payload":{"a":1,"a":2}`},
		{"white space", `{"a": 1}`, `"payload_base64"`},
		{"null", `null`, `"payload_base64"`},
		{"an ampersand as it is", `"a&b"`, `"payload":"a&b"`},
		{"an ampersand as json.Marshal writes it", `"a\u0026b"`, `"payload":"a\u0026b"`},
		{"text", `hello`, `"payload_base64"`},
		{"a NUL", "\x00", `"payload_base64"`},
		{"bytes that are no UTF-8", "\"\xff\"", `"payload_base64"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := Schedule{ID: "a", Type: "t", Payload: []byte(tt.payload)}
			data := encode(t, s)
			if !bytes.Contains(data, []byte(tt.want)) {
				t.Errorf("Marshal = %s, want %s in it", data, tt.want)
			}
			if back := decode(t, string(data)); string(back.Payload) != tt.payload {
				t.Errorf("payload came back as %q, want %q", back.Payload, tt.payload)
			}
			var indented bytes.Buffer
			if err := json.Indent(&indented, data, "", "  "); err != nil {
				t.Fatal(err)
			}
			if back := decode(t, indented.String()); string(back.Payload) != tt.payload {
				t.Errorf("indented, the payload came back as %q, want %q", back.Payload, tt.payload)
			}
		})
	}
}

func TestPayloadOfAFileIsCompact(t *testing.T) {
	s := decode(t, `{"id":"a","payload":{ "url" : "x?a&b" }}`)
	if want := `{"url":"x?a&b"}`; string(s.Payload) != want {
		t.Errorf("payload = %s, want %s", s.Payload, want)
	}
	if s := decode(t, `{"id":"a","payload":null}`); s.Payload != nil {
		t.Errorf("payload null = %q, want none", s.Payload)
	}
}

func TestScheduleJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawSchedule(t)
		data := encode(t, want)
		var got Schedule
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", data, diff)
		}
		if again := encode(t, got); !bytes.Equal(data, again) {
			t.Fatalf("not canonical:\n%s\n%s", data, again)
		}
	})
}

// drawSchedule makes any normalised definition, valid or not.
func drawSchedule(t *rapid.T) Schedule {
	text := rapid.StringN(0, 12, 40)
	millis := func(name string) time.Time {
		ms := rapid.Int64Range(0, 1<<42).Draw(t, name)
		if ms%5 == 0 {
			return time.Time{}
		}
		return time.UnixMilli(ms).UTC()
	}
	length := func(name string) time.Duration {
		return time.Duration(rapid.Int64Range(0, 1<<50).Draw(t, name))
	}
	texts := rapid.SliceOfN(text, 0, 3)
	s := Schedule{
		ID: ID(text.Draw(t, "id")), Description: text.Draw(t, "description"),
		Labels: rapid.MapOfN(text, text, 0, 3).Draw(t, "labels"), Headers: rapid.MapOfN(text, text, 0, 3).Draw(t, "headers"),
		Expression: text.Draw(t, "expression"), Timezone: text.Draw(t, "timezone"),
		Starts: millis("starts"), Ends: millis("ends"), Limit: rapid.Int64().Draw(t, "limit"), Jitter: length("jitter"),
		Type: text.Draw(t, "type"), Queue: text.Draw(t, "queue"), Timeout: length("timeout"), Retention: length("retention"),
		Payload: rapid.OneOf(rapid.SliceOfN(rapid.Byte(), 0, 20), rapid.Map(rapid.SampledFrom([]string{
			`{"a":1}`, `{"a": 1}`, `null`, `9007199254740993`, `"<"`, `"\u003c"`, "\"\u2028\"", "[1,\n2]"}),
			func(s string) []byte { return []byte(s) })).Draw(t, "payload"),
		Missed: Missed(text.Draw(t, "missed")), CatchUp: length("catch_up"), Overlap: Overlap(text.Draw(t, "overlap")),
		BufferLimit: rapid.Int().Draw(t, "buffer_limit"), Effect: Effect(text.Draw(t, "effect")),
		Priority: rapid.Int().Draw(t, "priority"), MaxFailures: rapid.Int().Draw(t, "max_failures"),
		CoolDown: length("cool_down"), Paused: rapid.Bool().Draw(t, "paused"),
	}
	if metadata, err := json.Marshal(rapid.MapOfN(text, texts, 0, 2).Draw(t, "metadata")); err == nil {
		s.Metadata = metadata
	}
	for range rapid.IntRange(0, 3).Draw(t, "specs") {
		s.Specs = append(s.Specs, SpecDefinition{Cron: text.Draw(t, "cron"), Timezone: text.Draw(t, "zone"), Every: length("every"),
			Anchor: millis("anchor"), At: texts.Draw(t, "at"), After: length("after")})
	}
	for range rapid.IntRange(0, 3).Draw(t, "windows") {
		w := Window{Calendar: text.Draw(t, "calendar"), Dates: texts.Draw(t, "dates"), Weekly: text.Draw(t, "weekly"),
			Cron: text.Draw(t, "cron"), Timezone: text.Draw(t, "zone")}
		s.Except, s.Only = append(s.Except, w), append(s.Only, w)
	}
	s.Normalize()
	for i := range s.Except {
		emptyIsNil(&s.Except[i].Dates)
		emptyIsNil(&s.Only[i].Dates)
	}
	return s
}

// A payload in JSON is handed over as it is written: nothing is escaped or
// unescaped on the way, only white space goes.
func TestPayloadBytesAreKept(t *testing.T) {
	for given, want := range map[string]string{
		`{"html": "<b>&amp;</b>"}`: `{"html":"<b>&amp;</b>"}`,
		`"\u003cb\u003e \u0026"`:   `"\u003cb\u003e \u0026"`,
		"\"\u2028\" ":              "\"\u2028\"",
		`"\u2028\/\u0041"`:         `"\u2028\/\u0041"`,
		`{"b": 1e2, "a": -0.10}`:   `{"b":1e2,"a":-0.10}`,
	} {
		s := decode(t, `{"id": "a", "description": "a < b", "metadata": {"k": "<&>"}, "payload": `+given+`}`)
		if string(s.Payload) != want || string(s.Metadata) != `{"k":"<&>"}` {
			t.Errorf("%s: payload %s, metadata %s", given, s.Payload, s.Metadata)
		}
		text := string(encode(t, s))
		if !strings.Contains(text, `"payload":`+want) || !strings.Contains(text, `"a < b"`) {
			t.Errorf("%s: encoded as %s", given, text)
		}
		if again := decode(t, text); string(again.Payload) != want {
			t.Errorf("%s: read back as %s", given, again.Payload)
		}
	}
}

func TestCalendarJSON(t *testing.T) {
	want := Calendar{Name: "holidays-de", Timezone: "Europe/Berlin", Dates: []string{"2026-12-25"}, Weekly: []string{"Sat 00:00-Mon 06:00"}, Cron: []string{"* 2 * * *"}}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if text := `{"name":"holidays-de","timezone":"Europe/Berlin","dates":["2026-12-25"],"weekly":["Sat 00:00-Mon 06:00"],"cron":["* 2 * * *"]}`; string(data) != text {
		t.Errorf("Marshal = %s, want %s", data, text)
	}
	var got Calendar
	if err := json.Unmarshal(data, &got); err != nil || !cmp.Equal(want, got) {
		t.Errorf("round trip = %+v, %v", got, err)
	}
	var field *FieldError
	if err := got.UnmarshalJSON([]byte(`{"nam":"x"}`)); !errors.As(err, &field) || field.Hint != `did you mean "name"?` {
		t.Errorf("unknown name: %v", err)
	}
	if err := got.UnmarshalJSON([]byte(`{"nope":"x"}`)); !errors.As(err, &field) || field.Hint != "" {
		t.Errorf("a name like no other: %v", err)
	}
}

// The definition is opaque JSON to stores: it must survive as text.
func TestDefinitionsSurviveAsText(t *testing.T) {
	s := decode(t, whole)
	var copied bytes.Buffer
	if err := json.Compact(&copied, encode(t, s)); err != nil || !bytes.Equal(copied.Bytes(), encode(t, s)) {
		t.Errorf("compacting changes it: %v", err)
	}
}

func FuzzScheduleJSON(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte(`{"id":"a","type":"t","expression":"@every 5m","payload_base64":"AAECAw=="}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var first, second Schedule
		if json.Unmarshal(data, &first) != nil {
			return
		}
		printed := encode(t, first)
		if err := json.Unmarshal(printed, &second); err != nil {
			t.Fatalf("%s: %v", printed, err)
		}
		if again := encode(t, second); !bytes.Equal(printed, again) || !bytes.Equal(first.Payload, second.Payload) {
			t.Errorf("not stable:\n%s\n%s", printed, again)
		}
		_ = first.Validate() // must not panic
	})
}

// A draft has every field that could be read, and an error for each that could
// not; json.Unmarshal takes none of it.
func TestDraftKeepsWhatCanBeRead(t *testing.T) {
	const text = `{"id": "a", "type": "log", "timeout": "5x", "starts": "soon", "limit": "many",
		"specs": [{"every": "x"}, {"cron": "1 * * * *"}, {"crom": ""}], "except": [{"weekly": 1}, {"dates": ["2026-01-01"]}]}`
	d, err := Draft([]byte(text))
	var fields []string
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("Draft = %v", err)
	}
	for _, one := range joined.Unwrap() {
		var field *FieldError
		if !errors.As(one, &field) {
			t.Fatalf("%v is no FieldError", one)
		}
		fields = append(fields, field.Field)
	}
	if want := []string{"limit", "starts", "timeout", "specs[0].every", "specs[2].crom", "except[0].weekly"}; !slices.Equal(fields, want) {
		t.Errorf("fields %q, want %q", fields, want)
	}
	if d.ID != "a" || d.Type != "log" || len(d.Specs) != 3 || d.Specs[1].Cron != "1 * * * *" || len(d.Except) != 2 || len(d.Except[1].Dates) != 1 {
		t.Errorf("draft: %+v", d)
	}
	before := Schedule{ID: "before"}
	if err := json.Unmarshal([]byte(text), &before); err == nil || before.ID != "before" || before.Type != "" {
		t.Errorf("Unmarshal = %v, %+v", err, before)
	}
	if d, err := Draft([]byte(`{"id": "a", "nope": 1}`)); err == nil || d.ID != "" {
		t.Errorf("an object that cannot be read: %+v, %v", d, err)
	}
}
