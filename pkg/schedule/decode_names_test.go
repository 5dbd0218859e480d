package schedule

import (
	"encoding/json"
	"testing"
	"time"
)

func TestStoredDefinitionsHavePlainNames(t *testing.T) {
	for _, text := range []string{whole, `{}`, `{ "id" : "a\"}," , "type":"x","payload":[{"id":"}"},{"id":1}] }`} {
		if !namesOf(&scheduleJSON{}).plainly([]byte(text)) {
			t.Errorf("%s: not plain", text)
		}
	}
	for _, text := range []string{``, ` `, `[]`, `null`, `"id"`, `{"id"`, `{"id":`, `{"id":"a"`, `{"id":"a",}`, `{"id":"a" "type":"b"`,
		`{"id":"a","id":"b"}`, `{"Id":"a"}`, `{"\u0069d":"a"}`, `{"nonsense":1}`} {
		if namesOf(&scheduleJSON{}).plainly([]byte(text)) {
			t.Errorf("%s: plain", text)
		}
	}
}

// What is taken for plain is what the exact walk accepts.
func FuzzPlainNames(f *testing.F) {
	for _, text := range []string{whole, `{}`, `{"id":"a\\","type":"}"}`, `{"id":{"id":[1,{"a":"]"}]},"type":[]}`, "{\n\"id\":1 ,\"limit\" : -1e3}", `{"id":"a","id":"b"}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		known := namesOf(&scheduleJSON{})
		if !json.Valid(data) || !known.plainly(data) {
			return
		}
		if err := checkNames(data, "", known.list); err != nil {
			t.Errorf("%q is plain, and refused: %v", data, err)
		}
	})
}

// BenchmarkDefinition reads and compiles one stored definition, which a worker
// does for each schedule that it has not met yet.
func BenchmarkDefinition(b *testing.B) {
	definition := Schedule{ID: "due-00001", Type: "report:build", Payload: []byte(`{"account":12345,"report":"nightly","format":"pdf","to":"ops@example.org"}`),
		Specs: []SpecDefinition{{Every: 24 * time.Hour, Anchor: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}}}
	definition.Normalize()
	text, err := json.Marshal(definition)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var read Schedule
			if err := json.Unmarshal(text, &read); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("compile", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Compile(definition, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
