package redisstore

import (
	"fmt"
	"strconv"
	"time"
)

// A reply reads a script's answer by position. The first value that is not
// what it should be is kept in err, and everything after it reads as zero.
type reply struct {
	values []any
	single any
	err    error
}

func newReply(result any) reply {
	values, _ := result.([]any)
	return reply{values: values, single: result}
}

func (r *reply) at(i int) any {
	if i < len(r.values) {
		return r.values[i]
	}
	r.fail(i, nil)
	return nil
}

func (r *reply) fail(i int, value any) {
	if r.err == nil {
		r.err = fmt.Errorf("redisstore: value %d of a script's reply is %T %v, which this program does not expect", i, value, value)
	}
}

// number reads an integer, which may come as text.
func (r *reply) number(i int) int64 {
	value := r.at(i)
	switch v := value.(type) {
	case int64:
		return v
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return n
		}
	}
	r.fail(i, value)
	return 0
}

func (r *reply) text(i int) string {
	value := r.at(i)
	text, ok := value.(string)
	if !ok {
		r.fail(i, value)
	}
	return text
}

// time reads milliseconds; 0 and "" are the zero time.
func (r *reply) time(i int) time.Time {
	if value, ok := r.at(i).(string); ok && value == "" {
		return time.Time{}
	}
	return instant(r.number(i))
}

func (r *reply) list(i int) reply {
	value := r.at(i)
	values, ok := value.([]any)
	if !ok {
		r.fail(i, value)
	}
	return reply{values: values}
}

// word is the whole answer of a script that returns one word.
func (r *reply) word() string {
	text, _ := r.single.(string)
	return text
}

// A fieldReader reads a record: fields that end with "|".
type fieldReader struct {
	rest    string
	read    int // fields so far
	bad     bool
	refused int    // which field made it bad, from 1
	value   string // of that field
}

// refuse makes the record bad because of a field.
func (f *fieldReader) refuse(field int, value string) {
	if !f.bad {
		f.bad, f.refused, f.value = true, field, value
	}
}

func (f *fieldReader) text() string {
	f.read++
	for i := range len(f.rest) {
		if f.rest[i] == '|' {
			field := f.rest[:i]
			f.rest = f.rest[i+1:]
			return field
		}
	}
	f.refuse(f.read, "cut off")
	return ""
}

// maxNumber bounds the characters of a number, as scripts/lua/lib/schedule.lua does.
const maxNumber = 16

// number reads one number; Lua writes them as decimals, and can count with none
// above lastToken.
func (f *fieldReader) number() int64 {
	n := f.counter()
	if n > lastToken {
		f.refuse(f.read, strconv.FormatInt(n, 10))
	}
	return n
}

// counter reads a number that scripts take for lastToken when it is larger.
func (f *fieldReader) counter() int64 {
	text := f.text()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || len(text) > maxNumber || text[0] == '+' {
		f.refuse(f.read, text)
	}
	return n
}

// generation reads one, as scripts write it: they compare the text.
func (f *fieldReader) generation() int64 {
	text := f.text()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > lastToken || text[0] == '0' || text[0] == '+' {
		f.refuse(f.read, text)
	}
	return n
}

// time reads milliseconds. After the year 9999 there are none that could be
// written out.
func (f *fieldReader) time() time.Time {
	n := f.number()
	if n > lastMillis {
		f.refuse(f.read, strconv.FormatInt(n, 10))
	}
	return instant(n)
}

// duration reads milliseconds, of which there are no more than in a time.
func (f *fieldReader) duration() time.Duration {
	n := f.number()
	if n > lastMillis {
		f.refuse(f.read, strconv.FormatInt(n, 10))
	}
	return time.Duration(n) * time.Millisecond
}

func (f *fieldReader) int() int { return int(f.number()) }
