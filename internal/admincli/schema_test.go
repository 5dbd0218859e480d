package admincli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/admincli/schema"
)

// A node is a part of a JSON Schema, of the few keywords that are used.
type node map[string]any

const draft = "https://json-schema.org/draft/2020-12/schema"

// The committed schemas are those of the types that the scripts of
// testdata/script made the commands print, and of the shapes of files. Run
// with -update to rewrite them, then read the difference: names may be added,
// and none may go or change its meaning.
func TestSchemasAreThoseOfTheTypes(t *testing.T) {
	checkSchema(t, "schema/file.json", schema.File(), fileSchema())
	checkSchema(t, "schema/output.json", schema.Output(), outputSchema(t))
}

func checkSchema(t *testing.T, name string, committed []byte, want node) {
	t.Helper()
	text, err := json.MarshalIndent(want, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *update {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(text, committed) {
		a, b := strings.Split(string(committed), "\n"), strings.Split(string(text), "\n")
		for i := range min(len(a), len(b)) {
			if a[i] != b[i] {
				t.Fatalf("%s differs from the types at line %d:\ncommitted %s\n    types %s\nrun with -update and read the difference", name, i+1, a[i], b[i])
			}
		}
		t.Fatalf("%s has %d lines, the types make %d: run with -update and read the difference", name, len(a), len(b))
	}
}

// allowed values of texts that are words.
var words = map[string][]string{
	"missed":  {"latest", "all", "skip"},
	"overlap": {"allow", "skip", "buffer_one", "buffer_all", "cancel_other"},
	"effect":  {"at_least_once", "at_most_once"},
}

// shapeSchema is the schema of a part of a file. Scalars may be written bare.
func shapeSchema(name string, s *shape) node {
	switch s.kind {
	case shapeText:
		if words[name] != nil {
			return node{"enum": words[name]}
		}
		return node{"type": []string{"string", "number", "boolean"}}
	case shapeInt:
		return node{"type": "integer"}
	case shapeBool:
		return node{"type": "boolean"}
	case shapeTextMap:
		return node{"type": "object", "additionalProperties": node{"type": []string{"string", "number", "boolean"}}}
	case shapeList:
		return node{"type": "array", "items": shapeSchema("", s.elem)}
	case shapeIgnored:
		return node{"description": "status: what get and list print is accepted, and dropped"}
	case shapeObject:
		properties := node{}
		for key, sub := range s.fields {
			properties[key] = shapeSchema(key, sub)
		}
		return node{"type": "object", "properties": properties, "additionalProperties": false}
	}
	return node{} // any JSON
}

func fileSchema() node {
	one := shapeSchema("", scheduleShape)
	one["required"] = []string{"id", "type"}
	calendar := shapeSchema("", calendarShape)
	calendar["required"] = []string{"name"}
	ref := func(name string) node { return node{"$ref": "#/$defs/" + name} }
	return node{
		"$schema": draft, "title": "Belfry schedule file",
		"anyOf": []node{
			{"type": "object", "additionalProperties": false, "properties": node{
				"schedules": node{"type": "array", "items": ref("schedule")}, "calendars": node{"type": "array", "items": ref("calendar")}}},
			ref("schedule"), {"type": "array", "items": ref("schedule")},
		},
		"$defs": node{"schedule": one, "calendar": calendar},
	}
}

// outputSchema runs the scripts and describes what each command printed.
func outputSchema(t *testing.T) node {
	t.Helper()
	printed := map[string]map[string]node{} // by command, by form
	definitions := node{}
	definitions["schedule"] = scheduleSchema(definitions)
	eachScript(t, func(r *rig, line string) {
		r.printed = func(command string, value any) {
			command = strings.TrimPrefix(command, "admin ")
			for _, form := range describeType(reflect.ValueOf(value), definitions) {
				text, err := json.Marshal(form)
				if err != nil {
					t.Fatal(err)
				}
				if printed[command] == nil {
					printed[command] = map[string]node{}
				}
				printed[command][string(text)] = form
			}
		}
		r.step(t, line)
	})
	commands := node{"export": node{"$ref": "file.json"}}
	for command, forms := range printed {
		var all []node
		for _, text := range slices.Sorted(maps.Keys(forms)) {
			all = append(all, forms[text])
		}
		commands[command] = all[0]
		if len(all) > 1 {
			commands[command] = node{"anyOf": all}
		}
	}
	return node{"$schema": draft, "title": "What each command prints with -o json", "$defs": definitions, "commands": commands}
}

// eachScript runs every line of every script.
func eachScript(t *testing.T, run func(r *rig, line string)) {
	t.Helper()
	files, err := filepath.Glob("testdata/script/*.txt")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	for i := range files {
		if files[i], err = filepath.Abs(files[i]); err != nil {
			t.Fatal(err)
		}
	}
	home, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	inFiles(t)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t)
		for line := range strings.Lines(string(text)) {
			if command, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "$ "); found {
				run(r, command)
			}
		}
	}
	t.Chdir(home)
}

