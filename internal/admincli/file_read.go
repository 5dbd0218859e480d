package admincli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits on what is read. They bound the work of the parser, which costs the
// square of the nesting depth, and of the keys in one mapping.
const (
	maxFileBytes = 32 << 20
	maxDepth     = 64
	maxKeyColumn = 1024
	maxKeys      = 4096 // in one mapping
	maxProblems  = 20
)

// A place is where something stands in a file, counted from 1.
type place struct {
	file         string
	line, column int
}

func (p place) String() string {
	if p.line == 0 {
		return p.file
	}
	return fmt.Sprintf("%s:%d:%d", p.file, p.line, p.column)
}

// A written schedule is one entry of a file before it is a definition.
type written struct {
	at     place
	object []byte           // as JSON
	places map[string]place // by path, such as specs[1].cron
	// spoiled are the paths whose value could not be taken over.
	spoiled []string
}

// find returns where the field named by a path stands, or the closest thing
// around it.
func (w written) find(path string) place {
	for path != "" {
		if p, ok := w.places[path]; ok {
			return p
		}
		if whole, _, found := cutLast(path, " "); found { // "expression minute" is in expression
			path = whole
			continue
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return w.at
}

// fileProblem is something wrong at a place of a file.
func fileProblem(at place, format string, args ...any) error {
	return codedErrorf(exitUsage, "%s: %s", at, fmt.Sprintf(format, args...))
}

// A fileContent is what a file holds, in order.
type fileContent struct{ schedules, calendars []written }

// readFile parses YAML or JSON text with one or several documents. It returns
// what it holds, or everything that is wrong with the form of the text,
// joined.
func readFile(name string, text []byte) (fileContent, error) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if err := checkText(name, text); err != nil {
		return fileContent{}, err
	}
	if len(text) > splitAbove {
		if found, ok, err := readParts(name, split(text)); ok {
			return found, err
		}
	}
	r := &reader{file: name}
	err := r.read(text, r.document)
	return r.found, err
}

// readParts reads the parts of a file one after the other. It reports false for
// parts that do not stand alone, whose file is to be read whole.
func readParts(name string, parts []filePart) (found fileContent, ok bool, err error) {
	var problems []error
	for _, part := range parts {
		r := &reader{file: name, before: part}
		section := r.schedules
		if part.section == "calendars" {
			section = r.calendars
		}
		if err := r.read(part.text, section); err != nil && len(r.problems) == 0 {
			return found, false, nil
		}
		problems = append(problems, r.problems...)
		found.schedules, found.calendars = append(found.schedules, r.found.schedules...), append(found.calendars, r.found.calendars...)
		if len(found.schedules) > maxSchedules || len(problems) > maxProblems {
			break
		}
	}
	return found, len(parts) > 0, errors.Join(problems...)
}

// read parses one piece of text. The lexer counts some lines twice that end in
// CRLF, so that it never sees one; to YAML and JSON both line ends are the same.
func (r *reader) read(text []byte, document func(ast.Node)) error {
	if bytes.IndexByte(text, '\r') >= 0 {
		text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	}
	if len(text) > maxWhole || marks(text) > maxMarks {
		return fileProblem(place{file: r.file}, "too much to be read in one piece: allowed: %d bytes and %d characters with a meaning in YAML%s", maxWhole, maxMarks, splitAdvice)
	}
	tokens := lexer.Tokenize(string(text))
	if err := checkShape(r.file, tokens); err != nil {
		return err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return syntaxProblem(r.file, text, err)
	}
	r.raw = rawEntries(text)
	for _, one := range file.Docs {
		document(one.Body)
	}
	return errors.Join(r.problems...)
}

// checkText refuses what is no text.
func checkText(name string, text []byte) error {
	if len(text) > maxFileBytes {
		return fileProblem(place{file: name}, "%d bytes: allowed: at most %d; split the file", len(text), maxFileBytes)
	}
	line, begin := 1, 0
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		column := i - begin + 1
		switch {
		case r == utf8.RuneError && size == 1:
			return fileProblem(place{name, line, column}, "byte 0x%02x is not UTF-8", text[i])
		case r == '\n':
			line, begin = line+1, i+1
		case r < ' ' && r != '\t' && r != '\r', r == 0x7f:
			return fileProblem(place{name, line, column}, "control character %s is not allowed; inside double quotes write it as an escape", escape(r))
		}
		i += size
	}
	return nil
}

