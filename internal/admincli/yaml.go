package admincli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// writeYAML renders JSON text as YAML in the same order. Every string that
// could be read as something else is in double quotes, and numbers keep their
// digits, so that reading it gives the same value.
func writeYAML(w io.Writer, text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	node, err := readNode(decoder)
	if err != nil {
		return fmt.Errorf("render the result: %w", err)
	}
	var b strings.Builder
	node.write(&b, 0, true)
	_, err = io.WriteString(w, b.String())
	return err
}

// A yamlNode is a JSON value with its order kept.
type yamlNode struct {
	scalar string   // when it is one
	keys   []string // of an object
	items  []yamlNode
	kind   byte // 's', '{' or '['
}

func readNode(d *json.Decoder) (yamlNode, error) {
	t, err := d.Token()
	if err != nil {
		return yamlNode{}, err
	}
	delim, ok := t.(json.Delim)
	if !ok {
		return yamlNode{kind: 's', scalar: yamlScalar(t)}, nil
	}
	node := yamlNode{kind: byte(delim)}
	for d.More() {
		if delim == '{' {
			key, err := d.Token()
			if err != nil {
				return yamlNode{}, err
			}
			name, ok := key.(string)
			if !ok {
				return yamlNode{}, errors.New("a key is no string")
			}
			node.keys = append(node.keys, yamlString(name))
		}
		item, err := readNode(d)
		if err != nil {
			return yamlNode{}, err
		}
		node.items = append(node.items, item)
	}
	_, err = d.Token()
	return node, err
}

func yamlScalar(t json.Token) string {
	switch v := t.(type) {
	case nil:
		return "null"
	case string:
		return yamlString(v)
	default:
		return fmt.Sprint(v)
	}
}

var (
	plainYAML    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./-]*$`)
	reservedYAML = regexp.MustCompile(`^(?i:null|true|false|yes|no|on|off|y|n)$`)
)

func yamlString(s string) string {
	if plainYAML.MatchString(s) && !reservedYAML.MatchString(s) {
		return s
	}
	return string(escapeStrings(quoteJSON(s), true))
}

// write renders the node at an indentation. fresh says that the cursor stands
// where the node may begin: at the start of a line or behind "- ".
func (n yamlNode) write(b *strings.Builder, indent int, fresh bool) {
	switch {
	case n.kind == 's':
		b.WriteString(n.scalar + "\n")
	case len(n.items) == 0 && n.kind == '{':
		b.WriteString("{}\n")
	case len(n.items) == 0:
		b.WriteString("[]\n")
	default:
		for i, item := range n.items {
			if i > 0 || !fresh {
				b.WriteString(strings.Repeat(" ", indent))
			}
			n.writeItem(b, i, item, indent)
		}
	}
}

func (n yamlNode) writeItem(b *strings.Builder, i int, item yamlNode, indent int) {
	if n.kind == '[' {
		b.WriteString("- ")
		item.write(b, indent+2, true)
		return
	}
	b.WriteString(n.keys[i] + ":")
	if item.kind == 's' || len(item.items) == 0 {
		b.WriteByte(' ')
		item.write(b, indent+2, true)
		return
	}
	b.WriteByte('\n')
	item.write(b, indent+2, false)
}