// describeType returns the schema of a value, with the structs of this package
// as definitions. A list of any is described by what is in it; an empty one
// tells nothing.
func describeType(v reflect.Value, definitions node) []node {
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Interface {
		var forms []node
		for i := range v.Len() {
			forms = append(forms, node{"type": "array", "items": typeSchema(v.Index(i).Elem().Type(), definitions)})
		}
		return forms
	}
	if !v.IsValid() {
		return nil
	}
	return []node{typeSchema(v.Type(), definitions)}
}

func typeSchema(t reflect.Type, definitions node) node {
	switch {
	case t == reflect.TypeFor[scheduleJSON]():
		return node{"$ref": "#/$defs/schedule"}
	case t == reflect.TypeFor[json.RawMessage](), t.Kind() == reflect.Interface:
		return node{} // any JSON
	}
	switch t.Kind() {
	case reflect.Pointer:
		inner := typeSchema(t.Elem(), definitions)
		if name, plain := inner["type"].(string); plain {
			return node{"type": []string{name, "null"}}
		}
		return node{"anyOf": []node{inner, {"type": "null"}}}
	case reflect.Slice:
		return node{"type": "array", "items": typeSchema(t.Elem(), definitions)}
	case reflect.Map:
		return node{"type": "object", "additionalProperties": typeSchema(t.Elem(), definitions)}
	case reflect.Struct:
		name := strings.TrimSuffix(t.Name(), "JSON")
		if definitions[name] == nil {
			definitions[name] = node{} // it may hold itself
			definitions[name] = structSchema(t, definitions)
		}
		return node{"$ref": "#/$defs/" + name}
	case reflect.String:
		return node{"type": "string"}
	case reflect.Bool:
		return node{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return node{"type": "number"}
	}
	return node{"type": "integer"}
}

func structSchema(t reflect.Type, definitions node) node {
	properties, required := node{}, []string{}
	for i := range t.NumField() {
		field := t.Field(i)
		if field.Anonymous && field.Tag.Get("json") == "" {
			inner := structSchema(field.Type, definitions)
			maps.Copy(properties, inner["properties"].(node))
			required = append(required, inner["required"].([]string)...)
			continue
		}
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && name == "" { // its fields are those of the struct
			inner := structSchema(field.Type, definitions)
			maps.Copy(properties, inner["properties"].(node))
			required = append(required, inner["required"].([]string)...)
			continue
		}
		if !field.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = field.Name
		}
		properties[name] = typeSchema(field.Type, definitions)
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	slices.Sort(required)
	return node{"type": "object", "properties": properties, "required": required}
}

// scheduleSchema is that of a stored schedule: its definition, as it is
// written, and its status.
func scheduleSchema(definitions node) node {
	out := structSchema(reflect.TypeFor[statusJSON](), definitions)
	properties := out["properties"].(node)
	for name, s := range scheduleShape.fields {
		if s.kind != shapeIgnored {
			properties[name] = strict(shapeSchema(name, s))
		}
	}
	out["required"] = append(out["required"].([]string), "id", "type")
	slices.Sort(out["required"].([]string))
	return out
}

// strict leaves texts only texts: output quotes them.
func strict(n node) node {
	if kinds, several := n["type"].([]string); several && slices.Contains(kinds, "string") {
		n["type"] = "string"
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if sub, ok := n[key].(node); ok {
			strict(sub)
		}
	}
	if properties, ok := n["properties"].(node); ok {
		for _, sub := range properties {
			strict(sub.(node))
		}
	}
	return n
}

// What the scripts print with -o json and -o jsonl is as the committed schema
// says, and has no name that it lacks.
func TestOutputFollowsTheSchema(t *testing.T) {
	root := readSchema(t, "schema/output.json")
	commands := root["commands"].(map[string]any)
	checked := map[string]bool{}
	eachScript(t, func(r *rig, line string) {
		args, err := splitLine(line)
		format := ""
		for i, arg := range args {
			if arg == "-o" && i+1 < len(args) {
				format = args[i+1]
			}
		}
		if err != nil || args[0] != "admin" || format != "json" && format != "jsonl" || slices.Contains(args, "--print") || args[1] == "export" {
			r.step(t, line)
			return
		}
		command := ""
		r.printed = func(path string, _ any) { command = strings.TrimPrefix(path, "admin ") }
		got := r.run(args[1:]...)
		if got.stdout == "" || command == "" {
			return
		}
		decoder := json.NewDecoder(strings.NewReader(got.stdout))
		decoder.UseNumber()
		for decoder.More() {
			var value any
			if err := decoder.Decode(&value); err != nil {
				t.Errorf("%s: %v", line, err)
				return
			}
			wanted := commands[command]
			if _, list := value.([]any); format == "jsonl" && !list {
				wanted = elementSchema(wanted)
			}
			if problem := validJSONValue(value, wanted, root); problem != "" {
				t.Errorf("%s: %s", line, problem)
			}
		}
		checked[command] = true
	})
	if len(checked) < 15 {
		t.Errorf("only the output of %v was checked", slices.Sorted(maps.Keys(checked)))
	}
}

// readSchema reads the file and not what is built in, which -update outdates.
func readSchema(t *testing.T, name string) (root map[string]any) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(text, &root)
	}
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// elementSchema is what a line of jsonl is: an element where the whole is a
// list.
func elementSchema(schema any) any {
	m, _ := schema.(map[string]any)
	if m["items"] != nil {
		return m["items"]
	}
	if forms, ok := m["anyOf"].([]any); ok {
		out := []any{}
		for _, form := range forms {
			out = append(out, elementSchema(form))
		}
		return map[string]any{"anyOf": out}
	}
	return schema
}

