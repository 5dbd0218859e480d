package admincli

import (
	"bytes"
	"encoding/json"
	"regexp"
	"unicode/utf8"
)

// The parser keeps some hundred bytes for each character that means something,
// so that a long file is read in parts: a list of schedules or calendars in
// block style, or JSON. What is not written so is read whole and may be shorter.
const (
	splitAbove   = 256 << 10 // bytes of a file that is read in parts of this size
	maxWhole     = 8 << 20   // bytes that are read in one piece
	maxMarks     = 1_000_000 // characters with a meaning in one piece
	maxSchedules = 100_000   // in one run
)

// splitAdvice says what to do about a file that is too large.
const splitAdvice = "; split the file, or write schedules: as a list with one \"- \" for each"

// A filePart is some entries of a list, as text that is a list itself.
type filePart struct {
	section string // schedules or calendars
	text    []byte
	line    int // lines before it
	column  int // columns before its first line
}

var (
	sectionLine = regexp.MustCompile(`^(schedules|calendars):[ \t]*(#.*)?$`)
	itemLine    = regexp.MustCompile(`^( *)-( |$)`)
)

// split cuts a file into parts, and returns nil for what is written otherwise.
// It may take text inside a scalar for the begin of an entry; then a part does
// not parse, and the caller reads the file whole.
func split(text []byte) []filePart {
	if start := bytes.TrimLeft(text, " \t\r\n"); len(start) > 0 && (start[0] == '{' || start[0] == '[') {
		return splitJSON(text)
	}
	return splitBlock(text)
}

// A blockSplitter cuts at lines that begin an entry of the outermost list.
type blockSplitter struct {
	parts   []filePart
	current filePart
	begin   int            // of the current part in the text
	indent  int            // of the entries; -1: none yet
	seen    map[string]int // sections
}

func splitBlock(text []byte) []filePart {
	b := &blockSplitter{indent: -1, seen: map[string]int{}}
	at, number := 0, 0
	for line := range bytes.Lines(text) {
		if !b.take(text, at, number, bytes.TrimRight(line, "\r\n")) {
			return nil
		}
		at, number = at+len(line), number+1
	}
	b.end(text, len(text))
	return b.parts
}

// take looks at one line; false: this is no list of entries.
func (b *blockSplitter) take(text []byte, at, number int, line []byte) bool {
	content := bytes.TrimLeft(line, " ")
	indent := len(line) - len(content)
	item := itemLine.Match(line)
	switch {
	case len(content) == 0, content[0] == '#' && b.indent < 0:
		return true
	case indent == 0 && bytes.Equal(content, []byte("---")) && len(b.seen) == 0:
		return true
	case indent == 0 && sectionLine.Match(line):
		b.end(text, at)
		b.current.section, b.indent = string(line[:len("schedules")]), -1
		b.seen[b.current.section]++
		return b.seen[b.current.section] == 1
	case item && b.indent < 0:
		if b.current.section == "" {
			b.current.section = "schedules"
			b.seen["schedules"]++
		}
		b.start(at, number, indent)
		return true
	case item && indent == b.indent:
		if at-b.begin >= splitAbove {
			b.end(text, at)
			b.start(at, number, indent)
		}
		return true
	}
	return b.indent >= 0 && (indent > b.indent || content[0] == '#')
}

func (b *blockSplitter) start(at, number, indent int) {
	b.begin, b.current.line, b.indent = at, number, indent
}

func (b *blockSplitter) end(text []byte, at int) {
	if b.indent < 0 {
		return
	}
	b.current.text = text[b.begin:at]
	b.parts = append(b.parts, b.current)
}

// splitJSON cuts the lists of a JSON document.
func splitJSON(text []byte) []filePart {
	j := &jsonSplitter{text: text, decoder: json.NewDecoder(bytes.NewReader(text))}
	first, err := j.decoder.Token()
	if err != nil {
		return nil
	}
	if first == json.Delim('[') {
		if !j.list("schedules") || j.decoder.More() {
			return nil
		}
		return j.parts
	}
	seen := map[string]bool{}
	for j.decoder.More() {
		name, _ := j.decoder.Token()
		section, ok := name.(string)
		if start, err := j.decoder.Token(); !ok || err != nil || start != json.Delim('[') || section != "schedules" && section != "calendars" || seen[section] || !j.list(section) {
			return nil
		}
		seen[section] = true
	}
	if _, err := j.decoder.Token(); err != nil || len(bytes.TrimSpace(text[j.decoder.InputOffset():])) > 0 {
		return nil
	}
	return j.parts
}

type jsonSplitter struct {
	text    []byte
	decoder *json.Decoder
	parts   []filePart
	counted int // of the text, for lines and columns
	line    int
	column  int // in characters
}

// list cuts a list whose bracket was read.
func (j *jsonSplitter) list(section string) bool {
	begin, end := -1, 0
	for j.decoder.More() {
		var entry json.RawMessage
		if j.decoder.Decode(&entry) != nil {
			return false
		}
		end = int(j.decoder.InputOffset())
		if begin < 0 {
			begin = end - len(entry)
		}
		if end-begin >= splitAbove {
			j.part(section, begin, end)
			begin = -1
		}
	}
	if begin >= 0 {
		j.part(section, begin, end)
	}
	_, err := j.decoder.Token()
	return err == nil
}

func (j *jsonSplitter) part(section string, begin, end int) {
	between := j.text[j.counted:begin]
	j.counted = begin
	if last := bytes.LastIndexByte(between, '\n'); last >= 0 {
		j.line += bytes.Count(between, []byte("\n"))
		between, j.column = between[last+1:], 0
	}
	j.column += utf8.RuneCount(between)
	text := append(append([]byte{'['}, j.text[begin:end]...), ']')
	j.parts = append(j.parts, filePart{section, text, j.line, j.column - 1}) // the bracket is not in the file
}

// marks counts the characters that mean something to the parser.
func marks(text []byte) int {
	n := 0
	for _, c := range text {
		switch c {
		case ',', ':', '[', ']', '{', '}', '-', '?', '&', '*', '!', '"', '\'', '\n':
			n++
		}
	}
	return n
}
