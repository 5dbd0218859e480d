package admincli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf16"
)

// The output formats.
const (
	formatTable = "table"
	formatWide  = "wide"  // a table with more columns
	formatJSON  = "json"  // one document
	formatJSONL = "jsonl" // one line for each element of a list
	formatYAML  = "yaml"
	formatName  = "name"
)

var formats = []string{formatTable, formatWide, formatJSON, formatJSONL, formatYAML, formatName}

// A view is one result in all formats.
type view struct {
	table func(w io.Writer) // for people
	wide  func(w io.Writer) // the same with more columns; nil: there are no more
	data  any               // for json, jsonl and yaml
	names []string          // for name, one a line
}

// tabular reports whether the output is for people.
func (s *session) tabular() bool {
	return s.flags.format == formatTable || s.flags.format == formatWide
}

// emit writes the result in the wanted format.
func (s *session) emit(v view) error {
	if s.env.printed != nil {
		s.env.printed(s.command, v.data)
	}
	switch s.flags.format {
	case formatJSON, formatJSONL, formatYAML:
		text, err := marshal(v.data)
		if err != nil {
			return fmt.Errorf("render the result: %w", err)
		}
		switch s.flags.format {
		case formatYAML:
			return writeYAML(s.out, text)
		case formatJSONL:
			return writeLines(s.out, text)
		}
		return writeJSON(s.out, text, "")
	case formatName:
		for _, name := range v.names {
			fmt.Fprintln(s.out, visible(name))
		}
	case formatWide:
		if v.wide != nil {
			v.wide(s.out)
			return nil
		}
		v.table(s.out)
	default:
		v.table(s.out)
	}
	return nil
}

// writeLines writes each element of a JSON list, or any other value, as one
// line.
func writeLines(w io.Writer, text []byte) error {
	elements := []json.RawMessage{text}
	if len(text) > 0 && text[0] == '[' {
		if err := json.Unmarshal(text, &elements); err != nil {
			return fmt.Errorf("render the result: %w", err)
		}
	}
	for _, element := range elements {
		var line bytes.Buffer
		if err := json.Compact(&line, element); err != nil {
			return fmt.Errorf("render the result: %w", err)
		}
		if _, err := w.Write(append(escapeStrings(line.Bytes(), false), '\n')); err != nil {
			return err
		}
	}
	return nil
}

// marshal renders JSON without escaping HTML, which no terminal needs.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// writeJSON indents text and makes it safe for a terminal. The value stays
// the same, numbers to the last digit.
func writeJSON(w io.Writer, text []byte, prefix string) error {
	var b bytes.Buffer
	b.WriteString(prefix)
	if err := json.Indent(&b, text, prefix, "  "); err != nil {
		return fmt.Errorf("render the result: %w", err)
	}
	b.WriteByte('\n')
	_, err := w.Write(escapeStrings(b.Bytes(), false))
	return err
}

// escapeStrings escapes what a terminal would obey or hide. In JSON and YAML
// such characters stand inside strings only; white space is left alone.
func escapeStrings(text []byte, yaml bool) []byte {
	var b bytes.Buffer
	for _, r := range string(text) {
		switch {
		case r == '\n' || r == '\t' || showable(r) || r == 0xfffd:
			b.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		case yaml:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		}
	}
	return b.Bytes()
}

// An arrayWriter streams a list as JSON, lines of JSON or YAML, so that memory
// does not depend on how many elements there are.
type arrayWriter struct {
	w      io.Writer
	format string // json, jsonl or yaml
	count  int
	added  func(v any) // is told each element; nil: nobody is
}

// newArray returns a writer for the wanted format, or nil when that is none of
// a machine's.
func (s *session) newArray() *arrayWriter {
	switch s.flags.format {
	case formatJSON, formatJSONL, formatYAML:
		a := &arrayWriter{w: s.out, format: s.flags.format}
		if s.env.printed != nil {
			a.added = func(v any) { s.env.printed(s.command, []any{v}) }
		}
		return a
	}
	return nil
}

func (a *arrayWriter) add(v any) error {
	text, err := marshal(v)
	if err != nil {
		return fmt.Errorf("render the result: %w", err)
	}
	a.count++
	if a.added != nil {
		a.added(v)
	}
	switch a.format {
	case formatYAML:
		return writeYAML(a.w, append(append([]byte("["), text...), ']'))
	case formatJSONL:
		_, err := a.w.Write(append(escapeStrings(text, false), '\n'))
		return err
	}
	var b bytes.Buffer
	if a.count == 1 {
		b.WriteString("[\n")
	} else {
		b.WriteString(",\n")
	}
	b.WriteString("  ")
	if err := json.Indent(&b, text, "  ", "  "); err != nil {
		return fmt.Errorf("render the result: %w", err)
	}
	_, err = a.w.Write(escapeStrings(b.Bytes(), false))
	return err
}

func (a *arrayWriter) close() error {
	end := "\n]\n"
	switch {
	case a.format == formatJSONL:
		return nil
	case a.count == 0:
		end = "[]\n"
	case a.format == formatYAML:
		return nil
	}
	_, err := io.WriteString(a.w, end)
	return err
}