// checkShape refuses what would cost the parser too much.
func checkShape(name string, tokens token.Tokens) error {
	if at := tooDeep(tokens); at != nil {
		return fileProblem(placeOf(name, at), "nested too deeply: allowed: %d levels", maxDepth)
	}
	if at := tooWide(tokens); at != nil {
		return fileProblem(placeOf(name, at), "too many keys in one mapping: allowed: %d", maxKeys)
	}
	return nil
}

// tooWide returns the key with which a mapping passes the limit, or nil.
// Mappings in braces are counted by their depth, others by the column of their
// keys.
func tooWide(tokens token.Tokens) *token.Token {
	keys := map[int]int{}
	depth := 0
	forget := func(deeper func(int) bool) {
		maps.DeleteFunc(keys, func(at, _ int) bool { return deeper(at) })
	}
	for _, t := range tokens {
		at := -depth
		switch t.Type {
		case token.DocumentHeaderType:
			clear(keys)
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			forget(func(other int) bool { return other == at })
			depth--
		case token.SequenceEntryType:
			forget(func(other int) bool { return other > t.Position.Column })
		case token.MappingValueType:
			if depth == 0 {
				if t.Prev == nil {
					continue
				}
				at = t.Prev.Position.Column
				forget(func(other int) bool { return other > at })
			}
			if keys[at]++; keys[at] > maxKeys {
				return t
			}
		}
	}
	return nil
}

// tooDeep returns the token at which nesting passes the limit, or nil.
func tooDeep(tokens token.Tokens) *token.Token {
	depth, line, entries := 0, 0, 0
	for _, t := range tokens {
		if t.Position != nil && t.Position.Line != line {
			line, entries = t.Position.Line, 0
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		case token.SequenceEntryType:
			entries++
		case token.MappingValueType:
			if depth == 0 && t.Position != nil && t.Position.Column > maxKeyColumn {
				return t
			}
		}
		if depth > maxDepth || entries > maxDepth {
			return t
		}
	}
	return nil
}

func placeOf(name string, t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{file: name}
	}
	return place{name, t.Position.Line, t.Position.Column}
}

// unquoted matches a value that YAML takes for an alias or a reserved
// character, which is what cron expressions and macros start with.
var unquoted = regexp.MustCompile(`([A-Za-z_]+)["']?\s*:\s+([*@][^#\n}]*)`)

// nextKey matches what follows such a value inside {braces}.
var nextKey = regexp.MustCompile(`,\s*["'A-Za-z_]+\s*:.*$`)

