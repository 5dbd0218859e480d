package admincli

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
)

// A foreignNode is a value of a YAML file of another program, with its place.
type foreignNode struct {
	at     place
	value  any // string, json.Number, bool, nil, []foreignNode or *foreignMap
	quoted bool
}

// A foreignMap keeps the order of its keys.
type foreignMap struct {
	keys []string
	at   map[string]foreignNode
}

// readForeign parses YAML documents without knowing what may stand in them.
// The limits are those of schedule files.
func readForeign(name string, text []byte) ([]foreignNode, error) {
	if at := bytes.Index(text, []byte("<%")); at >= 0 {
		line := 1 + bytes.Count(text[:at], []byte("\n"))
		return nil, fileProblem(place{file: name, line: line, column: 1}, "ERB is not run: give the file that it renders")
	}
	tokens := lexer.Tokenize(string(text))
	if err := checkShape(name, tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, syntaxProblem(name, text, err)
	}
	var documents []foreignNode
	for _, document := range file.Docs {
		switch document.Body.(type) {
		case nil, *ast.NullNode, *ast.DirectiveNode, *ast.CommentGroupNode:
			continue
		}
		node, err := foreign(name, document.Body)
		if err != nil {
			return nil, err
		}
		documents = append(documents, node)
	}
	return documents, nil
}

func foreign(file string, node ast.Node) (foreignNode, error) {
	out := foreignNode{at: placeOf(file, firstToken(node)), quoted: quoted(node)}
	switch n := node.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		return out, fileProblem(out.at, "anchors, aliases and merge keys are not accepted: write the value out")
	case *ast.TagNode:
		return out, fileProblem(out.at, "tags such as !ruby/object are not accepted")
	case ast.MapNode:
		m := &foreignMap{at: map[string]foreignNode{}}
		for it := n.MapRange(); it.Next(); {
			if _, isMerge := it.Key().(*ast.MergeKeyNode); isMerge {
				return out, fileProblem(out.at, "anchors, aliases and merge keys are not accepted: write the value out")
			}
			key := strings.TrimPrefix(it.Key().GetToken().Value, ":") // Ruby writes symbols as :name
			value, err := foreign(file, it.Value())
			if err != nil {
				return out, err
			}
			m.keys = append(m.keys, key)
			m.at[key] = value
		}
		out.value = m
	case *ast.SequenceNode:
		list := []foreignNode{}
		for _, item := range n.Values {
			value, err := foreign(file, item)
			if err != nil {
				return out, err
			}
			list = append(list, value)
		}
		out.value = list
	case *ast.BoolNode:
		out.value = n.Value
	case *ast.NullNode:
	default:
		text, _ := scalarText(node)
		out.value = text
		if !out.quoted && jsonNumber.MatchString(text) {
			out.value = json.Number(text)
		}
	}
	return out, nil
}

// text is a scalar as it is written.
func (n foreignNode) text() (string, bool) {
	switch v := n.value.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

// get follows a path of keys.
func (n foreignNode) get(path ...string) (foreignNode, bool) {
	for _, key := range path {
		m, ok := n.value.(*foreignMap)
		if !ok {
			return n, false
		}
		if n, ok = m.at[key]; !ok {
			return n, false
		}
	}
	return n, n.value != nil
}

// textAt is the scalar at a path, or "".
func (n foreignNode) textAt(path ...string) string {
	found, ok := n.get(path...)
	if !ok {
		return ""
	}
	text, _ := found.text()
	return text
}

// keys lists those of a mapping.
func (n foreignNode) keys() []string {
	if m, ok := n.value.(*foreignMap); ok {
		return m.keys
	}
	return nil
}

// MarshalJSON writes the value without places.
func (n foreignNode) MarshalJSON() ([]byte, error) {
	m, ok := n.value.(*foreignMap)
	if !ok {
		return marshal(n.value)
	}
	var b bytes.Buffer
	b.WriteByte('{')
	first := true
	for _, key := range m.keys {
		text, err := marshal(m.at[key])
		if err != nil {
			return nil, err
		}
		writeKey(&b, key, &first)
		b.Write(text)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
