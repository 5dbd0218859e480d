package schedule

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// decodeObject reads a JSON object into the struct that target points to, and
// refuses names that the struct has not and names that appear twice. Path
// names the object in errors; "" is the definition itself.
func decodeObject(data []byte, path string, target any) error {
	_, err := decodePart(data, path, target)
	return err
}

// decodePart is decodeObject that tells as well whether only one member could
// not be read, and the others are in the target.
func decodePart(data []byte, path string, target any) (partly bool, err error) {
	if !utf8.Valid(data) {
		return false, &FieldError{Field: orRoot(path), Value: excerpt(data), Allowed: "UTF-8"}
	}
	names := namesOf(target)
	plain := names.plainly(data)
	if !plain {
		if err := checkNames(data, path, names.list); err != nil {
			return false, err
		}
	}
	err = json.Unmarshal(data, target)
	if mistyped, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return true, &FieldError{Field: join(path, mistyped.Field), Value: mistyped.Value, Allowed: typeWords(mistyped.Type)}
	}
	if err != nil && plain { // what is wrong with names comes first
		if err := checkNames(data, path, names.list); err != nil {
			return false, err
		}
	}
	if err != nil {
		return false, syntaxError(data, path, err)
	}
	return false, nil
}

// checkNames walks over the names of an object.
func checkNames(data []byte, path string, known []string) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	start, err := decoder.Token()
	if err != nil {
		return syntaxError(data, path, err)
	}
	if start != json.Delim('{') {
		return &FieldError{Field: orRoot(path), Value: excerpt(data), Allowed: "an object"}
	}
	seen := make(map[string]bool, len(known))
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return syntaxError(data, path, err)
		}
		name, _ := token.(string) // inside an object a name is always a string
		switch {
		case !slices.Contains(known, name):
			return &FieldError{Field: join(path, name), Value: name, Allowed: strings.Join(known, ", "), Hint: nearestName(name, known)}
		case seen[name]:
			return &FieldError{Field: join(path, name), Value: name, Allowed: "each name once"}
		}
		seen[name] = true
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return syntaxError(data, path, err)
		}
	}
	return nil
}

// nearestName suggests a known name that differs little, or nothing: one edit
// in short names, two from six letters.
func nearestName(name string, known []string) string {
	plain := func(s string) string { return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s)) }
	best, least := "", 2
	if len(plain(name)) >= 6 {
		least = 3
	}
	for _, candidate := range known {
		if d := editDistance(plain(name), plain(candidate), least); d < least && d < len(candidate) {
			best, least = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q?", best)
}

// editDistance counts the single-byte edits between two names, up to limit.
func editDistance(a, b string, limit int) int {
	if len(a) > 64 || max(len(a), len(b))-min(len(a), len(b)) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return min(row[len(b)], limit)
}

func syntaxError(data []byte, path string, err error) error {
	return &FieldError{Field: orRoot(path), Value: excerpt(data), Allowed: "valid JSON", Hint: err.Error()}
}

// typeWords names the JSON type that a Go type takes.
func typeWords(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Slice:
		return "a list"
	}
	return "an object of strings"
}

func orRoot(path string) string {
	if path == "" {
		return "definition"
	}
	return path
}

func join(path, name string) string {
	switch {
	case path == "":
		return orRoot(name)
	case name == "":
		return path
	}
	return path + "." + name
}

func excerpt(data []byte) string { return string(data[:min(len(data), maxShown+1)]) }

// inField gives a *FieldError another field name; other errors it leaves.
func inField(err error, field string) error {
	if e, ok := errors.AsType[*FieldError](err); ok {
		renamed := *e
		renamed.Field = field
		return &renamed
	}
	return err
}

// plainJSON is json.Marshal without its escapes for HTML, which no reader of
// definitions needs, and which would change the bytes of a payload.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// compactPayload is a JSON payload without insignificant white space, and byte
// for byte as it is written otherwise. It returns an error for what cannot go as
// JSON: anything but valid JSON in UTF-8, and null, which in a file means that
// there is none.
func compactPayload(payload []byte) ([]byte, error) {
	if len(payload) == 0 {
		return nil, nil
	}
	if !utf8.Valid(payload) || string(payload) == "null" {
		return nil, errors.New("schedule: not a JSON payload")
	}
	var b bytes.Buffer
	if err := json.Compact(&b, payload); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func decodePayload(value json.RawMessage, encoded string) ([]byte, error) {
	if string(value) == "null" {
		value = nil
	}
	if len(value) > 0 && encoded != "" {
		return nil, &FieldError{Field: "payload_base64", Value: encoded, Allowed: "only one of payload and payload_base64"}
	}
	if encoded == "" {
		return compactPayload(value)
	}
	payload, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, &FieldError{Field: "payload_base64", Value: encoded, Allowed: "standard base64 with padding", Hint: err.Error()}
	}
	return payload, nil
}

// canonicalJSON is JSON with sorted names and without insignificant white
// space. Numbers stay as written. Nothing and null are nil.
func canonicalJSON(raw json.RawMessage) (json.RawMessage, error) {
	trimmed := bytes.TrimSpace(raw)
	if len(trimmed) == 0 || string(trimmed) == "null" {
		return nil, nil
	}
	refuse := func(hint string) (json.RawMessage, error) {
		return nil, &FieldError{Field: "metadata", Value: excerpt(raw), Allowed: "valid JSON in UTF-8", Hint: hint}
	}
	if !utf8.Valid(raw) || !json.Valid(raw) {
		return refuse("")
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return refuse(err.Error())
	}
	out, err := plainJSON(value)
	if err != nil {
		return refuse(err.Error())
	}
	return out, nil
}