// validJSONValue is a validator of the few keywords that the schemas use. It
// returns what is wrong, or "".
func validJSONValue(value, schema any, root map[string]any) string {
	s, ok := schema.(map[string]any)
	if !ok {
		return "there is no schema"
	}
	if ref, ok := s["$ref"].(string); ok {
		return validJSONValue(value, root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")], root)
	}
	if forms, ok := s["anyOf"].([]any); ok {
		problem := ""
		for _, form := range forms {
			if problem = validJSONValue(value, form, root); problem == "" {
				return ""
			}
		}
		return problem
	}
	if enum, ok := s["enum"].([]any); ok && !slices.Contains(enum, value) {
		return fmt.Sprintf("%v is none of %v", value, enum)
	}
	if kinds := fmt.Sprint(s["type"]); s["type"] != nil && !strings.Contains(kinds, jsonKind(value)) &&
		(jsonKind(value) != "integer" || !strings.Contains(kinds, "number")) {
		return fmt.Sprintf("%v is %s, not %s", value, jsonKind(value), kinds)
	}
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			if s["items"] == nil {
				break // any
			}
			if problem := validJSONValue(item, s["items"], root); problem != "" {
				return problem
			}
		}
	case map[string]any:
		return validJSONObject(v, s, root)
	}
	return ""
}

func validJSONObject(v, s, root map[string]any) string {
	required, _ := s["required"].([]any)
	for _, name := range required {
		if _, there := v[name.(string)]; !there {
			return fmt.Sprintf("%v is missing in %v", name, v)
		}
	}
	properties, closed := s["properties"].(map[string]any)
	for name, item := range v {
		sub := properties[name]
		if sub == nil {
			sub = s["additionalProperties"]
		}
		if m, ok := sub.(map[string]any); ok {
			if problem := validJSONValue(item, m, root); problem != "" {
				return name + ": " + problem
			}
		} else if closed {
			return fmt.Sprintf("%q is not in the schema", name)
		}
	}
	return ""
}

func jsonKind(v any) string {
	switch n := v.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "boolean"
	case []any:
		return "array"
	case json.Number:
		if !strings.ContainsAny(n.String(), ".eE") {
			return "integer"
		}
		return "number"
	}
	return "object"
}

// Every file that the tests apply follows the schema of files.
func TestFilesFollowTheSchema(t *testing.T) {
	root := readSchema(t, "schema/file.json")
	r := newRig(t)
	varied(t, r)
	files := map[string]bool{r.must("export", "-o", "json").stdout: true,
		`{"schedules": [{"id": "a", "type": "b", "overlap": "never"}]}`: false, `{"id": "a"}`: false,
		`{"id": "a", "type": "b", "cron": "x"}`: false, `[{"id": "a", "type": "b", "labels": {"a": "b"}}]`: true, `{"schedules": [], "x": 1}`: false}
	for text, valid := range files {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		var value any
		if err := decoder.Decode(&value); err != nil {
			t.Fatal(err)
		}
		if problem := validJSONValue(value, map[string]any{"anyOf": root["anyOf"]}, root); (problem == "") != valid {
			t.Errorf("%.200s: %q", text, problem)
		}
	}
}
