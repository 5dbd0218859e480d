package admincli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// A rawEntry is the payload of a schedule in a JSON file, byte by byte.
// Whoever writes JSON chooses its escapes, and a handler may compare or sign the
// bytes; in YAML, which the parser takes both for, escapes are of YAML's own.
type rawEntry struct {
	ID      json.RawMessage `json:"id"`
	Payload json.RawMessage `json:"payload"`
}

// rawEntries returns the schedules of text in its order, and none for what is
// not JSON or has another form.
func rawEntries(text []byte) []rawEntry {
	if start := bytes.TrimLeft(text, " \t\r\n"); len(start) == 0 || start[0] != '{' && start[0] != '[' {
		return nil
	}
	var all []rawEntry
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		var value json.RawMessage
		if err := decoder.Decode(&value); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			return nil
		}
		found, ok := rawSchedules(value)
		if !ok {
			return nil
		}
		all = append(all, found...)
	}
}

// rawSchedules reads a list of schedules, one schedule, or {"schedules": [...]}.
func rawSchedules(value json.RawMessage) (all []rawEntry, ok bool) {
	if value[0] == '[' {
		return all, json.Unmarshal(value, &all) == nil
	}
	var document struct {
		rawEntry
		Schedules []rawEntry `json:"schedules"`
	}
	if json.Unmarshal(value, &document) != nil {
		return nil, false
	}
	if document.ID != nil {
		return []rawEntry{document.rawEntry}, true
	}
	return document.Schedules, true
}

// asWritten replaces what was read of a payload, from start on, by the bytes of
// a JSON file, less white space. They mean the same.
func (r *reader) asWritten(out *bytes.Buffer, start int, path string) {
	n := len(r.found.schedules) // of this reader, before the current one
	if path != "payload" || n >= len(r.raw) {
		return
	}
	raw := r.raw[n].Payload
	if raw == nil || !sameJSON(raw, out.Bytes()[start:]) {
		return
	}
	out.Truncate(start)
	_ = json.Compact(out, raw) // it was decoded before
}
