package schedule

import (
	"reflect"
	"strings"
	"sync"
)

// names are those that an object may have.
type names struct {
	list  []string
	place map[string]int // in list
}

// namesByType keeps the names of each struct that was asked for.
var namesByType sync.Map // reflect.Type -> *names

// namesOf returns the JSON names of the struct that target points to.
func namesOf(target any) *names {
	t := reflect.TypeOf(target).Elem()
	if known, ok := namesByType.Load(t); ok {
		return known.(*names)
	}
	n := &names{place: make(map[string]int, t.NumField())}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		n.place[name] = len(n.list)
		n.list = append(n.list, name)
	}
	namesByType.Store(t, n)
	return n
}

// plainly reports whether the text is an object, if it is valid JSON at all,
// in which every name is known, appears once and is written without escapes.
// That is what is stored of every schedule, and a worker reads many at once;
// about everything else the slower and exact walk decides.
func (n *names) plainly(data []byte) bool {
	i := skipSpace(data, 0)
	if i >= len(data) || data[i] != '{' {
		return false
	}
	i = skipSpace(data, i+1)
	if i < len(data) && data[i] == '}' {
		return true
	}
	for seen := uint64(0); ; {
		name, next, ok := plainName(data, i)
		place, known := n.place[string(name)]
		if !ok || !known || place > 63 || seen&(1<<place) != 0 {
			return false
		}
		seen |= 1 << place
		if i = skipSpace(data, next); i >= len(data) || data[i] != ':' {
			return false
		}
		if i = skipValue(data, i+1); i >= len(data) {
			return false
		}
		if data[i] == '}' {
			return true
		}
		i = skipSpace(data, i+1) // a comma
	}
}

func skipSpace(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\t' || data[i] == '\n' || data[i] == '\r') {
		i++
	}
	return i
}

// plainName reads a string without escapes and returns what follows it.
func plainName(data []byte, i int) (name []byte, next int, ok bool) {
	if i >= len(data) || data[i] != '"' {
		return nil, 0, false
	}
	for end := i + 1; end < len(data); end++ {
		switch data[end] {
		case '"':
			return data[i+1 : end], end + 1, true
		case '\\':
			return nil, 0, false
		}
	}
	return nil, 0, false
}

// skipValue returns where the comma or the brace after a value is, or the end.
func skipValue(data []byte, i int) int {
	for depth := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return len(data)
}
