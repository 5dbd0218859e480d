package admincli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// value writes node as JSON, as the shape wants it.
func (r *reader) value(out *bytes.Buffer, node ast.Node, s *shape, path string) {
	if r.current != nil && path != "" {
		r.current.places[path] = r.place(node)
	}
	if !r.plain(node) {
		r.spoil(path)
		out.WriteString("null")
		return
	}
	switch s.kind {
	case shapeObject:
		r.object(out, node, s, path)
	case shapeList:
		r.list(out, node, s, path)
	case shapeTextMap:
		r.textMap(out, node, path)
	case shapeJSON:
		start := out.Len()
		r.json(out, node, path)
		r.asWritten(out, start, path)
	default:
		r.scalar(out, node, s.kind, path)
	}
}

// spoil remembers a value that is not taken over, since more will be wrong
// without it.
func (r *reader) spoil(path string) {
	if r.current != nil {
		r.current.spoiled = append(r.current.spoiled, path)
	}
}

// plain refuses what can make a small file mean a large one or a value mean
// something else than it shows.
func (r *reader) plain(node ast.Node) bool {
	switch node.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		r.problem(node, "anchors, aliases and merge keys are not accepted: write the value out, or quote it if it is text")
		return false
	case *ast.TagNode:
		r.problem(node, "tags such as !!str are not accepted: quote text, leave numbers bare")
		return false
	}
	return true
}

func (r *reader) object(out *bytes.Buffer, node ast.Node, s *shape, path string) {
	members, ok := node.(ast.MapNode)
	if !ok {
		r.mismatch(out, node, path, "a mapping with keys such as "+example(s))
		return
	}
	out.WriteByte('{')
	first := true
	for it := members.MapRange(); it.Next(); {
		name, ok := r.key(it.Key())
		if !ok {
			continue
		}
		sub, known := s.fields[name]
		if !known {
			r.unknown(it.Key(), s, "in "+owned(s, path))
			r.spoil(join(path, name))
			continue
		}
		if _, null := it.Value().(*ast.NullNode); null || sub.kind == shapeIgnored {
			continue
		}
		writeKey(out, name, &first)
		r.value(out, it.Value(), sub, join(path, name))
	}
	out.WriteByte('}')
}

// owned names the object around an unknown key.
func owned(s *shape, path string) string {
	switch {
	case path != "":
		return path
	case s == calendarShape:
		return "a calendar"
	}
	return "a schedule"
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func example(s *shape) string {
	for _, name := range []string{"id", "cron"} {
		if s.fields[name] != nil {
			return name
		}
	}
	return "dates"
}

func writeKey(out *bytes.Buffer, name string, first *bool) {
	if !*first {
		out.WriteByte(',')
	}
	*first = false
	out.Write(quoteJSON(name))
	out.WriteByte(':')
}

// key returns the name of a member.
func (r *reader) key(node ast.MapKeyNode) (string, bool) {
	switch k := node.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return k.GetToken().Value, true
	}
	if r.plain(node) {
		r.problem(node, "a key must be text")
	}
	return "", false
}

func (r *reader) list(out *bytes.Buffer, node ast.Node, s *shape, path string) {
	items, ok := node.(*ast.SequenceNode)
	if !ok {
		r.mismatch(out, node, path, "a list, such as [a, b]")
		return
	}
	out.WriteByte('[')
	for i, item := range items.Values {
		if i > 0 {
			out.WriteByte(',')
		}
		r.value(out, item, s.elem, fmt.Sprintf("%s[%d]", path, i))
	}
	out.WriteByte(']')
}

func (r *reader) textMap(out *bytes.Buffer, node ast.Node, path string) {
	members, ok := node.(ast.MapNode)
	if !ok {
		r.mismatch(out, node, path, "a mapping of names to texts, such as {team: billing}")
		return
	}
	out.WriteByte('{')
	first := true
	for it := members.MapRange(); it.Next(); {
		if name, ok := r.key(it.Key()); ok {
			writeKey(out, name, &first)
			r.value(out, it.Value(), textShape, join(path, name))
		}
	}
	out.WriteByte('}')
}

var wholeNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

func (r *reader) scalar(out *bytes.Buffer, node ast.Node, kind shapeKind, path string) {
	text, ok := scalarText(node)
	switch {
	case kind == shapeText && ok:
		out.Write(quoteJSON(text))
	case kind == shapeText:
		r.mismatch(out, node, path, "text")
	case kind == shapeInt && ok && !quoted(node) && wholeNumber.MatchString(text):
		out.WriteString(text)
	case kind == shapeInt:
		r.mismatch(out, node, path, "a whole number such as 3, without quotes")
	default:
		if b, isBool := node.(*ast.BoolNode); isBool {
			out.WriteString(strconv.FormatBool(b.Value))
			return
		}
		r.mismatch(out, node, path, "true or false, without quotes")
	}
}

// scalarText returns a scalar as it is written, so that id: 007 and dates keep
// their digits.
func scalarText(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

func quoted(node ast.Node) bool {
	t := node.GetToken()
	return t != nil && (t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType)
}

func (r *reader) mismatch(out *bytes.Buffer, node ast.Node, path, allowed string) {
	out.WriteString("null")
	r.spoil(path)
	shown := kindOf(node)
	if text, ok := scalarText(node); ok {
		shown = strconv.QuoteToASCII(clip(text, 60))
	}
	if path == "" {
		path = "schedule"
	}
	r.problem(node, "%s %s: allowed: %s", path, shown, allowed)
}

func kindOf(node ast.Node) string {
	switch node.(type) {
	case ast.MapNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	}
	return "text"
}

// jsonNumber is how JSON writes numbers; YAML takes these for numbers too.
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// json writes any value. Numbers keep their digits.
func (r *reader) json(out *bytes.Buffer, node ast.Node, path string) {
	if !r.plain(node) {
		r.spoil(path)
		out.WriteString("null")
		return
	}
	switch n := node.(type) {
	case ast.MapNode:
		out.WriteByte('{')
		first := true
		for it := n.MapRange(); it.Next(); {
			if name, ok := r.key(it.Key()); ok {
				writeKey(out, name, &first)
				r.json(out, it.Value(), path)
			}
		}
		out.WriteByte('}')
	case *ast.SequenceNode:
		out.WriteByte('[')
		for i, item := range n.Values {
			if i > 0 {
				out.WriteByte(',')
			}
			r.json(out, item, path)
		}
		out.WriteByte(']')
	case *ast.NullNode:
		out.WriteString("null")
	case *ast.BoolNode:
		out.WriteString(strconv.FormatBool(n.Value))
	case *ast.LiteralNode:
		out.Write(quoteJSON(n.Value.Value))
	case *ast.StringNode:
		if !quoted(n) && jsonNumber.MatchString(n.Value) {
			out.WriteString(n.Value)
			return
		}
		out.Write(quoteJSON(n.Value))
	default:
		r.number(out, node, path)
	}
}

// number writes a number whose digits mean the same in JSON, and refuses the
// other ways of YAML, such as 007, 0x10, 1_000 and .inf.
func (r *reader) number(out *bytes.Buffer, node ast.Node, path string) {
	text, _ := scalarText(node)
	if !jsonNumber.MatchString(text) {
		r.mismatch(out, node, path, "a decimal number as in JSON, or text in quotes")
		return
	}
	out.WriteString(text)
}

// quoteJSON renders a JSON string without escaping HTML.
func quoteJSON(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}