// syntaxProblem explains an error of the parser in one line.
func syntaxProblem(name string, text []byte, err error) error {
	var located yaml.Error
	if !errors.As(err, &located) {
		return fileProblem(place{file: name}, "%s", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	at, message := placeOf(name, located.GetToken()), located.GetMessage()
	lines := strings.Split(string(text), "\n")
	if at.line >= 1 && at.line <= len(lines) {
		if m := unquoted.FindStringSubmatch(lines[at.line-1]); m != nil {
			value := strings.TrimRight(nextKey.ReplaceAllString(m[2], ""), " \r")
			return fileProblem(at, "YAML gives a leading %q a meaning of its own: quote it: %s: %q", value[:1], m[1], value)
		}
	}
	return fileProblem(at, "not valid YAML: %s", message)
}

// A reader turns parsed documents into JSON objects that hold only known
// names, and remembers where everything stood.
type reader struct {
	file     string
	found    fileContent
	problems []error
	current  *written   // the schedule or calendar being read; nil outside one
	before   filePart   // where the text stands in its file
	raw      []rawEntry // the schedules of a JSON text, in order
}

// place is where a node begins in the file.
func (r *reader) place(node ast.Node) place {
	p := placeOf(r.file, firstToken(node))
	if p.line == 1 {
		p.column += r.before.column
	}
	p.line += r.before.line
	return p
}

func (r *reader) problem(node ast.Node, format string, args ...any) {
	if len(r.problems) < maxProblems {
		r.problems = append(r.problems, fileProblem(r.place(node), format, args...))
	}
}

// firstToken is where a node begins; the parser gives a block mapping the
// position of its first colon.
func firstToken(node ast.Node) *token.Token {
	switch n := node.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return firstToken(n.Values[0])
		}
	case *ast.MappingValueNode:
		return n.Key.GetToken()
	}
	return node.GetToken()
}

// document reads {schedules: [...]}, one schedule, a list of schedules, or one
// calendar.
func (r *reader) document(body ast.Node) {
	switch node := body.(type) {
	case nil, *ast.NullNode, *ast.DirectiveNode, *ast.CommentGroupNode:
	case *ast.SequenceNode:
		r.schedules(node)
	case ast.MapNode:
		if hasKey(node, "id") {
			r.schedule(body)
			return
		}
		if hasKey(node, "name") {
			r.found.calendars = append(r.found.calendars, r.entry(body, calendarShape))
			return
		}
		r.container(node)
	default:
		r.problem(body, "%s where schedules are expected: allowed: schedules: [...], one schedule, or a list of them", kindOf(body))
	}
}

func hasKey(node ast.MapNode, name string) bool {
	for it := node.MapRange(); it.Next(); {
		if it.Key().GetToken().Value == name {
			return true
		}
	}
	return false
}

func (r *reader) container(node ast.MapNode) {
	for it := node.MapRange(); it.Next(); {
		switch key, value := it.Key(), it.Value(); key.GetToken().Value {
		case "schedules":
			r.schedules(value)
		case "calendars":
			r.calendars(value)
		default:
			r.unknown(key, fileShape, "at the top of a file")
		}
	}
}

func (r *reader) schedules(node ast.Node) {
	switch list := node.(type) {
	case *ast.NullNode:
	case *ast.SequenceNode:
		for _, value := range list.Values {
			r.schedule(value)
		}
	default:
		r.problem(node, "schedules is %s: allowed: a list", kindOf(node))
	}
}

func (r *reader) calendars(node ast.Node) {
	switch list := node.(type) {
	case *ast.NullNode:
	case *ast.SequenceNode:
		for _, value := range list.Values {
			r.found.calendars = append(r.found.calendars, r.entry(value, calendarShape))
		}
	default:
		r.problem(node, "calendars is %s: allowed: a list", kindOf(node))
	}
}

func (r *reader) schedule(node ast.Node) {
	r.found.schedules = append(r.found.schedules, r.entry(node, scheduleShape))
}

// entry reads one schedule or calendar.
func (r *reader) entry(node ast.Node, s *shape) written {
	r.current = &written{at: r.place(node), places: map[string]place{}}
	before := len(r.problems)
	var out bytes.Buffer
	r.value(&out, node, s, "")
	r.current.object = out.Bytes()
	if len(r.problems) == before && !json.Valid(r.current.object) {
		r.problem(node, "cannot be read")
	}
	w := *r.current
	r.current = nil
	return w
}

func (r *reader) unknown(key ast.Node, s *shape, where string) {
	name := key.GetToken().Value
	near := didYouMean(name, s.keys())
	if s == scheduleShape && slices.Contains([]string{"cron", "every", "schedule", "spec"}, name) { // as other tools call it
		near = "; did you mean expression?"
	}
	r.problem(key, "unknown key %q %s%s", clip(name, 60), where, near)
}
